"""How soon and how reliably clients tell that their concept changed, where the truth is known."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from fielding._typing import ClientId

Changed: TypeAlias = tuple[int, Sequence[tuple[ClientId, int]]]
"""A round, and clients with the concept that they have from then on; -1 for none."""
Rounds: TypeAlias = Mapping[ClientId, Sequence[int]]
"""By client: rounds, rising."""


def concept_changes(concepts: Iterable[Changed]) -> dict[ClientId, list[int]]:
    """Return in which rounds each client came to another concept than its last one.

    The first concept is no change, nor is a break after which the old concept is there again. Clients that never change
    have an empty list.

    Examples
    --------
    >>> concept_changes([(0, [("ann", 2), ("bob", 1)]), (4, [("ann", -1)]), (6, [("ann", 2), ("bob", 3)])])
    {'ann': [], 'bob': [6]}
    """
    last: dict[ClientId, int] = {}
    found: dict[ClientId, list[int]] = {}
    for at, changed in concepts:
        for client, concept in changed:
            if concept < 0:
                continue
            if last.setdefault(client, concept) != concept:
                found[client].append(at)
            found.setdefault(client, [])
            last[client] = concept
    return found


def client_rounds(concepts: Iterable[Changed], n_rounds: int) -> int:
    """Return the number of rounds in which clients had a concept, added up over clients.

    Examples
    --------
    >>> client_rounds([(0, [("ann", 2)]), (4, [("ann", -1), ("bob", 1)]), (6, [("ann", 2)])], n_rounds=10)
    14
    """
    total, since = 0, dict[ClientId, int]()
    for at, changed in concepts:
        for client, concept in changed:
            began = since.pop(client, None)
            total += 0 if began is None else at - began
            if concept >= 0:
                since[client] = at
    return total + sum(max(0, n_rounds - began) for began in since.values())


def detection(changes: Rounds, reports: Rounds, *, n_rounds: int, n_client_rounds: int) -> dict[str, float | None]:
    """Return how reports follow changes of concept.

    Parameters
    ----------
    changes
        Rounds in which each client came to another concept.
    reports
        Rounds in which reports of each client acted, first ones included.
    n_rounds
        How many rounds the run has.
    n_client_rounds
        Rounds with a concept, added up over clients.

    Returns
    -------
    ``detection_delay``
        Mean number of rounds from a change to the client's next report, over the changes that were not missed.
    ``miss_rate``
        Share of the changes without a report before the client's next change or the end of the run.
    ``false_reports_per_100``
        Reports without a change since the client's last report, first reports left out, per 100 rounds of a client.

    None where there is nothing to divide by.

    Examples
    --------
    >>> detection({"ann": [4], "bob": [4, 8]}, {"ann": [0, 6, 7], "bob": [0, 8]}, n_rounds=10, n_client_rounds=20)
    {'detection_delay': 1.0, 'miss_rate': 0.3333333333333333, 'false_reports_per_100': 5.0}
    """
    delays: list[int] = []
    n_changes = sum(map(len, changes.values()))
    for client, mine in changes.items():
        told = reports.get(client, ())
        for at, end in zip(mine, [*mine[1:], n_rounds], strict=False):
            place = bisect_left(told, at)
            if place < len(told) and told[place] < end:
                delays.append(told[place] - at)
    n_false = sum(_n_false(changes.get(client, ()), told) for client, told in reports.items())
    return {
        "detection_delay": sum(delays) / len(delays) if delays else None,
        "miss_rate": (n_changes - len(delays)) / n_changes if n_changes else None,
        "false_reports_per_100": 100 * n_false / n_client_rounds if n_client_rounds else None,
    }


def _n_false(changes: Sequence[int], told: Sequence[int]) -> int:
    """Return how many reports of a client followed on no change since the report before."""
    known = [bisect_right(changes, at) for at in told]
    return sum(now == before for before, now in pairwise(known))
