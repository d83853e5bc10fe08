"""Runs in TensorBoard: one event per round, so that a round is there whole or not at all."""

import shlex
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from fielding._extras import require
from fielding.errors import InputError
from fielding.tracking.tracker import (
    ALWAYS_THERE,
    SUMMARY_PREFIX,
    Ending,
    Figures,
    TrackedRun,
    recall_place,
    remember_place,
)

FOLDER = "tensorboard"  # the folder of events within that of a run, if none is named
_FILES = "events.out.tfevents.*"
_FORMAT = "brain.Event:2"


class TensorBoard:
    """Writes a run's figures where ``tensorboard --logdir`` finds them, with the round as step.

    TensorBoard keeps 32 bits of a number; ``rounds.jsonl`` keeps all. The config is in its *text* tab.

    Parameters
    ----------
    folder
        A folder in which every run gets one of its own, named as the run's; None for ``tensorboard`` within that of
        the run.

    Raises
    ------
    OptionError
        If TensorBoard is not installed; the message says how to install it.
    """

    name = "tensorboard"

    def __init__(self, folder: str | Path | None = None) -> None:
        require(self.name)
        self._target = None if folder is None else Path(folder).resolve()
        self._writer: Any = None
        self._last, self._has_summary = -1, False

    def place(self, folder: Path) -> str:
        """Return where the runs in a folder, or the one in it, are shown, and how to look at them."""
        shown = folder if self._target is None else self._target
        return f"{shown}; look at it with: tensorboard --logdir {shlex.quote(str(shown))}"

    def begin(self, run: TrackedRun) -> int:
        """Open a new file of events beside those of earlier parts of the run."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.text.summary_v2 import text_pb
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._close()
        place = self._find_place(run)
        files = sorted(place.glob(_FILES))
        self._last, self._has_summary = _read_progress(files)
        # TensorBoard reads the files of a folder in the order of their names.
        path = place / _FILES.replace("*", f"{len(files) + 1:010d}.fielding")
        self._writer = RecordWriter(path.open("xb"))
        self._write(Event(wall_time=time.time(), file_version=_FORMAT))
        if not files:
            text = text_pb("config", f"```toml\n{run.config_text}\n```")
            self._write(Event(wall_time=time.time(), step=0, summary=text))
        return self._last + 1

    def add(self, round_index: int, figures: Figures) -> None:
        """Write one event with all figures of a round."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._write(Event(wall_time=time.time(), step=round_index, summary=Summary(value=values)))
        self._last, self._has_summary = round_index, False  # a summary of fewer rounds is out of date

    def end(self, ending: Ending, figures: Figures) -> None:  # noqa: ARG002
        """Write the summary at the last round, if it is not there, and close the file."""
        if figures and not self._has_summary:
            self.add(max(self._last, 0), figures)
            self._has_summary = True
        self._close()

    def _find_place(self, run: TrackedRun) -> Path:
        """Return the folder of a run: the one that it had, or one that no other run has."""
        if self._target is None:
            place = run.folder / FOLDER
            place.mkdir(exist_ok=True)
            return place
        known = recall_place(run.folder, self.name, str(self._target))
        if known is not None and (self._target / known).is_dir():
            return self._target / known
        self._target.mkdir(parents=True, exist_ok=True)
        names = (run.name if number == 1 else f"{run.name}-{number}" for number in count(1))
        for name in names:  # another run may be first
            place = self._target / name
            with suppress(FileExistsError):
                place.mkdir()
                break
        remember_place(run.folder, self.name, str(self._target), place=place.name)
        return place

    def _write(self, event: Any) -> None:
        if self._writer is None:
            raise InputError("no run was begun; call begin first")
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):  # all that could be written was flushed
                writer.close()


def _read_progress(files: list[Path]) -> tuple[int, bool]:
    """Return the last round in some files of whole events, -1 if there is none, and whether they hold a summary."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    last, has_summary = -1, False
    for path in files:
        for serialized in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(serialized)
            tags = [value.tag for value in event.summary.value]
            last = max(last, event.step) if ALWAYS_THERE in tags else last
            has_summary = has_summary or any(tag.startswith(SUMMARY_PREFIX) for tag in tags)
    return last, has_summary
