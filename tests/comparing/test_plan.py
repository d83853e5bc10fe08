"""A comparison is checked as a whole before it is run; one that is there is extended, never mixed with another."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json
from fielding.comparing import variants as checked_variants
from fielding.comparing.plan import PlannedComparison, base_table, parse_seeds, plan_comparison
from fielding.comparing.variants import cross_variants, parse_axis, variant_config
from fielding.config.reader import config_from
from fielding.errors import InputError, OptionError
from fielding.records.plan import PLAN, Variant, read_plan, write_plan

BASE: dict[str, Json] = {"rounds": 3, "trace": {"clients": 8}}


def comparison(out: Path, *methods: str, seeds: int = 2, base: dict[str, Json] = BASE) -> PlannedComparison:
    return plan_comparison(base, cross_variants(base, methods), seeds=seeds, out=out)


def keep(one: PlannedComparison) -> None:
    one.folder.mkdir(exist_ok=True)
    write_plan(one.folder, one.plan)


def test_all_variants_of_a_seed_come_before_the_next_seed(tmp_path: Path) -> None:
    found = comparison(tmp_path, "fielding", "global")

    assert list(found.configs) == ["fielding-1", "global-1", "fielding-2", "global-2"]
    assert [config.seed for config in found.configs.values()] == [1, 1, 2, 2]
    assert [config.method.name for config in found.configs.values()] == ["fielding", "global"] * 2
    assert found.plan.reference == "global"


def test_nothing_is_written_by_planning(tmp_path: Path) -> None:
    comparison(tmp_path / "new", "fielding")

    assert list(tmp_path.iterdir()) == []


def test_without_a_global_model_the_first_is_the_reference(tmp_path: Path) -> None:
    assert comparison(tmp_path, "moves", "fielding").plan.reference == "moves"


def test_the_reference_can_be_chosen_and_is_kept(tmp_path: Path) -> None:
    variants = cross_variants(BASE, ["fielding", "global"])
    keep(plan_comparison(BASE, variants, seeds=1, out=tmp_path, reference="fielding"))

    assert comparison(tmp_path, "global").plan.reference == "fielding"
    with pytest.raises(OptionError, match="unknown reference 'feilding'; did you mean 'fielding'"):
        plan_comparison(BASE, variants, seeds=1, out=tmp_path, reference="feilding")


def test_a_global_model_that_comes_later_is_the_reference_unless_another_was_asked_for(tmp_path: Path) -> None:
    keep(comparison(tmp_path, "fielding", "moves"))

    found = comparison(tmp_path, "global")

    assert (found.plan.reference, found.plan.is_asked) == ("global", False)
    words = "all are compared with global now, not with fielding; --reference fielding brings that back"
    assert found.notes == (words,)
    asked = plan_comparison(BASE, cross_variants(BASE, ["global"]), seeds=1, out=tmp_path, reference="fielding")
    assert (asked.plan.reference, asked.plan.is_asked, asked.notes) == ("fielding", True, ())


def test_a_reference_other_than_the_usual_one_was_asked_for_even_if_an_old_plan_does_not_say_so(tmp_path: Path) -> None:
    keep(plan_comparison(BASE, cross_variants(BASE, ["fielding", "moves"]), seeds=1, out=tmp_path, reference="moves"))
    record = json.loads((tmp_path / PLAN).read_text())
    del record["reference_asked"]
    (tmp_path / PLAN).write_text(json.dumps(record))

    assert comparison(tmp_path, "global").plan.reference == "moves"


def test_what_is_new_comes_after_what_is_there(tmp_path: Path) -> None:
    keep(comparison(tmp_path, "global", seeds=2))

    found = plan_comparison(BASE, cross_variants(BASE, ["moves", "global"]), seeds=[7, 1], out=tmp_path)

    assert [one.name for one in found.plan.variants] == ["global", "moves"]
    assert found.plan.seeds == (1, 2, 7)
    assert list(found.configs) == ["global-1", "moves-1", "global-2", "moves-2", "global-7", "moves-7"]
    assert read_plan(tmp_path) == found.stored


def test_values_can_be_added(tmp_path: Path) -> None:
    for text in ("coordinator.tau=0", "coordinator.tau=1/3,0"):
        found = plan_comparison(BASE, cross_variants(BASE, ["fielding"], [parse_axis(text)]), seeds=1, out=tmp_path)
        keep(found)

    assert [one.name for one in found.plan.variants] == ["fielding tau=0", "fielding tau=1/3"]


def test_folders_of_what_is_added_are_unlike_those_that_are_there(tmp_path: Path) -> None:
    keep(plan_comparison(BASE, {"a b": {"rounds": 1}}, seeds=1, out=tmp_path))

    found = plan_comparison(BASE, {"a-b": {"rounds": 2}}, seeds=1, out=tmp_path)

    assert [one.folder for one in found.plan.variants] == ["a-b", "a-b-2"]


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ({"rounds": 4, "trace": {"clients": 8}}, "rounds was 3, now it is 4"),
        ({"rounds": 3, "trace": {"clients": 9}}, "trace.clients was 8, now it is 9"),
        ({**BASE, "preset": "paper"}, "preset was not given, now it is 'paper'"),
        ({**BASE, "stop_at_accuracy": 0.5}, "stop_at_accuracy was not given, now it is 0.5"),
    ],
)
def test_another_base_config_is_refused_with_the_difference(tmp_path: Path, base: dict[str, Json], words: str) -> None:
    keep(comparison(tmp_path, "global"))

    with pytest.raises(InputError, match="holds a comparison of another config") as told:
        comparison(tmp_path, "global", base=base)

    assert words in str(told.value)


@pytest.mark.parametrize(
    "base",
    [
        {"rounds": 3, "trace": {"clients": 8, "name": "digits"}},
        {**BASE, "seed": 9},
        {**BASE, "workers": 1, "checkpoint": {"every": 2}},
        {**BASE, "method": {"name": "moves"}},
    ],
)
def test_what_makes_no_difference_is_no_other_config(tmp_path: Path, base: dict[str, Json]) -> None:
    keep(comparison(tmp_path, "global"))

    assert comparison(tmp_path, "global", base=base).plan.seeds == (1, 2)


def test_the_same_name_for_something_else_is_refused(tmp_path: Path) -> None:
    keep(plan_comparison(BASE, {"mine": {"rounds": 1}}, seeds=1, out=tmp_path))

    with pytest.raises(InputError, match=r"holds another mine \(mine.rounds was 1, now it is 2\)"):
        plan_comparison(BASE, {"mine": {"rounds": 2}}, seeds=1, out=tmp_path)


@pytest.mark.parametrize("name", ["summary.json", "manifest.json", "global-1", "notes.txt"])
def test_a_folder_with_something_else_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    with pytest.raises(InputError, match=f"holds '{name}', which is of no comparison; name another folder"):
        comparison(tmp_path, "global")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")

    with pytest.raises(InputError, match="cannot write into"):
        comparison(tmp_path / "x", "global")


def test_a_damaged_plan_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text("{}")

    with pytest.raises(InputError, match="damaged"):
        comparison(tmp_path, "global")


def test_a_lock_alone_leaves_a_folder_free(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()

    assert comparison(tmp_path, "global").stored is None


@pytest.mark.parametrize("seeds", [0, -1, 10_001, [], [1, 2, 1], True, 2.0, "3", [1.5], [2**63], None])
def test_seeds_that_make_no_sense_are_refused(seeds: Any) -> None:
    with pytest.raises(OptionError, match="seed"):
        parse_seeds(seeds)


def test_a_seed_that_no_config_can_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="seed is -1; give one from 0 to"):
        plan_comparison(BASE, cross_variants(BASE, ["global"]), seeds=[-1], out=tmp_path)


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        plan_comparison(BASE, (), seeds=1, out=tmp_path)


def test_a_base_config_keeps_open_what_was_not_given(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("rounds = 3\n[coordinator]\ntau = inf\n")

    table = base_table(path, ["trace.gap=4"])

    assert table == {"rounds": 3, "coordinator": {"tau": "inf"}, "trace": {"gap": 4}}
    one = cross_variants(table, ["fielding"], [parse_axis("coordinator.representation=auto")])[0]
    assert variant_config(table, one, 1).serving.correction == "prior"


def test_a_config_can_be_the_base(tmp_path: Path) -> None:
    found = plan_comparison(config_from(BASE), seeds=1, out=tmp_path)

    assert [one.name for one in found.plan.variants] == ["fielding"]
    assert found.configs["fielding-1"].rounds == 3


def test_seeds_may_be_whole_numbers_of_numpy() -> None:
    assert parse_seeds(np.int64(2)) == (1, 2)  # type: ignore[arg-type]
    assert [type(seed) for seed in parse_seeds(np.arange(2))] == [int, int]


def test_each_variant_is_checked_once_however_many_seeds_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(checked_variants, "check_config", lambda config, **_given: checked.append(config.method.name))

    found = comparison(tmp_path / "out", "fielding", "global", seeds=50)

    assert len(found.configs) == 100
    assert len({config.seed for config in found.configs.values()}) == 50
    assert sorted(checked) == ["fielding"] * 2 + ["global"] * 2  # as asked for, and as planned


@pytest.mark.parametrize("method", ["fielding", "global"])
def test_configs_of_other_seeds_are_those_that_would_be_read(tmp_path: Path, method: str) -> None:
    found = comparison(tmp_path / "out", method, seeds=3)

    for seed in (1, 2, 3):
        assert found.configs[f"{method}-{seed}"] == variant_config(BASE, cross_variants(BASE, [method])[0], seed)


def test_a_taken_out_variant_leaves_the_plan_and_nothing_is_added(tmp_path: Path) -> None:
    keep(comparison(tmp_path, "moves", "global"))

    found = plan_comparison(BASE, out=tmp_path, drop=["global"])

    assert [one.name for one in found.plan.variants] == ["moves"]
    assert (found.plan.seeds, found.plan.reference) == ((1, 2), "moves")
    assert found.notes == (f"global is taken out; its run folders stay, as {tmp_path}/global-SEED",)


def test_what_cannot_be_run_can_be_taken_out(tmp_path: Path) -> None:
    good = comparison(tmp_path, "moves")
    bad = Variant(name="bad", folder="bad", settings={"clock.profile": "nosuch"})
    tmp_path.mkdir(exist_ok=True)
    write_plan(tmp_path, replace(good.plan, variants=(*good.plan.variants, bad)))
    with pytest.raises(InputError, match=r"bad: clock\.profile"):
        comparison(tmp_path, "moves")

    found = plan_comparison(BASE, {"moves": {"method.name": "moves"}, "bad": bad.settings}, out=tmp_path, drop=["bad"])

    assert [one.name for one in found.plan.variants] == ["moves"]


def test_what_is_not_there_cannot_be_taken_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no comparison"):
        plan_comparison(BASE, out=tmp_path, drop=["global"])
    keep(comparison(tmp_path, "global"))
    with pytest.raises(OptionError, match="unknown variant 'glboal'; did you mean 'global'"):
        plan_comparison(BASE, out=tmp_path, drop=["glboal"])
    with pytest.raises(InputError, match="nothing would be left to compare"):
        plan_comparison(BASE, out=tmp_path, drop=["global"])


def test_the_same_config_under_two_names_is_refused(tmp_path: Path) -> None:
    axis = parse_axis("coordinator.tau=0.50,1/2")

    with pytest.raises(InputError, match=r"fielding tau=0.50 and fielding tau=1/2 come to the same config"):
        plan_comparison(BASE, cross_variants(BASE, ["fielding"], [axis]), seeds=1, out=tmp_path)
    with pytest.raises(InputError, match="a and b come to the same config"):
        plan_comparison(
            BASE, {"a": {}, "b": {"coordinator.metric": "l1", "coordinator.tau": "1/3"}}, seeds=1, out=tmp_path
        )


def test_a_variant_that_is_there_under_another_name_is_not_added_again(tmp_path: Path) -> None:
    keep(
        plan_comparison(
            BASE, {"half": {"coordinator.tau": 0.5}, "none": {"coordinator.tau": "inf"}}, seeds=1, out=tmp_path
        )
    )

    found = plan_comparison(
        BASE, {"tau=1/2": {"coordinator.tau": "1/2"}, "new": {"rounds": 2}}, seeds=1, out=tmp_path, reference="tau=1/2"
    )

    assert [one.name for one in found.plan.variants] == ["half", "none", "new"]
    assert found.plan.reference == "half"
    assert found.notes == (f"tau=1/2 comes to the config of half, which {tmp_path} holds already",)


def test_a_name_stands_for_the_same_variant_however_its_values_are_written(tmp_path: Path) -> None:
    keep(plan_comparison(BASE, {"half": {"coordinator.tau": 0.5}}, seeds=1, out=tmp_path))

    found = plan_comparison(BASE, {"half": {"coordinator.tau": "1/2"}}, seeds=2, out=tmp_path)

    assert list(found.configs) == ["half-1", "half-2"]
    assert found.configs["half-1"].coordinator.tau == 0.5  # as the run that may be there has it


@pytest.mark.parametrize(
    ("name", "content"), [("manifest.json", '{"config": {}}'), ("compare.json", "{}")], ids=["run", "comparison"]
)
def test_a_comparison_is_not_begun_inside_other_results(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(InputError, match="which holds a run or a comparison; name another folder"):
        comparison(tmp_path / "deep" / "inside", "global")


def test_names_of_methods_are_enough(tmp_path: Path) -> None:
    found = plan_comparison(BASE, ["fielding", "global"], seeds=np.arange(1, 3), out=tmp_path)

    assert list(found.configs) == ["fielding-1", "global-1", "fielding-2", "global-2"]
