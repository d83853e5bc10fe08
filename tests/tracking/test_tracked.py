"""Trackers beside a run: every round once, whatever fails, stops or is resumed."""

from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.simulation.experiment import Start, Watching, run
from fielding.tracking.tracked import tracked
from fielding.tracking.tracker import figures_of, recall_place, remember_place
from tests.simulation.run_cases import N_ROUNDS, table
from tests.tracking.tracked_cases import Notebook, row_of, run_folder


def walk(folder: Path, notebook: Notebook, rounds: range, *, of: int = 4) -> list[str]:
    """Let a hand-made run go through some of its rounds; return the notes."""
    notes: list[str] = []
    with tracked(folder, [notebook], note=notes.append) as watch:
        for at in rounds:
            run_folder(folder, at + 1, is_complete=at + 1 == of)
            assert watch(row_of(at))
    return notes


def test_a_whole_run_is_told_round_by_round_and_at_its_end(tmp_path: Path) -> None:
    notebook = Notebook()

    with tracked(tmp_path / "run", [notebook]) as watch:
        result = run(table(), tmp_path / "run", watch=watch, page=False)

    assert notebook.rows == {at: figures_of(row) for at, row in enumerate(result.rounds)}
    assert len(notebook.rows) == N_ROUNDS
    assert notebook.rows[0]["accuracy"] == result.rounds[0]["accuracy"]
    assert notebook.ended == [("complete", figures_of(result.summary or {}, "summary/"))]
    assert notebook.begun[0].config["rounds"] == N_ROUNDS


def test_trackers_change_nothing_in_the_run(tmp_path: Path) -> None:
    with tracked(tmp_path / "run", [Notebook(3)], note=lambda _words: None) as watch:
        watched = run(table(), tmp_path / "run", watch=watch, page=False)

    assert watched.rounds == run(table()).rounds


def test_who_else_watches_still_may_stop_the_run_and_hears_all(tmp_path: Path) -> None:
    phases: list[str] = []
    notebook = Notebook()
    mine = Watching(after_round=lambda row: row["round"] != 3, on_phase=phases.append)

    with tracked(tmp_path / "run", [notebook], watch=mine) as watch:
        result = run(table(), tmp_path / "run", watch=watch, page=False)

    assert result.summary is None
    assert phases[-1] == "training"
    assert notebook.ended == [("stopped", {})]
    assert list(notebook.rows) == [0, 1, 2, 3]


def test_a_resumed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    notebook = Notebook()
    with tracked(tmp_path / "run", [notebook], watch=lambda row: row["round"] != 3) as watch:
        run(table(), tmp_path / "run", watch=watch, page=False)

    with tracked(tmp_path / "run", [notebook]) as watch:
        run(table(), tmp_path / "run", start=Start(resume=True), watch=watch, page=False)

    assert list(notebook.rows) == list(range(N_ROUNDS))
    assert [ending for ending, _ in notebook.ended] == ["stopped", "complete"]


def test_rounds_that_a_crash_took_back_are_not_told_twice(tmp_path: Path) -> None:
    notebook = Notebook()
    walk(tmp_path, notebook, range(3))

    assert walk(tmp_path, notebook, range(1, 4)) == []  # its last checkpoint was before round 1
    assert list(notebook.rows) == [0, 1, 2, 3]


def test_a_complete_run_can_be_told_afterwards(tmp_path: Path) -> None:
    notebook = Notebook()

    with tracked(run_folder(tmp_path / "run", 4, is_complete=True), [notebook]):
        pass  # as resuming a complete run does: no round is run

    assert notebook.rows == {at: figures_of(row_of(at)) for at in range(4)}
    assert notebook.ended == [("complete", {"summary/n_rounds": 4.0, "summary/final_accuracy": 0.25})]


def test_the_summary_of_an_earlier_part_does_not_make_a_run_complete(tmp_path: Path) -> None:
    notebook = Notebook()
    run_folder(tmp_path, 2, is_complete=True)

    with tracked(tmp_path, [notebook]) as watch:
        run_folder(tmp_path, 3)
        watch(row_of(2))

    assert notebook.ended == [("stopped", {})]


def test_a_tracker_that_fails_is_noted_once_and_given_the_rest_at_the_end(tmp_path: Path) -> None:
    notebook = Notebook(1)

    (note,) = walk(tmp_path, notebook, range(4))

    assert note.startswith("notebook could not be told of the run (ConnectionError: the server at http://host is away)")
    assert list(notebook.rows) == [0, 1, 2, 3]
    assert [ending for ending, _ in notebook.ended] == ["complete"]


def test_a_tracker_that_fails_at_the_end_too_is_left_alone(tmp_path: Path) -> None:
    notebook = Notebook(1, 2)

    first, second = walk(tmp_path, notebook, range(4))

    assert "the run goes on" in first
    assert "resuming the run with the same tracker" in second
    assert notebook.ended == []
    assert list(notebook.rows) == [0, 1]


def test_a_tracker_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    poor, good = Notebook(0), Notebook()

    with tracked(tmp_path, [poor, good], note=lambda _words: None) as watch:
        run_folder(tmp_path, 1)
        watch(row_of(0))

        assert list(good.rows) == [0]
        assert list(poor.rows) == []


def test_users_of_python_are_warned(tmp_path: Path) -> None:
    run_folder(tmp_path, 2)

    with pytest.warns(RuntimeWarning, match="notebook could not be told"), tracked(tmp_path, [Notebook(0)]) as watch:
        watch(row_of(0))


@pytest.mark.parametrize(("error", "ending"), [(OSError("full"), "failed"), (KeyboardInterrupt(), "stopped")])
def test_an_error_of_the_run_passes_through_and_is_told(tmp_path: Path, error: BaseException, ending: str) -> None:
    notebook = Notebook()

    def fail() -> None:
        with tracked(run_folder(tmp_path, 1), [notebook]) as watch:
            watch(row_of(0))
            raise error

    with pytest.raises(type(error)):
        fail()

    assert notebook.ended == [(ending, {})]


def test_a_run_that_is_refused_leaves_the_one_that_is_there_alone(tmp_path: Path) -> None:
    notebook = Notebook()
    run(table(), tmp_path / "run", page=False)

    with pytest.raises(InputError, match="holds a run already"), tracked(tmp_path / "run", [notebook]) as watch:
        run(table(), tmp_path / "run", watch=watch, page=False)

    assert (notebook.begun, notebook.ended) == ([], [])


def test_places_are_remembered_by_tracker_and_target(tmp_path: Path) -> None:
    remember_place(tmp_path, "mlflow", "sqlite:///a.db", place="1")
    remember_place(tmp_path, "mlflow", "sqlite:///b.db", place="2")
    remember_place(tmp_path, "tensorboard", "tb", place="run-2")

    assert recall_place(tmp_path, "mlflow", "sqlite:///a.db") == "1"
    assert recall_place(tmp_path, "mlflow", "sqlite:///b.db") == "2"
    assert recall_place(tmp_path, "tensorboard", "tb") == "run-2"
    assert recall_place(tmp_path, "tensorboard", "other") is None


@pytest.mark.parametrize("damaged", ["", "[1]", '{"mlflow": 3}', '{"mlflow": {"a": 3}}'])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "tracking.json").write_text(damaged)

    assert recall_place(tmp_path, "mlflow", "a") is None


def test_rows_of_own_fields_are_told_too(tmp_path: Path) -> None:
    notebook = Notebook()
    row: dict[str, Json] = {**row_of(0), "energy": {"joule": 2}}

    with tracked(run_folder(tmp_path, 1), [notebook]) as watch:
        watch(row)

    assert notebook.rows[0]["energy/joule"] == 2.0
