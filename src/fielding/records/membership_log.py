"""Who is in which cluster, or has which concept, written down as changes, and as one table when it is asked for."""

from collections.abc import Mapping, Sequence
from typing import IO

import numpy as np

from fielding._typing import ClientId, Codes, Json, Membership
from fielding.coordinator.registry import UNASSIGNED


def changes(
    before: Membership | Codes | None, now: Membership | Codes, client_ids: Sequence[ClientId]
) -> list[list[ClientId]]:
    """Return ``[client, cluster]`` for every client that is new or changed its cluster; concepts are told likewise.

    Examples
    --------
    >>> changes(np.array([0, 1]), np.array([0, 2, 1]), ["a", "b", "c"])
    [['b', 2], ['c', 1]]
    """
    old = np.full(now.size, UNASSIGNED - 1, dtype=np.int64)
    if before is not None:
        old[: before.size] = before
    return [[client_ids[row], int(now[row])] for row in np.flatnonzero(old != now).tolist()]


def write_membership_table(file: IO[bytes], log: Sequence[Mapping[str, Json]], client_ids: Sequence[ClientId]) -> None:
    """Write ``step``, ``client``, ``cluster`` as npz: every client at every step, -1 before it first has data."""
    row_of: dict[Json, int] = {client_id: row for row, client_id in enumerate(client_ids)}
    table = np.empty((len(log), len(client_ids)), dtype=np.int32)
    now = np.full(len(client_ids), UNASSIGNED, dtype=np.int32)
    for at, line in enumerate(log):
        changed = line["changed"]
        for pair in changed if isinstance(changed, list) else []:
            if isinstance(pair, list):
                now[row_of[pair[0]]] = int(str(pair[1]))
        table[at] = now
    steps = np.array([line["step"] for line in log], dtype=np.int64)
    clients = np.array(client_ids) if client_ids else np.zeros(0, dtype=np.int64)
    np.savez_compressed(
        file,
        allow_pickle=False,
        step=np.repeat(steps, clients.size),
        client=np.tile(clients, steps.size),
        cluster=table.ravel(),
    )
