"""Random draws for all clients at once; each depends on the seed, the client's id and the interval alone.

So a client gets the same whether there are ten others or ten thousand, and the same first intervals whether or not
more of them follow.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Matrix, Membership
from fielding.rng import Hashes, client_key, hashed, stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.scenario import DealRequest

Units: TypeAlias = npt.NDArray[np.float64]
"""Numbers spread evenly over [0, 1), of any shape."""


def client_keys(request: DealRequest) -> Hashes:
    """Return the key of each client, shape ``(n_clients,)``."""
    return np.array([client_key(client_id) for client_id in range(request.n_clients)], dtype=np.uint64)


def units(seed: int, purpose: str, *indices: int | Hashes) -> Units:
    """Return a number in [0, 1) for every combination of indices; see :func:`fielding.rng.hashed`."""
    # 53 bits: more would round up to 1.
    return np.asarray((hashed(seed, f"scenario {purpose}", *indices) >> np.uint64(11)) * 2.0**-53)


def branch_seed(seed: int, purpose: str) -> int:
    """Return a seed for what is to be drawn a second time in one scenario, independently of the first.

    Examples
    --------
    >>> branch_seed(1, "looks") == branch_seed(1, "looks"), branch_seed(1, "looks") == branch_seed(1, "meanings")
    (True, False)
    """
    return int(hashed(seed, f"scenario {purpose}")[0])


def wholes(n_values: int, drawn: Units) -> Counts:
    """Return the whole numbers from 0 to ``n_values - 1`` that the drawn numbers stand for."""
    return (drawn * n_values).astype(np.int64)


def slot_units(request: DealRequest, seed: int, purpose: str, *, is_repeated: bool = False) -> Units:
    """Return a number for every sample to be dealt, shape ``(n_clients, n_intervals, samples_per_interval)``.

    Parameters
    ----------
    request, seed, purpose
        What is dealt, and which draw this is.
    is_repeated
        Whether every interval is to bring the same draws.
    """
    intervals = np.arange(request.n_intervals, dtype=np.uint64) * np.uint64(not is_repeated)
    slots = np.arange(request.samples_per_interval, dtype=np.uint64)
    keys = client_keys(request)[:, np.newaxis, np.newaxis]
    return units(seed, purpose, keys, intervals[:, np.newaxis], slots)


def drifters(request: DealRequest, seed: int, *, share: float, event: int) -> Mask:
    """Return which clients drift at an event, each with a chance of ``share``, shape ``(n_clients,)``."""
    return np.asarray(units(seed, "drifts", event, client_keys(request)) < share)


def first_states(request: DealRequest, n_states: int, *, seed: int) -> Counts:
    """Return the state in which each client begins, all equally likely, shape ``(n_clients,)``."""
    return wholes(n_states, units(seed, "first state", client_keys(request)))


def other_states(states: Counts, n_states: int, drawn: Units) -> Counts:
    """Return a state other than the present one for each client; the same if there is only one."""
    return np.asarray((states + 1 + wholes(n_states - 1, drawn)) % n_states)


def wanderings(request: DealRequest, n_states: int, *, share: float, seed: int, every: int = 1) -> Membership:
    """Return the state of each client in each interval, shape ``(n_intervals, n_clients)``.

    Parameters
    ----------
    request
        How many clients and intervals.
    n_states
        How many states there are; with one, nobody moves.
    share
        The chance of a client to move to another state at an event.
    seed
        The seed of the run.
    every
        Intervals from one event to the next; the first event is at ``request.n_first``.
    """
    keys = client_keys(request)
    states = np.empty((request.n_intervals, request.n_clients), dtype=np.int32)
    states[: request.n_first] = today = first_states(request, n_states, seed=seed)
    for interval in range(request.n_first, request.n_intervals):
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

    Parameters
    ----------
    pool, n_mixes, alpha, seed
        The samples, how many mixes, the parameter of the Dirichlet distribution, and the seed of the run.
    labels
        The labels that may have a share; None for all of which the pool has samples.
    """
    streams = [stream(seed, "scenario mix", index) for index in range(n_mixes)]
    return _dirichlet_rows(streams, alpha, labels=present_labels(pool) if labels is None else labels, pool=pool)


def client_mixes(pool: Pool, request: DealRequest, *, alpha: float, seed: int) -> Matrix:
    """Return a label mix per client, shape ``(n_clients, n_labels)``, or that of the pool for all, ``(1, n_labels)``.

    Parameters
    ----------
    pool, request, seed
        What is dealt, to whom, and the seed of the run.
    alpha
        The parameter of the Dirichlet distribution; 0 for the pool's own mix.
    """
    if alpha == 0:
        return np.bincount(pool.y, minlength=len(pool.classes))[np.newaxis] / len(pool)
    streams = [stream(seed, "scenario own mix", int(key)) for key in client_keys(request)]
    return _dirichlet_rows(streams, alpha, labels=present_labels(pool), pool=pool)


def redrawn_mixes(pool: Pool, request: DealRequest, *, alpha: float, share: float, seed: int) -> tuple[Matrix, Counts]:
    """Return label mixes of clients that draw a new one now and then, and whose is which.

    Parameters
    ----------
    pool, request, alpha, seed
        As in :func:`client_mixes`, which are the mixes that clients begin with.
    share
        The chance of a client to draw another mix at an event.

    Returns
    -------
    The mixes, shape ``(n_mixes, n_labels)``, and which of them each client has in each interval, shape
    ``(n_intervals, n_clients)``.
    """
    first, shape = client_mixes(pool, request, alpha=alpha, seed=seed), (request.n_intervals, request.n_clients)
    if alpha == 0:
        return first, np.zeros(shape, dtype=np.int64)
    events = range(request.n_first, request.n_intervals)
    drawn = [np.flatnonzero(drifters(request, seed, share=share, event=event)) for event in events]
    keys = client_keys(request)
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
