"""What a page needs to know of a run, from its folder alone."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fielding._typing import ClientId, Json, Vector
from fielding.errors import CheckpointError, InputError
from fielding.federation.ledger import Ledger
from fielding.records.logs import read_lines
from fielding.records.run_checkpoint import LEDGER, load_run
from fielding.records.run_folder import CLIENTS, EVENTS, MANIFEST, MEMBERSHIPS, ROUNDS, newest_checkpoint
from fielding.reporting.run_summary import n_joined

Row: TypeAlias = Mapping[str, Json]
Sizes: TypeAlias = tuple[int, dict[int, int]]
"""A round, and how many clients each cluster has from then on."""

EVENT_KEYS = ("round", "shift", "threshold", "fired", "mean_client_distance")
"""What is kept of an event: the ids in it would fill the memory."""
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecord:
    """A run as its logs tell it.

    Parameters
    ----------
    manifest
        The content of ``manifest.json``.
    rounds
        The lines of ``rounds.jsonl``.
    events
        The lines of ``events.jsonl``, without ids; ``n_joined`` tells how many clients joined.
    sizes
        The sizes of all clusters after each change of ``memberships.jsonl``.
    clients
        The last line of ``clients.jsonl``; None if nobody was ever tested.
    costs
        Totals of the ledger by kind of use; None if there is no checkpoint to take them from.
    """

    manifest: Row
    rounds: Sequence[Row]
    events: Sequence[Row]
    sizes: Sequence[Sizes]
    clients: Row | None
    costs: Row | None

    @property
    def config(self) -> Row:
        """The resolved config, by section."""
        config = self.manifest.get("config")
        return config if isinstance(config, dict) else {}

    def setting(self, section: str, name: str) -> Json:
        """Return a value of the config, None if it is not set."""
        values = self.config.get(section)
        return values.get(name) if isinstance(values, dict) else None

    @property
    def arrivals(self) -> list[float]:
        """The rounds after the first in which samples arrived."""
        gap, window = self.setting("trace", "gap"), self.setting("trace", "window")
        if not isinstance(gap, int) or not isinstance(window, int) or gap < 1:
            return []
        return [float(at) for at in range(1, len(self.rounds)) if (window + at) % gap == 0]

    @property
    def is_clustered(self) -> bool:
        """Whether clients were grouped at all."""
        return bool(self.events) or any(row.get("n_clusters") != 1 for row in self.rounds)


def read_run(folder: Path) -> RunRecord:
    """Read the folder of a run.

    Raises
    ------
    InputError
        If a file is missing or damaged.
    """
    return RunRecord(
        manifest=read_manifest(folder),
        rounds=list(read_lines(folder / ROUNDS)),
        events=[
            {**{name: event.get(name) for name in EVENT_KEYS}, "n_joined": n_joined(event)}
            for event in read_lines(folder / EVENTS)
        ],
        sizes=list(cluster_sizes(folder)),
        clients=last_line(folder / CLIENTS),
        costs=_ledger_totals(folder),
    )


def column(rows: Sequence[Row], name: str) -> Vector:
    """Return a figure of each line, NaN where there is none.

    Examples
    --------
    >>> column([{"ari": 0.5}, {"ari": None}, {}], "ari").tolist()
    [0.5, nan, nan]
    """
    values = [row.get(name) for row in rows]
    return np.array([float(value) if isinstance(value, (int, float)) else np.nan for value in values], dtype=np.float64)


def client_accuracy(line: Row) -> Vector:
    """Return the accuracy of each client of a line of ``clients.jsonl``.

    Examples
    --------
    >>> client_accuracy({"n_test": [4, 2], "correct": [1, 2]}).tolist()
    [0.25, 1.0]
    """
    n_test, correct = (np.array(line[name], dtype=np.float64) for name in ("n_test", "correct"))
    return np.asarray(np.divide(correct, n_test, out=np.full(n_test.shape, np.nan), where=n_test > 0))


def membership_changes(folder: Path) -> Iterator[tuple[int, list[tuple[ClientId, int]]]]:
    """Yield the rounds in which clients changed their cluster, and who is in which from then on."""
    for line in read_lines(folder / MEMBERSHIPS):
        changed = line.get("changed")
        pairs = [pair for pair in changed if isinstance(pair, list)] if isinstance(changed, list) else []
        moves: list[tuple[ClientId, int]] = [
            (client if isinstance(client, int) else str(client), int(str(cluster))) for client, cluster in pairs
        ]
        yield int(str(line["round"])), moves


def cluster_sizes(folder: Path) -> Iterator[Sizes]:
    """Yield the sizes of all clusters after each change; clients that are in none are not counted."""
    sizes: dict[int, int] = {}
    where: dict[ClientId, int] = {}
    for at, changed in membership_changes(folder):
        for client, cluster in changed:
            if client in where:
                sizes[where[client]] -= 1
            where[client] = cluster
            sizes[cluster] = sizes.get(cluster, 0) + 1
        yield at, {cluster: size for cluster, size in sizes.items() if size and cluster >= 0}


def last_line(path: Path) -> Row | None:
    """Return the last whole line of a log without reading the others, of which there may be gigabytes."""
    try:
        with path.open("rb") as file:
            tail, position = b"", file.seek(0, 2)
            while position and tail[: tail.rfind(b"\n") + 1].count(b"\n") < 2:
                step = min(max(_BLOCK, len(tail)), position)
                position = file.seek(position - step)
                tail = file.read(step) + tail
        lines = tail[: tail.rfind(b"\n") + 1].splitlines()
        line = json.loads(lines[-1]) if lines else None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return line if isinstance(line, dict) else None


def read_manifest(folder: Path) -> Row:
    """Return what a run depends on: versions, seed, config, trainer."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the folder of a run: cannot read {MANIFEST}: {error}") from error
    return manifest if isinstance(manifest, dict) else {}


def _ledger_totals(folder: Path) -> Row | None:
    """Return what was charged by kind of use; the logs hold only the sums over all kinds."""
    try:
        arrays = load_run(newest_checkpoint(folder)).arrays
        parts = {name.removeprefix(LEDGER): array for name, array in arrays.items() if name.startswith(LEDGER)}
        return Ledger.restored(parts).totals()
    except (InputError, CheckpointError):
        return None
