"""Reports of clients until they are sent: which travel when, their bytes, and the shared model that they rest on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Json, Mask, Models
from fielding.client.fleet import FleetReports
from fielding.client.report import ReportBatch
from fielding.engine.plugins import GLOBAL, POOL
from fielding.federation.ledger import Costs
from fielding.federation.roll_call import RollCall, roll_call_with
from fielding.methods.kinds import ReportsFrom
from fielding.runtime.observe import NOTHING, LookingCosts, Observer, SampleObserver, ServedErrors
from fielding.simulation.costs import BYTES_PER_NUMBER
from fielding.traces.sliding import SlidingWindows
from fielding.training.trainer import Gather

_MODEL = "shared_model"
LEAST_SPARED = 0.05  # share of the errors of always saying the most frequent label that a model with skill spares
SURE = 2.0  # standard errors that its accuracy lies above, too
MOST_MEASURED = 1000  # samples that are enough to see skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """How often a shared model is right on ``n_samples`` samples that it was not trained on.

    ``baseline``: how often always saying the most frequent of their labels is.

    Examples
    --------
    >>> predicted, labels = np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1])
    >>> Skill.of(predicted, labels)
    Skill(accuracy=0.75, baseline=0.5, n_samples=4)
    """

    accuracy: float
    baseline: float
    n_samples: int

    @classmethod
    def of(cls, predicted: Counts, labels: Counts) -> "Skill":
        """Return the skill that predictions of at least one sample show."""
        return cls(
            accuracy=float((predicted == labels).mean()),
            baseline=float(np.bincount(labels).max() / labels.size),
            n_samples=int(labels.size),
        )

    def note(self, shared_model: str, *, is_natural: bool) -> str | None:
        """Return what users should know of a model of such skill; None if nothing.

        ``shared_model`` as in the config. On natural traces a pool holds labels of clients, which may contradict each
        other; then a model that is right most of the time shows that they do not.
        """
        error = np.sqrt(self.accuracy * (1.0 - self.accuracy) / self.n_samples)
        is_skilled = self.accuracy > self.baseline + max(SURE * error, LEAST_SPARED * (1.0 - self.baseline))
        is_doubtful = shared_model == POOL and is_natural and self.accuracy < 0.5
        if is_skilled and not is_doubtful:
            return None
        found = (
            f"the shared model gets {self.accuracy:.0%} of samples right that it was not trained on, the most frequent "
            f"label alone {self.baseline:.0%}; "
        )
        if is_doubtful:
            return (
                f'{found}labels of held-out samples may contradict each other: try coordinator.shared_model = "global"'
            )
        other = {POOL: "raise trace.held_out or coordinator.shared_epochs", GLOBAL: "raise coordinator.shared_rounds"}
        return f"{found}reports that rest on it say little: {other.get(shared_model, 'give a better model')}"


class SharedModel:
    """Gives an observer that needs them a shared model and the errors of served models; others are left alone.

    After ``rounds`` rounds the clients get the model that they wait for, if they do. ``kind`` is what the config calls
    it, ``is_natural`` says whether the trace is. ``skill``: of the model that was shared last; None if not measured.
    ``comes_late``: whether clients have to train before there is one.
    """

    def __init__(
        self, observer: Observer | None, *, rounds: int, kind: str | None = None, is_natural: bool = False
    ) -> None:
        self._observer = observer if isinstance(observer, SampleObserver) else None
        self._rounds, self._kind, self._is_natural = rounds, kind, is_natural
        self.comes_late = self._observer is not None and self._observer.awaits_model
        self.skill: Skill | None = None
        self._model: Models | None = None

    def is_time(self, n_done: int) -> bool:
        """Return whether clients wait for a model that is due after so many rounds."""
        return self._observer is not None and self._observer.awaits_model and n_done >= self._rounds

    def share(self, model: Models) -> None:
        """Send a model to all clients, and remember it."""
        if self._observer is not None:
            self._model = model.copy()
            self._observer.share(self._model)

    def measure_skill(self, rows: Counts, gather: Gather) -> None:
        """Measure the skill of the model that clients have, if any, on some samples; no method sees it."""
        if self._observer is None or not rows.size:
            return
        chosen = rows[np.linspace(0, rows.size - 1, min(MOST_MEASURED, rows.size)).astype(np.int64)]
        predicted = self._observer.predict(chosen, gather)
        if predicted is not None:
            self.skill = Skill.of(predicted, gather(chosen)[1].astype(np.int64))

    def record(self) -> dict[str, Json]:
        """Return the skill of the shared model for the log, if it was measured in this round."""
        if self.skill is None:
            return {}
        note = None if self._kind is None else self.skill.note(self._kind, is_natural=self._is_natural)
        return {
            "shared_accuracy": round(self.skill.accuracy, 6),
            "shared_baseline": round(self.skill.baseline, 6),
            **({} if note is None else {"note": note}),
        }

    def listen(self, errors: ServedErrors) -> None:
        """Let clients know how the models that serve them err, if they want to."""
        if self._observer is not None:
            self._observer.served_errors = errors

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what going through the data again does not tell."""
        shared: dict[str, npt.NDArray[np.generic]] = {} if self._model is None else {_MODEL: self._model}
        return shared if self._observer is None else {**shared, **self._observer.arrays()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` gave, before all rounds are gone through again."""
        if self._observer is not None:
            self._observer.restore(arrays)
            self._model = arrays[_MODEL].astype(np.float32) if _MODEL in arrays else None

    def share_again(self, n_done: int) -> None:
        """Send the model that is known from before, when its time has come again."""
        if self._model is not None and self.is_time(n_done):
            self.share(self._model)


def judging_rows(windows: SlidingWindows, round_index: int) -> Counts:
    """Return the test samples of all windows in a round: no model was trained on them, and no method sees the skill."""
    return windows.testing(round_index).of(np.arange(windows.n_clients))[0]


IsOnline: TypeAlias = Callable[[Counts], Mask]  # says which of some clients can be reached now

_SENT = ("sent_round", "sent_client")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentReports:
    """Reports that are sent.

    Parameters
    ----------
    clients, n_samples
        The clients that report, and how many samples each report sums up, shape ``(n_reports,)``.
    representations
        Shape ``(n_reports, n_features)``; of flags 1 for a client with data and 0 for one without.
    looked
        What it took clients to look at what arrived, whether or not they report.
    kinds
        The kind of drift that each saw, where clients look for it.
    """

    clients: Counts
    representations: npt.NDArray[np.float32]
    n_samples: Counts
    looked: LookingCosts = field(default_factory=LookingCosts)
    kinds: npt.NDArray[np.int8] | None = None

    def batch(self, client_ids: Sequence[ClientId]) -> ReportBatch:
        """Return the reports as the method gets them, by the ids of all clients."""
        return ReportBatch(
            client_ids=[client_ids[client] for client in self.clients.tolist()],
            representations=self.representations,
            n_samples=self.n_samples,
            kinds=self.kinds,
        )

    def costs(self) -> tuple[Counts, Costs]:
        """Return the clients to charge, rising, and their costs: sending reports, and looking at samples for them."""
        clients = np.union1d(self.clients, self.looked.clients)
        down, up, forward, backward = np.zeros((4, clients.size), dtype=np.int64)
        up[np.isin(clients, self.clients)] = BYTES_PER_NUMBER * self.representations.shape[1]
        looked = np.isin(clients, self.looked.clients)
        down[looked] = BYTES_PER_NUMBER * self.looked.received
        forward[looked], backward[looked] = self.looked.forward, self.looked.backward
        return clients, Costs(down_bytes=down, up_bytes=up, forward_samples=forward, train_samples=backward)


NO_LETTERS = SentReports(clients=NOTHING.clients, representations=NOTHING.representations, n_samples=NOTHING.n_samples)


class Mailbox:
    """Holds back reports of clients that cannot be reached, or that the method does not hear before they train.

    There is no ``observer`` if the method hears no reports. ``reports_from`` says whose it hears, and whether more than
    that they drifted. At the start all clients report. Where the level of the drift test is known, clients are asked
    for a report when others drift. ``waits``: after the start clients keep what is new until :meth:`answer`.
    """

    def __init__(self, observer: Observer | None, reports_from: ReportsFrom, *, waits: bool = False) -> None:
        self._observer, self._reports_from, self._waits = observer, reports_from, waits
        self._unsent: Counts = NOTHING.clients
        self._pending = NOTHING
        self._sent: list[Counts] = []
        self._heard: Counts = NOTHING.clients
        self._has_started = False
        self._roll_call: RollCall | None = None
        if observer is not None and reports_from == "drifted":
            self._roll_call = roll_call_with(observer.level, span=observer.span)

    def send(self, round_index: int, is_online: IsOnline) -> SentReports:
        """Let clients look at what arrived, and return what is sent before the round."""
        if self._observer is None:
            return self._sent_reports(NOTHING)
        asked = NOTHING.clients if self._roll_call is None else np.flatnonzero(self._roll_call.is_asked)
        self._observer.hold(np.union1d(self._unsent, asked))
        reports = self._observer.observe(round_index)
        online = is_online(reports.clients)
        self._unsent = reports.clients[~online]
        reports = _some(reports, online)
        if self._waits and self._has_started:
            looking = self._observer.looked
            if self._reports_from == "first":
                reports, looking = _some(reports, ~np.isin(reports.clients, self._heard)), looking.without(self._heard)
            self._pending, self._unsent = reports, np.sort(np.concatenate([self._unsent, reports.clients]))
            return self._sent_reports(NOTHING, looking)
        self._hear(reports, round_index)
        if self._waits:
            self._has_started = len(reports) > 0
        if self._reports_from == "first":  # clients know that they are not heard any more
            is_new = ~np.isin(reports.clients, self._heard)
            looked = self._observer.looked.without(self._heard) if is_new.any() else None
            self._heard = np.union1d(self._heard, reports.clients)
            return self._sent_reports(_some(reports, is_new), looked)
        is_start, self._has_started = not self._has_started and len(reports) > 0, self._has_started or len(reports) > 0
        if self._reports_from != "participants" or is_start:
            return self._sent_reports(reports, self._observer.looked)
        self._pending, self._unsent = reports, np.sort(np.concatenate([self._unsent, reports.clients]))
        return self._sent_reports(NOTHING, self._observer.looked)

    def collect(self, clients: Counts, round_index: int) -> SentReports:
        """Return what participants send with their models; the others keep theirs until they take part."""
        if self._reports_from != "participants":
            return self._sent_reports(NOTHING)
        is_sent = np.isin(self._pending.clients, clients)
        reports = _some(self._pending, is_sent)
        self._pending = NOTHING
        if self._observer is not None and round_index:
            self._unsent = np.setdiff1d(self._unsent, reports.clients)
            self._sent.append(np.column_stack([np.full(reports.clients.size, round_index), reports.clients]))
        return self._sent_reports(reports)

    def answer(self, clients: Counts, round_index: int) -> SentReports:
        """Return what clients send that were asked, or train; the others keep theirs until they are asked."""
        reports = _some(self._pending, np.isin(self._pending.clients, clients))
        self._pending = NOTHING
        self._unsent = np.setdiff1d(self._unsent, reports.clients)
        self._heard = np.union1d(self._heard, reports.clients)
        self._sent.append(np.column_stack([np.full(reports.clients.size, round_index), reports.clients]))
        self._hear(reports, round_index)
        return self._sent_reports(reports)

    def is_worth_asking(self, n_clients: int) -> Mask:
        """Return which clients may have something to tell, shape ``(n_clients,)``: some are heard only once."""
        mask = np.ones(n_clients, dtype=np.bool_)
        if self._reports_from == "first":
            mask[self._heard] = False
        return mask

    def _hear(self, reports: FleetReports, round_index: int) -> None:
        if self._roll_call is not None:
            self._roll_call.hear(reports.clients, reports.representations, reports.n_samples, round_index=round_index)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return which clients sent a report with a model, and when: looking at the data again does not tell."""
        pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *self._sent])
        return {name: pairs[:, column].astype("<i8") for column, name in enumerate(_SENT)}

    def sent_in(self, round_index: int, arrays: dict[str, npt.NDArray[np.generic]]) -> Counts:
        """Return which clients sent a report with a model in a round, from the arrays of a checkpoint."""
        rounds, clients = (arrays.get(name, np.empty(0, dtype=np.int64)) for name in _SENT)
        return np.asarray(clients[rounds == round_index], dtype=np.int64)

    def _sent_reports(self, reports: FleetReports, looked: LookingCosts | None = None) -> SentReports:
        representations = reports.representations
        if self._reports_from == "flags":
            representations = (reports.n_samples > 0).astype(np.float32)[:, np.newaxis]
        return SentReports(
            clients=reports.clients,
            representations=representations,
            n_samples=reports.n_samples,
            looked=looked or LookingCosts(),
            kinds=reports.kinds,
        )


def _some(reports: FleetReports, kept: Mask) -> FleetReports:
    """Return some of the reports."""
    if kept.all():
        return reports
    return FleetReports(
        clients=reports.clients[kept],
        representations=reports.representations[kept],
        n_samples=reports.n_samples[kept],
        kinds=None if reports.kinds is None else reports.kinds[kept],
    )
