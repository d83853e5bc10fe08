from fielding._typing import Json
from fielding.reporting.numbers.groups import METHOD, Settings, choose_reference, choose_references, choose_targets


def variants_of(methods: list[str], **varied: list[Json]) -> dict[str, Settings]:
    """Return methods crossed with the values of one key."""
    ((key, values),) = varied.items()
    return {f"{method} {value}": {METHOD: method, key: value} for method in methods for value in values}


def test_a_plain_comparison_is_held_against_one_reference() -> None:
    plain: dict[str, Settings] = {name: {METHOD: name} for name in ("fielding", "ifca", "global")}

    assert set(choose_references(plain, "global").values()) == {"global"}
    assert set(choose_references(plain, "ifca").values()) == {"ifca"}
    assert set(choose_targets(plain, "ifca").values()) == {"global"}


def test_each_variant_is_held_against_the_reference_method_with_its_own_settings() -> None:
    variants = variants_of(["fielding", "global"], scenario=["places", "static"])

    assert choose_references(variants, "global places") == {
        "fielding places": "global places",
        "fielding static": "global static",
        "global places": "global places",
        "global static": "global static",
    }
    assert choose_targets(variants, "fielding places")["fielding static"] == "global static"


def test_settings_that_the_reference_method_does_not_have_do_not_matter() -> None:
    variants: dict[str, Settings] = {
        "a": {METHOD: "fielding", "trace.gap": 2, "coordinator.tau": "1/6"},
        "b": {METHOD: "fielding", "trace.gap": 5, "coordinator.tau": "1/6"},
        "c": {METHOD: "global", "trace.gap": 2, "method.k": None},
        "d": {METHOD: "global", "trace.gap": 5},
        "e": {METHOD: "global"},
    }

    found = choose_references(variants, "c")

    assert (found["a"], found["b"]) == ("c", "d")  # not e, which agrees in less
    assert found["e"] == "c"


def test_values_of_one_method_are_held_against_the_reference() -> None:
    variants = variants_of(["fielding"], tau=[0.1, 0.2, 0.3])

    assert set(choose_references(variants, "fielding 0.2").values()) == {"fielding 0.2"}
    assert set(choose_targets(variants, "fielding 0.2").values()) == {"fielding 0.2"}
    assert set(choose_targets(variants_of(["global"], gap=[1, 2]), "global 1").values()) == {"global 1"}


def test_where_nobody_has_the_same_settings_the_reference_counts() -> None:
    variants: dict[str, Settings] = {
        **variants_of(["fielding"], tau=[0.1, 0.2]),
        "global": {METHOD: "global"},
    }

    assert set(choose_references(variants, "global").values()) == {"global"}
    assert set(choose_references(variants, "fielding 0.1").values()) == {"fielding 0.1"}
    assert set(choose_targets(variants, "fielding 0.1").values()) == {"global"}


def test_groups_of_which_nothing_is_known_are_told_by_their_names() -> None:
    names: dict[str, Settings] = {"ifca": {}, "global": {}}

    assert choose_references(names, "ifca") == {"ifca": "ifca", "global": "ifca"}
    assert choose_references(names, None) == choose_targets(names, None) == {"ifca": None, "global": None}


def test_a_variant_of_global_is_the_reference_if_nobody_names_another() -> None:
    variants = variants_of(["fielding", "global"], gap=[2, 5])

    assert choose_reference(variants, []) == "global 2"
    assert choose_reference(variants, ["gone", "fielding 5"]) == "fielding 5"
    assert choose_reference({"fielding": {}}, ["fielding"]) is None
