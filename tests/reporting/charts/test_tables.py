from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fielding._typing import Json
from fielding.reporting.charts.tables import (
    MOST_COLUMNS,
    tabulate_left_out,
    tabulate_results,
    tabulate_settings,
    tabulate_states,
)
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import AwaitedRun, Group, RunGroups
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Section
from tests.reporting.charts.group_runs import accuracies, groups_of, one_run


def test_each_group_has_a_row_that_is_switched_with_it(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"ours": [accuracies([0.75])] * 2, "global": [accuracies([0.5])] * 2})

    section = tabulate_results(gathered)

    assert [row[0] for row in section.table] == ["method", "ours", "global"]
    assert section.table[1][1].startswith("0.750 ±\xa00.000")
    assert list(section.row_groups) == ["ours", "global"]
    assert tabulate_results(gathered, compare_groups(gathered)).table == section.table


def test_a_table_that_is_too_wide_shows_what_matters_most_and_all_columns_on_demand(tmp_path: Path) -> None:
    runs = {
        name: [
            accuracies(
                [level, level + at / 10],
                newest_accuracy=level / 2, next_accuracy=level / 3, worst_decile=level / 4, served_accuracy=level + 0.1,
                corrected_accuracy=level + 0.02, served_next_accuracy=level / 5, corrected_next_accuracy=level / 6,
            )
            for at in (1, 2, 4)
        ]
        for name, level in (("ours", 0.5), ("global", 0.25))
    }  # fmt: skip

    main, everything = tabulate_results(groups_of(tmp_path, runs, reference="global")).views

    assert len(main.table[0]) <= MOST_COLUMNS < len(everything.table[0])
    assert {"final accuracy", "next", "minus global", "served"} <= set(main.table[0]) <= set(everything.table[0])
    assert [row[0] for row in main.table] == ["method", "ours", "global"]
    assert list(main.row_groups) == ["ours", "global"]
    assert main.copies == everything.copies != {}


def test_sections_that_are_left_out_for_the_same_reason_share_a_row() -> None:
    sections = [Section(title="Map", missing="no reports", group=group) for group in ("ifca", "cfl")]

    (section,) = tabulate_left_out([*sections, Section(title="Loss", missing="no round")])

    assert section.table[1:] == [["Map (ifca, cfl)", "no reports"], ["Loss", "no round"]]
    assert tabulate_left_out([]) == []


def test_before_a_run_is_finished_there_are_no_results(tmp_path: Path) -> None:
    run = one_run(tmp_path / "a", accuracies([0.5]), is_finished=False)

    assert tabulate_results(RunGroups(title="", groups=(Group(name="a", runs=(run,)),), reference=None)).missing


# ---------------------------------------------------------------- states


def test_every_run_has_a_row_and_what_failed_comes_first(tmp_path: Path) -> None:
    done = one_run(tmp_path / "a", accuracies([0.5, 0.625], next_accuracy=0.5))
    stopped = one_run(tmp_path / "b", accuracies([None]), is_finished=False)
    (tmp_path / "b" / "clients.jsonl").unlink()
    gathered = RunGroups(
        title="",
        groups=(Group(name="ours", runs=(done,)), Group(name="theirs", runs=(stopped,))),
        reference="ours",
        awaited=(AwaitedRun(group="ours", seed=2, state="failed", problem="out of memory"),),
    )

    section = tabulate_states(gathered)

    assert [list(row) for row in section.table[1:]] == [
        ["ours", "2", "failed", "-", "-", "-", "out of memory"],
        ["theirs", "1", "stopped", "1\xa0of\xa09", "-", "-", "-"],
        ["ours", "1", "finished", "2\xa0of\xa09", "0.625", "0.500", "-"],
    ]
    assert list(section.row_groups) == ["ours", "theirs", "ours"]
    assert section.text == "3 runs: 1 failed, 1 stopped, 1 finished."


def test_without_runs_the_table_is_missing() -> None:
    assert tabulate_states(RunGroups(title="", groups=(), reference=None)).missing


# ---------------------------------------------------------------- settings


def test_what_groups_share_stands_apart_from_what_they_differ_in(tmp_path: Path) -> None:
    groups = []
    for tau, name in ((0.25, "low"), (0.5, "high")):
        runs = [
            one_run(tmp_path / f"{name}{seed}", [], seed=seed, coordinator={"tau": tau, "warm_start": True})
            for seed in (1, 2)
        ]
        groups.append(Group(name=name, runs=tuple(runs)))

    differing, shared, versions = tabulate_settings(RunGroups(title="", groups=tuple(groups), reference="low"))

    assert [list(row) for row in differing.table] == [["group", "coordinator.tau"], ["low", "0.25"], ["high", "0.5"]]
    assert list(differing.row_groups) == ["low", "high"]
    keys = {row[0]: row[1] for row in shared.table}
    assert keys["coordinator.warm_start"] == "true"
    assert keys["trace.gap"] == "2"
    assert not {"coordinator.tau", "seed"} & set(keys)
    assert "Seeds: 1, 2." in shared.text
    assert ["Fielding", "0.1"] in [list(row) for row in versions.table]


def test_a_single_run_has_settings_that_nothing_differs_from(tmp_path: Path) -> None:
    found = tabulate_settings(groups_of(tmp_path, {"ours": [accuracies([0.5])]}))

    assert [section.title for section in found] == ["Settings", "Versions"]


def test_values_that_differ_within_a_group_are_all_told(tmp_path: Path) -> None:
    runs = tuple(one_run(tmp_path / str(at), [], seed=at, rounds=at) for at in (3, 4))

    shared, _ = tabulate_settings(RunGroups(title="", groups=(Group(name="ours", runs=runs),), reference=None))

    assert ["rounds", "3 / 4"] in [list(row) for row in shared.table]


def test_versions_that_differ_are_told_by_seed_or_by_folder(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"a": [[], []], "b": [[], []]})

    found = _with_manifests(
        gathered, lambda run: {"data_blake2b": f"digest {run.seed}", "n_numbers": int(run.folder.name[0])}
    )

    rows = [list(row) for row in tabulate_settings(found)[-1].table]
    assert ["digest of the data", "digest 2", "seed 2"] in rows
    assert ["numbers of a model", "1", "1-1, 1-2"] in rows


def test_a_run_without_a_manifest_has_no_settings(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"a": [accuracies([0.5])]})
    bare = tuple(replace(run, manifest={}) for _, run in gathered.runs)

    (section,) = tabulate_settings(replace(gathered, groups=(Group(name="a", runs=bare),)))

    assert section.missing


def _with_manifests(gathered: RunGroups, more: Callable[[RunRecord], dict[str, Json]]) -> RunGroups:
    """Return runs whose manifests tell more."""
    groups = [
        replace(group, runs=tuple(replace(run, manifest={**run.manifest, **more(run)}) for run in group.runs))
        for group in gathered.groups
    ]
    return replace(gathered, groups=tuple(groups))


def test_more_keys_than_groups_stand_below_each_other_with_rounds_and_scenario_first(tmp_path: Path) -> None:
    runs = [one_run(tmp_path / str(at), [], seed=1, rounds=at, coordinator={"k": at, "tau": at}) for at in (3, 4)]
    groups = tuple(Group(name=f"at {at}", runs=(run,)) for at, run in enumerate(runs))

    differing, *_ = tabulate_settings(RunGroups(title="", groups=groups, reference="at 0"))

    assert [list(row) for row in differing.table] == [
        ["group", "at 0", "at 1"], ["rounds", "3", "4"], ["coordinator.k", "3", "4"], ["coordinator.tau", "3", "4"],
    ]  # fmt: skip
