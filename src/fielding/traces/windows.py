"""How far a client's label shares move from one window to the next, and how far chance alone would move them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.representation.label import shares_of
from fielding.errors import OptionError, echo
from fielding.traces.trace import Trace

MIN_SAMPLES = 20
"""Windows with fewer samples are not compared: their shares are mostly noise."""
CHUNK_CELLS = 2**21
"""Counts that are looked at together: windows times labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How much the label shares of clients change, as L1 distances from 0 to 2.

    Parameters
    ----------
    drift
        Distance between the shares of a client in two adjacent windows: mean over its pairs of windows, then over
        clients; None if there is no pair.
    noise
        What the same would be if the samples of each two windows were dealt to them anew at random.
    excess
        How many standard errors drift lies above noise, at most the root of the number of pairs; None if there is none.
    n_pairs, n_clients
        How many pairs of windows and how many clients have a part in it.
    """

    drift: float | None
    noise: float | None
    excess: float | None
    n_pairs: int
    n_clients: int


def measure_drift(trace: Trace, window_of: Counts, *, min_samples: int = MIN_SAMPLES) -> Drift:
    """Return how much a trace drifts from window to window, and how much of that is sampling noise.

    Parameters
    ----------
    trace
        The samples.
    window_of
        The window of each row, shape ``(n_rows,)``, from :meth:`Trace.interval_of`.
    min_samples
        Pairs in which a window has fewer samples are left out.

    Examples
    --------
    >>> trace = Trace(client_ids=("a",), client=np.zeros(80, dtype=np.int32), time=np.arange(80.0),
    ...               y=np.repeat([0, 1], 40), classes=("cat", "dog"))
    >>> measured = measure_drift(trace, trace.interval_of("40s"))
    >>> measured.drift, round(measured.noise, 3), measured.excess
    (2.0, 0.177, 1.0)
    """
    if min_samples < 1:
        raise OptionError(f"min_samples is {echo(min_samples)}; a window needs at least 1 sample to be compared")
    clients, distances, expected = [np.empty(0, dtype=np.int64)], [np.empty(0)], [np.empty(0)]
    for client, first, second in _adjacent_pairs(trace, window_of, min_samples):
        clients.append(client)
        distances.append(np.abs(shares_of(first) - shares_of(second)).sum(axis=1))
        expected.append(dealt_distance(first, second))
    who, pairs_of = np.unique(np.concatenate(clients), return_inverse=True)
    n_pairs = int(pairs_of.size)
    if n_pairs == 0:
        return Drift(drift=None, noise=None, excess=None, n_pairs=0, n_clients=0)
    weights = (1.0 / (who.size * np.bincount(pairs_of)))[pairs_of]
    drift, noise = np.concatenate(distances) * weights, np.concatenate(expected) * weights
    return Drift(
        drift=float(drift.sum()),
        noise=float(noise.sum()),
        excess=standard_errors(drift - noise),
        n_pairs=n_pairs,
        n_clients=int(who.size),
    )


def standard_errors(parts: Vector) -> float:
    """Return how many standard errors a sum lies above 0 if its parts are independent and 0 on average.

    Nothing is assumed of their spread, so that a few parts never prove much. Neighboring pairs share a window, which
    makes them a little alike: ask for three standard errors where two would do.
    """
    error = float(np.sqrt((parts**2).sum()))
    return float(parts.sum()) / error if error > 0.0 else 0.0


def _adjacent_pairs(trace: Trace, window_of: Counts, min_samples: int) -> Iterator[tuple[Counts, Counts, Counts]]:
    """Yield, in chunks, the client and the two histograms of each pair of adjacent windows with enough samples."""
    n_windows, n_labels = int(window_of.max()) + 2, len(trace.classes)
    keys, cell_of = np.unique(trace.client.astype(np.int64) * n_windows + window_of, return_inverse=True)
    cells, counts_of = np.unique(cell_of * n_labels + trace.y, return_inverse=True)
    counts = np.bincount(counts_of, weights=trace.count).astype(np.int64)
    enough = np.bincount(cells // n_labels, weights=counts) >= min_samples
    # The key of the window after the last of a client is never used, so that neighbours are of one client.
    size = max(1, CHUNK_CELLS // n_labels)
    for start in range(0, keys.size - 1, size):
        stop = min(start + size + 1, keys.size)
        begin, end = np.searchsorted(cells, [start * n_labels, stop * n_labels])
        dense = np.zeros((stop - start, n_labels), dtype=np.int64)
        dense.reshape(-1)[cells[begin:end] - start * n_labels] = counts[begin:end]
        paired = (np.diff(keys[start:stop]) == 1) & enough[start : stop - 1] & enough[start + 1 : stop]
        first = np.flatnonzero(paired)
        yield keys[start + first] // n_windows, dense[first], dense[first + 1]


def dealt_distance(first: Counts, second: Counts) -> Vector:
    """Return the expected L1 distance of shares if the samples of both were dealt to the two sides at random.

    Parameters
    ----------
    first, second
        Label counts, shape ``(n_pairs, n_labels)``; no row is empty.

    Returns
    -------
    Shape ``(n_pairs,)``, exact: what a permutation test would give after infinitely many permutations. The number of
    samples of a label on the first side is hypergeometric, and its mean absolute deviation is known in closed form
    (De Moivre's telescoping sum); no normal approximation, which is too low for rare labels.

    Examples
    --------
    Of the six ways to deal two cats and two dogs to two sides, two part them (distance 2) and four do not (0).

    >>> dealt_distance(np.array([[2, 0]]), np.array([[0, 2]])).round(4).tolist()
    [0.6667]
    """
    from scipy.special import gammaln

    size, other = first.sum(axis=1, keepdims=True), second.sum(axis=1, keepdims=True)
    total, of_label = size + other, first + second
    above = size * of_label // total + 1  # the first whole number above the mean
    possible = above <= np.minimum(size, of_label)
    drawn = np.where(possible, above, np.maximum(0, of_label - other))

    def log_choose(n: Counts, k: Counts) -> Vector:
        return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))

    log_share = log_choose(of_label, drawn) + log_choose(total - of_label, size - drawn) - log_choose(total, size)
    deviation = 2.0 * drawn * (total - of_label - size + drawn) / total * np.exp(log_share)
    return np.asarray((np.where(possible, deviation, 0.0) * (total / (size * other))).sum(axis=1))
