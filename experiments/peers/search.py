"""The search for everybody's knobs: one knob at a time, a step up and a step down, as long as that helps.

The same number of runs for every row. What the search leaves over goes to more seeds for the best two points.
"""

from collections.abc import Iterable, Mapping, Sequence

Point = tuple[int, ...]
"""A position on the ladder of each knob."""
Scores = Mapping[Point, Sequence[float]]
"""What each point scored so far, seed by seed."""


def wanted(lengths: Sequence[int], start: Point, scores: Scores, allowance: int) -> list[tuple[Point, int]]:
    """Return the runs to do next as points and numbers of seeds, from 0; nothing when the allowance is spent.

    The best two points get further seeds, the same ones. If these turn the order of the two, the search goes on from
    the other one.

    It depends on the scores alone, so a search that was stopped goes on where it was.

    Examples
    --------
    >>> wanted([5], (2,), {}, 8), wanted([5], (2,), {(2,): [0.5]}, 8)
    ([((2,), 0)], [((1,), 0), ((3,), 0)])
    >>> wanted([5], (2,), {(1,): [0.4], (2,): [0.5], (3,): [0.6]}, 8)  # better at the edge of what was tried: on
    [((4,), 0)]
    >>> wanted([5], (2,), {(1,): [0.4], (2,): [0.5], (3,): [0.4]}, 5)  # found: the best two on another seed
    [((2,), 1), ((1,), 1)]
    """
    left = allowance - sum(map(len, scores.values()))
    if missing := _climb(lengths, start, scores)[1]:
        return [(point, 0) for point in missing[: max(0, left)]]
    finalists = ranked(lengths, start, scores)[:2]
    fewest = min(len(scores[point]) for point in finalists)
    behind = [(point, fewest) for point in finalists if len(scores[point]) == fewest]
    return behind if len(behind) <= left else []  # both get a seed, or none does


def is_inside(lengths: Sequence[int], start: Point, scores: Scores) -> bool:
    """Return whether the search came to its end: no neighbour of the best point is better, and all were tried."""
    return not _climb(lengths, start, scores)[1]


def ranked(lengths: Sequence[int], start: Point, scores: Scores) -> list[Point]:
    """Return all points, best first: by their lead over the peak of the search, on seeds that both have.

    Of equal ones the peak comes first, then the earlier one.
    """
    peak = _climb(lengths, start, scores)[0]
    order = sorted([peak, *(one for one in scores if one != peak)], key=lambda one: -_lead(scores[one], scores[peak]))
    if len(order) > 1 and _lead(scores[order[1]], scores[order[0]]) > 0.0:  # on seeds that these two have
        order[:2] = order[1::-1]
    return order


def _climb(lengths: Sequence[int], start: Point, scores: Scores) -> tuple[Point, list[Point]]:
    """Return the best point on the way up from the start, and the points that have to be known to go on from there.

    One knob at a time, to the better of its two neighbours, until none is better; then from any other point that is
    better, until there is none.
    """
    if start not in scores:
        return start, [start]
    best, visited = start, {start}
    while True:
        is_moved = False
        for axis, length in enumerate(lengths):
            while True:
                near = [
                    (*best[:axis], at, *best[axis + 1 :]) for at in (best[axis] - 1, best[axis] + 1) if 0 <= at < length
                ]
                if missing := [point for point in near if point not in scores]:
                    return best, missing
                better = _better(near, best, scores, visited)
                if better is None:
                    break
                best, is_moved = better, True
        if not is_moved:
            better = _better(scores, best, scores, visited)
            if better is None:
                return best, []
            best = better


def _better(among: Iterable[Point], best: Point, scores: Scores, visited: set[Point]) -> Point | None:
    """Return the point with the largest lead over another, None if none leads; points are visited once."""
    leads = {point: _lead(scores[point], scores[best]) for point in among if point not in visited}
    if max(leads.values(), default=0.0) <= 0.0:
        return None
    found = max(leads, key=lambda point: leads[point])
    visited.add(found)
    return found


def _lead(one: Sequence[float], other: Sequence[float]) -> float:
    """Return by how much one point is ahead of another on average, over the seeds that both have."""
    shared = min(len(one), len(other))
    return (sum(one[:shared]) - sum(other[:shared])) / shared
