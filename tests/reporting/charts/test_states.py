from pathlib import Path

from fielding.reporting.charts.tables import tabulate_states
from fielding.reporting.numbers.groups import AwaitedRun, Group, RunGroups
from tests.reporting.charts.group_runs import accuracies, one_run


def test_every_run_has_a_row_and_what_failed_comes_first(tmp_path: Path) -> None:
    done = one_run(tmp_path / "a", accuracies([0.5, 0.625]))
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
        ["ours", "2", "failed", "-", "-", "out of memory"],
        ["theirs", "1", "stopped", "1\xa0of\xa09", "-", "-"],
        ["ours", "1", "finished", "2\xa0of\xa09", "0.625", "-"],
    ]
    assert list(section.row_groups) == ["ours", "theirs", "ours"]
    assert section.text == "3 runs: 1 failed, 1 stopped, 1 finished."


def test_without_runs_the_table_is_missing() -> None:
    assert tabulate_states(RunGroups(title="", groups=(), reference=None)).missing
