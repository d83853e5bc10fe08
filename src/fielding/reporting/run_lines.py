"""Lines of the logs of a run, checked and made short: what pages, tables and figures read them as."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fielding._typing import ClientId, Json, Vector
from fielding.errors import InputError
from fielding.reporting.log_reader import Row

Changes: TypeAlias = tuple[int, list[tuple[ClientId, int]]]
"""A round, and clients with the cluster (or true concept) that they have from then on."""

SHOWN_IDS = 8
"""Ids of an event that are kept as examples: all of them would fill the memory."""
_WHO = ("reported", "moved", "joined", "silenced")


def column(rows: Sequence[Row], name: str) -> Vector:
    """Return a figure of each line, NaN where there is none.

    Examples
    --------
    >>> column([{"ari": 0.5}, {"ari": None}, {}], "ari").tolist()
    [0.5, nan, nan]
    """
    values = [row.get(name) for row in rows]
    return np.array([float(value) if isinstance(value, (int, float)) else np.nan for value in values], dtype=np.float64)


def last_line(path: Path, block: int = 1 << 16) -> Row | None:
    """Return the last whole line of a log, read from its end; None if there is none.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            position, tail = file.seek(0, 2), b""
            while position and tail[: tail.rfind(b"\n") + 1].count(b"\n") < 2:
                step = min(max(block, len(tail)), position)
                position = file.seek(position - step)
                tail = file.read(step) + tail
        lines = tail[: tail.rfind(b"\n") + 1].splitlines()
        line = json.loads(lines[-1]) if lines else None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return line if isinstance(line, dict) else None


def sizes_over_time(changes: Sequence[Changes]) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield the sizes of all clusters after each change; clients that are in none are not counted.

    Examples
    --------
    >>> list(sizes_over_time([(0, [("ann", 0), ("bob", 0)]), (4, [("bob", 1)])]))
    [(0, {0: 2}), (4, {0: 1, 1: 1})]
    """
    sizes: dict[int, int] = {}
    where: dict[ClientId, int] = {}
    for at, changed in changes:
        for client, cluster in changed:
            if client in where:
                sizes[where[client]] -= 1
            where[client] = cluster
            sizes[cluster] = sizes.get(cluster, 0) + 1
        yield at, {cluster: size for cluster, size in sizes.items() if size and cluster >= 0}


def round_line(line: Row) -> Row:
    """Return a line of ``rounds.jsonl``; raise if it is none."""
    _whole(line["round"]), _number(line["time_s"])
    return any_line(line)


def any_line(line: Row) -> Row:
    """Return a line; raise if it holds a number that no run writes."""
    if usable(dict(line)) != line:
        raise ValueError
    return line


def event_line(line: Row) -> Row:
    """Return a line of ``events.jsonl`` with numbers of clients instead of their ids."""
    _whole(line["round"])
    kept = any_line({name: value for name, value in line.items() if name not in _WHO and name != "cluster_ids"})
    who = {name: value if isinstance(value := line.get(name), list) else [] for name in _WHO}
    counts: dict[str, Json] = {f"n_{name}": len(ids) for name, ids in who.items()}
    return {"shift": None, "threshold": None, "fired": False, **kept, **counts, "who_moved": who["moved"][:SHOWN_IDS]}


def changes_line(line: Row) -> Changes:
    """Return a line of ``memberships.jsonl`` or ``concepts.jsonl``."""
    changed = line["changed"]
    moves: list[tuple[ClientId, int]] = []
    for pair in changed if isinstance(changed, list) else []:
        if not isinstance(pair, list):
            raise TypeError
        client, cluster = pair
        moves.append((client if isinstance(client, int) else str(client), _whole(cluster)))
    return _whole(line["round"]), moves


def usable(value: Json) -> Json:
    """Return a value without numbers that no run writes and no figure can show, which become None.

    Examples
    --------
    >>> usable({"shift": float("inf"), "threshold": 0.5, "n_clusters": 10**400})
    {'shift': None, 'threshold': 0.5, 'n_clusters': None}
    """
    if isinstance(value, dict):
        return {name: usable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [usable(one) for one in value]
    return None if isinstance(value, (int, float)) and not abs(value) < _LARGEST else value


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    if abs(value) >= _LARGEST:
        raise ValueError
    return value


def _number(value: Json) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError
    if not abs(value) < _LARGEST:
        raise ValueError
    return float(value)


_LARGEST = 1e18
"""Larger numbers are damage."""
