"""How well clusters match the truth, and how restless they are."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts

Changed: TypeAlias = tuple[int, Sequence[tuple[ClientId, int]]]
"""A round, and clients with the cluster or concept that they have from then on; -1 for none."""


def purity(clusters: npt.ArrayLike, concepts: npt.ArrayLike) -> float:
    """Return the share of clients whose concept is the most frequent one of their cluster.

    Parameters
    ----------
    clusters, concepts
        Of each client, whole numbers, shape ``(n_clients,)``, at least one client.

    Examples
    --------
    >>> purity([0, 0, 0, 1], [5, 5, 6, 6])
    0.75
    """
    _, rows = np.unique(clusters, return_inverse=True)
    _, columns = np.unique(concepts, return_inverse=True)
    pairs, counts = np.unique(np.stack([rows, columns]), axis=1, return_counts=True)
    most = np.zeros(int(rows.max()) + 1, dtype=np.int64)
    np.maximum.at(most, pairs[0], counts)
    return float(most.sum() / rows.size)


def mutual_information(clusters: npt.ArrayLike, concepts: npt.ArrayLike) -> float:
    """Return the adjusted mutual information of two groupings: 1 if they agree, about 0 if they are unrelated.

    Mutual information beyond what chance would give, over the mean of the two entropies beyond that (Vinh, Epps and
    Bailey, 2010).

    Examples
    --------
    >>> mutual_information([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    """
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(concepts, clusters))


def agreement(clusters: Sequence[Changed], concepts: Sequence[Changed], at: Sequence[int]) -> dict[str, float | None]:
    """Return how well clusters match concepts, as means over some rounds.

    Parameters
    ----------
    clusters, concepts
        Changes of clients' clusters and of their true concepts.
    at
        The rounds.

    Returns
    -------
    ``final_ami`` and ``final_purity``, over the clients that have both; None if nobody ever has.
    """
    pairs = [_both(now, truth) for now, truth in zip(_states(clusters, at), _states(concepts, at), strict=True)]
    known = [pair for pair in pairs if pair.size]
    if not known:
        return {"final_ami": None, "final_purity": None}
    return {
        "final_ami": float(np.mean([mutual_information(*pair) for pair in known])),
        "final_purity": float(np.mean([purity(*pair) for pair in known])),
    }


def churn(clusters: Iterable[Changed], n_rounds: int) -> float | None:
    """Return the share of clients that come to another cluster in a round, as a mean over rounds after the first.

    Every change counts, be it one by one or by a re-clustering; a client's first cluster is none. None if there are no
    clusters or no second round.

    Examples
    --------
    >>> churn([(0, [("ann", 0), ("bob", 0)]), (2, [("bob", 1)]), (4, [("ann", 1)])], n_rounds=5)
    0.25
    """
    where: dict[ClientId, int] = {}
    shares, n_lines = 0.0, 0
    for _, changed in clusters:
        n_moved = sum(where.get(client, -1) >= 0 <= cluster != where[client] for client, cluster in changed)
        where.update(changed)
        n_members = sum(cluster >= 0 for cluster in where.values()) if n_moved else 0
        shares, n_lines = shares + (n_moved / n_members if n_members else 0.0), n_lines + 1
    return shares / (n_rounds - 1) if n_lines and n_rounds > 1 else None


def _states(changes: Sequence[Changed], at: Sequence[int]) -> list[dict[ClientId, int]]:
    """Return where each client is after some rounds, which rise."""
    now: dict[ClientId, int] = {}
    found: list[dict[ClientId, int]] = []
    lines = iter(changes)
    line = next(lines, None)
    for wanted in at:
        while line is not None and line[0] <= wanted:
            now.update(line[1])
            line = next(lines, None)
        found.append(dict(now))
    return found


def _both(clusters: dict[ClientId, int], concepts: dict[ClientId, int]) -> Counts:
    """Return cluster and concept of the clients that have both, shape ``(2, n_clients)``."""
    known = [
        (cluster, concept)
        for client, cluster in clusters.items()
        if cluster >= 0 and (concept := concepts.get(client, -1)) >= 0
    ]
    return np.array(known, dtype=np.int64).reshape(-1, 2).T
