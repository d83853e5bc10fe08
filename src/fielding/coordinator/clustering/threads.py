"""Independent pieces of work on all cores; the result does not depend on how many cores there are."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_THREADS = 8
"""More would hold more chunks in memory at a time than they save seconds."""


def n_threads() -> int:
    """Return how many threads this process may keep busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, MOST_THREADS))


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the result of the work on every item, in the order of the items.

    The work should spend its time where Python lets other threads run: distances, sorting, matrix products.

    Examples
    --------
    >>> in_threads(lambda number: number * number, [3, 1, 2])
    [9, 1, 4]
    """
    threads = min(n_threads(), len(items))
    if threads <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(work, items))
