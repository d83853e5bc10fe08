"""The search for everybody's knobs: one knob at a time, a step up and a step down, as long as that helps.

The same number of runs for every row. What the search leaves over goes to more seeds for the best two points.
"""

from collections.abc import Mapping, Sequence

Point = tuple[int, ...]
"""A position on the ladder of each knob."""
Scores = Mapping[Point, Sequence[float]]
"""What each point scored so far, seed by seed."""


def wanted(lengths: Sequence[int], start: Point, scores: Scores, allowance: int) -> list[tuple[Point, int]]:
    """Return the runs to do next as points and numbers of seeds, from 0; nothing when the allowance is spent.

    The best two points get further seeds together, so that they are judged by the same ones.

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
    if missing := _climb(lengths, start, scores):
        return [(point, 0) for point in missing[: max(0, left)]]
    finalists = ranked(scores)[:2]
    if left < len(finalists):  # both get a seed, or none does
        return []
    return [(point, len(scores[point])) for point in finalists]


def is_inside(lengths: Sequence[int], start: Point, scores: Scores) -> bool:
    """Return whether the search came to its end: no neighbour of the best point is better, and all were tried."""
    return not _climb(lengths, start, scores)


def ranked(scores: Scores) -> list[Point]:
    """Return all points, best first; of equal ones the earlier.

    Points with more seeds come before those with fewer: the search gave these to the best two.
    """
    order = list(scores)
    return sorted(order, key=lambda one: (-len(scores[one]), -sum(scores[one]) / len(scores[one]), order.index(one)))


def _climb(lengths: Sequence[int], start: Point, scores: Scores) -> list[Point]:
    """Return the points that the search needs to know next; nothing when it is at a peak.

    Each point counts by its first seed, so that more seeds for some do not change the way.
    """
    if start not in scores:
        return [start]
    best, is_moved = start, True
    while is_moved:
        is_moved = False
        for axis, length in enumerate(lengths):
            while True:
                near = [
                    (*best[:axis], at, *best[axis + 1 :]) for at in (best[axis] - 1, best[axis] + 1) if 0 <= at < length
                ]
                if missing := [point for point in near if point not in scores]:
                    return missing
                top = max([best, *near], key=lambda point: scores[point][0])
                if top == best:
                    break
                best, is_moved = top, True
    return []
