"""A comparison is checked as a whole before it is run; one that is there is extended, never mixed with another."""

from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.engine.config_reader import config_from
from fielding.errors import InputError, OptionError
from fielding.records.plan import PLAN, read_plan, write_plan
from fielding.simulation.comparison_plan import Comparison, base_table, planned, seeds_of
from fielding.simulation.variants import axis_from, crossed, variant_config

BASE: dict[str, Json] = {"rounds": 3, "trace": {"clients": 8}}


def comparison(out: Path, *methods: str, seeds: int = 2, base: dict[str, Json] = BASE) -> Comparison:
    return planned(base, crossed(base, methods), seeds=seeds, out=out)


def keep(one: Comparison) -> None:
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
    variants = crossed(BASE, ["fielding", "global"])
    keep(planned(BASE, variants, seeds=1, out=tmp_path, reference="fielding"))

    assert comparison(tmp_path, "global").plan.reference == "fielding"
    with pytest.raises(OptionError, match="unknown reference 'feilding'; did you mean 'fielding'"):
        planned(BASE, variants, seeds=1, out=tmp_path, reference="feilding")


def test_what_is_new_comes_after_what_is_there(tmp_path: Path) -> None:
    keep(comparison(tmp_path, "global", seeds=2))

    found = planned(BASE, crossed(BASE, ["moves", "global"]), seeds=[7, 1], out=tmp_path)

    assert [one.name for one in found.plan.variants] == ["global", "moves"]
    assert found.plan.seeds == (1, 2, 7)
    assert list(found.configs) == ["global-1", "moves-1", "global-2", "moves-2", "global-7", "moves-7"]
    assert read_plan(tmp_path) == found.stored


def test_values_can_be_added(tmp_path: Path) -> None:
    for text in ("coordinator.tau=0", "coordinator.tau=1/3,0"):
        found = planned(BASE, crossed(BASE, ["fielding"], [axis_from(text)]), seeds=1, out=tmp_path)
        keep(found)

    assert [one.name for one in found.plan.variants] == ["fielding tau=0", "fielding tau=1/3"]


def test_folders_of_what_is_added_are_unlike_those_that_are_there(tmp_path: Path) -> None:
    keep(planned(BASE, {"a b": {"rounds": 1}}, seeds=1, out=tmp_path))

    found = planned(BASE, {"a-b": {"rounds": 2}}, seeds=1, out=tmp_path)

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
    keep(planned(BASE, {"mine": {"rounds": 1}}, seeds=1, out=tmp_path))

    with pytest.raises(InputError, match=r"holds another mine \(mine.rounds was 1, now it is 2\)"):
        planned(BASE, {"mine": {"rounds": 2}}, seeds=1, out=tmp_path)


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


@pytest.mark.parametrize("seeds", [0, -1, 10_001, [], [1, 2, 1]])
def test_seeds_that_make_no_sense_are_refused(seeds: int | list[int]) -> None:
    with pytest.raises(OptionError, match="seed"):
        seeds_of(seeds)


def test_a_seed_that_no_config_can_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="global: seed is -1"):
        planned(BASE, crossed(BASE, ["global"]), seeds=[-1], out=tmp_path)


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        planned(BASE, (), seeds=1, out=tmp_path)


def test_a_base_config_keeps_open_what_was_not_given(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("rounds = 3\n[coordinator]\ntau = inf\n")

    table = base_table(path, ["trace.gap=4"])

    assert table == {"rounds": 3, "coordinator": {"tau": "inf"}, "trace": {"gap": 4}}
    one = crossed(table, ["fielding"], [axis_from("coordinator.representation=auto")])[0]
    assert variant_config(table, one, 1).serving.correction == "prior"


def test_a_config_can_be_the_base(tmp_path: Path) -> None:
    found = planned(config_from(BASE), seeds=1, out=tmp_path)

    assert [one.name for one in found.plan.variants] == ["fielding"]
    assert found.configs["fielding-1"].rounds == 3
