"""Which methods a table may mark as best: those that no other is clearly better than, if any is clearly worse."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.paired import COVERAGE, holm, paired_p

BySeed: TypeAlias = Sequence[float | None]
"""A figure on each seed, in the same order for all methods; None where it is not known."""
Pair: TypeAlias = tuple[str, str]
FEWEST_SEEDS = 3
"""Seeds that two methods must share to be told apart: of two, any spread may be chance."""


def best(figures: Mapping[str, BySeed], *, lower_is_better: bool = False) -> dict[str, Json]:
    """Return who is best in a figure, as far as seeds can tell.

    Every two methods are held against each other by a paired t-test on the seeds that both have, if those are three or
    more; p-values are adjusted for the number of pairs (Holm). One *clearly beats* another if its mean over these seeds
    is better and the adjusted p-value below 5 %.

    Parameters
    ----------
    figures
        By method, the figure on each seed.
    lower_is_better
        Whether small figures are good.

    Returns
    -------
    ``marked``
        Of the methods that none clearly beats, the one that is better than most others on shared seeds, and those that
        were held against it; nobody if no method is clearly beaten.
    ``winner``
        The one method that clearly beats all others; None without one.
    ``worse``
        Those that another clearly beats.

    Examples
    --------
    >>> found = best({"a": [0.9, 0.8, 0.7], "b": [0.89, 0.81, 0.7], "c": [0.5, 0.39, 0.31]})
    >>> found["marked"], found["winner"], found["worse"]
    (['a', 'b'], None, ['c'])
    """
    sign = -1.0 if lower_is_better else 1.0
    gaps = {(one, other): _gaps(figures[one], figures[other], sign) for one, other in combinations(figures, 2)}
    beats, tested = _outcomes(gaps)
    beaten = {other for _, other in beats}
    worse = list[Json](name for name in figures if name in beaten)
    unbeaten = [name for name in figures if name not in beaten and any(name in pair for pair in tested)]
    if not beats or not unbeaten:
        return {"marked": [], "winner": None, "worse": worse}
    n_better = _n_better(gaps)
    first = max(unbeaten, key=lambda name: n_better[name])
    level = [name for name in unbeaten if name == first or {(name, first), (first, name)} & tested]
    is_winner = all((first, name) in beats for name in figures if name != first)
    return {"marked": list[Json](level), "winner": first if is_winner else None, "worse": worse}


def _gaps(ours: BySeed, theirs: BySeed, sign: float) -> list[float]:
    pairs = zip(ours, theirs, strict=True)
    return [sign * (one - other) for one, other in pairs if one is not None and other is not None]


def _outcomes(gaps: Mapping[Pair, Sequence[float]]) -> tuple[set[Pair], set[Pair]]:
    """Return which methods clearly beat which, and which pairs could be tested at all."""
    p_values = [paired_p(gap) if len(gap) >= FEWEST_SEEDS else None for gap in gaps.values()]
    adjusted = {pair: p for pair, p in zip(gaps, holm(p_values), strict=True) if p is not None}
    clear = [pair for pair, p in adjusted.items() if p < 1 - COVERAGE]
    return {pair if sum(gaps[pair]) > 0 else (pair[1], pair[0]) for pair in clear}, set(adjusted)


def _n_better(gaps: Mapping[Pair, Sequence[float]]) -> dict[str, int]:
    """Return how many others each method is better than on the seeds they share, less those it is worse than."""
    found = {name: 0 for pair in gaps for name in pair}
    for (one, other), gap in gaps.items():
        outcome = (sum(gap) > 0) - (sum(gap) < 0)
        found[one] += outcome
        found[other] -= outcome
    return found
