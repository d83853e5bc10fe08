"""What `fielding replay` leaves behind: decisions, events, memberships and a checkpoint to go on from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fielding._typing import Json, Membership
from fielding.atomic import output_errors, replaced_file
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.decision import Decision
from fielding.errors import InputError
from fielding.records.checkpoint import load_checkpoint, save_coordinator
from fielding.records.lock import lock_folder
from fielding.records.logs import Logs, changes, write_membership_table
from fielding.records.manifest import check_manifest, write_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """What happened at one step, in numbers.

    The distances are None where they do not exist: no shift at the start, no mean distance while every cluster is a
    singleton. ``is_sampled`` says that the mean distances were estimated from a sample of the clients.
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
    is_sampled: bool
    cluster_sizes: dict[int, int] = field(default_factory=dict)
    silhouettes: dict[int, float] = field(default_factory=dict)


CHECKPOINT = "coordinator.ckpt"
MANIFEST = "manifest.json"
LOGS = ("decisions.jsonl", "events.jsonl", "memberships.jsonl")
RESULTS = ("membership.npz", "summary.json", "report.html")


class ReplayFolder:
    """A folder that a replay writes into, step by step, and from which a stopped replay goes on.

    The manifest is written first and says whose folder it is. The checkpoint is what counts: it knows how long the logs
    were, so that whatever a crash left beyond it is cut off on resume. One process at a time.

    ``manifest``: what the results depend on; a resume with another one is refused. The key ``source`` is for people
    only.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Json]) -> None:
        self.path = path
        self._manifest = dict(manifest)
        self._last: Membership | None = None
        self._lock = lock_folder(path)
        self._logs = Logs(path, LOGS)

    def close(self) -> None:
        """Let other processes in."""
        self._logs.close()
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
        write_json(self.path / MANIFEST, self._manifest)
        self._logs.begin()

    def resume(self) -> tuple[Coordinator | None, int | None]:
        """Return the coordinator and the last committed step, cut off what came after it; None if there was none."""
        check_manifest(self.path / MANIFEST, self._manifest, what="replay", ignored=("source",))
        with output_errors(self.path):
            for scratch in self.path.glob(".*.tmp"):
                scratch.unlink(missing_ok=True)
            if not (self.path / CHECKPOINT).exists():
                self._logs.begin()
                return None, None
            coordinator, progress = load_checkpoint(self.path / CHECKPOINT)
            self._logs.cut(progress)
        self._last = coordinator.cluster_ids()
        last_step = progress.get("last_step")
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
            self._logs.append(name, record)
        self._last = now

    def commit(self, coordinator: Coordinator, last_step: int | None) -> None:
        """Make everything so far survive a crash."""
        save_coordinator(coordinator, self.path / CHECKPOINT, {"last_step": last_step, **self._logs.sizes()})

    def write_memberships(self, coordinator: Coordinator) -> None:
        """Write ``membership.npz``: every client at every step so far."""
        with replaced_file(self.path / RESULTS[0]) as file:
            write_membership_table(file, self.lines(LOGS[2]), coordinator.registry.client_ids)

    def write_summary(self, summary: Mapping[str, Json]) -> None:
        """Write ``summary.json``, which says that the replay is complete."""
        write_json(self.path / RESULTS[1], summary)

    def write_page(self, html: str) -> None:
        """Write ``report.html``."""
        with replaced_file(self.path / RESULTS[2]) as file:
            file.write(html.encode(errors="replace"))

    def lines(self, name: str) -> list[dict[str, Json]]:
        """Return the lines of one of the logs."""
        return list(self._logs.lines(name))
