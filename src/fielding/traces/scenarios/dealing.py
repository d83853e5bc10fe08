"""From what clients see to which samples they get: labels drawn from mixes, samples drawn by label."""

from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Membership
from fielding.traces.pool import Pool
from fielding.traces.scenarios.draws import Units, slot_units
from fielding.traces.scenarios.scenario import DealRequest
from fielding.traces.schedule import AS_IS, Look, Schedule

Contents: TypeAlias = npt.NDArray[np.integer[Any]]
"""What each client has in each interval, shape ``(n_intervals, n_clients, n_values)``."""


def numbered(contents: Contents) -> tuple[Membership, Contents]:
    """Return a number for each distinct content, from 0 in the order of clients, then of intervals.

    Parameters
    ----------
    contents
        Whole numbers of shape ``(n_intervals, n_clients, n_values)``.

    Returns
    -------
    The number of each client in each interval, shape ``(n_intervals, n_clients)``, and the content that each number
    stands for, one row each. More clients at the end do not change the numbers of those before.

    Examples
    --------
    >>> numbers, table = numbered(np.array([[[7, 7], [3, 1]], [[7, 7], [7, 7]]], dtype=np.int32))
    >>> numbers.tolist(), table.tolist()
    ([[0, 1], [0, 0]], [[7, 7], [3, 1]])
    """
    n_intervals, n_clients, width = contents.shape
    rows: Contents = np.ascontiguousarray(contents.transpose(1, 0, 2)).reshape(-1, width)
    # Compared byte by byte: rows as structures, as unique(axis=0) has them, take many times as long.
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * width))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return rank[group].reshape(n_clients, n_intervals).T.copy(), rows[np.sort(first)]


Positions: TypeAlias = npt.NDArray[np.integer[Any]]
"""Positions in a table, of any shape that broadcasts to ``(n_clients, n_intervals, samples_per_interval)``."""
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """What clients see: for each of their samples a label mix to draw from and a look, for each concept a meaning.

    Parameters
    ----------
    concepts
        The true concept of each client in each interval, shape ``(n_intervals, n_clients)``.
    mixes
        Label mixes, shape ``(n_mixes, n_labels)``; labels without samples in the pool have no share.
    mix_of
        The mix of each sample.
    looks, look_of
        The looks, and the look of each sample.
    meanings
        For each concept the label that a client sees instead of each true one, shape ``(n_concepts, n_labels)``; None
        if labels mean what they say.
    is_repeated
        Whether a client gets the same samples in every interval.
    """

    concepts: Membership
    mixes: Matrix
    mix_of: Positions
    looks: tuple[Look, ...] = (AS_IS,)
    look_of: Positions | None = None
    meanings: Positions | None = None
    is_repeated: bool = False


def by_client(states: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return what stands by interval and client as positions of samples, shape ``(n_clients, n_intervals, 1)``."""
    return states.T[:, :, np.newaxis]


def dealt(pool: Pool, request: DealRequest, view: View, *, seed: int) -> Schedule:
    """Return the schedule of clients that see this, drawn with replacement within a label."""
    shape = (request.n_clients, request.n_intervals, request.samples_per_interval)
    labels = drawn_labels(view.mixes, view.mix_of, slot_units(request, seed, "label", is_repeated=view.is_repeated))
    samples = drawn_samples(pool, labels, slot_units(request, seed, "sample", is_repeated=view.is_repeated))
    seen = labels if view.meanings is None else view.meanings[by_client(view.concepts), labels]
    clients, intervals = np.arange(shape[0])[:, np.newaxis, np.newaxis], np.arange(shape[1])[:, np.newaxis]
    look_of = np.zeros(1, dtype=np.int32) if view.look_of is None else view.look_of
    return Schedule(
        client_ids=tuple(range(request.n_clients)),
        n_intervals=request.n_intervals,
        client=np.broadcast_to(clients, shape).astype(np.int32).ravel(),
        interval=np.broadcast_to(intervals, shape).astype(np.int32).ravel(),
        sample=samples.ravel(),
        y=seen.astype(np.int32).ravel(),
        look=np.broadcast_to(look_of, shape).astype(np.int16).ravel(),
        looks=view.looks,
        concepts=view.concepts,
    )


def drawn_labels(mixes: Matrix, mix_of: Positions, drawn: Units) -> Counts:
    """Return the labels that the drawn numbers stand for in their mixes.

    Parameters
    ----------
    mixes
        Label mixes, rows that sum to 1, shape ``(n_mixes, n_labels)``.
    mix_of
        The mix of each draw, in a shape that broadcasts to that of ``drawn``.
    drawn
        Numbers in [0, 1).

    Examples
    --------
    >>> mixes = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    >>> drawn_labels(mixes, np.array([0, 0, 1]), np.array([0.4, 0.5, 0.5])).tolist()
    [0, 2, 1]
    """
    sums = mixes.cumsum(axis=1)
    sums /= sums[:, -1:]
    rows: Positions = np.broadcast_to(mix_of, drawn.shape)
    # All mixes on one line, mix i from i to i + 1, so that a single search serves all draws.
    line = np.ravel(sums + np.arange(mixes.shape[0])[:, np.newaxis])
    found = np.searchsorted(line, drawn + rows, side="right") - rows * mixes.shape[1]
    # A draw that rounds up to the next mix belongs to the last label that has a share in its own.
    last = mixes.shape[1] - 1 - np.argmax(mixes[:, ::-1] > 0.0, axis=1)
    return np.asarray(np.minimum(found, last[rows]), dtype=np.int64)


def drawn_samples(pool: Pool, labels: Counts, drawn: Units) -> Counts:
    """Return a sample of each label, chosen by the drawn numbers among those that the pool has.

    Parameters
    ----------
    pool
        The samples.
    labels
        Labels of which the pool has samples.
    drawn
        Numbers in [0, 1), one per label.

    Examples
    --------
    >>> pool = Pool(x=np.zeros((3, 1)), y=np.array([1, 0, 1], dtype=np.int32), classes=("cat", "dog"))
    >>> drawn_samples(pool, np.array([1, 1, 0]), np.array([0.0, 0.9, 0.9])).tolist()
    [0, 2, 1]
    """
    order = np.argsort(pool.y, kind="stable").astype(np.int64)
    counts = np.bincount(pool.y, minlength=len(pool.classes))
    starts = np.cumsum(counts) - counts
    return np.asarray(order[starts[labels] + (drawn * counts[labels]).astype(np.int64)])
