"""Who is in which cluster over time, beside where everybody really is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId
from fielding.reporting.figures import Raster
from fielding.reporting.run_record import membership_changes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """Where each client really is.

    Parameters
    ----------
    rounds
        Rounds in which that may change, from 0.
    client_ids
        The clients.
    places
        The place of each client from each of these rounds on, shape ``(n_rounds, n_clients)``.
    """

    rounds: Sequence[int]
    client_ids: Sequence[ClientId]
    places: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _History:
    """The cluster of each client from each of some rounds on, shape ``(n_rounds, n_clients)``; -1 for none."""

    rounds: Sequence[int]
    clusters: npt.NDArray[np.int32]


def rasters(folders: Mapping[str, Path], truth: Truth) -> list[Raster]:
    """Return the clusters of one run of each method, and the true places last; methods that never differ share one.

    Clients are in the order of where they were and went.
    """
    order = np.lexsort(truth.places[::-1])
    n_places = int(truth.places.max()) + 1
    shared = _shared({method: _history(folder, truth.client_ids) for method, folder in folders.items()})
    painted = [_painted(history, truth, n_places) for history in shared.values()]
    newest = max([truth.rounds[-1], *(history.rounds[-1] for history in shared.values())])
    last = float(newest + _span(truth.rounds))
    n_colors = max([n_places, *(int(cells.max()) + 1 for cells in painted)])
    names = [f"place {at + 1} and its cluster" for at in range(n_places)]
    names += [f"another cluster ({at + 1})" for at in range(n_colors - n_places)]
    found = [
        Raster(title=f"clusters of {title}", edges=_edges(history.rounds, last), cells=cells.T[order], names=names)
        for (title, history), cells in zip(shared.items(), painted, strict=True)
    ]
    return [
        *found,
        Raster(title="true places", edges=_edges(truth.rounds, last), cells=truth.places.T[order], names=names),
    ]


def matched_colors(clusters: npt.NDArray[np.int32], places: npt.NDArray[np.int32], n_places: int) -> dict[int, int]:
    """Return a color for each cluster: that of the place it shares most with, and new ones for what is left.

    Examples
    --------
    >>> matched_colors(np.array([[7, 7, 5, 9]], dtype=np.int32), np.array([[1, 1, 0, 0]], dtype=np.int32), 2)
    {7: 1, 5: 0, 9: 2}
    """
    pairs, counts = np.unique(np.stack([clusters.ravel(), places.ravel()]), axis=1, return_counts=True)
    colors: dict[int, int] = {}
    for at in np.argsort(-counts, kind="stable").tolist():
        cluster, place = int(pairs[0, at]), int(pairs[1, at])
        if cluster >= 0 and cluster not in colors and place not in colors.values():
            colors[cluster] = place
    left = [int(one) for one in np.unique(clusters).tolist() if one >= 0 and one not in colors]
    return colors | {cluster: n_places + at for at, cluster in enumerate(left)}


def _history(folder: Path, client_ids: Sequence[ClientId]) -> _History:
    row_of = {client: row for row, client in enumerate(client_ids)}
    rounds, columns = [], []
    now = np.full(len(row_of), -1, dtype=np.int32)
    for at, changed in membership_changes(folder):
        for client, cluster in changed:
            now[row_of[client]] = cluster
        rounds.append(at)
        columns.append(now.copy())
    return _History(rounds=rounds, clusters=np.stack(columns))


def _shared(histories: Mapping[str, _History]) -> dict[str, _History]:
    """Return the different histories, by the names of all who have them."""
    found: dict[tuple[tuple[int, ...], bytes], list[str]] = {}
    for name, one in histories.items():
        found.setdefault((tuple(one.rounds), one.clusters.tobytes()), []).append(name)
    return {" and ".join(names): histories[names[0]] for names in found.values()}


def _painted(history: _History, truth: Truth, n_places: int) -> npt.NDArray[np.int32]:
    """Return the color of each client's cluster in each round of the history."""
    colors = matched_colors(history.clusters, truth.places[_at(truth.rounds, history.rounds)], n_places)
    return np.asarray(np.vectorize(lambda cluster: colors.get(cluster, -1), otypes=[np.int32])(history.clusters))


def _at(known: Sequence[int], wanted: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the newest of the known rounds at each of the wanted ones."""
    return np.asarray(np.searchsorted(np.array(known), np.array(wanted), side="right") - 1)


def _span(rounds: Sequence[int]) -> int:
    return rounds[-1] - rounds[-2] if len(rounds) > 1 else 1


def _edges(rounds: Sequence[int], last: float) -> npt.NDArray[np.float64]:
    return np.array([*rounds, last], dtype=np.float64)
