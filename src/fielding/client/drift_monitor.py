"""Stages 3 and 4 with a representation on a shared model: who has to report, and what was said last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector
from fielding.client.drift.detectors import Comparison, DriftDetector
from fielding.client.drift.drift_test import Batch, batch_of
from fielding.client.fleet import FleetReports
from fielding.client.representation.representation import Seen

_COLUMNS = ("sizes", "labels", "predicted", "features", "errors")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurrentWindows:
    """Windows of some clients now.

    ``clients`` rise; ``intervals`` and ``errors`` have an entry per sample: when it came, and how the served model
    erred on it before it saw it, NaN where that is not known.
    """

    clients: Counts
    intervals: Counts
    seen: Seen
    errors: Vector
    vectors: npt.NDArray[np.float32]

    @property
    def sizes(self) -> Counts:
        """How many samples each window holds."""
        return self.seen.sizes

    def n_since(self, first: Counts) -> Counts:
        """Return how many samples of each client came in an interval of its own or later."""
        return np.bincount(self.seen.owners[self._since(first)], minlength=self.clients.size)

    def batch(self, some: Counts, *, first: Counts | None = None, stop: Counts | None = None) -> Batch:
        """Return the samples of some of the clients, given by position, that came within intervals of their own.

        ``some`` rise. ``first``, ``stop``: the first interval that counts and the first that does not; None for no
        bound.
        """
        kept = np.isin(self.seen.owners, some)
        if first is not None:
            kept &= self._since(first)
        if stop is not None:
            kept &= ~self._since(stop)
        sizes = np.bincount(self.seen.owners[kept], minlength=self.clients.size)[some]
        part = Seen(
            labels=self.seen.labels[kept],
            features=self.seen.features[kept],
            scores=self.seen.scores[kept],
            sizes=sizes,
        )
        return batch_of(part, errors=self.errors[kept])

    def _since(self, first: Counts) -> Mask:
        return np.asarray(self.intervals >= np.repeat(first, self.sizes))


class LastReports:
    """What every client reported last: the vector, when, and the samples that it summed up."""

    def __init__(self, n_clients: int) -> None:
        self.vectors: npt.NDArray[np.float32] = np.zeros((n_clients, 0), dtype=np.float32)
        self.rounds, self.until = (np.zeros(n_clients, dtype=np.int64) for _ in range(2))
        self.is_active = np.zeros(n_clients, dtype=np.bool_)
        self._batches: dict[int, Batch] = {}

    def keep(self, windows: CurrentWindows, due: Counts, *, round_index: int, until: int) -> None:
        """Remember the reports of the clients at the positions ``due``; ``until`` is the first interval to come."""
        if self.vectors.shape[1] != windows.vectors.shape[1]:
            self.vectors = np.zeros((self.vectors.shape[0], windows.vectors.shape[1]), dtype=np.float32)
        who = windows.clients[due]
        self.vectors[who] = windows.vectors[due]
        self.rounds[who], self.until[who] = round_index, until
        self.is_active[who] = windows.sizes[due] > 0
        for client, batch in zip(who.tolist(), split_by_client(windows.batch(due)), strict=True):
            self._batches[client] = batch

    def batch(self, clients: Counts) -> Batch:
        """Return the samples that the last reports of some clients summed up."""
        return join_batches([self._batches[client] for client in clients.tolist()])

    def sizes(self, clients: Counts) -> Counts:
        """Return how many these were."""
        return np.array([self._batches[client].sizes[0] for client in clients.tolist()], dtype=np.int64)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what is known, for :meth:`restore`."""
        arrays: dict[str, npt.NDArray[np.generic]] = {
            "last.vectors": self.vectors,
            "last.rounds": self.rounds,
            "last.until": self.until,
            "last.is_active": self.is_active,
            "last.clients": np.array(sorted(self._batches), dtype=np.int64),
        }
        if self._batches:
            batch = self.batch(np.array(sorted(self._batches)))
            arrays["last.n_classes"] = np.array([batch.n_classes])
            arrays |= {f"last.{name}": getattr(batch, name) for name in _COLUMNS}
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` gave for as many clients."""
        self.vectors = arrays["last.vectors"].astype(np.float32)
        self.rounds, self.until = arrays["last.rounds"].astype(np.int64), arrays["last.until"].astype(np.int64)
        self.is_active = arrays["last.is_active"].astype(np.bool_)
        clients, self._batches = arrays["last.clients"].tolist(), {}
        if clients:
            n_classes = int(arrays["last.n_classes"].tolist()[0])
            batch = Batch(**{name: arrays[f"last.{name}"] for name in _COLUMNS}, n_classes=n_classes)  # type: ignore[arg-type]
            self._batches = dict(zip(clients, split_by_client(batch), strict=True))


def split_by_client(batch: Batch) -> list[Batch]:
    """Return a batch per client."""
    return [batch.rows(where, sizes=batch.sizes[client : client + 1]) for client, where in enumerate(batch.clients())]


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Return batches of one client each as one; there is at least one."""
    return Batch(
        sizes=np.concatenate([batch.sizes for batch in batches]),
        n_classes=batches[0].n_classes,
        labels=np.concatenate([batch.labels for batch in batches]),
        predicted=np.concatenate([batch.predicted for batch in batches]),
        features=np.concatenate([batch.features for batch in batches]),
        errors=np.concatenate([batch.errors for batch in batches]),
    )


NEVER = np.iinfo(np.int64).max


class DriftMonitor:
    """Remembers what clients reported last, and says who of those whose windows changed has to report again.

    A report is due when data first come, when they are gone, when the detector finds drift, and when the last one was
    lost. A client that drifted reports once more when the last samples from before have left its window, if the
    detector is slow: until then it describes a mixture, which a test on samples would not find unlike what comes after.

    ``has_turnover``: whether windows show more than one arrival, so that what is from before a drift leaves later.
    """

    def __init__(self, n_clients: int, detector: DriftDetector, *, has_turnover: bool) -> None:
        self.detector, self.last = detector, LastReports(n_clients)
        self._has_turnover = has_turnover
        self._owes = np.zeros(n_clients, dtype=np.bool_)
        self._kinds = np.zeros(n_clients, dtype=np.int8)
        self._turned_over = np.full(n_clients, NEVER, dtype=np.int64)

    def report_again(self, clients: Counts) -> None:
        """Let clients report again when they are looked at next: their last report was lost."""
        self._owes[clients] = True

    def owing(self) -> Mask:
        """Return who has to report whatever its window shows, shape ``(n_clients,)``."""
        return self._owes.copy()

    def turn_over(self, first: int) -> Mask:
        """Return who has to report when windows begin to show no interval before ``first``."""
        has_turned_over = self._turned_over <= first
        self._kinds[has_turned_over & ~self._owes] = 0
        self._owes |= has_turned_over
        return self._owes.copy()

    def reports(self, now: CurrentWindows, *, round_index: int, first: int, stop: int) -> FleetReports:
        """Return the reports that are due of clients whose windows are given; later ones are compared with them.

        ``first``, ``stop``: the first interval that windows show, and the first that has not come yet; or other numbers
        that rise with time.
        """
        has, was_active, owes = now.sizes > 0, self.last.is_active[now.clients], self._owes[now.clients]
        # A client that could not report then still says what it saw.
        kinds = np.where(owes, self._kinds[now.clients], 0).astype(np.int8)
        must = owes | (has != was_active)
        drifted = np.zeros(has.size, dtype=np.bool_)
        doubted = np.flatnonzero(has & was_active & ~must)
        if doubted.size:
            drifted[doubted], kinds[doubted] = self.detector.detect(self._comparison(now, doubted, round_index, stop))
        due = np.flatnonzero(must | drifted)
        self.last.keep(now, due, round_index=round_index, until=stop)
        who = now.clients[due]
        self._owes[who], self._kinds[who] = False, kinds[due]
        self._turned_over[who[(self._turned_over[who] <= first) | (now.sizes[due] == 0)]] = NEVER
        if self._has_turnover and self.detector.is_slow:
            self._turned_over[now.clients[drifted]] = stop - 1
        return FleetReports(clients=who, representations=now.vectors[due], n_samples=now.sizes[due], kinds=kinds[due])

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what is known beside the last reports, for :meth:`restore`."""
        return {"watch.owes": self._owes, "watch.kinds": self._kinds, "watch.turned_over": self._turned_over}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` gave."""
        self._owes = arrays["watch.owes"].astype(np.bool_)
        self._kinds = arrays["watch.kinds"].astype(np.int8)
        self._turned_over = arrays["watch.turned_over"].astype(np.int64)

    def _comparison(self, now: CurrentWindows, doubted: Counts, round_index: int, stop: int) -> Comparison:
        """Return what some of the clients, by position, know of themselves now and at their last report."""
        who, since = now.clients[doubted], self.last.until[now.clients]
        newest = np.full(now.clients.size, stop - 1)
        return Comparison(
            now=now.vectors[doubted],
            before=self.last.vectors[who],
            age=round_index - self.last.rounds[who],
            n_now=now.sizes[doubted],
            n_fresh=now.n_since(since)[doubted],
            n_before=self.last.sizes(who),
            reference=lambda some: self.last.batch(who[some]),
            fresh=lambda some: now.batch(doubted[some], first=since),
            newest=lambda some: now.batch(doubted[some], first=newest),
            earlier=lambda some: now.batch(doubted[some], first=since, stop=newest),
        )
