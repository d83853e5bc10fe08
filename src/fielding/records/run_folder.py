"""What `fielding run` leaves behind: config, manifest, logs, reports, the last two checkpoints, results."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from fielding._typing import Json
from fielding.atomic import check_no_pipe, output_errors, replaced_file
from fielding.client.privacy.ledger import LEDGER
from fielding.client.report import ReportBatch
from fielding.distance import Kind
from fielding.errors import CheckpointError, DamagedCheckpointError, InputError
from fielding.records.changes import CHANGES, Change, change_settings, without_settings
from fielding.records.lock import NAME as LOCK
from fielding.records.lock import lock_folder
from fielding.records.logs import DIGESTS, Logs, read_lines
from fielding.records.manifest import check_manifest, file_digest, first_difference, read_json, write_json
from fielding.records.report_file import read_reports, write_reports
from fielding.records.run_checkpoint import RunCheckpoint, load_run, save_run
from fielding.traces.reports import ReportStream, gather_reports

CONFIG = "config.toml"
MANIFEST = "manifest.json"
ROUNDS, EVENTS, MEMBERSHIPS, CONCEPTS, CLIENTS, REPORT_FILES, TIMINGS = (
    "rounds.jsonl",
    "events.jsonl",
    "memberships.jsonl",
    "concepts.jsonl",
    "clients.jsonl",
    "reports.jsonl",
    "timings.jsonl",
)
LOGS = (ROUNDS, EVENTS, MEMBERSHIPS, CONCEPTS, CLIENTS, REPORT_FILES, TIMINGS)
LATER_LOGS = (CONCEPTS, REPORT_FILES)  # that runs of older versions have not
MAY_DIFFER = ("fielding", "machine", "classes", "input_shape", "inputs")
"""Keys of the manifest that a resume does not compare; the digest of the data covers classes, shape and inputs."""
BEGUN_WITH = ("fielding", "machine")  # of these the manifest tells what they were when the run began
SUMMARY, PAGE = "summary.json", "report.html"
CHECKPOINTS, REPORTS = "checkpoints", "reports"
_KEPT = 2


class RunFolder:
    """A folder that a run writes into, round by round, and from which a stopped run goes on. One process at a time.

    The manifest is written last of the first files and says whose folder it is. What is covered by a checkpoint is
    committed: it knows how long the logs were, so that whatever a crash left beyond it is cut off on resume.

    ``manifest``: what the results depend on; a resume with another one is refused, but for settings that may change.
    ``changes``: the changes of settings so far, once the run is resumed. ``notes``: what was wrong with the folder and
    did not keep the run from going on, in words.
    """

    def __init__(
        self, path: Path, manifest: Mapping[str, Json], *, kind: Kind = "histogram", lock: IO[bytes] | None = None
    ) -> None:
        self.path, self._manifest, self._kind = path, dict(manifest), kind
        self._lock = lock_folder(path) if lock is None else lock
        self.logs = Logs(path, LOGS)
        self.changes: list[Change] = []
        self.notes: list[str] = []

    def close(self) -> None:
        """Let other processes in."""
        try:
            self.logs.close()
        finally:
            self._lock.close()

    def is_begun(self) -> bool:
        """Return whether there is a run in this folder, complete or not."""
        return (self.path / MANIFEST).exists()

    def begin(self, config_text: str) -> None:
        """Start a new run; refuse to write over an older one or over files that are none of ours."""
        with output_errors(self.path):
            check_free(self.path, config_text)
            self._make_folders()
            self._sweep()
            with replaced_file(self.path / CONFIG) as file:
                file.write(config_text.encode())
            self.logs.begin()
            write_json(self.path / MANIFEST, self._manifest)

    def resume(self, config_text: str | None = None, *, compared: Sequence[str] = ()) -> RunCheckpoint | None:
        """Return the last committed round and cut off what came after it; None if there was none.

        Settings that are others now, of those that may be, are written down with the round from which they count: the
        manifest in one piece with the config, before any round is run by it. ``config_text`` becomes the new config
        file; None leaves it. ``compared``: keys of the manifest that the caller has compared.
        """
        with output_errors(self.path):
            # Older versions told there what a Python program brought along; config and digest of data tell it, too.
            ignored = MAY_DIFFER if "own" in self._manifest else (*MAY_DIFFER, "own")
            stored = check_manifest(
                self.path / MANIFEST, self._manifest, what="run", ignored=(*ignored, *compared), part=without_settings
            )
            self._check_no_pipes()
            found = self._newest()
            n_done = 0 if found is None else found.round_index + 1
            self.changes = change_settings(stored, self._manifest, n_done=n_done, folder=self.path)
            self._make_folders()
            self._sweep()
            if found is None:
                self.logs.begin()
            else:
                new = [name for name in LATER_LOGS if name not in found.progress]
                for name in new:  # an older version did not write this log: it is begun now, empty
                    self.logs.begin_one(name)
                self.logs.cut({**found.progress, **dict.fromkeys(new, 0)})
            last = -1 if found is None else found.round_index
            for later in _report_parts(self.path):
                if int(later.stem) > last:
                    later.unlink(missing_ok=True)
            # Checkpoints after the newest whole one are damaged: left there, they would count as one of the last two.
            for later in _numbered(self.path / CHECKPOINTS, ".ckpt"):
                if int(later.stem) > last:
                    aside = later.with_name(f"{later.name}.damaged")
                    later.replace(aside)
                    self.notes.append(f"{later} is damaged: going on after round {last}; it is kept as {aside.name}")
            for name in (SUMMARY, PAGE):
                (self.path / name).unlink(missing_ok=True)
            # The run itself does not need what clients reported before.
            if problem := damaged_reports(self.path):
                self.notes.append(f"{problem}; put back a copy before you replay the run")
            now = {name: value for name, value in self._manifest.items() if name not in BEGUN_WITH}
            told: dict[str, Json] = {CHANGES: [one.record() for one in self.changes]} if self.changes else {}
            manifest = {name: value for name, value in {**stored, **now}.items() if name != CHANGES} | told
            if manifest != stored:
                write_json(self.path / MANIFEST, manifest)
            if config_text is not None and not _holds(self.path / CONFIG, config_text):
                with replaced_file(self.path / CONFIG) as file:
                    file.write(config_text.encode())
            return found

    def write_reports(self, reports: ReportBatch, round_index: int) -> None:
        """Write the reports that acted in a round, in the format that `replay` reads."""
        part = gather_reports([(round_index, reports)], kind=self._kind)
        path = self.path / REPORTS / f"{round_index:08d}.npz"
        write_reports(part, path)
        self.logs.append(REPORT_FILES, {"round": round_index, DIGESTS: file_digest(path)})

    def commit(self, checkpoint: RunCheckpoint) -> None:
        """Make everything so far survive a crash, and let go of the checkpoint before the last."""
        folder = self.path / CHECKPOINTS
        save_run(replace(checkpoint, progress=self.logs.sizes()), folder / f"{checkpoint.round_index:08d}.ckpt")
        for old in _numbered(folder, ".ckpt")[:-_KEPT]:
            with contextlib.suppress(OSError):
                old.unlink()

    def write_summary(self, summary: Mapping[str, Json]) -> None:
        """Write ``summary.json``, which says that the run is complete."""
        write_json(self.path / SUMMARY, summary)

    def write_page(self, html: str) -> None:
        """Write ``report.html``."""
        with replaced_file(self.path / PAGE) as file:
            file.write(html.encode(errors="replace"))

    def _check_no_pipes(self) -> None:
        """Raise OSError if a file that a resumed run reads or writes is none, before anything is changed."""
        for path in (self.path / CONFIG, *(self.path / name for name in LOGS), *_report_parts(self.path)):
            if path.exists():
                check_no_pipe(path)

    def _make_folders(self) -> None:
        for name in (CHECKPOINTS, REPORTS):
            (self.path / name).mkdir(exist_ok=True)

    def _sweep(self) -> None:
        """Remove what a crash left half-written."""
        for scratch in (*self.path.glob(".*.tmp"), *self.path.glob("*/.*.tmp")):
            scratch.unlink(missing_ok=True)

    def _newest(self) -> RunCheckpoint | None:
        """Return the newest checkpoint that is whole; damaged ones are passed over, others that do not load raise.

        What cannot be read now may be good (too many open files, a newer version), and must not be lost.
        """
        problem: CheckpointError | None = None
        for path in reversed(_numbered(self.path / CHECKPOINTS, ".ckpt")):
            try:
                return load_run(path)
            except DamagedCheckpointError as error:
                problem = problem or error
            except CheckpointError as error:
                raise CheckpointError(f"{error}; nothing was changed") from error
        if problem is not None:
            raise problem
        return None


@contextlib.contextmanager
def claim_folder(path: Path) -> Iterator[IO[bytes]]:
    """Hold the lock of a folder; if no run was begun in it, leave it, or that there is none, as it was before."""
    new: list[Path] = []
    with contextlib.suppress(OSError):  # a name that no file can have: the lock tells
        new = [one for one in (path, *path.parents) if not one.exists()]
    lock = lock_folder(path)
    try:
        yield lock
    finally:
        if new and not (path / MANIFEST).exists():
            with contextlib.suppress(OSError):
                (path / LOCK).unlink()
                for folder in new:
                    folder.rmdir()
        lock.close()


def check_free(path: Path, config_text: str) -> None:
    """Raise if a folder holds a run already, or files that are none of ours."""
    if (path / MANIFEST).exists():
        raise InputError(f"{path} holds a run already; continue it with Start(resume=True) or name another folder")
    foreign = [name for name in (*LOGS, LEDGER, SUMMARY, PAGE, CHECKPOINTS, REPORTS) if _is_foreign(path / name)]
    if _is_foreign(path / CONFIG, own=config_text.encode()):
        foreign.append(CONFIG)
    if foreign:
        raise InputError(f"{path} holds a {foreign[0]} that no run wrote; name another folder")


def check_same_config(path: Path, table: Mapping[str, Json]) -> None:
    """Raise if a folder holds a run of another config; cheap, so it comes before data are read.

    ``table`` has all keys that results depend on.
    """
    stored = read_manifest(path).get("config")
    differing = first_difference(stored, dict(table), "config") if isinstance(stored, dict) else ""
    if differing:
        raise InputError(f"{path} holds another run ({differing.removeprefix('config.')}); name another folder")


def check_changes(path: Path, settings: Mapping[str, Json]) -> list[Change]:
    """Return the changes of a run if it went on with other settings, or raise; cheap, so it comes before data are read.

    ``settings``: the part of a manifest that tells them; with no run in the folder there is nothing to change.
    """
    stored = read_manifest(path)
    if not isinstance(stored.get("config"), dict):
        return []
    return change_settings(stored, settings, n_done=n_committed(path), folder=path)


def newest_checkpoint(folder: Path) -> Path:
    """Return the newest checkpoint of a run."""
    paths = _numbered(folder / CHECKPOINTS, ".ckpt")
    if not paths:
        raise InputError(f"{folder} holds no checkpoint; give the folder of a run, or a checkpoint")
    return paths[-1]


def read_manifest(folder: Path) -> dict[str, Json]:
    """Return the manifest of a run; nothing if there is none that can be read."""
    return read_json(folder / MANIFEST)


def read_run_reports(folder: Path, kind: Kind = "histogram") -> ReportStream:
    """Return all reports that clients sent in a run, for `replay`."""
    parts = _report_parts(folder)
    if not parts:
        raise InputError(f"{folder} holds no reports; give the folder of a run whose method listens to them")
    try:
        for part in parts:
            check_no_pipe(part)
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror or error}; put back a copy") from error
    if problem := damaged_reports(folder):
        raise InputError(f"{problem}; put back a copy")
    return gather_reports((pair for part in parts for pair in read_reports(part, kind)), kind=kind)


def damaged_reports(folder: Path) -> str:
    """Return which files in ``reports/`` are missing or not what the run wrote, in words; nothing if none is."""
    problems = []
    for row in read_lines(folder / REPORT_FILES) if (folder / REPORT_FILES).exists() else ():
        path = folder / REPORTS / f"{int(str(row['round'])):08d}.npz"
        if not path.exists():
            problems.append(f"{path} is missing")
        elif file_digest(path) != row[DIGESTS]:
            problems.append(f"{path} was changed: its checksum is not that in {REPORT_FILES}")
    return "".join(problems[:1]) + (f", and {len(problems) - 1} more" if problems[1:] else "")


def n_committed(folder: Path) -> int:
    """Return how many rounds of a run are committed, by the names of its checkpoints."""
    paths = _numbered(folder / CHECKPOINTS, ".ckpt")
    return int(paths[-1].stem) + 1 if paths else 0


def _holds(path: Path, text: str) -> bool:
    """Return whether a file has this text."""
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def _numbered(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder that are named by a round, rising."""
    return sorted((path for path in folder.glob(f"*{suffix}") if path.stem.isdecimal()), key=lambda one: int(one.stem))


def _report_parts(folder: Path) -> list[Path]:
    """Return the files of a run that hold its reports, rising by round."""
    return _numbered(folder / REPORTS, ".npz")


def _is_foreign(path: Path, own: bytes = b"") -> bool:
    """Return whether something is there that is not ours.

    Empty folders and files are nothing: a run that was killed while it began left them. So is what it wrote itself.
    """
    if path.is_dir():
        return any(path.iterdir())
    return path.exists() and path.stat().st_size > 0 and not (own and path.read_bytes() == own)
