"""What a device remembers between messages: files that are there whole or not at all, apart for every run."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fielding._typing import Json, Models, Vector
from fielding.atomic import PRIVATE_FOLDER, make_private
from fielding.errors import CheckpointError, OutputError
from fielding.federation.clients import Updates
from fielding.flower.device.sample_files import PREFIX, SampleFiles, open_files
from fielding.flower.device.samples import FARTHEST, LOG, Kept, kept_from
from fielding.flower.wire.messages import checked_layout, order_parts
from fielding.flower.wire.orders import (
    NO_REPORT,
    EvaluateOrder,
    Order,
    Report,
    ServedView,
    SharedView,
    TrainOrder,
    WorkRule,
)
from fielding.records.container import Contents, raise_if_unreadable, read_contents, write_contents
from fielding.training.layout import Layout

STATE, TRAINED, MEMORY = "device.fielding", "trained.fielding", "memory.fielding"
SHARED, SERVED = "shared.fielding", "served.fielding"
KIND = "device"
WATCHED = ("window.", "monitor.", "watch.", "last.", "looks.")  # how the names begin of what watches the samples
CLOCKS = ("window.moment", "watch.version")  # of these, what tells the time
FOREIGN = (ValueError, KeyError, IndexError, TypeError, msgspec.MsgspecError)
"""What reading raises if a file is whole but holds something else."""
_SCRATCH, _OLDEST_SCRATCH_S = re.compile(r"\..*\.(\d+)\.tmp"), 3600.0
"""Names of files that are being written, with the process that does; none of them takes as long."""
_RUN, _HEARD_S = re.compile(r"[0-9a-f]{16}"), 24 * 3600.0
"""Names of folders of runs, and how often a message is noted there, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceState:
    """What a device knows after it took in the samples of a round.

    ``round_index``: of the last samples. ``kept``: samples for training and for tests, whose features are in ``files``;
    those from before the moment ``first`` have left the window. ``monitor``: the state of the observer. ``n_taken``:
    samples that ever came, those thrown away among them. ``experts``: what the device knows of its experts.
    """

    round_index: int
    kept: Kept
    files: SampleFiles
    monitor: Mapping[str, npt.NDArray[np.generic]]
    report: Report | None
    first: int = -FARTHEST
    n_taken: int = 0
    experts: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)

    def window(self) -> Kept:
        """Return the samples of the window."""
        return self.kept.some(self.kept.moment >= self.first)

    def has_left(self, first: int) -> bool:
        """Return whether samples leave the window if it begins with another moment."""
        return bool((self.kept.moment[self.kept.moment >= self.first] < first).any())

    @property
    def number(self) -> int:
        """The number of the last report."""
        return NO_REPORT if self.report is None else self.report.number


def run_folder(folder: Path, run_id: str) -> Path:
    """Return the folder of a run, made if need be; its name is a hash, since ids may hold anything.

    What processes that were killed left half written there is removed.
    """
    own = folder_of(folder, run_id)
    try:
        make_private(folder)
        make_private(own)
        if own.stat().st_mode & 0o077:  # it was there: samples are private
            own.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise OutputError(f"cannot make {own}: {error.strerror or error}; name another state-dir") from error
    for path in own.glob(".*.tmp"):
        found = _SCRATCH.fullmatch(path.name)
        with contextlib.suppress(OSError):  # another process may sweep, too
            if found and (_is_dead(int(found[1])) or _is_old(path)):
                path.unlink()
    return own


def forget_runs(folder: Path, run_id: str, days: float) -> None:
    """Remove what a device kept for other runs than this one that it has not heard of for so many days."""
    here = folder_of(folder, run_id)
    with contextlib.suppress(OSError):
        if here.exists() and time.time() - here.stat().st_mtime > _HEARD_S:
            os.utime(here)  # an answer with nothing new writes nothing: this says that it was heard of
    for path in folder.glob("*/"):
        try:
            is_old = time.time() - path.stat().st_mtime > days * 24 * 3600
            if path != here and is_old and _RUN.fullmatch(path.name) and any(path.glob("*.fielding")):
                LOG.warning("nothing was heard of the run in %s for %g days: its state is removed", path, days)
                (path / STATE).unlink(missing_ok=True)
                shutil.rmtree(path)
        except OSError as error:
            LOG.warning("cannot remove %s: %s; remove it by hand", path, error.strerror or error)


def remove_run(folder: Path, run_id: str) -> None:
    """Remove all that a device kept for a run; what names samples goes first."""
    own = folder_of(folder, run_id)
    try:
        (own / STATE).unlink(missing_ok=True)
        shutil.rmtree(own)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OutputError(f"cannot remove {own}: {error.strerror or error}; remove it by hand") from error


def folder_of(folder: Path, run_id: str) -> Path:
    """Return the name of the folder of a run."""
    return folder / sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _is_old(path: Path) -> bool:
    """Return whether no process can still be at work with a file."""
    return time.time() - path.stat().st_mtime > _OLDEST_SCRATCH_S


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


def has_changed(before: DeviceState | None, after: DeviceState) -> bool:
    """Return whether a device knows more than before, or has less: the passing of time alone is nothing to write."""
    if before is None:
        return after.n_taken > 0 or after.report is not None
    return (
        before.n_taken != after.n_taken
        or before.report is not after.report
        or before.kept.y.size != after.kept.y.size
        or before.has_left(after.first)
        or _differ(before.experts, after.experts)
        or _differ(*({n: one for n, one in state.monitor.items() if n not in CLOCKS} for state in (before, after)))
    )


def _differ(one: Mapping[str, npt.NDArray[np.generic]], other: Mapping[str, npt.NDArray[np.generic]]) -> bool:
    """Return whether arrays differ in any bit: NaN is like NaN."""
    if one is other:
        return False
    return one.keys() != other.keys() or any(
        array.dtype != other[name].dtype
        or array.shape != other[name].shape
        or (array.nbytes > 0 and np.ascontiguousarray(array).data.cast("B") != other[name].data.cast("B"))
        for name, array in one.items()
    )


def write_state(folder: Path, state: DeviceState, before: DeviceState | None = None) -> None:
    """Write what a device knows, in place of what it knew before; then remove files of samples that nothing names.

    Those that another process may be about to name stay for an hour.
    """
    arrays: dict[str, npt.NDArray[np.generic]] = {**state.kept.arrays(), **state.monitor, **state.experts}
    values: dict[str, Json] = {
        "round": state.round_index,
        "number": state.number,
        "first": state.first,
        "taken": state.n_taken,
        "files": list(state.files.names),
    }
    if state.report is not None:
        arrays["report"], values["n_samples"] = state.report.representation, state.report.n_samples
        values["kind"] = state.report.kind
        if state.report.tally is not None:
            arrays["tally"] = state.report.tally
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / STATE)
    gone = set() if before is None else set(before.files.names)
    for path in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.name not in state.files.names and (path.name in gone or _is_old(path)):
                path.unlink()


def read_state(folder: Path, *, is_again: bool = False) -> DeviceState | None:
    """Return what a device knows; None if nothing. A damaged file is named, put aside, and counts as none."""
    contents = read_whole(folder / STATE)
    if contents is None:
        return None
    try:
        values, last = msgspec.convert(contents.values, _StateValues), None
        report, tally = contents.arrays.get("report"), contents.arrays.get("tally")
        if report is not None:
            if report.dtype != np.float32 or report.ndim != 1:
                raise CheckpointError(f"the last report is {report.dtype} of shape {report.shape}")
            last = Report(
                number=values.number,
                representation=report.astype(np.float32),
                n_samples=values.n_samples,
                kind=values.kind,
                tally=None if tally is None else tally.astype(np.float64),
            )
        is_former = "kept.x" in contents.arrays
        arrays, files = _moved_features(folder, contents) if is_former else (contents.arrays, None)
        files = files or open_files(folder, values.files)
        state = DeviceState(
            round_index=values.round,
            first=values.first,
            kept=kept_from(arrays, np.array([len(array) for array in files.arrays], dtype=np.int64)),
            files=files,
            monitor={name: array for name, array in contents.arrays.items() if name.startswith(WATCHED)},
            report=last,
            n_taken=values.taken,
            experts={name: array for name, array in contents.arrays.items() if name.startswith("expert_")},
        )
        if is_former:
            write_state(folder, state)
        return state
    except OutputError:
        raise
    except (*FOREIGN, OSError, MemoryError) as error:
        raise_if_unreadable(folder, error)
        if isinstance(error.__cause__, FileNotFoundError) and not is_again:  # another process wrote a newer state
            return read_state(folder, is_again=True)
        set_aside(folder, STATE, error)
        return None


def _moved_features(
    folder: Path, contents: Contents
) -> tuple[Mapping[str, npt.NDArray[np.generic]], SampleFiles | None]:
    """Return what a state of a former release kept, its features in a file of their own.

    Some of these have ``kept.is_aside``: samples that were not trained on. Those are left out, since the device has not
    looked at them either.
    """
    columns = {name: array for name, array in contents.arrays.items() if name.startswith("kept.")}
    if len({array.shape[:1] for array in columns.values()}) != 1:
        raise CheckpointError("the samples that were saved do not fit together; start anew")
    is_unused = columns.pop("kept.is_aside", np.zeros(len(columns["kept.x"]), dtype=np.bool_)).astype(np.bool_)
    if is_unused.any():
        columns = {name: array[~is_unused] for name, array in columns.items()}
    x = columns.pop("kept.x")
    files = SampleFiles(folder).add(x) if len(x) else None
    return {**columns, "kept.file": np.zeros(len(x), np.int64), "kept.row": np.arange(len(x))}, files


class _StateValues(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The plain values of the file of a state."""

    round: Annotated[int, Meta(ge=0)]
    number: Annotated[int, Meta(ge=0)]
    first: Annotated[int, Meta(ge=-2 * FARTHEST)]
    taken: Annotated[int, Meta(ge=0)]
    files: tuple[Annotated[str, Meta(pattern=rf"^{PREFIX}[0-9a-f]+\.fielding$")], ...] = ()
    n_samples: Annotated[int, Meta(ge=0)] = 0
    kind: str | None = None


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

    Raises :class:`InputError` if it cannot be read now (memory, open files): the file may be good, and stays.
    """
    try:
        contents = read_contents(path)
        if contents.kind != KIND:
            raise CheckpointError(f"{path} is no state of a device but of a {contents.kind}")
        return contents
    except (CheckpointError, OSError, MemoryError) as error:
        raise_if_unreadable(path, error)
        if not isinstance(error.__cause__, FileNotFoundError):
            set_aside(path.parent, path.name, error)
        return None


# ---- answers that may be asked for twice ---------------------------------------------------------------------------


def order_digest(order: TrainOrder) -> str:
    """Return what tells one job from another: a device that is asked for the same one again gives the same answer."""
    # Without what changes when an order comes again.
    job = replace(order, confirmed=NO_REPORT, observe={}, shared=None, served=None, deliver=None)
    text, models = order_parts(job)
    digest = blake2b(text.encode(), digest_size=16)
    for model in models.values():
        digest.update(np.ascontiguousarray(model, dtype="<f4").tobytes())
    return digest.hexdigest()


def write_training(folder: Path, digest: str, updates: Updates) -> None:
    """Write what a job gave."""
    losses = [updates.loss[0], updates.square_loss[0]]
    if updates.start_loss is not None:
        losses.append(updates.start_loss[0])
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "model": updates.models[0],
        "losses": np.array(losses, dtype=np.float64),
    }
    if updates.expert_losses is not None:
        arrays["experts"] = updates.expert_losses[0]
    values: dict[str, Json] = {"job": digest, "n_samples": int(updates.n_samples[0]), "start": int(updates.start[0])}
    arrays |= {f"metric/{name}": values[:1] for name, values in updates.metrics.items()}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / TRAINED)


def read_training(folder: Path, digest: str) -> Updates | None:
    """Return what a job gave, if it was the last one that was done here."""
    contents = read_whole(folder / TRAINED)
    if contents is None or contents.values.get("job") != digest:
        return None
    try:
        losses = contents.arrays["losses"].astype(np.float64)
        if losses.size not in (2, 3):
            raise CheckpointError(f"the answer to an order holds {losses.size} losses")
        experts = contents.arrays.get("experts")
        done = one_update(
            contents.arrays["model"].astype(np.float32),
            n_samples=int(str(contents.values["n_samples"])),
            losses=losses,
            start=int(str(contents.values["start"])),
        )
        own = {name.partition("/")[2]: one for name, one in contents.arrays.items() if name.startswith("metric/")}
        done = replace(done, metrics={name: one.astype(np.float64) for name, one in own.items()})
        return done if experts is None else replace(done, expert_losses=experts.astype(np.float64)[np.newaxis])
    except FOREIGN as error:
        set_aside(folder, TRAINED, error)
        return None


def one_update(model: Models, *, n_samples: int, losses: Vector, start: int) -> Updates:
    """Return the slice of one job; ``losses``: mean, mean of squares, and perhaps that before training."""
    none = np.zeros(1, dtype=np.int64)
    return Updates(
        clients=none,
        groups=none,
        start=np.array([start]),
        models=model[np.newaxis],
        n_samples=np.array([n_samples]),
        loss=losses[:1],
        square_loss=losses[1:2],
        start_loss=losses[2:3] if losses.size > 2 else None,
        n_parameters=0,
        learning_rate=0.0,
    )


# ---- what a device keeps for training ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceMemory:
    """What a device keeps for itself between rounds.

    ``now`` and ``before``: the model that it trained last in round ``round_index``, its newest (-1: none), and that of
    the rounds before (MOON); all jobs of a round have the same previous model, however often they are asked for.
    """

    round_index: int = -1
    now: Models | None = None
    before: Models | None = None
    rehearsal: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)

    def previous(self, round_index: int, n_numbers: int) -> Models | None:
        """Return the model that was trained last before a round; None if there is none of this length."""
        model = self.now if self.round_index < round_index else self.before
        return model if model is not None and model.size == n_numbers else None

    def after(self, round_index: int, model: Models | None) -> "DeviceMemory":
        """Return this with what a job of a round gave, in place of what jobs of the same round gave."""
        if model is None or not np.isfinite(model).all() or self.round_index > round_index:
            return self
        before = self.now if self.round_index < round_index else self.before
        return replace(self, round_index=round_index, now=model, before=before)


def read_memory(folder: Path) -> DeviceMemory:
    """Return what a device keeps; nothing if there is none, or the file is damaged."""
    contents = read_whole(folder / MEMORY)
    if contents is None:
        return DeviceMemory()
    try:
        now, before = (contents.arrays.get(name) for name in ("now", "before"))
        return DeviceMemory(
            round_index=int(str(contents.values["round"])),
            now=None if now is None else now.astype(np.float32),
            before=None if before is None else before.astype(np.float32),
            rehearsal={name: one for name, one in contents.arrays.items() if name.startswith("rehearsal.")},
        )
    except FOREIGN as error:
        set_aside(folder, MEMORY, error)
        return DeviceMemory()


def write_memory(folder: Path, memory: DeviceMemory) -> None:
    """Write what a device keeps."""
    arrays = {"now": memory.now, "before": memory.before, **memory.rehearsal}
    kept = {name: array for name, array in arrays.items() if array is not None}
    values: dict[str, Json] = {"round": memory.round_index}
    write_contents(Contents(values=values, arrays=kept, progress={}, kind=KIND), folder / MEMORY)


# ---- models that a device holds ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldModel:
    """A model on the disk of a device.

    ``key``: of a shared model its key, of one that serves the round at whose end it did. ``reference``: of a shared
    model what windows are compared with; None: it has not come. ``served``: of a model that serves what experts need.
    ``about``: of a version that was delivered what is known of it.
    """

    key: str
    model: Models
    layout: Layout
    work: WorkRule
    reference: Vector | None = None
    served: ServedView | None = None
    about: Mapping[str, Json] = field(default_factory=dict)


def keep_shared(folder: Path, view: SharedView | None) -> HeldModel | None:
    """Keep what an order brings of the shared model, and return all of it; None if the device lacks the model."""
    held = read_held(folder, SHARED)
    if view is None:
        return held
    if view.model is not None and view.layout is not None and view.work is not None:
        new = HeldModel(key=view.key, model=view.model, layout=view.layout, work=view.work, reference=view.reference)
    elif held is None or held.key.partition(".")[0] != view.model_key:
        return None
    elif view.reference is None:
        return held
    else:
        new = replace(held, key=view.key, reference=view.reference)
    if held is None or held.key != new.key:
        write_held(folder, SHARED, new)
    return new


def confirmation(view: SharedView | None, held: HeldModel | None) -> str | None:
    """Return what a device tells the server that it holds; None if the server knows."""
    if view is None:
        return None
    key = "" if held is None else held.key
    return key if key != view.key or not view.is_bare else None


def read_served(folder: Path, order: Order) -> HeldModel | None:
    """Return the model that served this device before an order; None if there was none.

    The model of a train order serves from the end of the round before it. One that came with a test then is exactly
    that; an older one is worth less than what the order brings.
    """
    held = read_held(folder, SERVED)
    new = _model_of(order) if isinstance(order, TrainOrder) and order.round_index else None
    return new if new is not None and (held is None or int(held.key) < int(new.key)) else held


def keep_served(folder: Path, order: Order) -> None:
    """Keep the model that serves this device after an order, if the order brings one that is newer."""
    new = _model_of(order)
    held = None if new is None else read_held(folder, SERVED)
    if new is not None and (held is None or int(held.key) < int(new.key)):
        write_held(folder, SERVED, new)


def _model_of(order: Order) -> HeldModel | None:
    """Return the model of an order to train or to test; of several it is not known which one serves."""
    if isinstance(order, EvaluateOrder):
        key = str(order.round_index)
        return HeldModel(key=key, model=order.model, layout=order.layout, work=order.work, served=order.served)
    if isinstance(order, TrainOrder) and not order.plan.chooses:
        key, model = str(order.round_index - 1), order.plan.models[0]
        return HeldModel(key=key, model=model, layout=order.layout, work=order.work, served=order.served)
    return None


def write_held(folder: Path, name: str, held: HeldModel) -> None:
    """Write a model, whole or not at all."""
    arrays: dict[str, npt.NDArray[np.generic]] = {"model": held.model}
    if held.reference is not None:
        arrays["reference"] = held.reference
    if held.served is not None:
        arrays["heard"] = held.served.heard
        if held.served.heads is not None:
            arrays["heads"], arrays["row"] = held.served.heads, np.array([held.served.row])
    values: dict[str, Json] = {
        "key": held.key,
        "layout": held.layout.record(),
        "work": msgspec.to_builtins(held.work),
        **({"about": dict(held.about)} if held.about else {}),
    }
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / name)


def read_held(folder: Path, name: str) -> HeldModel | None:
    """Return a model; None if there is none, or the file is damaged."""
    contents = read_whole(folder / name)
    if contents is None:
        return None
    try:
        model, reference = contents.arrays["model"], contents.arrays.get("reference")
        served, heads = None, contents.arrays.get("heads")
        if "heard" in contents.arrays:
            served = ServedView(heard=contents.arrays["heard"].astype(np.float64))
        if served is not None and heads is not None:
            served = replace(served, heads=heads.astype(np.float32), row=int(contents.arrays["row"][0]))
        key = msgspec.convert(contents.values.get("key"), Annotated[str, Meta(max_length=64)])
        if name == SERVED:
            int(key)  # a round
        return HeldModel(
            key=key,
            model=model.astype(np.float32),
            layout=checked_layout(msgspec.convert(contents.values.get("layout"), dict[str, Any]), model.size),
            work=msgspec.convert(contents.values.get("work"), WorkRule),
            reference=None if reference is None else reference.astype(np.float64),
            served=served,
            about=msgspec.convert(contents.values.get("about", {}), dict[str, Any]),
        )
    except FOREIGN as error:
        set_aside(folder, name, error)
        return None
