"""Natural traces for training: rows become samples and arrivals, real time becomes intervals and rounds."""

import numpy as np

from fielding._typing import Counts, Membership
from fielding.errors import InputError, OptionError, echo
from fielding.traces.features import may_have_gaps
from fielding.traces.histograms import WindowPlan
from fielding.traces.intervals import checked_align, parse_interval
from fielding.traces.pool import Blocks, Pool, Scaling
from fielding.traces.schedule import Schedule, sort_schedule
from fielding.traces.trace import Trace


def natural_schedule(
    trace: Trace, plan: WindowPlan, *, block: float | None = None, fold: int = 0
) -> tuple[Pool, Schedule]:
    """Return the samples of a trace as a pool, and who saw which of them when.

    Samples look as they are and mean what they say; the true concepts are known if the trace tells them. Train and test
    are split by blocks of ``block`` seconds (``fold``: which of five in a row is tested), or by sample. Raises if the
    trace has no features, a row stands for several samples, or there are 2^31 intervals or more.

    Examples
    --------
    >>> trace = Trace(client_ids=("a", "b"), client=np.array([0, 1, 0]), time=np.array([3.0, 0.0, 1.0]),
    ...               y=np.array([0, 1, 1]), classes=("cat", "dog"), x=np.array([[1.0], [2.0], [3.0]]))
    >>> pool, schedule = natural_schedule(trace, WindowPlan(interval="1s"))
    >>> schedule.client.tolist(), schedule.interval.tolist(), schedule.sample.tolist(), schedule.n_intervals
    ([0, 0, 1], [1, 3, 0], [2, 0, 1], 4)
    """
    if trace.x is None:
        raise InputError("the trace has labels but no features; training needs x, one row per sample")
    if trace.count is not None and int(trace.count.max()) > 1:
        row = int(np.argmax(trace.count > 1))
        raise InputError(
            f"row {row} stands for {int(trace.count[row])} samples, but counts have no features of their own; "
            "give one row per sample"
        )
    interval = trace.interval_of(plan.interval, align=plan.align)
    blocks = None if block is None else trace.blocks_of(block, fold=fold)
    pool = pool_of(trace, blocks)
    look = np.zeros(trace.n_rows, dtype=np.int16)
    columns = (trace.client, interval, np.arange(trace.n_rows), trace.y, look)
    n_intervals = int(interval.max()) + 1
    concepts = _true_concepts(trace, interval, n_intervals)
    first = trace.first_times(parse_interval(plan.interval), checked_align(plan.align))[trace.client]
    last = plan.last_intervals(trace.time, interval, first)
    return pool, sort_schedule(trace.client_ids, n_intervals, columns=columns, concepts=concepts, last=last)


def pool_of(trace: Trace, blocks: Blocks | None = None) -> Pool:
    """Return the samples of a trace with features as a pool; gaps become 0 until it is known who sees what first."""
    if trace.x is None:
        raise InputError("the trace has labels but no features; training needs x, one row per sample")
    gaps = may_have_gaps(trace.columns)
    scaling = Scaling(gap=np.where(gaps, 0.0, np.nan)) if gaps.any() else None
    return Pool(x=trace.x, y=trace.y.astype(np.int32), classes=trace.classes, blocks=blocks, scaling=scaling)


def _true_concepts(trace: Trace, interval: Counts, n_intervals: int) -> Membership | None:
    """Return each client's concept in each interval: that of its newest sample so far, -1 before its first."""
    if trace.concept is None:
        return None
    found = np.full((n_intervals, len(trace.client_ids)), -1, dtype=np.int32)
    by_time = np.argsort(trace.time, kind="stable")
    found[interval[by_time], trace.client[by_time]] = trace.concept[by_time]  # the last one of a cell stays
    for at in range(1, n_intervals):
        found[at] = np.where(found[at] < 0, found[at - 1], found[at])
    return found


def n_rounds(n_intervals: int, plan: WindowPlan) -> int:
    """Return how many training rounds so many intervals cover: all before the first arrival that is missing.

    A trace shorter than the window starts with all it has and lasts one gap.

    Examples
    --------
    Of intervals of 30 rounds, 3 are there at the start; the fourth comes at round 20, the fifth would at round 50.

    >>> plan = WindowPlan(gap=30, window=100)
    >>> n_rounds(3, plan), n_rounds(4, plan), n_rounds(1, plan)
    (20, 50, 30)
    """
    _check_whole("n_intervals", n_intervals)
    # Step 0 means that even the missing interval would lie before the start.
    return plan.step_of(n_intervals) or plan.gap


def needed_intervals(rounds: int, plan: WindowPlan) -> int:
    """Return how many intervals so many training rounds touch; at least those before the start.

    Examples
    --------
    >>> plan = WindowPlan(gap=30, window=100)
    >>> needed_intervals(20, plan), needed_intervals(21, plan), needed_intervals(50, plan)
    (3, 4, 4)
    """
    _check_whole("rounds", rounds)
    return max(plan.n_first, (rounds + plan.lead - 1) // plan.gap)


def _check_whole(name: str, value: int) -> None:
    if value < 1:
        raise OptionError(f"{name} is {echo(value)}; give a whole number of at least 1")
