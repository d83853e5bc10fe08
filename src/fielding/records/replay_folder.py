"""What `fielding replay` leaves behind: decisions, events, memberships and a checkpoint to go on from."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from fielding._typing import ClientId, Membership
from fielding.atomic import replaced_file
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.coordinator.policy import Json
from fielding.coordinator.registry import UNASSIGNED
from fielding.errors import InputError, OutputError
from fielding.records.checkpoint import load_checkpoint, save_coordinator

CHECKPOINT = "coordinator.ckpt"
MANIFEST = "manifest.json"
_LOGS = ("decisions.jsonl", "events.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """One line of ``decisions.jsonl``: what happened at one step, in numbers.

    The distances are None where they do not exist: no shift at the start, no mean distance while every cluster is a
    singleton.
    """

    step: int
    n_reports: int
    n_moved: int
    shift: float | None
    theta: float | None
    reclustered: bool
    n_clusters: int
    mean_client_distance: float | None
    mean_distance_unclustered: float | None
    threshold: float | None
    started: bool
    n_joined: int
    n_silenced: int
    n_clients: int
    n_active: int
    n_dormant: int
    n_singletons: int
    cluster_sizes: dict[int, int] = field(default_factory=dict)
    silhouettes: dict[int, float] = field(default_factory=dict)


class ReplayFolder:
    """A folder that a replay writes into, step by step, and from which a stopped replay goes on.

    The checkpoint is what counts: it is written last and knows how long the logs were, so that whatever a crash left
    beyond it is cut off on resume.
    """

    def __init__(self, path: Path, manifest: dict[str, Json]) -> None:
        self.path = path
        self._manifest = manifest
        self._memberships: list[Membership] = []
        self._steps: list[int] = []

    @property
    def checkpoint(self) -> Path:
        """The file that holds the coordinator after the last committed step."""
        return self.path / CHECKPOINT

    def begin(self) -> None:
        """Start a new replay; refuse to write over an older one."""
        if self.is_begun():
            raise InputError(f"{self.path} holds a replay already; continue it with --resume or name another folder")
        self._empty_logs()
        self._write_json(MANIFEST, self._manifest)

    def is_begun(self) -> bool:
        """Return whether there is a replay in this folder, complete or not."""
        return (self.path / MANIFEST).exists()

    def resume(self) -> tuple[Coordinator | None, int | None]:
        """Return the coordinator and the last committed step, cut off what came after it; None if there was none."""
        stored = self._read_manifest()
        for key, value in self._manifest.items():
            if stored.get(key) != value:
                raise InputError(
                    f"cannot resume {self.path}: {key} was {json.dumps(stored.get(key))}, now it is {json.dumps(value)}"
                )
        if not self.checkpoint.exists():
            self._empty_logs()
            return None, None
        coordinator, progress = load_checkpoint(self.checkpoint)
        for name in _LOGS:
            os.truncate(self.path / name, int(str(progress[name])))
        self._load_memberships(int(str(progress["n_steps"])))
        return coordinator, self._steps[-1] if self._steps else None

    def append(self, row: ReplayRow, decision: Decision, memberships: Membership) -> None:
        """Write down one step."""
        self._steps.append(row.step)
        self._memberships.append(memberships)
        event = {
            "step": decision.step,
            "reported": list(decision.reported),
            "moved": list(decision.moved),
            "joined": list(decision.joined),
            "silenced": list(decision.silenced),
        }
        for name, record in zip(_LOGS, (asdict(row), event), strict=True):
            self._append_line(name, json.dumps(record))

    def commit(self, coordinator: Coordinator) -> None:
        """Make everything so far survive a crash."""
        self._write_memberships(coordinator.registry.client_ids)
        progress: dict[str, Json] = {"n_steps": len(self._steps)}
        for name in _LOGS:
            progress[name] = _synced_size(self.path / name)
        save_coordinator(coordinator, self.checkpoint, progress)

    def finish(self, coordinator: Coordinator, summary: dict[str, Json]) -> None:
        """Commit the last step and write the summary, which says that the replay is complete."""
        self.commit(coordinator)
        self._write_json("summary.json", summary)

    def rows(self) -> list[dict[str, Json]]:
        """Return the lines of ``decisions.jsonl``."""
        with (self.path / _LOGS[0]).open(encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def membership_table(self, n_clients: int) -> Membership:
        """Return the cluster of every client at every step, -1 before its first data: ``(n_steps, n_clients)``."""
        table = np.full((len(self._steps), n_clients), UNASSIGNED, dtype=np.int32)
        for at, memberships in enumerate(self._memberships):
            table[at, : memberships.size] = memberships
        return table

    def write_page(self, html: str) -> None:
        """Write ``report.html``."""
        with replaced_file(self.path / "report.html") as file:
            file.write(html.encode())

    def _empty_logs(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in _LOGS:
                (self.path / name).write_bytes(b"")
        except OSError as error:
            raise OutputError(f"cannot write into {self.path}: {error.strerror or error}") from error

    def _append_line(self, name: str, line: str) -> None:
        try:
            with (self.path / name).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise OutputError(f"cannot write {self.path / name}: {error.strerror or error}") from error

    def _write_json(self, name: str, record: dict[str, Json]) -> None:
        with replaced_file(self.path / name) as file:
            file.write(f"{json.dumps(record, indent=2)}\n".encode())

    def _read_manifest(self) -> dict[str, Json]:
        try:
            stored = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path} holds no replay to resume ({error}); start without --resume") from error
        return dict(stored)

    def _write_memberships(self, client_ids: Sequence[ClientId]) -> None:
        table = self.membership_table(len(client_ids))
        clients = np.array(client_ids) if client_ids else np.zeros(0, dtype=np.int64)
        with replaced_file(self.path / "membership.npz") as file:
            np.savez_compressed(
                file,
                step=np.repeat(np.array(self._steps, dtype=np.int64), clients.size),
                client=np.tile(clients, len(self._steps)),
                cluster=table.ravel(),
            )

    def _load_memberships(self, n_steps: int) -> None:
        with np.load(self.path / "membership.npz", allow_pickle=False) as stored:
            steps, clusters = stored["step"], stored["cluster"]
        distinct = np.unique(steps)[:n_steps]
        n_clients = clusters.size // max(1, np.unique(steps).size)
        self._steps = [int(step) for step in distinct]
        self._memberships = list(clusters.reshape(-1, n_clients)[:n_steps]) if n_steps else []


def remove_replay(path: Path, *, source: str) -> None:
    """Remove an earlier replay of the same source from a folder; anything else in it stays."""
    try:
        earlier = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if isinstance(earlier, dict) and earlier.get("source") == source:
        for name in (*_LOGS, CHECKPOINT, MANIFEST, "membership.npz", "summary.json", "report.html"):
            (path / name).unlink(missing_ok=True)


def _synced_size(path: Path) -> int:
    """Return the size of a file after everything in it reached the disk."""
    try:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
