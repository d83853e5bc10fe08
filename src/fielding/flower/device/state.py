"""What a device remembers between messages: files that are there whole or not at all, apart for every run."""

import contextlib
import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json
from fielding.errors import CheckpointError, InputError, OutputError
from fielding.flower.device.local_jobs import Training
from fielding.flower.device.samples import FARTHEST, Kept, kept_from
from fielding.flower.wire.fields import Fields
from fielding.flower.wire.orders import NO_REPORT, TrainOrder
from fielding.flower.wire.records import json_text
from fielding.flower.wire.replies import Report
from fielding.records.container import Contents, read_contents, write_contents

STATE, TRAINED = "device.fielding", "trained.fielding"
KIND = "device"
WATCHED = ("window.", "monitor.", "watch.", "last.", "looks.")
"""How the names begin of what watches the samples."""
FOREIGN = (ValueError, KeyError, IndexError, TypeError)
"""What reading raises if a file is whole but holds something else."""
_SCRATCH, _OLDEST_SCRATCH_S = re.compile(r"\..*\.(\d+)\.tmp"), 3600.0
"""Names of files that are being written, with the process that does; none of them takes as long."""
LOG = logging.getLogger("fielding.flower")
"""Shows in the log of the node."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceState:
    """What a device knows after it took in the samples of a round.

    Parameters
    ----------
    round_index
        The round.
    kept
        Its samples, for training and for tests; those before round ``first`` have left the window.
    monitor
        :meth:`fielding.flower.device.observe.Watcher.arrays`.
    report
        The last report; None if there never was one.
    first
        The first round of the window.
    n_taken
        How many samples ever came, those that are thrown away by now among them.
    """

    round_index: int
    kept: Kept
    monitor: Mapping[str, npt.NDArray[np.generic]]
    report: Report | None
    first: int = -FARTHEST
    n_taken: int = 0

    def window(self) -> Kept:
        """Return the samples of the window."""
        return self.kept.some(self.kept.rounds >= self.first)

    def places(self) -> Counts:
        """Return the place of each kept sample among all that ever came, rising: the oldest leave first."""
        return np.arange(self.n_taken - self.kept.y.size, self.n_taken)

    @property
    def number(self) -> int:
        """The number of the last report."""
        return NO_REPORT if self.report is None else self.report.number


def run_folder(folder: Path, run_id: str) -> Path:
    """Return the folder of a run, made if need be; its name is a hash, since ids may hold anything.

    What processes that were killed left half written there is removed.
    """
    own = folder / sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        own.chmod(0o700)  # also if it was there: samples are nobody else's business
    except OSError as error:
        raise OutputError(f"cannot make {own}: {error.strerror or error}; name another state-dir") from error
    _sweep(own)
    return own


def _sweep(folder: Path) -> None:
    """Remove files that were being written when their process died."""
    for path in folder.glob(".*.tmp"):
        found = _SCRATCH.fullmatch(path.name)
        with contextlib.suppress(OSError):  # somebody else may sweep, too
            if found and (_is_dead(int(found[1])) or time.time() - path.stat().st_mtime > _OLDEST_SCRATCH_S):
                path.unlink()


def _is_dead(process: int) -> bool:
    """Return whether no process of this machine has this number; False where the system cannot tell."""
    if os.name != "posix":  # elsewhere asking would end it
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def write_state(folder: Path, state: DeviceState) -> None:
    """Write what a device knows."""
    arrays: dict[str, npt.NDArray[np.generic]] = {**state.kept.arrays(), **state.monitor}
    values: dict[str, Json] = {
        "round": state.round_index,
        "number": state.number,
        "first": state.first,
        "taken": state.n_taken,
    }
    if state.report is not None:
        arrays["report"], values["n_samples"] = state.report.representation, state.report.n_samples
        values["kind"] = state.report.kind
        if state.report.tally is not None:
            arrays["tally"] = state.report.tally
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / STATE)


def read_state(folder: Path) -> DeviceState | None:
    """Return what a device knows; None if nothing. A damaged file is told and put aside, and then it is nothing."""
    contents = read_whole(folder / STATE)
    if contents is None:
        return None
    try:
        values = Fields(name="the state of a device", values=contents.values)
        return DeviceState(
            round_index=values.whole("round"),
            first=values.whole("first", least=-2 * FARTHEST) if "first" in contents.values else -FARTHEST,
            kept=kept_from(contents.arrays),
            monitor={name: array for name, array in contents.arrays.items() if name.startswith(WATCHED)},
            report=_report(contents, values),
            n_taken=values.whole("taken"),
        )
    except FOREIGN as error:
        set_aside(folder, STATE, error)
        return None


def _report(contents: Contents, values: Fields) -> Report | None:
    """Return the last report of a device; None if there never was one."""
    report, tally, kind = contents.arrays.get("report"), contents.arrays.get("tally"), values.values.get("kind")
    number = values.whole("number")
    if report is None:
        return None
    if report.dtype != np.float32 or report.ndim != 1:
        raise CheckpointError(f"the last report is {report.dtype} of shape {report.shape}")
    return Report(
        number=number,
        representation=report.astype(np.float32),
        n_samples=values.whole("n_samples"),
        kind=kind if isinstance(kind, str) else None,
        tally=None if tally is None else tally.astype(np.float64),
    )


def set_aside(folder: Path, name: str, error: Exception) -> None:
    """Say that a file is damaged, and move it out of the way: the device starts anew instead of failing for ever."""
    path = folder / name
    aside = path.with_name(f"{name}.damaged")
    said = error if isinstance(error, ValueError) else f"{path} holds something else ({error!r})"
    LOG.warning("%s; what it held is lost, and it is kept as %s", said, aside)
    try:
        path.replace(aside)
    except OSError as failure:
        raise OutputError(f"cannot move {path}: {failure.strerror or failure}; remove it") from failure


def read_whole(path: Path) -> Contents | None:
    """Return what a file holds; None if there is none, or it is damaged: then it is put aside.

    Raises
    ------
    InputError
        If it cannot be read now, for lack of memory or of open files, say: the file may be good, and stays.
    """
    try:
        contents = read_contents(path)
        if contents.kind != KIND:
            raise CheckpointError(f"{path} is no state of a device but of a {contents.kind}")
        return contents
    except (CheckpointError, OSError, MemoryError) as error:
        cause = error.__cause__ if isinstance(error, CheckpointError) else error
        if isinstance(cause, FileNotFoundError):
            return None
        if isinstance(cause, (OSError, MemoryError)):
            why = (cause.strerror if isinstance(cause, OSError) else None) or repr(cause)
            raise InputError(f"cannot read {path}: {why}; it is kept, ask again later") from error
        set_aside(path.parent, path.name, error)
        return None


def order_digest(order: TrainOrder) -> str:
    """Return what tells one job from another: whoever is asked for the same one again gives the same answer."""
    asked: dict[str, Json] = {
        "run": order.run_id,
        "round": order.round_index,
        "seed": order.seed,
        "steps": order.n_steps,
        "start_loss": order.with_start_loss,
        "layout": order.layout.record(),
        "settings": dict(order.settings),
        **order.wishes(),
    }
    digest = blake2b(json_text(asked).encode(), digest_size=16)
    for model in order.models().values():
        digest.update(np.ascontiguousarray(model, dtype="<f4").tobytes())
    return digest.hexdigest()


def write_training(folder: Path, digest: str, training: Training) -> None:
    """Write what a job gave."""
    losses = [training.loss, training.square_loss]
    if training.start_loss is not None:
        losses.append(training.start_loss)
    arrays: dict[str, npt.NDArray[np.generic]] = {"model": training.model, "losses": np.array(losses, dtype=np.float64)}
    values: dict[str, Json] = {"job": digest, "n_samples": training.n_samples, "start": training.start}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / TRAINED)


def read_training(folder: Path, digest: str) -> Training | None:
    """Return what a job gave, if it was the last one that was done here."""
    contents = read_whole(folder / TRAINED)
    if contents is None or contents.values.get("job") != digest:
        return None
    try:
        losses = contents.arrays["losses"].astype(np.float64).tolist()
        return Training(
            model=contents.arrays["model"].astype(np.float32),
            n_samples=int(str(contents.values["n_samples"])),
            loss=losses[0],
            square_loss=losses[1],
            start_loss=losses[2] if len(losses) > 2 else None,
            start=start if isinstance(start := contents.values.get("start"), int) else None,
        )
    except FOREIGN as error:
        set_aside(folder, TRAINED, error)
        return None
