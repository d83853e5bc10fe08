from pathlib import Path

from fielding.reporting.charts.tables import tabulate_results
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import Group, RunGroups
from tests.reporting.charts.group_runs import accuracies, groups_of, one_run


def test_each_group_has_a_row_that_is_switched_with_it(tmp_path: Path) -> None:
    gathered = groups_of(tmp_path, {"ours": [accuracies([0.75])] * 2, "global": [accuracies([0.5])] * 2})

    section = tabulate_results(gathered)

    assert [row[0] for row in section.table] == ["method", "ours", "global"]
    assert section.table[1][1].startswith("0.750 ±\xa00.000")
    assert list(section.row_groups) == ["ours", "global"]
    assert tabulate_results(gathered, compare_groups(gathered)).table == section.table


def test_before_a_run_is_finished_there_are_no_results(tmp_path: Path) -> None:
    run = one_run(tmp_path / "a", accuracies([0.5]), is_finished=False)

    assert tabulate_results(RunGroups(title="", groups=(Group(name="a", runs=(run,)),), reference=None)).missing
