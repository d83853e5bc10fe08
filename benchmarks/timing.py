"""Contenders that take turns, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Generic[Result]):
    """Seconds of one contender over the turns, and what it computed last."""

    seconds: tuple[float, ...]
    result: Result

    @property
    def median(self) -> float:
        """The median of the turns."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest over fastest turn."""
        return max(self.seconds) / min(self.seconds)


def in_turns(
    contenders: Mapping[str, Callable[[], Result]], repeat: int, on_turn: Callable[[int], None] = lambda _n: None
) -> dict[str, Timing[Result]]:
    """Run the contenders one after the other, ``repeat`` times over.

    Examples
    --------
    >>> timed = in_turns({"sum": lambda: sum(range(10)), "formula": lambda: 10 * 9 // 2}, repeat=3)
    >>> {name: timing.result for name, timing in timed.items()}
    {'sum': 45, 'formula': 45}
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    results: dict[str, Result] = {}
    for _ in range(repeat):
        for name, run in contenders.items():
            start = time.perf_counter()
            results[name] = run()
            seconds[name].append(time.perf_counter() - start)
            on_turn(1)
    return {name: Timing(seconds=tuple(seconds[name]), result=results[name]) for name in contenders}
