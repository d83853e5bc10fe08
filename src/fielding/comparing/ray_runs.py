"""The runs of a comparison on a Ray cluster: each in a process of its own on some machine; their folders end up here.

Where the machine sees the folder of the comparison, the run writes there. Elsewhere it writes into a folder of its own,
and what it has committed is fetched from there every few seconds. So a machine that dies costs the rounds since its
last checkpoint, at most: the run goes on, from its folder here, on another.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple, TypeAlias

from fielding.atomic import make_private, output_errors, replaced_file
from fielding.comparing.sweep import TICK_S, Beside, Finished, Following, Note, RunJob, Step, run_in_processes
from fielding.config.keys import ClockSection, TraceSection
from fielding.config.reader import config_from
from fielding.errors import InputError, LostClusterError, error_words
from fielding.inputs import INPUTS_VARIABLE, located
from fielding.ray_cluster import START_S, begin_worker, capacity, last_line, ray_cluster, start_worker
from fielding.records.lock import NAME as LOCK
from fielding.records.lock import is_locked, lock_folder
from fielding.records.run_folder import CHECKPOINTS
from fielding.simulation.hardware import PROFILES
from fielding.traces.catalog import FOLDER_VARIABLE, data_folder, entry_named
from fielding.traces.images import cache_folder

HEAR_S = 0.5  # seconds between two questions how far a run is
FETCH_S = 5.0  # seconds between two looks at what a machine without our folder has written
MOST_LOSSES = 3  # machines that a run may lose one after the other without a round between
_LOCK_S = 600.0  # seconds that a process whose machine was lost has to end, with the round that it is at
Files: TypeAlias = Mapping[str, bytes]
"""What is in some files, by their paths in a folder."""


class Input(NamedTuple):
    """A file or folder that a config names, and what of it is needed; no names: all of it."""

    path: str
    names: tuple[str, ...] = ()


class FilePart(NamedTuple):
    """What is in a file from an offset on."""

    name: str
    offset: int
    content: bytes


def inputs_of(trace: TraceSection, clock: ClockSection) -> list[Input]:
    """Return the files that a run reads.

    Examples
    --------
    >>> inputs_of(TraceSection(file="data/mine.npz"), ClockSection())
    [Input(path='data/mine.npz', names=())]
    """
    found = [Input(trace.file)] if trace.file is not None else []
    if trace.file is None and (names := entry_named(trace.name).files):
        found = [Input(trace.data or str(data_folder()), names)]
    profile = None if clock.profile in PROFILES else clock.profile
    return [*found, *(Input(path) for path in (profile, clock.availability) if path is not None)]


def files_of(one: Input) -> Iterator[tuple[str, Path]]:
    """Yield the files of an input, with their names in it; nothing where it is not there."""
    root = located(one.path)
    if root.is_file():
        yield root.name, root
    for name in one.names or ("",):
        for path in sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]:
            if path.is_file() and path != root:
                yield path.relative_to(root).as_posix(), path


def digest_of(one: Input) -> str:
    """Return a digest of the names and contents of an input's files."""
    whole = hashlib.blake2b(digest_size=16)
    for name, path in files_of(one):
        with path.open("rb") as file:
            whole.update(f"{name}\0{hashlib.file_digest(file, 'blake2b').hexdigest()}\0".encode())
    return whole.hexdigest()


def copy_of(digest: str) -> Path:
    """Return the folder of this machine's cache in which the files of an input are, or would be."""
    return cache_folder("inputs") / digest


def copy_input(digest: str, content: Files) -> Path:
    """Write an input into this machine's cache, unless it is there; returns the folder of its files."""
    folder = copy_of(digest)
    if not folder.is_dir():
        make_private(folder.parent)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent))
        for name, one in content.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_bytes(one)
        try:
            scratch.rename(folder)
        except OSError:
            shutil.rmtree(scratch, ignore_errors=True)
            if not folder.is_dir():  # else another process was faster
                raise
    return folder


class FolderReader:
    """Tells what has been written into a run's folder since the last time; files grow at their ends, or are new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, int]] = {}  # size and time of change

    def read(self) -> tuple[list[FilePart], list[str]]:
        """Return what is new, and the files that are gone.

        Checkpoints are read first: what they say of logs, these hold by then.
        """
        found, parts = dict[str, tuple[int, int]](), list[FilePart]()
        names = [path for path in self._folder.rglob("*") if not path.name.startswith(".")]
        for path in sorted(names, key=lambda path: path.parent.name != CHECKPOINTS):
            name = path.relative_to(self._folder).as_posix()
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
                if not path.is_file():
                    continue
                file = stack.enter_context(path.open("rb"))
                status = os.fstat(file.fileno())
                old_size, old_time = self._known.get(name, (0, 0))
                offset = old_size if path.suffix == ".jsonl" and status.st_size >= old_size else 0
                if (status.st_size, status.st_mtime_ns) != (old_size, old_time):
                    file.seek(offset)
                    parts.append(FilePart(name, offset, file.read(status.st_size - offset)))
                found[name] = status.st_size, status.st_mtime_ns
        gone = [name for name in self._known if name not in found]
        self._known = found
        return parts, gone


def write_parts(folder: Path, parts: Sequence[FilePart], gone: Sequence[str]) -> None:
    """Bring a run's folder up to date; checkpoints come last, so that it can always be gone on with."""
    with output_errors(folder):
        for name, offset, content in sorted(parts, key=lambda one: one.name.startswith(f"{CHECKPOINTS}/")):
            path = folder / name
            make_private(path.parent)
            if offset:
                with path.open("r+b") as file:
                    file.truncate(offset)
                    file.seek(offset)
                    file.write(content)
            else:
                with replaced_file(path) as file:
                    file.write(content)
        for name in gone:
            (folder / name).unlink(missing_ok=True)


# ---------------------------------------------------------------- on a machine of the cluster


class RunHost:
    """An actor that does runs, one by one, each in a process of its own, and tells of them when it is asked."""

    def __init__(self, version: str, cwd: str, data: str) -> None:
        begin_worker(version)
        os.environ[FOLDER_VARIABLE] = data
        with contextlib.suppress(OSError):
            os.chdir(cwd)
        self._is_leaving, self._reading = False, Lock()
        self._forget()

    def _forget(self) -> None:
        self._has_trained = False
        self._step: Step | None = None
        self._notes: list[Note] = []
        self._reader: FolderReader | None = None  # while there is a folder that only this machine sees
        self._last: tuple[list[FilePart], list[str]] = [], []

    def look(self, mark: Path, inputs: Mapping[Input, str]) -> tuple[bool, list[Input], list[Input]]:
        """Return whether this machine sees a file of the caller's, and which inputs it has copies of, or lacks.

        Forgets the last run.
        """
        self._forget()
        others = [one for one, digest in inputs.items() if digest_of(one) != digest]
        copied = [one for one in others if copy_of(inputs[one]).is_dir()]
        return mark.is_file(), copied, [one for one in others if one not in copied]

    def run(
        self,
        job: RunJob,
        brought: bytes | None,
        begun: Files | None,
        beside: Beside | None,
        copied: Sequence[tuple[Input, str]],
        lacking: Sequence[tuple[Input, str]],
        *contents: Files,
    ) -> Finished | None:
        """Do a run, or what is left of it; None if it was stopped.

        ``brought``: as in :class:`RunJob`. ``begun``: what there is of the run, for a machine that does not see its
        folder. ``copied``: inputs that this machine has copies of, with their digests; ``lacking``, ``contents``: those
        that are not here, and what is in them.
        """
        for (_, digest), content in zip(lacking, contents, strict=True):
            copy_input(digest, content)
        copies = dict[str, str]()
        for one, digest in (*copied, *lacking):
            folder, name = copy_of(digest), Path(one.path).name
            is_file = not one.names and [path.name for path in folder.iterdir()] == [name] and (folder / name).is_file()
            copies[one.path] = str(folder / name if is_file else folder)
        os.environ[INPUTS_VARIABLE] = json.dumps(copies)
        job = replace(job, brought=brought)
        following = Following(on_step=self._note_step, on_note=self._notes.append, beside=beside)
        following = replace(following, is_stopped=lambda: self._is_leaving)
        with contextlib.ExitStack() as stack:
            if begun is not None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / job.folder.name
                write_parts(folder, [FilePart(name, 0, content) for name, content in begun.items()], ())
                job = replace(job, folder=folder)
                self._reader = FolderReader(folder)
            end_s = time.monotonic() + _LOCK_S
            while is_locked(job.folder) and time.monotonic() < end_s:  # by a process whose machine was lost
                time.sleep(TICK_S)
            finished = run_in_processes([job], n_jobs=1, following=following).get(job.name)
            with self._reading:
                if self._reader is not None:
                    self._last, self._reader = self._reader.read(), None  # later the folder is gone, not its files
            return finished

    def _note_step(self, step: Step) -> None:
        self._step, self._has_trained = step, self._has_trained or step.n_rounds > 0

    def hear(self) -> tuple[Step | None, list[Note]]:
        """Return how far the run is, and what users should know of it since the last time."""
        notes, self._notes = self._notes, []
        return self._step, notes

    def fetch(self, *, is_last: bool) -> tuple[list[FilePart], list[str]]:
        """Return what the run has written since the last time; once it has cut what an earlier start left over."""
        with self._reading:
            if is_last:
                return self._last
            return self._reader.read() if self._reader is not None and self._has_trained else ([], [])

    def leave(self) -> None:
        """End the run with the round in hand."""
        self._is_leaving = True


# ---------------------------------------------------------------- here


@dataclass(slots=True, kw_only=True, eq=False)
class _Hosted:
    """A run, the actor that does it, and what it was asked."""

    job: RunJob
    host: Any
    asks: tuple[int, int]  # for CPUs and GPUs
    n_losses: int = 0
    looked: Any = None  # the answers to come
    outcome: Any = None
    heard: Any = None
    heard_s: float = 0.0
    fetched: Any = None
    fetched_s: float = 0.0
    is_shared: bool = True
    n_rounds: int = 0
    lock: IO[bytes] | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Fleet:
    ray: Any
    following: Following
    mark: Path
    n_jobs: int | None
    may_share: bool
    waiting: deque[tuple[RunJob, int]]
    hosted: list[_Hosted] = field(default_factory=list)
    idle: list[tuple[Any, tuple[int, int]]] = field(default_factory=list)  # actors that wait for another run
    ended: dict[str, Finished] = field(default_factory=dict)
    digests: dict[Input, str] = field(default_factory=dict)
    put: dict[Any, Any] = field(default_factory=dict)  # what machines lacked, in Ray's store
    is_leaving: bool = False
    waiting_since_s: float = field(default_factory=time.monotonic)  # for a machine that a run could have

    def go(self) -> dict[str, Finished]:
        while self.waiting or self.hosted:
            if self.following.is_stopped() and not self.is_leaving:
                self._leave()
            self._begin_some()
            open_answers = [
                one for each in self.hosted for one in (each.looked, each.outcome, each.heard, each.fetched)
            ]
            answers = [one for one in open_answers if one is not None]
            self.ray.wait(answers, num_returns=1, timeout=TICK_S) if answers else time.sleep(TICK_S)
            for one in list(self.hosted):
                self._listen(one)
        return self.ended

    def _begin_some(self) -> None:
        while self.waiting:
            if self.n_jobs is not None and len(self.hosted) >= self.n_jobs:
                return
            job, n_losses = self.waiting[0]
            config = config_from(job.table)
            n_cpus, n_gpus = config.workers or 1, int(config.training.device.startswith("cuda"))
            n_places = capacity(self.ray, n_cpus, n_gpus)
            if not n_places and not self.hosted:  # a machine may be on its way
                if time.monotonic() - self.waiting_since_s < START_S:
                    return
                gpus = f" and {n_gpus} GPU" if n_gpus else ""
                raise LostClusterError(
                    f"{job.name} asks for {n_cpus} CPUs{gpus} (workers, training.device), but no machine of the Ray "
                    f"cluster has had them for {START_S:.0f} s; what was committed is kept"
                )
            self.waiting_since_s = time.monotonic()
            if len(self.hosted) >= n_places:
                return
            self.waiting.popleft()
            inputs = [] if job.brought is not None else inputs_of(config.trace, config.clock)
            self.digests |= {one: digest_of(one) for one in inputs if one not in self.digests}
            host = self._host(n_cpus, n_gpus)
            looked = host.look.remote(self.mark, {one: self.digests[one] for one in inputs})
            asks = n_cpus, n_gpus
            self.hosted.append(_Hosted(job=job, host=host, asks=asks, n_losses=n_losses, looked=looked))
            self.following.on_step(Step(name=job.name, phase="waiting for a machine"))

    def _host(self, n_cpus: int, n_gpus: int) -> Any:
        """Return an actor that has done its run and has as much as this one asks for, or a new one."""
        while self.idle:
            host, asks = self.idle.pop()
            if asks == (n_cpus, n_gpus):
                return host
            self.ray.kill(host)  # it would keep others from its CPUs
        own = str(Path.cwd()), str(data_folder())
        return start_worker(self.ray, RunHost, *own, n_cpus=n_cpus, n_gpus=n_gpus, n_calls=4)

    def _leave(self) -> None:
        """Ask all runs to end with the round in hand."""
        self.is_leaving = True
        self.waiting.clear()
        for one in list(self.hosted):
            if one.outcome is None:
                self._let_go(one)
            else:
                one.host.leave.remote()

    def _listen(self, one: _Hosted) -> None:
        """Take what a machine has answered, and ask anew."""
        try:
            if one.outcome is None:
                if self._is_here(one.looked):
                    self._send(one, *self.ray.get(one.looked))
                return
            if self._is_here(one.heard):
                self._tell(one, *self.ray.get(one.heard))
                one.heard = None
            if self._is_here(one.fetched):
                write_parts(one.job.folder, *self.ray.get(one.fetched))
                one.fetched = None
            if self._is_here(one.outcome):
                self._end(one, self.ray.get(one.outcome))
                return
            if one.heard is None and time.monotonic() - one.heard_s >= HEAR_S:
                one.heard, one.heard_s = one.host.hear.remote(), time.monotonic()
            if not one.is_shared and one.fetched is None and time.monotonic() - one.fetched_s >= FETCH_S:
                one.fetched, one.fetched_s = one.host.fetch.remote(is_last=False), time.monotonic()
        except self.ray.exceptions.RayTaskError as error:  # its machine has no room for the data, for example
            self._let_go(one)
            self._fail(one, error_words(error.cause))
        except (self.ray.exceptions.RayActorError, self.ray.exceptions.ObjectLostError) as error:
            if getattr(error, "actor_init_failed", False):  # another would fail alike
                raise InputError(f"a Ray worker cannot start: {last_line(error)}") from error
            self._lose(one, error)

    def _is_here(self, answer: Any) -> bool:
        return answer is not None and bool(self.ray.wait([answer], timeout=0)[0])

    def _send(self, one: _Hosted, sees_folder: bool, copied: Sequence[Input], lacking: Sequence[Input]) -> None:
        """Let a machine that has been found begin."""
        one.is_shared = sees_folder and self.may_share
        begun: Files | None = None
        if not one.is_shared:
            one.lock = lock_folder(one.job.folder)  # the run is written here as well
            begun = {part.name: part.content for part in FolderReader(one.job.folder).read()[0]}
        for each in lacking:
            if each not in self.put:
                self.put[each] = self.ray.put({name: path.read_bytes() for name, path in files_of(each)})
        if one.job.brought not in self.put:  # the same for all runs
            self.put[one.job.brought] = self.ray.put(one.job.brought)
        one.looked = None
        one.outcome = one.host.run.remote(
            replace(one.job, brought=None),
            self.put[one.job.brought],
            begun,
            self.following.beside,
            [(each, self.digests[each]) for each in copied],
            [(each, self.digests[each]) for each in lacking],
            *(self.put[each] for each in lacking),
        )
        one.fetched_s = time.monotonic()

    def _tell(self, one: _Hosted, step: Step | None, notes: Sequence[Note]) -> None:
        for note in notes:
            self.following.on_note(note)
        if step is not None:
            one.n_losses = one.n_losses if step.n_rounds <= one.n_rounds else 0
            one.n_rounds = max(one.n_rounds, step.n_rounds)
            self.following.on_step(step)

    def _end(self, one: _Hosted, finished: Finished | None) -> None:
        self._tell(one, *self.ray.get(one.host.hear.remote()))
        if not one.is_shared:  # what was asked for before is older
            for answer in (one.fetched, one.host.fetch.remote(is_last=True)):
                if answer is not None:
                    write_parts(one.job.folder, *self.ray.get(answer))
        self._part(one)
        self.idle.append((one.host, one.asks))
        if not self.waiting:
            self._let_idle_go()  # others may want their CPUs
        if finished is not None:
            self.ended[one.job.name] = finished
            self.following.on_done(finished)

    def _lose(self, one: _Hosted, error: Exception) -> None:
        """Let a run whose machine is gone go on elsewhere, from what is committed."""
        self._let_go(one)
        self.waiting_since_s = time.monotonic()
        self._let_idle_go()  # they may have been on the same machine
        if self.is_leaving:
            return
        n_losses = one.n_losses + 1
        if n_losses < MOST_LOSSES:
            self.following.on_note(Note(name=one.job.name, text="its machine was lost; it goes on on another"))
            self.waiting.appendleft((one.job, n_losses))
            return
        self._fail(one, f"{MOST_LOSSES} machines were lost one after the other; the last: {type(error).__name__}")

    def _fail(self, one: _Hosted, error: str) -> None:
        self.ended[one.job.name] = finished = Finished(name=one.job.name, summary=None, error=error)
        self.following.on_done(finished)

    def _let_go(self, one: _Hosted) -> None:
        self._part(one)
        self.ray.kill(one.host)

    def _let_idle_go(self) -> None:
        for host, _ in self.idle:
            self.ray.kill(host)
        self.idle.clear()

    def _part(self, one: _Hosted) -> None:
        self.hosted.remove(one)
        if one.lock is not None:
            one.lock.close()

    def close(self) -> None:
        """Let all machines go, whatever they are at; what their runs committed is kept."""
        for one in list(self.hosted):
            self._let_go(one)
        self._let_idle_go()


def run_on_ray(
    jobs: Iterable[RunJob],
    folder: Path,
    *,
    on: str,
    n_jobs: int | None,
    following: Following,
    may_share: bool = True,
) -> dict[str, Finished]:
    """Do some runs of a comparison, or what is left of them, each on a machine of a Ray cluster.

    Parameters
    ----------
    folder
        Of the comparison: those of the runs are in it.
    n_jobs
        How many at a time; None: as many as the cluster has CPUs and GPUs for.
    may_share
        Whether a machine that sees the folder writes into it itself.

    Returns
    -------
    What became of each run that ended, as :func:`~fielding.comparing.sweep.run_in_processes` does.
    """
    waiting = deque((replace(one, folder=one.folder.absolute()), 0) for one in jobs)
    if not waiting:
        return {}
    with ray_cluster(on) as ray, tempfile.NamedTemporaryFile(dir=folder.absolute(), prefix=LOCK) as mark:
        fleet = _Fleet(
            ray=ray,
            following=following,
            mark=Path(mark.name),
            n_jobs=n_jobs,
            may_share=may_share,
            waiting=waiting,
        )
        try:
            return fleet.go()
        finally:
            fleet.close()
