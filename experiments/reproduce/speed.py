"""How many times sooner one variant is where another ends: by the simulated clock or in rounds, to stay or at first."""

import math
from collections.abc import Sequence

from experiments.reproduce.results import Figure, Results
from fielding.reporting.numbers.paired import estimate
from fielding.reporting.numbers.progress import progress
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.numbers.run_summary import times_to_target

SECONDS, ROUNDS = "time_to_target_s", "rounds_to_target"
"""Until accuracy stays above the target, by the clock and in rounds."""


def times_there(results: Results, of: str, against: str, name: str = SECONDS) -> list[float | None]:
    """Return by seed when a variant is at the final accuracy of another; None where it never is."""
    targets = results.known(against, "final_accuracy")
    return [
        times_to_target(run.rounds, target, progress(run))[name]
        for run, target in zip(results.runs[of], targets, strict=True)
    ]


def n_reached(results: Results, of: str, against: str, name: str = SECONDS) -> int:
    """Return on how many seeds a variant gets to the other's final accuracy."""
    return sum(one is not None for one in times_there(results, of, against, name))


def faster(results: Results, of: str, against: str, name: str = SECONDS) -> Figure | None:
    """Return how many times sooner one is at the other's final accuracy; None if that is on no seed.

    The other is there when it is there itself; if its last evaluation is below its mean, at its end. The figure is the
    geometric mean over seeds, the interval the t-interval of the logarithms; there is none if one gets there on some
    seeds only, since those are no fair sample.
    """
    return ratio(end_times(results, against, name), times_there(results, of, against, name))


def end_times(results: Results, variant: str, name: str = SECONDS) -> list[float]:
    """Return by seed when a variant is at its own final accuracy; its end where its last evaluation is below that."""
    return [
        _end(run, name) if one is None else one
        for one, run in zip(times_there(results, variant, variant, name), results.runs[variant], strict=True)
    ]


def ratio(theirs: Sequence[float], ours: Sequence[float | None]) -> Figure | None:
    """Return the geometric mean of their times over ours.

    Examples
    --------
    >>> found = ratio([2.0, 2.0, 4.0], [1.0, 1.0, 2.0])
    >>> round(found.mean, 6), round(found.low, 6)
    (2.0, 2.0)
    >>> ratio([2.0, 8.0], [1.0, None])
    Figure(mean=2.0, low=None, high=None)
    """
    logs = [math.log(other / own) for other, own in zip(theirs, ours, strict=True) if own]
    if not logs:
        return None
    found = estimate(logs)
    if found.half_width is None or len(logs) < len(ours):
        return Figure(mean=math.exp(found.mean))
    return Figure(
        mean=math.exp(found.mean),
        low=math.exp(found.mean - found.half_width),
        high=math.exp(found.mean + found.half_width),
    )


def _end(run: RunRecord, name: str) -> float:
    return float(len(run.rounds)) if name == ROUNDS else float(str(run.rounds[-1]["time_s"]))


def time_ratio(results: Results, of: str, against: str) -> Figure | None:
    """Return how many times as long all rounds of one took as those of the other, by the simulated clock."""
    return ratio(results.known(of, "time_s"), results.known(against, "time_s"))
