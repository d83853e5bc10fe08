"""A trace in which all clients swing between day and night: the label mixes of one disappear while the other is there.

In the scenario ``recurring`` every mix is somebody's at any time. Here whole clusters come and go, which is what re-use
of models is for. Every client has one of two mixes by day and, independently, one of two others by night; the first
interval is day, then night and day take turns of ``PERIOD`` intervals.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix
from fielding.atomic import replaced_file
from fielding.rng import stream
from fielding.traces.catalog import Opening, open_source
from fielding.traces.pool import Pool

Arrays = dict[str, npt.NDArray[np.generic]]

PERIOD = 2
"""Intervals that a night or a day lasts."""
GROUPS = 2
"""Label mixes of a day, and of a night."""
ALPHA = 0.5
"""Of the Dirichlet distribution that they come from, as in the scenarios."""
DAY_S = 86_400.0
"""An interval of real time, since a natural trace has that."""


def is_night(interval: Counts) -> npt.NDArray[np.bool_]:
    """Return which intervals are night.

    Examples
    --------
    >>> is_night(np.arange(6)).astype(int).tolist()
    [0, 1, 1, 0, 0, 1]
    """
    return np.asarray(((interval - 1) // PERIOD + 1) % 2 == 1)


def swinging_trace(pool: Pool, shape: tuple[int, int, int], *, seed: int, turned: bool) -> Arrays:
    """Return the arrays of a natural trace.

    Parameters
    ----------
    pool
        Images.
    shape
        Clients, intervals, and samples of a client in an interval.
    seed
        Of mixes, of who has which, and of samples.
    turned
        Whether images are turned by a quarter at night.
    """
    n_clients, n_intervals, n_samples = shape
    rng = stream(seed, "swinging")
    mixes = rng.dirichlet(np.full(len(pool.classes), ALPHA), size=2 * GROUPS)
    group = rng.integers(GROUPS, size=(2, n_clients))
    interval, client, _ = (axis.ravel() for axis in np.indices((n_intervals, n_clients, n_samples)))
    night = is_night(interval)
    labels = drawn_labels(mixes[GROUPS * night + group[night.astype(int), client]], rng)
    x = pool.x[drawn_samples(pool, labels, rng)]
    if turned:
        x[night] = np.rot90(x[night], axes=(1, 2))
    return {
        "client": client,
        "time": (interval + 0.5) * DAY_S,
        "y": labels,
        "x": x,
        "classes": np.array(pool.classes),
    }


def drawn_labels(mixes: Matrix, rng: np.random.Generator) -> Counts:
    """Return a label for each row of shares."""
    heights = np.cumsum(mixes, axis=1)
    draws = rng.random(mixes.shape[0]) * heights[:, -1]
    return np.asarray((draws[:, np.newaxis] >= heights).sum(axis=1), dtype=np.int64)


def drawn_samples(pool: Pool, labels: Counts, rng: np.random.Generator) -> Counts:
    """Return a sample of each label, with replacement.

    Rows of the trace that will be for testing get samples of the pool that are for testing, so that nobody trains on
    what another is tested with.
    """
    is_test = row_is_test(labels.size)
    samples = np.empty(labels.size, dtype=np.int64)
    for label in np.unique(labels):
        for part in (False, True):
            rows = np.flatnonzero((labels == label) & (is_test == part))
            samples[rows] = rng.choice(np.flatnonzero((pool.y == label) & (pool.is_test() == part)), size=rows.size)
    return samples


def row_is_test(n_rows: int) -> npt.NDArray[np.bool_]:
    """Return which rows of a natural trace will be for testing."""
    nothing = np.zeros(n_rows)
    return Pool(x=nothing[:, np.newaxis], y=nothing.astype(np.int32), classes=("any",)).is_test()


def swinging_file(folder: Path, shape: tuple[int, int, int], *, seed: int, turned: bool) -> Path:
    """Return the file of a trace of Fashion-MNIST; it is written once."""
    path = folder / f"swinging{'-turned' if turned else ''}-{seed}.npz"
    if not path.exists():
        pool = open_source("fashion_mnist", None, Opening())
        if not isinstance(pool, Pool):
            raise TypeError("fashion_mnist is no pool")
        folder.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            np.savez(file, **swinging_trace(pool, shape, seed=seed, turned=turned))  # type: ignore[arg-type]
    return path
