"""Checkpoints of a coordinator that survive a crash."""

from pathlib import Path

from fielding._typing import Json
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.snapshot import Snapshot, restore_coordinator, snapshot
from fielding.errors import CheckpointError
from fielding.records.container import Contents, read_contents, write_contents


def save_coordinator(coordinator: Coordinator, path: str | Path, progress: dict[str, Json] | None = None) -> None:
    """Write a checkpoint; after a crash at any moment, either the old file or the new one is there, whole.

    ``progress`` is whatever the driver wants to find again beside the coordinator: JSON values only.
    """
    state = snapshot(coordinator)
    write_contents(Contents(values=state.values, arrays=state.arrays, progress=progress or {}), Path(path))


def load_coordinator(path: str | Path) -> Coordinator:
    """Read a checkpoint and return a coordinator that decides exactly as the one that wrote it."""
    return load_checkpoint(path)[0]


def load_checkpoint(path: str | Path) -> tuple[Coordinator, dict[str, Json]]:
    """Read a checkpoint: the coordinator, and the progress that was saved beside it.

    A file that is damaged, cut short, of another kind or of a newer version raises
    :class:`~fielding.errors.CheckpointError`; nothing of it is used.
    """
    contents = read_contents(Path(path))
    if contents.kind != "coordinator":
        raise CheckpointError(f"{path} is a checkpoint of a {contents.kind}, not of a coordinator")
    return restore_coordinator(Snapshot(values=dict(contents.values), arrays=contents.arrays)), dict(contents.progress)
