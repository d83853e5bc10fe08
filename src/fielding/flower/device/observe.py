"""What watches the samples of a device: it says when there is something to report, by labels alone here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fielding.client.monitor import Monitor
from fielding.client.report import ClientReport, checked_rows
from fielding.client.window import Window
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import FARTHEST, Describe, Kept
from fielding.flower.wire.orders import NO_REPORT, Report

Arrays = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrived:
    """What a round brought to a device.

    Parameters
    ----------
    round_index
        The round.
    clock
        When the window moved last: the clock struck, or samples came.
    new
        Training samples that came.
    window
        All training samples of the window, those among them, in the order of arrival.
    """

    round_index: int
    clock: int
    new: Kept
    window: Kept


class DeviceObserver(Protocol):
    """Watches the samples of one device; what it knows goes to disk and comes back with every message."""

    @property
    def clock(self) -> int:
        """When it was told of last: time must not run backwards."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether there is something to look at although no round has passed: a model has come."""
        ...

    def report_again(self) -> None:
        """Make the next observation report whatever there is, since the last report was lost."""
        ...

    def observe(self, arrived: Arrived) -> Report | None:
        """Take in a round, and return the report that is due, without its number; None if there is nothing to tell."""
        ...

    def arrays(self) -> Arrays:
        """Return what it knows."""
        ...

    def restore(self, arrays: Arrays) -> None:
        """Take over what :meth:`arrays` gave, or raise :class:`~fielding.errors.CheckpointError`."""
        ...


class LabelMonitor:
    """Judges drift by labels, and describes windows by them or by code of the user's own.

    Parameters
    ----------
    rule
        What to keep, and when to report.
    describe
        What stands for a window in place of what the rule says; None: nothing.
    """

    is_behind = False

    def __init__(self, rule: DeviceRule, describe: Describe | None) -> None:
        self._rule, self._describe, self._is_lost = rule, describe, False
        window = Window(max_rounds=rule.max_rounds)
        self._monitor = Monitor("device", rule.n_classes, drift_test=rule.drift_test, window=window)

    @property
    def clock(self) -> int:
        """The round of the last observation."""
        newest = self._monitor.newest_round
        return -FARTHEST if newest is None else newest

    def report_again(self) -> None:
        """Make the next observation report."""
        self._is_lost = True
        self._monitor.report_again()

    def observe(self, arrived: Arrived) -> Report | None:
        """Take in a round."""
        if not (self._is_lost or self._rule.is_asked(arrived.round_index, arrived.new.y.size)):
            return None
        told = _observed(self._monitor, arrived.new, arrived.clock)
        return None if told is None else self._report(told, arrived.window)

    def arrays(self) -> Arrays:
        """Return what the monitor knows."""
        return self._monitor.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Take over what a monitor knew."""
        self._monitor.restore(arrays)

    def _report(self, told: ClientReport, window: Kept) -> Report:
        """Return a report of the window, in the words that were chosen for it."""
        vector = np.asarray(told.representation, dtype=np.float32)
        if not told.n_samples:
            vector = np.empty(0, dtype=np.float32)
        elif self._describe is not None:
            vector = np.asarray(self._describe(window.shown(), self._rule.n_classes), dtype=np.float32)
            checked_rows(vector[np.newaxis], 1, kind="vector", width=None)
        elif self._rule.representation is not None:
            counts = self._monitor.counts.astype(np.float64)
            vector = np.asarray(self._rule.representation.vectors(counts[np.newaxis], counts)[0], dtype=np.float32)
        return Report(number=NO_REPORT, representation=vector, n_samples=told.n_samples)


def _observed(monitor: Monitor, samples: Kept, now: int) -> ClientReport | None:
    """Let samples arrive round by round, and return the report that is due at the end."""
    told: ClientReport | None = None
    for round_index in sorted({*samples.rounds.tolist(), now}):
        if told is not None:
            monitor.report_again()  # whoever reported while samples were handed in tells all of them now
        told = monitor.observe(samples.y[samples.rounds == round_index], round_index) or told
    return told
