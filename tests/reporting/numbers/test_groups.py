"""What is on other data, or over another number of rounds, is not compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.plan import Plan, Variant, write_failure, write_plan
from fielding.reporting.comparison_tables import comparison_table, table_words
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import (
    METHOD,
    REFERENCE_STYLE,
    Settings,
    choose_reference,
    choose_references,
    choose_targets,
    fail_other_data,
    gather_runs,
    version_words,
)
from fielding.reporting.numbers.run_record import FAILED, FINISHED, RunRecord, read_run
from fielding.reporting.report_page import make_page
from tests.reporting.run_folders import compared, round_rows, run_folder
from tests.reporting.run_logs import CONFIG, round_line, write_run


def run_of(folder: Path, method: str, seed: int, **settings: Json) -> Path:
    write_run(folder, [round_line(0)])
    config = {**CONFIG, "seed": seed, "method": {"name": method}, **settings}
    (folder / "manifest.json").write_text(json.dumps({"seed": seed, "config": config}))
    return folder


def plan_of(*methods: str, seeds: tuple[int, ...] = (1, 2)) -> Plan:
    variants = tuple(Variant(name=one, folder=one, settings={"method.name": one}) for one in methods)
    return Plan(config={}, variants=variants, seeds=seeds, reference=methods[-1])


def test_runs_that_differ_in_their_seeds_alone_are_one_group(tmp_path: Path) -> None:
    folders = [
        run_of(tmp_path / f"{method}{seed}", method, seed) for method in ("fielding", "global") for seed in (2, 1)
    ]

    found = gather_runs(folders)

    assert [(group.name, [run.seed for run in group.runs]) for group in found.groups] == [
        ("fielding", [1, 2]),
        ("global", [1, 2]),
    ]
    assert found.reference == "global"
    assert found.styles == {"fielding": 0, "global": REFERENCE_STYLE}


def test_the_same_method_with_other_settings_is_another_group_that_says_which(tmp_path: Path) -> None:
    folders = [run_of(tmp_path / f"{tau}", "fielding", 1, coordinator={"tau": tau}) for tau in (0.25, 0.5)]

    assert [group.name for group in gather_runs(folders).groups] == ["fielding tau=0.25", "fielding tau=0.5"]


def test_a_folder_of_runs_is_looked_into(tmp_path: Path) -> None:
    run_of(tmp_path / "b", "global", 1)
    run_of(tmp_path / "a", "fielding", 1)
    (tmp_path / "manifest.json").write_text('{"demo": 1}')

    assert [group.name for group in gather_runs([tmp_path]).groups] == ["fielding", "global"]


def test_a_comparison_names_its_runs_and_tells_which_are_not_there(tmp_path: Path) -> None:
    write_plan(tmp_path, plan_of("fielding", "moves", "static"))
    for method, seed in (("fielding", 1), ("fielding", 2), ("static", 1)):
        run_of(tmp_path / f"{method}-{seed}", method, seed)
    (tmp_path / "moves-1").mkdir()
    write_failure(tmp_path / "moves-1", "it broke")

    found = gather_runs([tmp_path])

    assert [(group.name, len(group.runs)) for group in found.groups] == [("fielding", 2), ("static", 1)]
    assert found.reference == "static"
    assert [(one.group, one.seed, one.state, one.problem) for one in found.awaited] == [
        ("moves", 1, "failed", "it broke"),
        ("moves", 2, "waiting", ""),
        ("static", 2, "waiting", ""),
    ]


def test_a_reference_without_a_run_stays_the_reference_and_that_is_told_once_none_is_to_come(tmp_path: Path) -> None:
    write_plan(tmp_path, plan_of("fielding", "moves", "static", seeds=(1,)))
    for method in ("fielding", "moves"):
        run_of(tmp_path / f"{method}-1", method, 1)

    waiting = gather_runs([tmp_path])
    write_failure(tmp_path / "static-1", "it broke")
    found = gather_runs([tmp_path])

    assert waiting.problems == ()
    assert waiting.reference == found.reference == "static"
    assert found.problems == ("static, which others are compared with, has no run: differences are not known",)
    assert set(found.references.values()) == {"static"}


def test_a_variant_is_compared_with_the_one_with_the_same_settings(tmp_path: Path) -> None:
    variants = tuple(
        Variant(name=f"{method} {gap}", folder=f"{method}{gap}", settings={"method.name": method, "trace.gap": gap})
        for method in ("fielding", "global")
        for gap in (2, 5)
    )
    write_plan(tmp_path, Plan(config={}, variants=variants, seeds=(1,), reference="global 2"))
    run_of(tmp_path / "fielding5-1", "fielding", 1)

    found = gather_runs([tmp_path])

    assert found.references["fielding 5"] == found.targets["fielding 5"] == "global 5"
    assert found.references["fielding 2"] == "global 2"


def test_runs_that_no_plan_names_are_compared_with_those_with_the_same_settings_too(tmp_path: Path) -> None:
    for method in ("fielding", "global"):
        for rate in (0.25, 0.5):
            run_of(tmp_path / f"{method}{rate}", method, 1, training={"learning_rate": rate})

    found = gather_runs([tmp_path])

    assert found.reference == "global learning_rate=0.25"
    assert found.references["fielding learning_rate=0.5"] == "global learning_rate=0.5"


def test_the_method_of_the_base_config_counts_for_variants_that_name_none(tmp_path: Path) -> None:
    settings: dict[str, dict[str, Json]] = {"slow": {}, "ours": {"method.name": "fielding"}}
    variants = tuple(Variant(name=name, folder=name, settings=mine) for name, mine in settings.items())
    config: dict[str, Json] = {"method": {"name": "global"}}
    write_plan(tmp_path, Plan(config=config, variants=variants, seeds=(1,), reference="ours"))

    assert gather_runs([tmp_path]).targets == {"slow": "slow", "ours": "slow"}


def test_a_run_without_a_manifest_has_the_seed_of_the_plan(tmp_path: Path) -> None:
    write_plan(tmp_path, plan_of("fielding", "global"))
    for seed in (1, 2):
        run_of(tmp_path / f"fielding-{seed}", "fielding", seed)
    (tmp_path / "fielding-2" / "manifest.json").unlink()

    (group,) = gather_runs([tmp_path]).groups

    assert [run.seed for run in group.runs] == [1, 2]


def test_a_damaged_plan_is_told_and_its_runs_are_shown_all_the_same(tmp_path: Path) -> None:
    run_of(tmp_path / "fielding-1", "fielding", 1)
    (tmp_path / "compare.json").write_text("{")

    found = gather_runs([tmp_path])

    assert [group.name for group in found.groups] == ["fielding"]
    assert "compare.json" in found.problems[0]


@pytest.mark.parametrize("make", ["nothing", "empty", "file"])
def test_a_folder_without_runs_is_refused_with_its_name(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "here"
    if make == "empty":
        folder.mkdir()
    elif make == "file":
        folder.write_text("x")

    with pytest.raises(InputError, match="here"):
        gather_runs([folder])


def test_what_cannot_be_read_is_told_beside_what_can(tmp_path: Path) -> None:
    run_of(tmp_path / "run", "fielding", 1)

    found = gather_runs([tmp_path / "run", tmp_path / "none"])

    assert [group.name for group in found.groups] == ["fielding"]
    assert found.problems == (f"{tmp_path / 'none'} is no folder; give the folder of a run or of a comparison",)
    assert found.reference is None


def comparison_at(folder: Path, *seeds: int, **settings: Json) -> Path:
    """Write a comparison of two methods."""
    plan = plan_of("fielding", "global", seeds=seeds)
    folder.mkdir(parents=True)
    write_plan(folder, Plan(config=settings, variants=plan.variants, seeds=seeds, reference="global"))
    for method in ("fielding", "global"):
        for seed in seeds:
            run_of(folder / f"{method}-{seed}", method, seed, **settings)
    return folder


def test_comparisons_with_other_configs_are_not_pooled(tmp_path: Path) -> None:
    slow = comparison_at(tmp_path / "slow", 1, 2, rounds=40, training={"learning_rate": 0.05})
    fast = comparison_at(tmp_path / "fast", 3, rounds=20, training={"learning_rate": 0.5})

    found = gather_runs([slow, fast])

    assert [(one.name, len(one.runs)) for one in found.groups] == [
        ("fielding (slow)", 2), ("global (slow)", 2), ("fielding (fast)", 1), ("global (fast)", 1),
    ]  # fmt: skip
    assert found.references["fielding (fast)"] == found.targets["fielding (fast)"] == "global (fast)"
    assert found.reference == "global (slow)"


def test_a_single_key_in_which_comparisons_differ_is_named(tmp_path: Path) -> None:
    folders = [comparison_at(tmp_path / str(rounds), 1, rounds=rounds) for rounds in (40, 600)]

    assert [one.name for one in gather_runs(folders).groups] == [
        "fielding rounds=40", "global rounds=40", "fielding rounds=600", "global rounds=600",
    ]  # fmt: skip


def test_comparisons_that_differ_in_their_seeds_alone_are_pooled(tmp_path: Path) -> None:
    first, second = comparison_at(tmp_path / "a", 1, 2), comparison_at(tmp_path / "b", 3)
    write_plan(second, plan_of("fielding", "global", seeds=(3, 4)))

    found = gather_runs([first, second])

    assert [(one.name, [run.seed for run in one.runs]) for one in found.groups] == [
        ("fielding", [1, 2, 3]),
        ("global", [1, 2, 3]),
    ]
    assert [(one.group, one.seed) for one in found.awaited] == [("fielding", 4), ("global", 4)]


def test_a_run_that_is_there_twice_counts_once_and_that_is_told(tmp_path: Path) -> None:
    stopped, first, second = (run_of(tmp_path / name, "fielding", 1) for name in ("stopped", "first", "second"))
    for folder in (first, second):
        (folder / "summary.json").write_text('{"n_rounds": 1}')

    found = gather_runs([stopped, first, second])

    ((group,), notes) = found.groups, found.problems
    assert [run.folder for run in group.runs] == [first]
    assert notes == (
        f"fielding, seed 1: {stopped} is left out; {first} has the same config and seed",
        f"fielding, seed 1: {second} is left out; {first} has the same config and seed",
    )


def test_the_same_folder_given_twice_is_read_once(tmp_path: Path) -> None:
    folder = comparison_at(tmp_path / "a", 1)

    found = gather_runs([tmp_path, folder])

    assert [(one.name, len(one.runs)) for one in found.groups] == [("fielding", 1), ("global", 1)]
    assert found.problems == ()


def test_comparisons_in_a_folder_are_found_beside_runs(tmp_path: Path) -> None:
    comparison_at(tmp_path / "compared", 1)
    run_of(tmp_path / "single", "ifca", 1)

    assert [one.name for one in gather_runs([tmp_path]).groups] == ["fielding", "global", "ifca"]


def test_runs_that_differ_in_many_settings_are_named_by_their_folders(tmp_path: Path) -> None:
    for name, rounds in (("plain-1", 5), ("plain-2", 5), ("other", 6)):
        seed = 2 if name.endswith("2") else 1
        run_of(tmp_path / name, "fielding", seed, rounds=rounds, model={"hidden": rounds, "kind": str(rounds)})

    found = gather_runs([tmp_path])

    assert {one.name: len(one.runs) for one in found.groups} == {"fielding (other)": 1, "fielding (plain)": 2}
    assert found.settings["fielding (other)"]["model.hidden"] == 6


def test_a_run_of_another_config_than_its_comparison_asked_for_stays_in_its_group(tmp_path: Path) -> None:
    folder = comparison_at(tmp_path / "a", 1, 2)
    run_of(folder / "fielding-1", "fielding", 1, rounds=9)
    write_failure(folder / "fielding-1", "the folder holds a run of another config")

    assert [(one.name, len(one.runs)) for one in gather_runs([folder]).groups] == [("fielding", 2), ("global", 2)]


# ---------------------------------------------------------------- references


def variants_of(methods: list[str], **varied: list[Json]) -> dict[str, Settings]:
    """Return methods crossed with the values of one key."""
    ((key, values),) = varied.items()
    return {f"{method} {value}": {METHOD: method, key: value} for method in methods for value in values}


def test_a_plain_comparison_is_compared_with_one_reference() -> None:
    plain: dict[str, Settings] = {name: {METHOD: name} for name in ("fielding", "ifca", "global")}

    assert set(choose_references(plain, "global").values()) == {"global"}
    assert set(choose_references(plain, "ifca").values()) == {"ifca"}
    assert set(choose_targets(plain, "ifca").values()) == {"global"}


def test_each_variant_is_compared_with_the_reference_method_with_its_own_settings() -> None:
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


def test_values_of_one_method_are_compared_with_the_reference() -> None:
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


# ---------------------------------------------------------------- like with like


HIGH, LOW = [0.5, 0.6, 0.7, 0.8], [0.1, 0.2, 0.3, 0.4]


def with_trace(folder: Path, **trace: Json) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["trace"] |= trace
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture(params=["data", "rounds"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return runs of Fielding that those of the global model are not like."""
    if request.param == "rounds":
        return compared(
            tmp_path, {"fielding": dict.fromkeys((1, 2, 3), HIGH), "global": dict.fromkeys((1, 2), LOW[1:])}
        )
    compared(tmp_path, {"fielding": dict.fromkeys((1, 2, 3), HIGH), "global": dict.fromkeys((1, 2), LOW)})
    for seed in (1, 2):
        with_trace(tmp_path / f"global-{seed}", name="zephyr")
    return tmp_path


def test_there_is_no_difference_no_target_and_no_best(folder: Path) -> None:
    found: Any = compare_groups(gather_runs([folder]))

    assert found["paired"] == {}
    ours = found["methods"]["fielding"]
    assert ours["reference"] is ours["target_of"] is None
    assert ours["speedup"]["mean"] is ours["time_to_target_s"]["mean"] is None
    assert found["best"]["final_accuracy"]["marked"] == []
    assert ours["final_accuracy"]["mean"] == pytest.approx(0.75)


def test_the_table_has_dashes_and_the_words_below_say_why(folder: Path) -> None:
    summary = compare_groups(gather_runs([folder]))

    head, ours, _ = comparison_table(summary)

    row = dict(zip(head, ours, strict=True))
    assert {row[name] for name in ("minus global", "p", "minutes to target", "speed-up")} == {"-"}
    assert "No difference, test, target or speed-up for fielding: no run of global" in table_words(summary)
    assert table_words(summary).startswith("Means over 2 to 3 seeds")
    assert "Differences to" not in table_words(summary)


def test_the_page_tells_all_lengths_and_data_sets(tmp_path: Path) -> None:
    run_folder(tmp_path / "a", round_rows(HIGH), method="fielding", seed=1)
    run_folder(tmp_path / "b", round_rows(LOW[1:]), method="global", seed=3)
    for name, data in (("a", "digits"), ("b", "zephyr")):
        with_trace(tmp_path / name, name=data)

    lead = make_page(gather_runs([tmp_path])).lead

    assert "on digits and zephyr; 3 to 4 rounds, one seed each (1, 3)." in lead
    assert "Final figures" not in lead


def test_each_is_compared_with_what_is_like_it(tmp_path: Path) -> None:
    run_folder(tmp_path / "short", round_rows(LOW[1:]), method="global")
    run_folder(tmp_path / "long", round_rows(LOW), method="global")
    run_folder(tmp_path / "ours", round_rows(HIGH), method="fielding")

    found: Any = compare_groups(gather_runs([tmp_path]))

    assert found["methods"]["fielding"]["reference"] == "global rounds=4"
    assert found["paired"]["fielding"]["final_accuracy"]["mean"] == pytest.approx(0.4)


def test_an_oracle_on_other_data_is_no_measure_of_regret(tmp_path: Path) -> None:
    run_folder(tmp_path / "ours", round_rows(LOW), method="fielding")
    oracle = run_folder(tmp_path / "oracle", round_rows(HIGH), method="oracle")
    alike: Any = compare_groups(gather_runs([tmp_path]))
    with_trace(oracle, name="zephyr")
    unlike: Any = compare_groups(gather_runs([tmp_path]))

    assert alike["methods"]["fielding"]["dynamic_regret"]["mean"] == pytest.approx(0.4)
    assert unlike["methods"]["fielding"]["dynamic_regret"]["mean"] is None


def test_diverged_trainings_are_told_with_their_group(tmp_path: Path) -> None:
    rows = round_rows(LOW, n_failed=[2, 2, 2, 2], n_participants=[0, 0, 0, 0])
    run_folder(tmp_path / "wild", rows, method="wild")
    run_folder(tmp_path / "calm", round_rows(HIGH), method="calm")
    runs = gather_runs([tmp_path])

    summary = compare_groups(runs)
    first = make_page(runs, summary).cards[0]

    sentence = "Training diverged, no finite model came of it: wild (8 of 8); lower training.learning_rate."
    assert summary["notes"] == [sentence]
    assert sentence in table_words(summary)
    assert (first.is_warning, first.value) == (True, "8 of 16")
    assert "wild (8 of 8)" in first.note
    assert "calm" not in first.note


# ---------------------------------------------------------------- same data


def a_run(folder: Path, digest: str | None, *, seed: int = 1, gap: int = 4, finished: bool = True) -> RunRecord:
    run_folder(folder, round_rows([0.5]), seed=seed, finished=finished)
    manifest: dict[str, Json] = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["trace"]["gap"] = gap  # type: ignore[call-overload, index]
    manifest |= {} if digest is None else {"data_blake2b": digest}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return read_run(folder)


def test_a_run_on_other_data_than_the_reference_has_failed(tmp_path: Path) -> None:
    named = [("fielding", a_run(tmp_path / "a", "0123456789")), ("global", a_run(tmp_path / "b", "abcdefghij"))]

    (_, ours), (_, theirs) = fail_other_data(named, {"global"})

    assert (ours.state, theirs.state) == (FAILED, FINISHED)
    assert ours.problems[0].startswith("made on other data than global on seed 1 (digests 01234567 and abcdefgh)")
    assert theirs.problems == ()


def test_without_a_reference_that_ended_the_first_run_counts(tmp_path: Path) -> None:
    named = [
        ("fielding", a_run(tmp_path / "a", "one")),
        ("static", a_run(tmp_path / "b", "other")),
        ("global", a_run(tmp_path / "c", "other", finished=False)),
    ]

    assert [run.state for _, run in fail_other_data(named, {"global"})] == [FINISHED, FAILED, "stopped"]


def test_other_seeds_and_other_traces_have_other_data(tmp_path: Path) -> None:
    named = [
        ("global", a_run(tmp_path / "a", "one")),
        ("fielding", a_run(tmp_path / "b", "two", seed=2)),
        ("fielding", a_run(tmp_path / "c", "three", gap=9)),
    ]

    assert [run.state for _, run in fail_other_data(named, {"global"})] == [FINISHED] * 3


def test_a_run_that_does_not_tell_its_data_counts(tmp_path: Path) -> None:
    named = [("global", a_run(tmp_path / "a", "one")), ("fielding", a_run(tmp_path / "b", None))]

    assert [run.state for _, run in fail_other_data(named, {"global"})] == [FINISHED] * 2


def test_several_versions_are_told(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / name, None) for name in ("a", "b")]
    assert version_words(runs) == ""

    (tmp_path / "b" / "manifest.json").write_text(json.dumps({"fielding": "1.5", "config": {}}))

    assert "(0, 1.5)" in version_words([runs[0], read_run(tmp_path / "b")])
