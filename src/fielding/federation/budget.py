"""How many participants each cluster gets in a round (METHODS.md A12), and how many are asked for them."""

import math
from fractions import Fraction

import numpy as np

from fielding._typing import Counts
from fielding.errors import OptionError, echo
from fielding.rng import Hashes


def participant_budget(total: int, members: Counts, *, strict: bool = False, draws: Hashes | None = None) -> Counts:
    """Return how many participants each cluster gets.

    An equal share each, the remainder to the largest clusters (ties: lower index), at most ``members``; the sum never
    exceeds ``total``.

    Parameters
    ----------
    members
        How many could be asked in each cluster, shape ``(n_clusters,)``; a cluster with none gets none.
    strict
        Leave slots unused that a small cluster cannot fill, instead of giving them to clusters with members to spare.
    draws
        A random number for each cluster, shape ``(n_clusters,)``: if there are fewer participants than clusters with
        members, those with the smallest get one each. None: the largest, which are the same round after round.

    Examples
    --------
    >>> participant_budget(10, np.array([50, 3, 40])).tolist()
    [4, 3, 3]
    >>> [participant_budget(10, np.array([50, 1, 40]), strict=strict).tolist() for strict in (False, True)]
    [[5, 1, 4], [4, 1, 3]]
    >>> participant_budget(1, np.array([50, 3, 40]), draws=np.array([9, 2, 4], dtype=np.uint64)).tolist()
    [0, 1, 0]
    """
    budget = np.zeros(members.size, dtype=np.int64)
    if draws is not None and total < np.count_nonzero(members):
        filled = np.flatnonzero(members)
        budget[filled[np.argsort(draws[filled], kind="stable")[:total]]] = 1
        return budget
    left = total
    while left > 0:
        open_clusters = np.flatnonzero(members > budget)
        if not open_clusters.size:
            break
        by_size = open_clusters[np.argsort(-members[open_clusters], kind="stable")]
        share, extra = divmod(left, by_size.size)
        more = np.full(by_size.size, share, dtype=np.int64)
        more[:extra] += 1
        granted = np.minimum(more, (members - budget)[by_size])
        budget[by_size] += granted
        left -= int(granted.sum())
        if strict:
            break
    return budget


def invited_count(wanted: int, overcommit: float, n_available: int) -> int:
    """Return how many clients to invite so that enough answer in time: the over-committed number, rounded down.

    ``wanted``: how many answers are enough, not negative. ``overcommit``: how many times as many are invited, from 1 to
    1000. ``n_available``: how many could be invited; never more than these are.

    Examples
    --------
    >>> invited_count(10, 1.3, 50), invited_count(10, 1.3, 11), invited_count(100, 1.1, 500)
    (13, 11, 110)
    """
    is_number = isinstance(overcommit, (int, float, np.integer, np.floating)) and not isinstance(overcommit, bool)
    if not (is_number and 1.0 <= overcommit <= 1000.0):
        raise OptionError(f"overcommit is {echo(overcommit)}; give a number from 1 (no spare clients) to 1000")
    # As a fraction: 1.1 * 100 in floats is 110.00000000000001, 1.15 * 100 is 114.99999999999999.
    factor = Fraction(float(overcommit)).limit_denominator(10**6)
    return min(n_available, max(wanted, math.floor(factor * wanted)))
