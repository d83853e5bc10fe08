"""What `fielding replay` leaves behind: decisions, events, memberships and a checkpoint to go on from."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from fielding._typing import Json, Membership
from fielding.atomic import replaced_file
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.errors import CheckpointError, InputError, OutputError, echo
from fielding.records.checkpoint import load_checkpoint, save_coordinator
from fielding.records.lock import locked_folder
from fielding.records.membership_log import changes, write_membership_table
from fielding.records.replay_row import ReplayRow

CHECKPOINT = "coordinator.ckpt"
MANIFEST = "manifest.json"
LOGS = ("decisions.jsonl", "events.jsonl", "memberships.jsonl")
RESULTS = ("membership.npz", "summary.json", "report.html")


class ReplayFolder:
    """A folder that a replay writes into, step by step, and from which a stopped replay goes on.

    The manifest is written first and says whose folder it is. The checkpoint is what counts: it knows how long the logs
    were, so that whatever a crash left beyond it is cut off on resume. One process at a time.

    Parameters
    ----------
    path
        The folder; it is made if need be.
    manifest
        What the results depend on; a resume with another one is refused. The key ``source`` is for people only.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Json]) -> None:
        self.path = path
        self._manifest = dict(manifest)
        self._last: Membership | None = None
        self._n_steps = 0
        self._lock = locked_folder(path)

    def close(self) -> None:
        """Let other processes in."""
        self._lock.close()

    def is_begun(self) -> bool:
        """Return whether there is a replay in this folder, complete or not."""
        return (self.path / MANIFEST).exists()

    def begin(self) -> None:
        """Start a new replay; refuse to write over an older one or over files that are none of ours."""
        if self.is_begun():
            raise InputError(f"{self.path} holds a replay already; continue it with --resume or name another folder")
        foreign = [name for name in (*LOGS, *RESULTS, CHECKPOINT) if (self.path / name).exists()]
        if foreign:
            raise InputError(f"{self.path} holds a {foreign[0]} that no replay wrote; name another folder")
        self._write_json(MANIFEST, self._manifest)
        self._empty_logs()

    def resume(self) -> tuple[Coordinator | None, int | None]:
        """Return the coordinator and the last committed step, cut off what came after it; None if there was none."""
        self._check_manifest()
        for scratch in self.path.glob(".*.tmp"):
            scratch.unlink(missing_ok=True)
        if not (self.path / CHECKPOINT).exists():
            self._empty_logs()
            return None, None
        coordinator, progress = load_checkpoint(self.path / CHECKPOINT)
        for name in LOGS:
            self._cut(name, progress.get(name))
        self._last = coordinator.cluster_ids()
        n_steps, last_step = progress.get("n_steps"), progress.get("last_step")
        self._n_steps = n_steps if isinstance(n_steps, int) else 0
        return coordinator, last_step if isinstance(last_step, int) else None

    def append(self, row: ReplayRow, decision: Decision, coordinator: Coordinator) -> None:
        """Write down one step."""
        now = coordinator.cluster_ids()
        who = {name: list(getattr(decision, name)) for name in ("reported", "moved", "joined", "silenced")}
        records: tuple[dict[str, object], ...] = (
            asdict(row),
            {"step": decision.step, **who},
            {"step": decision.step, "changed": changes(self._last, now, coordinator.registry.client_ids)},
        )
        for name, record in zip(LOGS, records, strict=True):
            self._append_line(name, json.dumps(record, allow_nan=False))
        self._last, self._n_steps = now, self._n_steps + 1

    def commit(self, coordinator: Coordinator, last_step: int | None) -> None:
        """Make everything so far survive a crash."""
        progress: dict[str, Json] = {"n_steps": self._n_steps, "last_step": last_step}
        for name in LOGS:
            progress[name] = _synced_size(self.path / name)
        save_coordinator(coordinator, self.path / CHECKPOINT, progress)

    def write_memberships(self, coordinator: Coordinator) -> None:
        """Write ``membership.npz``: every client at every step so far."""
        with replaced_file(self.path / RESULTS[0]) as file:
            write_membership_table(file, self.lines(LOGS[2]), coordinator.registry.client_ids)

    def write_summary(self, summary: Mapping[str, Json]) -> None:
        """Write ``summary.json``, which says that the replay is complete."""
        self._write_json(RESULTS[1], summary)

    def write_page(self, html: str) -> None:
        """Write ``report.html``."""
        with replaced_file(self.path / RESULTS[2]) as file:
            file.write(html.encode(errors="replace"))

    def lines(self, name: str) -> list[dict[str, Json]]:
        """Return the lines of one of the logs."""
        with (self.path / name).open(encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def _check_manifest(self) -> None:
        """Raise if the replay in the folder is not the one that is to go on."""
        try:
            stored = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path / MANIFEST} cannot be read ({error}); name another folder") from error
        if not isinstance(stored, dict) or stored.keys() != self._manifest.keys():
            raise InputError(f"{self.path / MANIFEST} is not of a replay; name another folder")
        for key in self._manifest.keys() - {"source"}:
            differing = difference(stored[key], self._manifest[key], key)
            if differing:
                raise InputError(f"cannot resume {self.path}: {differing}")

    def _cut(self, name: str, size: Json) -> None:
        """Cut a log off where the checkpoint saw its end."""
        log = self.path / name
        if not isinstance(size, int) or not log.exists() or log.stat().st_size < size:
            raise CheckpointError(f"{log} is shorter than its checkpoint says; begin anew in another folder")
        os.truncate(log, size)

    def _empty_logs(self) -> None:
        for name in LOGS:
            with replaced_file(self.path / name):
                pass

    def _append_line(self, name: str, line: str) -> None:
        try:
            with (self.path / name).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise OutputError(f"cannot write {self.path / name}: {error.strerror or error}") from error

    def _write_json(self, name: str, record: Mapping[str, Json]) -> None:
        with replaced_file(self.path / name) as file:
            file.write(f"{json.dumps(record, indent=2, allow_nan=False)}\n".encode())


def difference(stored: Json, now: Json, name: str) -> str:
    """Return the first setting that differs, in words; nothing if all are equal.

    Examples
    --------
    >>> difference({"seed": 1, "metric": "l1"}, {"seed": 1, "metric": "js"}, "policy")
    "policy.metric was 'l1', now it is 'js'"
    """
    if isinstance(stored, dict) and isinstance(now, dict) and stored.keys() == now.keys():
        found: Sequence[str] = [difference(stored[key], now[key], f"{name}.{key}") for key in stored]
        return next(filter(None, found), "")
    return "" if stored == now else f"{name} was {echo(stored)}, now it is {echo(now)}"


def remove_replay(path: Path, *, source: str) -> None:
    """Remove an earlier replay of the same source from a folder; anything else in it stays."""
    try:
        earlier = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(earlier, dict) and earlier.get("source") == source:
        for name in (*LOGS, *RESULTS, CHECKPOINT, MANIFEST):
            (path / name).unlink(missing_ok=True)


def _synced_size(path: Path) -> int:
    """Return the size of a file after everything in it reached the disk."""
    try:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
