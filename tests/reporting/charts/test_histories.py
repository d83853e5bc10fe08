from pathlib import Path

from fielding.reporting.charts.histories import label_names, last_round, pick_evenly, places_at, why_no_reports
from fielding.reporting.numbers.run_record import Changes, read_run
from tests.reporting.charts.inside_runs import inside_run


def test_places_hold_until_the_next_change() -> None:
    changes: list[Changes] = [(2, [("ann", 0)]), (5, [("ann", 3), ("bob", 3)])]

    assert places_at(changes, [0, 2, 4, 5, 99], ["ann", "bob"]).T.tolist() == [[-1, 0, 0, 3, 3], [-1, -1, -1, 3, 3]]


def test_thinning_keeps_first_and_last() -> None:
    assert pick_evenly(list(range(100)), 7)[0] == 0
    assert pick_evenly(list(range(100)), 7)[-1] == 99
    assert len(pick_evenly(list(range(100)), 7)) == 7


def test_labels_that_are_numbers_are_called_labels(tmp_path: Path) -> None:
    numbered = inside_run(tmp_path / "numbered", labels=("0", "1", "2"))
    named = inside_run(tmp_path / "named")
    too_few = inside_run(tmp_path / "too few", labels=("0", "1"))

    names = [label_names(run, reports) for run in (numbered, named, too_few) if (reports := run.reports())]

    assert names == [["label 0", "label 1", "label 2"], ["cat", "dog", "owl"], ["label 0", "label 1", "label 2"]]


def test_the_last_round_is_known_from_any_log(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder

    assert last_round(read_run(folder)) == 9
    (folder / "rounds.jsonl").write_text("")
    assert last_round(read_run(folder)) == 8


def test_reports_that_are_not_there_and_those_that_cannot_be_read_are_told_apart(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run")

    assert "cannot be read" in why_no_reports(run)
    for path in (run.folder / "reports").iterdir():
        path.unlink()
    assert "Nobody reported" in why_no_reports(run)
