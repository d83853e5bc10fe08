"""From what clients see to which samples they get: labels drawn from mixes, samples drawn by label."""

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Matrix, Membership
from fielding.client.report import row_chunks
from fielding.rng import Hashes, client_keys, hashed, stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.scenario import DealRequest
from fielding.traces.schedule import AS_IS, Look, Schedule

Units: TypeAlias = npt.NDArray[np.float64]  # numbers spread evenly over [0, 1), of any shape


def units(seed: int, purpose: str, *indices: int | Hashes) -> Units:
    """Return a number in [0, 1) for every combination of indices; see :func:`fielding.rng.hashed`."""
    # 53 bits: more would round up to 1.
    return np.asarray((hashed(seed, f"scenario {purpose}", *indices) >> np.uint64(11)) * 2.0**-53)


def branch_seed(seed: int, purpose: str) -> int:
    """Return a seed for what is to be drawn a second time in one scenario, independently of the first."""
    return int(hashed(seed, f"scenario {purpose}")[0])


def wholes(n_values: int, drawn: Units) -> Counts:
    """Return the whole numbers from 0 to ``n_values - 1`` that the drawn numbers stand for."""
    return (drawn * n_values).astype(np.int64)


def slot_units(
    request: DealRequest, seed: int, purpose: str, *, is_repeated: bool = False, clients: slice = slice(None)
) -> Units:
    """Return a number for every sample to be dealt, shape ``(n_clients, n_intervals, samples_per_interval)``.

    If it is repeated, every interval brings the same draws.
    """
    intervals = np.arange(request.n_intervals, dtype=np.uint64) * np.uint64(not is_repeated)
    slots = np.arange(request.samples_per_interval, dtype=np.uint64)
    keys = client_keys(range(request.n_clients))[clients]
    return units(seed, purpose, keys[:, np.newaxis, np.newaxis], intervals[:, np.newaxis], slots)


def drifters(request: DealRequest, seed: int, *, share: float, event: int) -> Mask:
    """Return which clients drift at an event, each with a chance of ``share``, shape ``(n_clients,)``."""
    return np.asarray(units(seed, "drifts", event, client_keys(range(request.n_clients))) < share)


def first_states(request: DealRequest, n_states: int, *, seed: int) -> Counts:
    """Return the state in which each client begins, all equally likely, shape ``(n_clients,)``."""
    return wholes(n_states, units(seed, "first state", client_keys(range(request.n_clients))))


def other_states(states: Counts, n_states: int, drawn: Units) -> Counts:
    """Return a state other than the present one for each client; the same if there is only one."""
    return np.asarray((states + 1 + wholes(n_states - 1, drawn)) % n_states)


def wander(
    request: DealRequest, n_states: int, *, share: float, seed: int, every: int = 1, n_at_first: int | None = None
) -> Membership:
    """Return the state of each client in each interval, shape ``(n_intervals, n_clients)``.

    With one state no client moves, else with the chance ``share`` at every event; the first is at ``request.n_first``.
    If there are only ``n_at_first`` states at first, the others come halfway, and as many clients go there at once as
    make all equally likely.
    """
    keys = client_keys(range(request.n_clients))
    n_all, n_states = n_states, n_states if n_at_first is None else n_at_first
    states = np.empty((request.n_intervals, request.n_clients), dtype=np.int32)
    states[: request.n_first] = today = first_states(request, n_states, seed=seed)
    for interval in range(request.n_first, request.n_intervals):
        if interval == request.halfway and n_states < n_all:
            anywhere = wholes(n_all, units(seed, "new states", keys))
            today, n_states = np.where(anywhere < n_states, today, anywhere), n_all
        if (interval - request.n_first) % every == 0:
            elsewhere = other_states(today, n_states, units(seed, "where to", interval, keys))
            today = np.where(drifters(request, seed, share=share, event=interval), elsewhere, today)
        states[interval] = today
    return states


def present_labels(pool: Pool) -> Counts:
    """Return the labels of which the pool has samples, rising."""
    return np.unique(pool.y).astype(np.int64)


def concept_mixes(pool: Pool, n_mixes: int, *, alpha: float, seed: int, labels: Counts | None = None) -> Matrix:
    """Return Dirichlet label mixes, one per concept, shape ``(n_mixes, n_labels)``.

    The labels given may have a share; without them all of which the pool has samples.
    """
    streams = [stream(seed, "scenario mix", index) for index in range(n_mixes)]
    return _dirichlet_rows(streams, alpha, labels=present_labels(pool) if labels is None else labels, pool=pool)


def client_mixes(pool: Pool, request: DealRequest, *, alpha: float, seed: int) -> Matrix:
    """Return a Dirichlet label mix per client, shape ``(n_clients, n_labels)``.

    With an ``alpha`` of 0 that of the pool for all, shape ``(1, n_labels)``.
    """
    if alpha == 0:
        return np.bincount(pool.y, minlength=len(pool.classes))[np.newaxis] / len(pool)
    streams = [stream(seed, "scenario own mix", int(key)) for key in client_keys(range(request.n_clients))]
    return _dirichlet_rows(streams, alpha, labels=present_labels(pool), pool=pool)


def redraw_mixes(pool: Pool, request: DealRequest, *, alpha: float, share: float, seed: int) -> tuple[Matrix, Counts]:
    """Return label mixes of clients that draw a new one now and then, and whose is which.

    Clients begin with :func:`client_mixes`; ``share``: the chance to draw another mix at an event. The mixes have shape
    ``(n_mixes, n_labels)``; whose is which ``(n_intervals, n_clients)``.
    """
    first, shape = client_mixes(pool, request, alpha=alpha, seed=seed), (request.n_intervals, request.n_clients)
    if alpha == 0:
        return first, np.zeros(shape, dtype=np.int64)
    events = range(request.n_first, request.n_intervals)
    drawn = [np.flatnonzero(drifters(request, seed, share=share, event=event)) for event in events]
    keys = client_keys(range(request.n_clients))
    streams = [
        stream(seed, "scenario own mix", int(key), event)
        for event, clients in zip(events, drawn, strict=True)
        for key in keys[clients]
    ]
    mix_of = np.tile(np.arange(request.n_clients), (request.n_intervals, 1))
    n_mixes = request.n_clients
    for event, clients in zip(events, drawn, strict=True):
        mix_of[event:, clients] = n_mixes + np.arange(clients.size)
        n_mixes += clients.size
    later = _dirichlet_rows(streams, alpha, labels=present_labels(pool), pool=pool)
    return np.concatenate([first, later]), mix_of


def _dirichlet_rows(streams: list[np.random.Generator], alpha: float, *, labels: Counts, pool: Pool) -> Matrix:
    """Return one mix per stream; drawing among the labels allowed is dealing out the shares of the others."""
    mixes = np.zeros((len(streams), len(pool.classes)))
    for row, rng in enumerate(streams):
        mixes[row, labels] = rng.dirichlet(np.full(labels.size, float(alpha)))
    return mixes


Contents: TypeAlias = npt.NDArray[np.integer[Any]]
"""What each client has in each interval, shape ``(n_intervals, n_clients, n_values)``."""


def number_contents(contents: Contents, n_ahead: int = 0) -> tuple[Membership, Contents]:
    """Return a number for each distinct content, from 0 in the order of clients, then of intervals.

    Contents have shape ``(n_intervals, n_clients, n_values)``, the table one row per number. What comes in the last
    ``n_ahead`` intervals alone is numbered last. More clients at the end do not change the numbers of those before.

    Examples
    --------
    >>> numbers, table = number_contents(np.array([[[7, 7], [3, 1]], [[7, 7], [7, 7]]], dtype=np.int32))
    >>> numbers.tolist(), table.tolist()
    ([[0, 1], [0, 0]], [[7, 7], [3, 1]])
    """
    n_intervals, n_clients, width = contents.shape
    n_now = n_intervals - n_ahead
    parts = [np.ascontiguousarray(one.transpose(1, 0, 2)).reshape(-1, width) for one in np.split(contents, [n_now])]
    rows: Contents = np.concatenate(parts)
    # Compared byte by byte: rows as structures, as unique(axis=0) has them, take many times as long.
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * width))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    now, ahead = np.split(rank[group], [n_clients * n_now])
    numbers = np.concatenate([now.reshape(n_clients, n_now).T, ahead.reshape(n_clients, n_ahead).T])
    return numbers, rows[np.sort(first)]


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
    meanings
        For each concept the label that a client sees instead of each true one, shape ``(n_concepts, n_labels)``; None
        if labels mean what they say.
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


_DEALT_AT_ONCE = 1 << 20
"""Samples; numbers on the way to them take several times their memory."""


def deal_view(pool: Pool, request: DealRequest, view: View, *, seed: int) -> Schedule:
    """Return the schedule of clients that see this, drawn with replacement within a label."""
    shape = (request.n_clients, request.n_intervals, request.samples_per_interval)
    sample, y = (np.empty(shape, dtype=np.int32) for _ in range(2))
    look = np.zeros(shape, dtype=np.int16)
    concepts = by_client(view.concepts)
    for part in row_chunks(request.n_clients, max(1, _DEALT_AT_ONCE // (shape[1] * shape[2]))):
        draw = partial(slot_units, request, seed, is_repeated=view.is_repeated, clients=part)
        labels = draw_labels(view.mixes, _part_of(view.mix_of, part), draw("label"))
        sample[part] = draw_samples(pool, labels, draw("sample"))
        y[part] = labels if view.meanings is None else view.meanings[concepts[part], labels]
        if view.look_of is not None:
            look[part] = _part_of(view.look_of, part)
    clients, intervals = (np.arange(n, dtype=np.int32) for n in shape[:2])
    return Schedule(
        client_ids=tuple(range(request.n_clients)),
        n_intervals=request.n_intervals,
        client=np.repeat(clients, shape[1] * shape[2]),
        interval=np.tile(np.repeat(intervals, shape[2]), shape[0]),
        sample=sample.ravel(),
        y=y.ravel(),
        look=look.ravel(),
        looks=view.looks,
        concepts=view.concepts,
    )


def _part_of(positions: Positions, clients: slice) -> Positions:
    """Return those of some clients, of positions that broadcast to all samples."""
    return positions[clients] if positions.ndim == 3 and positions.shape[0] > 1 else positions


def draw_labels(mixes: Matrix, mix_of: Positions, drawn: Units) -> Counts:
    """Return the labels that the drawn numbers stand for in their mixes.

    A mix sums to 1; ``mix_of`` broadcasts to ``drawn``, numbers in [0, 1).

    Examples
    --------
    >>> mixes = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    >>> draw_labels(mixes, np.array([0, 0, 1]), np.array([0.4, 0.5, 0.5])).tolist()
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


def draw_samples(pool: Pool, labels: Counts, drawn: Units) -> Counts:
    """Return a sample of each label, chosen by numbers in [0, 1) among those that the pool has."""
    order = np.argsort(pool.y, kind="stable").astype(np.int64)
    counts = np.bincount(pool.y, minlength=len(pool.classes))
    starts = np.cumsum(counts) - counts
    return np.asarray(order[starts[labels] + (drawn * counts[labels]).astype(np.int64)])
