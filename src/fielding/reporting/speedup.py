"""How many times sooner one method gets somewhere than another, with an interval."""

import math
from collections.abc import Sequence

from fielding._typing import Json
from fielding.reporting.paired import estimate

FEWEST_PAIRS = 3
"""Seeds on which both must get there for an interval."""


def speedup(theirs: Sequence[float | None], ours: Sequence[float | None]) -> dict[str, Json]:
    """Return how many times their time ours is, over the seeds on which both got there.

    It is the geometric mean of the ratios, and its interval the t-interval of their logarithms: with few seeds that
    holds the truth about as often as it says, which a bootstrap does not.

    Parameters
    ----------
    theirs, ours
        Times by seed, None where the target was never reached.

    Returns
    -------
    ``mean``, the ratio; ``ci95``, None for fewer than three seeds; ``per_seed``, the ratio on each; ``n_seeds``, on how
    many both got there. Without such a seed ``mean`` is None too.

    Examples
    --------
    >>> found = speedup([10.0, 12.0, None], [5.0, 4.0, 3.0])
    >>> round(found["mean"], 3), found["ci95"], found["per_seed"], found["n_seeds"]
    (2.449, None, [2.0, 3.0, None], 2)
    """
    ratios = [
        other / own if other is not None and own is not None and other > 0 and own > 0 else None
        for other, own in zip(theirs, ours, strict=True)
    ]
    logs = [math.log(one) for one in ratios if one is not None]
    record: dict[str, Json] = {"mean": None, "ci95": None, "per_seed": list[Json](ratios), "n_seeds": len(logs)}
    if not logs:
        return record
    found = estimate(logs)
    record["mean"] = math.exp(found.mean)
    if found.half_width is not None and len(logs) >= FEWEST_PAIRS:
        # Two seeds that agree by chance, with a wild third, have no end that a number can hold.
        ends = [found.mean - found.half_width, found.mean + found.half_width]
        record["ci95"] = [math.exp(end) for end in ends] if ends[1] < math.log(1e300) else None
    return record
