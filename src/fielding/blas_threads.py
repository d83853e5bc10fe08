"""Independent pieces of work on all cores; the result does not depend on how many cores there are.

While they run, the matrix library is held to one thread: two layers of threads get in each other's way (ten times
slower on a busy machine), and its own way of splitting a product would depend on the number of cores.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_THREADS = 8  # more would hold more chunks in memory at a time than they save seconds


def n_threads() -> int:
    """Return how many threads this process may keep busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, MOST_THREADS))


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the result of the work on every item, in the order of the items.

    The work should spend its time where Python lets other threads run: distances, sorting, matrix products.
    """
    threads = min(n_threads(), len(items))
    with ONE_BLAS_THREAD:
        if threads <= 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(max_workers=threads) as pool:
            return list(pool.map(work, items))


class OneBlasThread:
    """Holds the matrix library to one thread from the first entry to the last exit, whichever threads they are in."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._depth = 0
        self._limit: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._limit = _blas_limit()
                self._limit.__enter__()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._limit.__exit__(None, None, None)


def _blas_limit() -> AbstractContextManager[object]:
    controller = _blas_controller()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


class _Controller(Protocol):
    """The part of a thread pool controller that is used here."""

    def limit(self, *, limits: int, user_api: str) -> AbstractContextManager[object]: ...


@cache
def _blas_controller() -> _Controller | None:
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
    except ImportError:  # it comes with scikit-learn; without it only the last digits may depend on the cores
        return None
    controller: _Controller = ThreadpoolController()
    return controller


ONE_BLAS_THREAD = OneBlasThread()
"""``with ONE_BLAS_THREAD:`` around matrix products whose last digit must not depend on the number of cores."""
