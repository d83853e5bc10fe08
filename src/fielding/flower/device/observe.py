"""What watches the samples of a device: it says when there is something to report, by labels alone here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Vector
from fielding.client.drift.sample_tests import Judge
from fielding.client.monitor import Monitor
from fielding.client.report import DRIFT_KINDS, ClientReport, checked_rows
from fielding.client.representation.representation import Representation, Seen
from fielding.client.tally_watch import Sighting, TallyWatch
from fielding.client.window import Window
from fielding.client.windows_seen import WindowsSeen
from fielding.errors import CheckpointError
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import FARTHEST, Describe, Kept
from fielding.flower.device.state import HeldModel
from fielding.flower.wire.orders import NO_REPORT, Report
from fielding.runtime.runtime import ClientRuntime
from fielding.training.head import head_size

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


Columns: TypeAlias = npt.NDArray[np.float32]


ME: Counts = np.zeros(1, dtype=np.int64)
"""A device is the only client that it knows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceSight:
    """Looks at samples with the models that a device holds.

    Parameters
    ----------
    n_classes
        Length of the class list.
    shared
        The model that all devices see samples with; None: the device has none, or needs none.
    served
        Returns the model that serves the device; it is asked only if its mistakes matter.
    runtime_of
        Returns a runtime for a model over some samples.
    """

    n_classes: int
    shared: HeldModel | None = None
    served: Callable[[], HeldModel | None] = lambda: None
    runtime_of: Callable[[HeldModel, Kept], ClientRuntime]

    @property
    def n_head(self) -> int:
        """Number of parameters of the shared model, at their end, that are its last layer; 0 if it is not known."""
        return 0 if self.shared is None else head_size(self.shared.layout, self.n_classes)

    def look(self, samples: Kept) -> tuple[Columns, Columns]:
        """Return features and scores of samples, as the shared model sees them; without one of no columns, and zeros.

        Returns
        -------
        float32, shapes ``(n_samples, n_features)`` and ``(n_samples, n_classes)``.
        """
        if self.shared is None or not samples.y.size:
            n_samples = samples.y.size
            return np.zeros((n_samples, 0), np.float32), np.zeros((n_samples, self.n_classes), np.float32)
        runtime = self.runtime_of(self.shared, samples)
        return runtime.compute.features(self.shared.model, samples.places, runtime.store.gather)

    def gradient(self, samples: Kept) -> Matrix:
        """Return the gradient of the summed loss of samples under the shared model, shape ``(1, n_parameters)``."""
        if self.shared is None:
            raise RuntimeError("gradients need a shared model")
        if not samples.y.size:
            return np.zeros((1, self.shared.layout.parameter_size))
        runtime = self.runtime_of(self.shared, samples)
        return runtime.compute.gradient(self.shared.model, samples.places, runtime.store.gather)[np.newaxis]

    def errors(self, samples: Kept, window: Kept) -> Vector:
        """Return 1 where the model that serves the device errs, else 0, shape ``(n_samples,)``; NaN without one.

        Parameters
        ----------
        samples
            What it is about; they are part of the window.
        window
            The training samples of the device, whose label mix models may be corrected to.
        """
        served = self.served() if samples.y.size else None
        if served is None:
            return np.full(samples.y.size, np.nan)
        runtime = self.runtime_of(served, window)
        runtime.begin(0)
        runtime.serve(served.model[np.newaxis], ME)
        return runtime.errors(samples.places)


_CLOCKS, _MODEL, _TALLY = "watch.clocks", "watch.model", "watch.tally"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Looks:
    """What was made of the training samples that were looked at, in the order of their arrival.

    Parameters
    ----------
    rounds
        When each came, shape ``(n_samples,)``.
    features, scores
        What the shared model saw in it.
    errors
        Whether the served model erred on it when it came; NaN where nobody knows.
    """

    rounds: Counts
    features: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    errors: Vector

    def since(self, first: int) -> "_Looks":
        """Return those of samples that came in a round or later."""
        kept = self.rounds >= first
        return _Looks(
            rounds=self.rounds[kept],
            features=self.features[kept],
            scores=self.scores[kept],
            errors=self.errors[kept],
        )

    def followed_by(self, others: "_Looks") -> "_Looks":
        """Return these and those of samples that came after them."""
        return _Looks(
            rounds=np.concatenate([self.rounds, others.rounds]),
            features=np.concatenate([self.features, others.features]),
            scores=np.concatenate([self.scores, others.scores]),
            errors=np.concatenate([self.errors, others.errors]),
        )


class ModelObserver:
    """Reports what a representation makes of the window, when a judge says so; as the simulator's clients do.

    Every sample is looked at once, when it comes. Reports are relative to the sums over all windows at the start; as
    long as those have not come, the sums of the own window are sent.

    Parameters
    ----------
    rule
        What to keep; it has a judge.
    sight
        The models that the device holds.
    """

    def __init__(self, rule: DeviceRule, sight: DeviceSight) -> None:
        if rule.judge is None or rule.representation is None:
            raise RuntimeError("this rule is about labels alone")
        self._rule, self._sight = rule, sight
        self._judge: Judge = rule.judge
        self._representation: Representation = rule.representation
        self._watch = TallyWatch(1, rule.judge, has_turnover=rule.max_rounds > rule.gap)
        self._looks: _Looks | None = None
        self._looked_with = ""
        self._tally: Matrix = np.empty((0, 0))
        self.clock, self._looked_at = -FARTHEST, -FARTHEST

    @property
    def is_behind(self) -> bool:
        """Whether a shared model has come that nothing was looked at with."""
        return self._is_open and self._model_key != self._looked_with

    @property
    def _is_open(self) -> bool:
        return not self._rule.needs_model or self._sight.shared is not None

    @property
    def _model_key(self) -> str:
        shared = self._sight.shared if self._rule.needs_model else None
        return "none" if shared is None else shared.key.partition(".")[0]

    @property
    def _reference(self) -> Vector | None:
        return None if self._sight.shared is None else self._sight.shared.reference

    def report_again(self) -> None:
        """Make the next observation report."""
        self._watch.hold(ME)

    # ---- a round ---------------------------------------------------------------------------------------------------

    def observe(self, arrived: Arrived) -> Report | None:
        """Take in a round; without a shared model nothing is seen."""
        self.clock = max(self.clock, arrived.clock)
        if not self._is_open:
            return None
        is_touched = self._has_come(arrived) or bool(self._watch.owing()[0])
        return self._told(arrived) if is_touched else None

    def _has_come(self, arrived: Arrived) -> bool:
        """Look at what is new, and return whether the window changed, or time alone matters."""
        n_new, n_gone = self._look(arrived.window)
        if self._looked_at == self.clock and not n_new:
            return False
        self._looked_at = self.clock
        is_timed = self._judge.is_timed and bool(self._watch.last.is_active[0])
        has_turned_over = bool(self._watch.turned_over(self._sighting(arrived).first)[0])
        return n_new > 0 or n_gone > 0 or is_timed or has_turned_over

    def _look(self, window: Kept) -> tuple[int, int]:
        """Look at samples that were not looked at before, and return how many these are, and how many are gone."""
        before = self._looks if self._looked_with == self._model_key else None
        if before is None and bool(self._watch.last.is_active[0]):
            self.report_again()  # what it said last was seen with another model
        known = None if before is None else before.since(self.clock - self._rule.max_rounds + 1)
        n_known = 0 if known is None else known.rounds.size
        new = window.some(np.arange(window.y.size) >= n_known)
        if new.y.size or known is None:
            features, scores = self._sight.look(new)
            errors = self._sight.errors(new, window) if self._judge.needs_errors else np.full(new.y.size, np.nan)
            found = _Looks(rounds=new.rounds, features=features, scores=scores, errors=errors)
            known = found if known is None or not n_known else known.followed_by(found)
        self._looks, self._looked_with = known, self._model_key
        return int(new.y.size), 0 if before is None else before.rounds.size - n_known

    def _sighting(self, arrived: Arrived) -> Sighting:
        """Return when this is, counted in rounds: of intervals, a window shows all but those that are too old."""
        first = self.clock - self._rule.max_rounds + self._rule.gap
        return Sighting(round_index=arrived.round_index, first=first, stop=self.clock + 1)

    def _told(self, arrived: Arrived) -> Report | None:
        """Return the report of the window if one is due."""
        if self._rule.needs_model and self._reference is None and bool(self._watch.last.is_active[0]):
            self.report_again()  # nobody can say yet how far it moved
        now, tally = self._seen(arrived.window)
        told = self._watch.reports(now, self._sighting(arrived))
        if not len(told):
            return None
        self._tally = tally
        n_samples, kinds = int(told.n_samples[0]), [] if told.kinds is None else told.kinds.tolist()
        has_reference = self._reference is not None or not self._rule.needs_model
        nothing = np.empty(0, dtype=np.float32)
        return Report(
            number=NO_REPORT,
            representation=np.asarray(told.representations[0]) if n_samples and has_reference else nothing,
            n_samples=n_samples,
            kind=DRIFT_KINDS[kinds[0]] if kinds else None,
            tally=None if has_reference or not n_samples else tally[0],
        )

    def _seen(self, window: Kept) -> tuple[WindowsSeen, Matrix]:
        """Return the window as the shared model sees it, and its sums, shape ``(1, n_sums)``."""
        looks = self._looks
        if looks is None:
            raise RuntimeError("nothing was looked at")
        seen = Seen(
            labels=window.y.astype(np.int64),
            features=looks.features,
            scores=looks.scores,
            sizes=np.array([window.y.size]),
            gradients=lambda: self._sight.gradient(window),
            n_head=self._sight.n_head,
        )
        # Of an empty window nobody knows how many numbers it would take: no model may ever have seen a sample.
        tally = self._representation.tally(seen) if window.y.size else np.empty((0, 0))
        vectors = self._vectors(tally) if window.y.size else np.zeros((1, 1), dtype=np.float32)
        now = WindowsSeen(clients=ME, intervals=window.rounds, seen=seen, errors=looks.errors, vectors=vectors)
        return now, tally

    def _vectors(self, tally: Matrix) -> npt.NDArray[np.float32]:
        reference = tally[0] if self._reference is None else self._reference
        return self._representation.vectors(tally, reference).astype(np.float32)

    # ---- on disk ---------------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return what it knows: what was seen, what was said, and when."""
        known: dict[str, npt.NDArray[np.generic]] = {
            **self._watch.arrays(),
            **self._watch.last.arrays(),
            _CLOCKS: np.array([self.clock, self._looked_at], dtype=np.int64),
            _MODEL: np.frombuffer(self._looked_with.encode(), dtype=np.uint8),
            _TALLY: self._tally,
        }
        if self._looks is not None:
            known |= {f"looks.{name}": getattr(self._looks, name) for name in _Looks.__slots__}
        return {name: array.astype(np.int64) if array.dtype.kind == "i" else array for name, array in known.items()}

    def restore(self, arrays: Arrays) -> None:
        """Take over what it knew; what was said last is held against the reference that has come since."""
        try:
            self._watch.restore(arrays)
            self._watch.last.restore(arrays)
            self.clock, self._looked_at = (int(one) for one in arrays[_CLOCKS].tolist())
            self._looked_with, self._tally = arrays[_MODEL].tobytes().decode(), arrays[_TALLY].astype(np.float64)
            if "looks.rounds" in arrays:
                self._looks = _Looks(**{name: arrays[f"looks.{name}"] for name in _Looks.__slots__})  # type: ignore[arg-type]
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"what was saved describes no watch over samples ({error}); start anew") from None
        if self._tally.size and self._looked_with == self._model_key:
            self._watch.last.vectors = self._vectors(self._tally)
