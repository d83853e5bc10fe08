"""Stages 1 to 4: data arrive, windows slide, and clients whose data drifted report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Features, Floats, Mask, Matrix, Models, Vector
from fielding.client.drift import AnyChange, DriftTest, Threshold
from fielding.client.drift.detectors import DriftDetector, check_vector_test, compare_vectors
from fielding.client.drift_monitor import CurrentWindows, DriftMonitor
from fielding.client.fleet import Fleet, FleetReports
from fielding.client.ranges import Ranges
from fielding.client.representation.representation import Effort, Representation, Seen
from fielding.distance import Metric
from fielding.errors import CheckpointError, InputError, echo, error_words
from fielding.runtime.store import Arriving
from fielding.runtime.workers import Compute
from fielding.training.head import head_size
from fielding.training.trainer import Gather, Scores

Columns = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[np.generic]]


class Sight:
    """Features and scores of the training samples that are visible now; every sample is looked at once.

    ``compute`` looks at samples with the shared model; None if representations need none: labels speak for themselves.

    ``model`` is the shared one, float32; None until one is shared.
    """

    def __init__(self, windows: Arriving, compute: Compute | None) -> None:
        self._windows, self._compute = windows, compute
        self.model: Models | None = None
        self.forget()

    def forget(self) -> None:
        """Forget all samples: they are new again."""
        self._rows: Counts = np.empty(0, dtype=np.int64)
        self._features: Columns = np.empty((0, 0), dtype=np.float32)
        self._scores: Scores = np.empty((0, self._windows.n_classes), dtype=np.float32)

    @property
    def needs_model(self) -> bool:
        """Whether samples go through a shared model at all."""
        return self._compute is not None

    @property
    def is_open(self) -> bool:
        """Whether there is all that is needed to see."""
        return not self.needs_model or self.model is not None

    @property
    def has_columns(self) -> bool:
        """Whether it is known how many features a sample has."""
        return not self.needs_model or self._features.shape[1] > 0

    def show(self, rows: Counts) -> tuple[Counts, Counts]:
        """Look at what is new among the rows, rising, that are visible from now on; return those gone and those new."""
        is_kept = np.isin(self._rows, rows, assume_unique=True)
        new = rows[~np.isin(rows, self._rows, assume_unique=True)]
        if self._compute is None or self.model is None or not new.size:
            features = np.zeros((new.size, self._features.shape[1]), dtype=np.float32)
            scores = np.zeros((new.size, self._scores.shape[1]), dtype=np.float32)
        else:
            features, scores = self._compute.features(self.model, new, self._windows.gather)
        if not self._rows.size:
            self._features = features[:0]  # how many there are shows with the first samples
        order = np.argsort(np.concatenate([self._rows[is_kept], new]))
        self._features = np.concatenate([self._features[is_kept], features])[order]
        self._scores = np.concatenate([self._scores[is_kept], scores])[order]
        gone, self._rows = self._rows[~is_kept], rows
        return gone, new

    def predict(self, rows: Counts, gather: Gather) -> Counts | None:
        """Return the class that the shared model gives to any samples, for measuring its skill; None without one."""
        if self._compute is None or self.model is None:
            return None
        scores = self._compute.features(self.model, rows, gather)[1]
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    def of(self, rows: Counts, sizes: Counts) -> Seen:
        """Return visible samples as representations want them; those of a client stand together, ``sizes`` each."""
        at = np.searchsorted(self._rows, rows)
        compute, n_classes = self._compute, self._scores.shape[1]
        return Seen(
            labels=self._windows.labels(rows).astype(np.int64),
            features=self._features[at],
            scores=self._scores[at],
            sizes=sizes,
            gradients=lambda: self._gradients(rows, sizes),
            n_head=0 if compute is None else head_size(compute.layout, n_classes),
        )

    def _gradients(self, rows: Counts, sizes: Counts) -> Matrix:
        """Return the gradient of the summed loss of each client's samples."""
        if self._compute is None or self.model is None:
            raise RuntimeError("gradients need a shared model")
        found = np.zeros((sizes.size, self._compute.layout.parameter_size))
        ends = np.cumsum(sizes)
        for client, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
            if end > start:
                own = rows[int(start) : int(end)]
                found[client] = self._compute.gradient(self.model, own, self._windows.gather)
        return found

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what was seen of the visible samples, for :meth:`restore`."""
        return {"looks.rows": self._rows, "looks.features": self._features, "looks.scores": self._scores}

    def restore(self, arrays: Arrays) -> None:
        """Take over what :meth:`arrays` gave."""
        self._rows = arrays["looks.rows"].astype(np.int64)
        self._features = arrays["looks.features"].astype(np.float32)
        self._scores = arrays["looks.scores"].astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookingCosts:
    """How many samples clients put through a model to describe them, whether or not they report.

    ``forward`` and ``backward``: samples that each of ``clients``, rising, put through a model, and those that went
    back through it, too; ``received``: numbers that each was sent for it, once (the shared model, and what windows are
    compared with), or one number for all.
    """

    clients: Counts = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    forward: Counts = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    backward: Counts = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    received: Counts | int = 0

    def without(self, clients: Counts) -> "LookingCosts":
        """Return what it took all but some clients."""
        kept = ~np.isin(self.clients, clients)
        received = self.received[kept] if isinstance(self.received, np.ndarray) else self.received
        return LookingCosts(
            clients=self.clients[kept], forward=self.forward[kept], backward=self.backward[kept], received=received
        )

    @classmethod
    def at(cls, n_samples: Counts, effort: Effort) -> "LookingCosts":
        """Return what it takes all clients to look at so many samples each."""
        clients = np.flatnonzero(n_samples if effort != "none" else np.zeros_like(n_samples))
        none = np.zeros_like(clients)
        samples = n_samples[clients]
        return cls(
            clients=clients,
            forward=samples if effort == "forward" else none,
            backward=samples if effort == "backward" else none,
        )


class Observer(Protocol):
    """Watches all clients; has to be asked round by round, from 0."""

    @property
    def looked(self) -> LookingCosts:
        """What it took clients to look at what arrived with the last observation."""
        ...

    @property
    def level(self) -> float | None:
        """Share of clients that report drift by chance when data arrive; None if it is not known."""
        ...

    @property
    def span(self) -> int:
        """Rounds that a window spans."""
        ...

    def observe(self, round_index: int) -> FleetReports:
        """Take in what arrives by the start of a round and return the reports that are due."""
        ...

    def hold(self, clients: Counts) -> None:
        """Take reports back that could not be sent; they are due again in the next round."""
        ...


class LabelObserver:
    """Clients report the label histogram of their training window."""

    looked = LookingCosts()  # labels are counted as they come

    def __init__(self, windows: Arriving, drift_test: DriftTest, representation: Representation | None = None) -> None:
        self._representation = representation
        self._windows = windows
        self.level: float | None = getattr(drift_test, "level", None)
        self.span = windows.n_visible * windows.gap
        self._fleet = Fleet(windows.n_clients, windows.n_classes, drift_test=drift_test, max_rounds=self.span)
        self._n_seen = 0
        self._held = NOTHING.clients

    def observe(self, round_index: int) -> FleetReports:
        """Let samples arrive and leave, and test for drift."""
        held, self._held = self._held, NOTHING.clients
        n_complete = self._windows.n_complete(round_index)
        if self._n_seen == n_complete:  # windows are as they were: reports that were held go out as they are now
            return self._represent(self._fleet.report(held)) if held.size else NOTHING
        self._fleet.report_again(held)
        reports = NOTHING
        for interval in range(self._n_seen, n_complete):
            if round_index == 0:
                # A client that reported while the first window filled up reports all of it at the start.
                self._fleet.report_again(np.flatnonzero(self._fleet.counts.any(axis=1)))
            arrival = (interval + 1) * self._windows.gap
            reports = self._fleet.arrive(self._windows.arrivals(interval), arrival)
        self._n_seen = n_complete
        return self._represent(reports)

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._held = clients

    def _represent(self, reports: FleetReports) -> FleetReports:
        """Return reports as the representation has them; shares of labels as they are without one."""
        if self._representation is None or not len(reports):
            return reports
        counts = self._fleet.counts[reports.clients].astype(np.float64)
        vectors = self._representation.vectors(counts, counts.sum(axis=0))
        return replace(reports, representations=vectors.astype(np.float32))


NOTHING = FleetReports(
    clients=np.empty(0, dtype=np.int64),
    representations=np.empty((0, 0), dtype=np.float32),
    n_samples=np.empty(0, dtype=np.int64),
)
"""No client has anything to report."""


Represent: TypeAlias = Callable[[Features, Counts, int], Floats]
"""Returns the representation of a window: features ``(n, ...)``, labels ``(n,)``, number of classes -> ``(d,)``."""


class VectorObserver:
    """Clients report what a function makes of their training window.

    ``represent`` is called for every window that changed. ``drift_test``: any that needs no label counts: any change,
    threshold (in the unit of ``metric``), periodic, always, never.
    """

    def __init__(self, windows: Arriving, represent: Represent, *, drift_test: DriftTest, metric: Metric) -> None:
        check_vector_test(drift_test)
        self._windows, self._represent = windows, represent
        self._drift_test, self._metric = drift_test, metric
        self._reported: Floats | None = None
        self._reported_round = np.zeros(windows.n_clients, dtype=np.int64)
        self._was_active = np.zeros(windows.n_clients, dtype=np.bool_)
        self._owes = np.zeros(windows.n_clients, dtype=np.bool_)
        self._version: tuple[int, ...] = ()
        self._ranges: Ranges | None = None
        self.level, self.span = None, windows.n_visible * windows.gap
        self.looked = LookingCosts()

    def observe(self, round_index: int) -> FleetReports:
        """Describe the windows that changed and compare them with what was reported."""
        self.looked = LookingCosts()
        version = self._windows.version(round_index)
        touched = self._owes.copy()
        if version != self._version:
            now, before = self._windows.training(round_index), self._ranges
            touched |= now.sizes > 0 if before is None else (now.start != before.start) | (now.stop != before.stop)
            if self._drift_test.is_timed:
                touched |= self._was_active
            self._version, self._ranges = version, now
        clients = np.flatnonzero(touched)
        if not clients.size:
            return NOTHING
        vectors, sizes = self._describe(clients, round_index)
        has_samples = sizes > 0
        due = np.asarray(self._owes[clients] | (has_samples != self._was_active[clients]))
        if self._reported is not None:
            age = round_index - self._reported_round[clients]
            due |= has_samples & compare_vectors(self._drift_test, vectors, self._reported[clients], age, self._metric)
        # A function of the user's own is taken to look at every sample once; by the clock alone only who reports looks.
        looks = np.full_like(due, isinstance(self._drift_test, (AnyChange, Threshold))) | due
        self.looked = LookingCosts(
            clients=clients[looks], forward=sizes[looks], backward=np.zeros(int(looks.sum()), dtype=np.int64)
        )
        clients, vectors, sizes = clients[due], vectors[due], sizes[due]
        if self._reported is None:
            self._reported = np.zeros((self._windows.n_clients, vectors.shape[1]), dtype=np.float32)
        self._reported[clients] = vectors
        self._reported_round[clients] = round_index
        self._was_active[clients] = sizes > 0
        self._owes[clients] = False
        return FleetReports(clients=clients, representations=vectors.astype(np.float32), n_samples=sizes)

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._owes[clients] = True

    def _describe(self, clients: Counts, round_index: int) -> tuple[Floats, Counts]:
        """Return the representation of each window, zeros for an empty one, and how many samples it sums up."""
        ranges, n_classes = self._windows.training(round_index), self._windows.n_classes
        rows: dict[int, Floats] = {}
        for at, client in enumerate(clients):
            window, _ = ranges.of(np.array([client]))
            if window.size:
                x, y = self._windows.gather(window)
                rows[at] = self._vector(x, y.astype(np.int64), n_classes)
        widths = [row.size for row in rows.values()] if self._reported is None else [self._reported.shape[1]]
        width = max(widths, default=0)
        vectors = np.zeros((clients.size, width), dtype=np.float32)
        for at, row in rows.items():
            if row.size != width:
                raise InputError(
                    f"coordinator.representation: one has {row.size} numbers, another one {width}; make all alike"
                )
            vectors[at] = row
        return vectors, ranges.sizes[clients]

    def _vector(self, x: Features, y: Counts, n_classes: int) -> Floats:
        """Describe one window, and say in one line what is wrong if that fails."""
        try:
            vector = self._represent(x, y, n_classes)
            array = np.asarray(vector)
            if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise InputError(f"a representation is {echo(vector)}; return a vector of finite numbers")
            if not array.any():
                raise InputError(
                    "a representation is all zeros, which says that a client has no data; add a constant 1 to it"
                )
            return array.astype(np.float32)
        except InputError as error:
            raise InputError(f"coordinator.representation: {error}") from None
        except Exception as error:  # whatever the user's function does
            raise InputError(f"coordinator.representation fails on {y.size} samples: {error_words(error)}") from error

    def try_out(self) -> None:
        """Describe one window of the start, so that a function that cannot work is found before anything is written."""
        ranges = self._windows.training(0)
        window, _ = ranges.of(np.flatnonzero(ranges.sizes)[:1])
        if window.size:
            x, y = self._windows.gather(window)
            self._vector(x, y.astype(np.int64), self._windows.n_classes)


ServedErrors = Callable[[Counts], Vector]  # returns 1 where the model that serves its client errs on a row, else 0

_ERRORS = "served_errors"


class SampleObserver:
    """Clients report what a representation makes of their training window, as a shared model sees it.

    What they report is relative to a reference: the sums over all clients at the start, which the coordinator sends
    back once. When they report is up to :class:`~fielding.client.drift_monitor.DriftMonitor`.

    ``is_whole``: whether these are all clients, so that their first sums are the reference; a device waits for it.

    ``served_errors`` tells the errors of served models on samples that arrive, for detectors that need them; None until
    models serve. ``reference``: the sums that reports are relative to, None as long as they are not known. ``tallies``:
    the sums of all windows that were described when a report was due last. ``looked_with``: the key of the model that
    samples were seen with; empty for none, or one without a key.
    """

    def __init__(
        self,
        windows: Arriving,
        representation: Representation,
        *,
        detector: DriftDetector,
        sight: Sight,
        is_whole: bool = True,
    ) -> None:
        self._windows, self._representation, self._detector, self._sight = windows, representation, detector, sight
        self._is_whole = is_whole
        self.served_errors: ServedErrors | None = None
        self.reference: Vector | None = None
        self.tallies: Matrix = np.empty((0, 0))
        self._monitor = DriftMonitor(windows.n_clients, detector, has_turnover=windows.n_visible > 1)
        self._is_equipped = np.zeros(windows.n_clients, dtype=np.bool_)
        self._version: tuple[int, ...] = ()
        self.looked_with = ""
        self._errors = np.full(windows.n_rows if detector.needs_errors else 0, np.nan, dtype=np.float32)
        self.level, self.span = None, windows.n_visible * windows.gap
        self.looked = LookingCosts()
        self._n_to_send = 0

    def share(self, model: Models, key: str = "") -> None:
        """Let clients see their samples with a model from now on; who looks at samples first has to be sent it.

        What was seen with a model of another key is forgotten, and clients that reported it report again.
        """
        if self.looked_with and self.looked_with != key:
            self._sight.forget()
            self._version = ()
            self._monitor.report_again(np.flatnonzero(self._monitor.last.is_active))
        self._sight.model, self.looked_with = model, key
        self._n_to_send = model.size

    @property
    def awaits_model(self) -> bool:
        """Whether clients lack the shared model that they describe their windows with."""
        return not self._sight.is_open

    def predict(self, rows: Counts, gather: Gather) -> Counts | None:
        """Return the class that the shared model gives to any samples, for measuring its skill; None without one."""
        return self._sight.predict(rows, gather)

    @property
    def is_active(self) -> Mask:
        """Which clients had samples when they reported last, shape ``(n_clients,)``."""
        return self._monitor.last.is_active

    def observe(self, round_index: int) -> FleetReports:
        """Look at what arrived, and return the reports that are due."""
        self.looked = LookingCosts()
        if self.awaits_model:
            return NOTHING
        touched, version = self._monitor.owing(), self._windows.version(round_index)
        first, stop = self._windows.visible(round_index)
        if version != self._version:
            touched |= self._look_at_arrivals(round_index)
            touched |= self._monitor.turn_over(first)
            self._version = version
        clients = np.flatnonzero(touched)
        if not clients.size:
            return NOTHING
        now, tallies = self._windows_of(clients, round_index)
        due = self._monitor.reports(now, round_index=round_index, first=first, stop=stop)
        if len(due):
            self.tallies = tallies
        return due

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._monitor.report_again(clients)

    def _look_at_arrivals(self, round_index: int) -> Mask:
        """Look at what is new; return whose window changed, and, if the clock counts, who has reported."""
        rows, _ = self._windows.training(round_index).of(np.arange(self._windows.n_clients))
        gone, new = self._sight.show(np.sort(rows))
        if self._detector.needs_errors and self.served_errors is not None:
            slots = self._windows.slots(new)
            unknown = np.isnan(self._errors[slots])
            self._errors[slots[unknown]] = self.served_errors(new[unknown])
        n_clients = self._windows.n_clients
        n_new = np.bincount(self._windows.owners(new), minlength=n_clients)
        effort = self._representation.effort
        self.looked = LookingCosts.at(n_new, "forward" if effort == "none" and self._sight.needs_model else effort)
        changed = (n_new > 0) | (np.bincount(self._windows.owners(gone), minlength=n_clients) > 0)
        return np.asarray(changed | self._monitor.last.is_active) if self._detector.is_timed else np.asarray(changed)

    def _windows_of(self, clients: Counts, round_index: int) -> tuple[CurrentWindows, Matrix]:
        """Return the windows of some clients, and their sums; the first sums of all become the reference."""
        rows, sizes = self._windows.training(round_index).of(clients)
        seen = self._sight.of(rows, sizes)
        tallies: Matrix = np.empty((0, 0))
        vectors = np.zeros((clients.size, 1), dtype=np.float32)
        if rows.size or self._sight.has_columns:  # else it is not known how many numbers an empty window would take
            tallies = self._representation.tally(seen)
            vectors = self.vectors(tallies)
        if self.reference is not None:  # clients that look for the first time are sent the model, and this
            looking = self.looked.clients
            n_sent = np.where(self._is_equipped[looking], 0, self._n_to_send + self.reference.size)
            self.looked = replace(self.looked, received=n_sent)
            self._is_equipped[looking] = True
        errors = self._errors[self._windows.slots(rows)] if self._detector.needs_errors else np.full(rows.size, np.nan)
        windows = CurrentWindows(
            clients=clients,
            intervals=self._windows.moments(rows),
            seen=seen,
            errors=errors.astype(np.float64),
            vectors=vectors,
        )
        return windows, tallies

    def vectors(self, tallies: Matrix) -> npt.NDArray[np.float32]:
        """Return what windows with such sums report."""
        reference = tallies.sum(axis=0) if self.reference is None else self.reference
        if self._is_whole:
            self.reference = reference
        return self._representation.vectors(tallies, reference).astype(np.float32)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what going through the data again does not tell: how served models once erred."""
        return {_ERRORS: self._errors} if self._detector.needs_errors else {}

    def restore(self, arrays: Arrays) -> None:
        """Take over what :meth:`arrays` gave, before all rounds are observed again."""
        if self._detector.needs_errors:
            self._errors = arrays[_ERRORS].astype(np.float32)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return all that is known, for :meth:`resume`: a device cannot go through its data again."""
        looks = self._sight.arrays()
        rows = looks["looks.rows"].astype(np.int64)
        errors = self._errors[self._windows.slots(rows)] if self._detector.needs_errors else np.full(rows.size, np.nan)
        known: dict[str, npt.NDArray[np.generic]] = {
            **self._monitor.arrays(),
            **self._monitor.last.arrays(),
            **looks,
            "looks.errors": errors.astype(np.float32),
            "watch.version": np.array(self._version, dtype=np.int64),
            "watch.model": np.frombuffer(self.looked_with.encode(), dtype=np.uint8),
            "watch.tally": self.tallies,
        }
        return {name: array.astype(np.int64) if array.dtype.kind == "i" else array for name, array in known.items()}

    def resume(self, arrays: Arrays) -> None:
        """Take over what :meth:`state` gave; rows that the store has thrown away since are forgotten."""
        try:
            self._monitor.restore(arrays)
            self._monitor.last.restore(arrays)
            self._sight.restore(arrays)
            self._version = tuple(int(one) for one in arrays["watch.version"].tolist())
            self.looked_with = arrays["watch.model"].tobytes().decode()
            self.tallies = arrays["watch.tally"].astype(np.float64)
            if self._detector.needs_errors:
                rows, errors = arrays["looks.rows"].astype(np.int64), arrays["looks.errors"].astype(np.float32)
                is_here = np.isin(rows, self._windows.all_rows())
                self._errors[self._windows.slots(rows[is_here])] = errors[is_here]
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"what was saved describes no watch over samples ({error}); start anew") from None

    def compare_last_with_reference(self) -> None:
        """Hold what was reported last against the reference that has come since."""
        if self.tallies.size:
            self._monitor.last.vectors = self.vectors(self.tallies)
