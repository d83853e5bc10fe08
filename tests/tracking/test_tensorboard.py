"""Runs in TensorBoard, read back with its own readers."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fielding.errors import InputError, OptionError
from fielding.simulation.experiment import Start, run
from fielding.tracking.tensorboard import TensorBoard
from fielding.tracking.tracked import tracked
from tests.simulation.run_cases import N_ROUNDS, table
from tests.tracking.tracked_cases import row_of, run_folder, scalars_in

pytest.importorskip("tensorboard", reason="TensorBoard is not installed: it is in the extra 'tensorboard'")


def show(folder: Path, tracker: TensorBoard, *, of: int = 4) -> None:
    """Show all rounds that a hand-made run has so far."""
    n_rounds = len((folder / "rounds.jsonl").read_text().splitlines())
    run_folder(folder, n_rounds, is_complete=n_rounds == of)
    with tracked(folder, [tracker]) as watch:
        watch(row_of(n_rounds - 1))


def test_every_round_is_a_step_of_every_figure(tmp_path: Path) -> None:
    with tracked(tmp_path / "run", [TensorBoard()]) as watch:
        result = run(table(), tmp_path / "run", watch=watch, page=False)

    scalars = scalars_in(tmp_path / "run" / "tensorboard")
    assert [step for step, _ in scalars["n_clusters"]] == list(range(N_ROUNDS))
    accuracy = [(at, float(np.float32(value))) for at, value in zip(*result.column("accuracy"), strict=True)]
    assert scalars["accuracy"] == accuracy
    final = float(np.float32(str((result.summary or {})["final_accuracy"])))
    assert scalars["summary/final_accuracy"] == [(N_ROUNDS - 1, final)]


def test_tensorboard_itself_reads_the_figures_and_the_config(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    show(run_folder(tmp_path / "run", 4), TensorBoard(tmp_path / "tb"))

    seen = EventAccumulator(str(tmp_path / "tb" / "run")).Reload()
    assert [(event.step, event.value) for event in seen.Scalars("time_s")] == [(at, 60.0 * (at + 1)) for at in range(4)]
    (config,) = seen.Tensors("config")
    assert b'name = "digits"' in config.tensor_proto.string_val[0]
    assert seen.SummaryMetadata("config").plugin_data.plugin_name == "text"


def test_a_stopped_and_resumed_run_stays_one_curve(tmp_path: Path) -> None:
    with tracked(tmp_path / "run", [TensorBoard()], watch=lambda row: row["round"] != 3) as watch:
        run(table(), tmp_path / "run", watch=watch, page=False)
    with tracked(tmp_path / "run", [TensorBoard()]) as watch:
        run(table(), tmp_path / "run", start=Start(resume=True), watch=watch, page=False)

    scalars = scalars_in(tmp_path / "run" / "tensorboard")
    assert [step for step, _ in scalars["time_s"]] == list(range(N_ROUNDS))


def test_a_round_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    show(run_folder(tmp_path / "run", 3), TensorBoard())
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    events.write_bytes(events.read_bytes()[:-5])

    show(run_folder(tmp_path / "run", 4), TensorBoard())

    steps = [step for step, _ in scalars_in(tmp_path / "run" / "tensorboard")["time_s"]]
    assert steps == [0, 1, 2, 3]


def test_telling_a_complete_run_again_adds_nothing(tmp_path: Path) -> None:
    show(run_folder(tmp_path / "run", 4), TensorBoard())
    before = scalars_in(tmp_path / "run" / "tensorboard")

    show(tmp_path / "run", TensorBoard())

    assert scalars_in(tmp_path / "run" / "tensorboard") == before
    assert before["summary/n_rounds"] == [(3, 4.0)]


def test_a_longer_run_gets_a_new_summary(tmp_path: Path) -> None:
    show(run_folder(tmp_path / "run", 4), TensorBoard())
    show(run_folder(tmp_path / "run", 5), TensorBoard(), of=5)

    assert scalars_in(tmp_path / "run" / "tensorboard")["summary/n_rounds"] == [(3, 4.0), (4, 5.0)]


def test_runs_of_the_same_name_get_folders_of_their_own_and_keep_them(tmp_path: Path) -> None:
    first, second = run_folder(tmp_path / "a" / "run", 2), run_folder(tmp_path / "b" / "run", 3)
    for folder in (first, second):
        show(folder, TensorBoard(tmp_path / "tb"))
    show(run_folder(second, 4), TensorBoard(tmp_path / "tb"))

    n_steps = {place.name: len(scalars_in(place)["time_s"]) for place in (tmp_path / "tb").iterdir()}
    assert n_steps == {"run": 2, "run-2": 4}


def test_a_folder_that_cannot_be_written_is_a_note_and_no_end(tmp_path: Path) -> None:
    (tmp_path / "tb").write_text("a file")
    notes: list[str] = []

    with tracked(tmp_path / "run", [TensorBoard(tmp_path / "tb")], note=notes.append) as watch:
        result = run(table(), tmp_path / "run", watch=watch, page=False)

    assert len(result.rounds) == N_ROUNDS
    assert [note.split(" (")[0] for note in notes] == ["tensorboard could not be told of the run"] * 2


def test_a_full_disk_is_a_note_and_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    def is_full(self: object) -> None:
        raise OSError(28, "No space left on device")

    notes: list[str] = []
    with tracked(tmp_path / "run", [TensorBoard()], note=notes.append) as watch:
        for at in range(4):
            run_folder(tmp_path / "run", at + 1, is_complete=at == 3)
            with monkeypatch.context() as patched:
                if at == 2:
                    patched.setattr(RecordWriter, "flush", is_full)
                assert watch(row_of(at))

    (note,) = notes
    assert "No space left on device" in note
    assert {step for step, _ in scalars_in(tmp_path / "run" / "tensorboard")["time_s"]} == {0, 1, 2, 3}


def test_a_tracker_that_was_not_begun_says_so() -> None:
    with pytest.raises(InputError, match="call begin first"):
        TensorBoard().add(0, {"accuracy": 1.0})


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)

    with pytest.raises(OptionError, match=r"pip install 'fielding\[tensorboard\]'"):
        TensorBoard()
