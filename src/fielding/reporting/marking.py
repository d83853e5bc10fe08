"""Which methods a table may mark as best: those that no other is clearly better than, if any is clearly worse."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.paired import COVERAGE, holm, paired_p

BySeed: TypeAlias = Sequence[float | None]
"""A figure on each seed, in the same order for all methods; None where it is not known."""


def best(figures: Mapping[str, BySeed], *, lower_is_better: bool = False) -> dict[str, Json]:
    """Return who is best in a figure, as far as seeds can tell.

    The method of the best mean is held against each other one by a paired t-test on the seeds that both have; p-values
    are adjusted for the number of others (Holm). Those whose difference is not clear at 5 % are level with the best.

    Parameters
    ----------
    figures
        By method, the figure on each seed. The best is sought among the methods with the most seeds.
    lower_is_better
        Whether small figures are good.

    Returns
    -------
    ``marked``
        The method of the best mean and those that are level with it; nobody if no method is clearly worse, or if there
        are fewer than two seeds.
    ``winner``
        The one method that is clearly better than all others; None without one.
    ``worse``
        Those that are clearly worse than the best.

    Examples
    --------
    >>> found = best({"a": [0.9, 0.8, 0.7], "b": [0.89, 0.81, 0.7], "c": [0.5, 0.39, 0.31]})
    >>> found["marked"], found["winner"], found["worse"]
    (['a', 'b'], None, ['c'])
    """
    sign = -1.0 if lower_is_better else 1.0
    known = {name: [one for one in values if one is not None] for name, values in figures.items()}
    most = max(map(len, known.values()), default=0)
    whole = {name: sign * sum(values) / most for name, values in known.items() if len(values) == most}
    if most < 2 or len(known) < 2:
        return {"marked": [], "winner": None, "worse": []}
    first = max(whole, key=whole.__getitem__)
    gaps = {name: _gaps(figures[first], values, sign) for name, values in figures.items() if name != first}
    adjusted = dict(zip(gaps, holm([paired_p(gap) for gap in gaps.values()]), strict=True))
    worse = [name for name, p in adjusted.items() if p is not None and p < 1 - COVERAGE and sum(gaps[name]) > 0]
    # Whoever shares fewer than two seeds with the best cannot be judged: neither level nor worse.
    level = [name for name in figures if name == first or (adjusted[name] is not None and name not in worse)]
    return {
        "marked": list[Json](level) if worse else [],
        "winner": first if len(worse) == len(gaps) else None,
        "worse": list[Json](worse),
    }


def _gaps(best_ones: BySeed, others: BySeed, sign: float) -> list[float]:
    pairs = zip(best_ones, others, strict=True)
    return [sign * (one - other) for one, other in pairs if one is not None and other is not None]
