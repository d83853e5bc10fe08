"""Trackers by name, and `fielding run --track`."""

import json
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

from fielding.cli.run import resume_command
from fielding.errors import OptionError
from fielding.simulation.experiment import Watching
from fielding.tracking.registry import TRACKERS, TrackedBy, places, tracker_named, trackers_from
from tests.cli.in_process import CONFIG, RUN, Command
from tests.tracking.tracked_cases import Notebook, row_of, run_folder, scalars_in


@pytest.fixture
def fielding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(CONFIG)
    return Command(monkeypatch, capsys)


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Name a tracker ``notebook`` and return the list of the targets that it is made with."""
    seen: list[str | None] = []

    def build(target: str | None) -> Notebook:
        seen.append(target)
        return Notebook(*([2] if target == "poor" else []))

    monkeypatch.setitem(TRACKERS, "notebook", build)
    return seen


def test_an_unknown_tracker_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(OptionError, match="unknown tracker 'mlflo'; did you mean 'mlflow'"):
        tracker_named("mlflo")


def test_options_name_trackers_and_where_they_write(targets: list[str | None]) -> None:
    trackers_from(["notebook", "notebook=postgresql://host/x?a=b"])

    assert targets == [None, "postgresql://host/x?a=b"]


def test_a_place_that_is_promised_has_to_be_named(targets: list[str | None]) -> None:
    with pytest.raises(OptionError, match="write notebook=PLACE"):
        trackers_from(["notebook="])


def track_in_child(beside: TrackedBy, folder: Path) -> None:
    with beside(folder, Watching()) as watch:
        watch(row_of(0))


def test_another_process_can_track_by_what_was_typed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: it is in the extra 'tensorboard'")
    folder = run_folder(tmp_path / "run", 1)
    beside = TrackedBy((f"tensorboard={tmp_path / 'tb'}",))

    child = get_context("spawn").Process(target=track_in_child, args=(beside, folder))
    child.start()
    child.join()

    assert child.exitcode == 0
    assert scalars_in(tmp_path / "tb" / "run")["accuracy"] == [(0, 0.0)]


def test_an_unknown_tracker_stops_the_command_before_anything_is_written(fielding: Command, tmp_path: Path) -> None:
    assert "unknown tracker 'comet'" in fielding.refuses(*RUN, "--track", "comet")
    assert not (tmp_path / "out").exists()


def test_a_missing_package_stops_the_command(fielding: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)

    assert "pip install 'fielding[tensorboard]'" in fielding.refuses(*RUN, "--track", "tensorboard")


def test_the_command_shows_its_run_in_every_tracker_it_is_given(fielding: Command, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: it is in the extra 'tensorboard'")

    assert fielding(*RUN, "--quiet", "--track", "tensorboard", "--track", "tensorboard=tb") == 0

    inside, beside = scalars_in(tmp_path / "out" / "tensorboard"), scalars_in(tmp_path / "tb" / "out")
    assert inside == beside
    assert [step for step, _ in inside["n_clusters"]] == [0, 1, 2, 3, 4, 5]
    assert fielding.err == ""


def test_results_stay_clean_while_a_tracker_fails(fielding: Command, targets: list[str | None]) -> None:
    assert fielding(*RUN, "--json", "--track", "notebook=poor") == 0

    assert json.loads(fielding.out)["n_rounds"] == 6
    assert fielding.err.count("note: notebook could not be told of the run") == 1


def test_a_complete_run_is_shown_by_resuming_it(fielding: Command, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: it is in the extra 'tensorboard'")
    assert fielding(*RUN) == 0

    assert fielding(*RUN, "--resume", "--track", "tensorboard") == 0

    assert len(scalars_in(tmp_path / "out" / "tensorboard")["time_s"]) == 6


def test_what_to_type_to_go_on_names_the_trackers_again() -> None:
    command = resume_command(Path("a.toml"), Path("out"), trackers=["tensorboard", "mlflow=sqlite:///ml.db"])

    assert command == "fielding run a.toml --out out --resume --track tensorboard --track mlflow=sqlite:///ml.db"


def test_the_command_says_where_the_run_is_shown_unless_it_is_quiet(fielding: Command, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: it is in the extra 'tensorboard'")

    assert fielding(*RUN, "--track", "tensorboard", "--track", "tensorboard=tb") == 0
    inside, beside = fielding.err.splitlines()[:2]
    assert inside == "tensorboard: out; look at it with: tensorboard --logdir out"
    assert beside.startswith(f"tensorboard: {tmp_path / 'tb'}; ")
    assert fielding("compare", "small.toml", "--out", "cmp", "--no-page", "--seeds", "1", "--track", "tensorboard") == 0
    assert "tensorboard: cmp; look at it with: tensorboard --logdir cmp\n" in fielding.err
    assert fielding(*RUN, "--resume", "--quiet", "--track", "tensorboard") == 0
    assert fielding.err == ""


def test_a_tracker_that_cannot_tell_where_it_writes_is_no_mistake(tmp_path: Path) -> None:
    assert places([Notebook()], tmp_path) == []
