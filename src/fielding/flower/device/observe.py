"""Observers of one device: what they know goes to disk and comes back with every message."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts
from fielding.client.monitor import Monitor
from fielding.client.report import DRIFT_KINDS, ClientReport, checked_rows
from fielding.client.window import Window
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import Describe, Kept
from fielding.flower.device.state import HeldModel
from fielding.flower.device.store import DeviceStore
from fielding.flower.wire.orders import NO_REPORT, Report
from fielding.runtime.observe import SampleObserver, ServedErrors, Sight
from fielding.runtime.own_code import samples_of
from fielding.runtime.workers import Compute

Arrays = Mapping[str, npt.NDArray[np.generic]]
ME: Counts = np.zeros(1, dtype=np.int64)  # a device is the only client that it knows


class DeviceObserver(Protocol):
    """Watches the samples of one device, and says when there is something to report."""

    def report_again(self) -> None:
        """Make the next observation report whatever there is, since the last report was lost."""
        ...

    def observe(self, round_index: int, clock: int, new: Kept) -> Report | None:
        """Take in a round, and return the report that is due, without its number; None if there is nothing to tell.

        ``clock``: when the window moved last, because its clock ticked or samples came; the time now, if it goes by
        time. ``new``: training samples.
        """
        ...

    def state(self) -> Arrays:
        """Return what it knows."""
        ...

    def resume(self, arrays: Arrays) -> None:
        """Take over what :meth:`state` gave, or raise :class:`~fielding.errors.CheckpointError`."""
        ...


class LabelMonitor:
    """Judges drift by labels, and describes windows by them or by code of the user's own.

    ``describe`` replaces what the rule says of a window; None: it does not. ``clock``: the time now, if the window goes
    by time.
    """

    def __init__(
        self, rule: DeviceRule, store: DeviceStore, describe: Describe | None, *, clock: int | None = None
    ) -> None:
        self._rule, self._store, self._describe, self._is_lost = rule, store, describe, False
        self._clock = clock
        window = Window(max_rounds=rule.length)
        self._monitor = Monitor("device", rule.n_classes, drift_test=rule.drift_test, window=window)

    def report_again(self) -> None:
        """Make the next observation report."""
        self._is_lost = True
        self._monitor.report_again()

    def observe(self, round_index: int, clock: int, new: Kept) -> Report | None:
        """Let samples arrive round by round, and return the report that is due at the end."""
        if not (self._is_lost or self._rule.is_asked(round_index, new.y.size)):
            return None
        due: ClientReport | None = None
        is_timed = self._rule.window_ms is not None
        last = max([self._rule.last_tick(round_index), *new.rounds[-1:].tolist()]) if is_timed else clock
        for moment in sorted({*new.rounds.tolist(), last}):
            if due is not None:
                self._monitor.report_again()  # a report that fell due while samples were handed in tells all of them
            these = new.rounds == moment
            came = new.moment[these] if is_timed else None
            # In rounds that it was not asked in, it was as late as its samples are.
            now = None if came is None else clock if moment == last else int(came[-1])
            due = self._monitor.observe(new.y[these], moment, clock=now, came=came) or due
        if due is None:
            return None
        vector = np.asarray(due.representation, dtype=np.float32)
        if not due.n_samples:
            vector = np.empty(0, dtype=np.float32)
        elif self._describe is not None:
            window = samples_of(self._store, self._store.training(round_index).of(ME)[0])
            vector = np.asarray(self._describe(window, self._rule.n_classes), dtype=np.float32)
            checked_rows(vector[np.newaxis], 1, kind="vector", width=None)
        elif self._rule.representation is not None:
            counts = self._monitor.counts.astype(np.float64)
            vector = np.asarray(self._rule.representation.vectors(counts[np.newaxis], counts)[0], dtype=np.float32)
        return Report(number=NO_REPORT, representation=vector, n_samples=due.n_samples)

    def state(self) -> Arrays:
        """Return what the monitor knows."""
        return self._monitor.arrays()

    def resume(self, arrays: Arrays) -> None:
        """Take over what a monitor knew."""
        self._monitor.restore(arrays if self._clock is None else turned_back(arrays, self._clock))


def turned_back(arrays: Arrays, clock: int) -> Arrays:
    """Return the state of a monitor whose window goes by time, with nothing in it from later than the clock."""
    later = {name: np.minimum(arrays[name], clock) for name in ("window.rounds",) if name in arrays}
    if (moment := arrays.get("window.moment")) is not None and moment.size == 2:
        later["window.moment"] = np.array([moment[0], min(moment[1], clock)], dtype=np.int64)
    return {**arrays, **later}


class SilentObserver:
    """Reports nothing, whatever comes: the device answers sums, and chooses its cluster itself."""

    def report_again(self) -> None:
        """Do nothing."""

    def observe(self, round_index: int, clock: int, new: Kept) -> None:
        """Say nothing."""

    def state(self) -> Arrays:
        """Return nothing."""
        return {}

    def resume(self, arrays: Arrays) -> None:
        """Take over nothing."""


class ModelObserver:
    """Reports what a representation makes of the window as models see it: the runtime's observer, of one client.

    Reports are relative to the sums over all windows at the start; as long as those have not come, the sums of the own
    window are sent.

    ``shared`` is the model that all devices see samples with, if there is one and it is needed; ``compute`` looks at
    samples with it, ``errors`` tells where the model that serves the device errs.
    """

    def __init__(
        self,
        rule: DeviceRule,
        store: DeviceStore,
        *,
        shared: HeldModel | None,
        compute: Compute | None,
        errors: ServedErrors,
    ) -> None:
        self._rule, self._shared = rule, shared if rule.needs_model else None
        sight = Sight(store, compute if rule.needs_model else None)
        self._observer = self._observing(rule, store, sight)
        self._observer.served_errors = errors

    def _observing(self, rule: DeviceRule, store: DeviceStore, sight: Sight) -> SampleObserver:
        if rule.detector is None or rule.representation is None:
            raise RuntimeError("this rule is about labels alone")
        return SampleObserver(store, rule.representation, detector=rule.detector, sight=sight, is_whole=False)

    def report_again(self) -> None:
        """Make the next observation report."""
        self._observer.hold(ME)

    def observe(self, round_index: int, clock: int, new: Kept) -> Report | None:  # noqa: ARG002
        """Take in a round; without a shared model nothing is seen."""
        observer, needs_model = self._observer, self._rule.needs_model
        if needs_model and self._shared is None:
            return None
        if self._shared is not None:
            observer.reference = self._shared.reference
            is_known = observer.looked_with == model_key(self._shared)
            observer.share(self._shared.model, model_key(self._shared))
            if is_known:
                observer.compare_last_with_reference()
        has_reference = observer.reference is not None or not needs_model
        if not has_reference and observer.is_active[0]:
            observer.hold(ME)  # it cannot be said yet how far it moved
        due = observer.observe(round_index)
        if not len(due):
            return None
        n_samples, kinds = int(due.n_samples[0]), [] if due.kinds is None else due.kinds.tolist()
        nothing = np.empty(0, dtype=np.float32)
        return Report(
            number=NO_REPORT,
            representation=np.asarray(due.representations[0]) if n_samples and has_reference else nothing,
            n_samples=n_samples,
            kind=DRIFT_KINDS[kinds[0]] if kinds else None,
            tally=None if has_reference or not n_samples else observer.tallies[0],
        )

    def state(self) -> Arrays:
        """Return what was seen, what was said, and when."""
        return self._observer.state()

    def resume(self, arrays: Arrays) -> None:
        """Take over what it knew."""
        self._observer.resume(arrays)


def model_key(shared: HeldModel | None) -> str:
    """Return the key of a shared model alone, without that of its reference."""
    return "none" if shared is None else shared.key.partition(".")[0]


def observer_model_key(arrays: Arrays) -> str:
    """Return the key of the model that the state of an observer has seen samples with; empty for none."""
    key = arrays.get("watch.model")
    return "" if key is None else key.tobytes().decode()
