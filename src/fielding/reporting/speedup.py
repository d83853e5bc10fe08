"""How many times sooner one method gets somewhere than another, with an interval."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Json
from fielding.reporting.paired import COVERAGE
from fielding.rng import stream

N_DRAWS = 10_000
"""Times that seeds are drawn anew."""


def speedup(theirs: Sequence[float | None], ours: Sequence[float | None]) -> dict[str, Json]:
    """Return the ratio of their mean time to ours, over the seeds on which both got there.

    The interval is that of a paired bootstrap: seeds are drawn with replacement, the ratio of the means is taken of
    each draw, and 2.5 % of the draws lie beyond either end. With few seeds such an interval is too narrow rather than
    too wide.

    Parameters
    ----------
    theirs, ours
        Times by seed, None where the target was never reached.

    Returns
    -------
    ``mean``, the ratio; ``ci95``, None for a single seed; ``per_seed``, the ratio on each. All None if there is no seed
    on which both got there.

    Examples
    --------
    >>> found = speedup([10.0, 12.0, None], [5.0, 4.0, 3.0])
    >>> round(found["mean"], 3), found["ci95"], found["per_seed"]
    (2.444, [2.0, 3.0], [2.0, 3.0, None])
    """
    pairs = [
        (other, own) if other is not None and own is not None and own > 0 else None
        for other, own in zip(theirs, ours, strict=True)
    ]
    ratios: list[Json] = [None if pair is None else pair[0] / pair[1] for pair in pairs]
    known = np.array([pair for pair in pairs if pair is not None], dtype=np.float64).reshape(-1, 2)
    if not len(known):
        return {"mean": None, "ci95": None, "per_seed": ratios}
    mean = float(known[:, 0].mean() / known[:, 1].mean())
    return {"mean": mean, "ci95": _interval(known) if len(known) > 1 else None, "per_seed": ratios}


def _interval(pairs: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[Json]:
    """Return both ends of the bootstrap interval; the draws depend on the number of seeds alone."""
    draws = stream(0, "speedup", len(pairs)).integers(len(pairs), size=(N_DRAWS, len(pairs)))
    sums = pairs[draws].sum(axis=1)
    outside = (1 - COVERAGE) / 2
    return [float(end) for end in np.quantile(sums[:, 0] / sums[:, 1], [outside, 1 - outside])]
