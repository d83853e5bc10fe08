"""Windows of some clients as the shared model sees them, and the samples behind their last reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector
from fielding.client.drift.drift_test import Batch, batch_of
from fielding.client.representation.representation import Seen

_COLUMNS = ("sizes", "labels", "predicted", "features", "errors")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowsSeen:
    """Windows of some clients now.

    Parameters
    ----------
    clients
        Whose, rising, shape ``(n_clients,)``.
    intervals
        When each sample came, shape ``(n_samples,)``.
    seen
        The samples.
    errors
        How the served models erred on them before they saw them, shape ``(n_samples,)``; NaN where it is not known.
    vectors
        The representation of each window, shape ``(n_clients, n_numbers)``.
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

        Parameters
        ----------
        some
            Positions among the clients, rising.
        first, stop
            The first interval that counts, and the first that does not, of all clients; None for no bound.
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
    """What every client reported last: the vector, when, and the samples that it summed up.

    Parameters
    ----------
    n_clients
        How many clients there are.
    """

    def __init__(self, n_clients: int) -> None:
        self.vectors: npt.NDArray[np.float32] = np.zeros((n_clients, 0), dtype=np.float32)
        self.rounds, self.until = (np.zeros(n_clients, dtype=np.int64) for _ in range(2))
        self.is_active = np.zeros(n_clients, dtype=np.bool_)
        self._batches: dict[int, Batch] = {}

    def keep(self, windows: WindowsSeen, due: Counts, *, round_index: int, until: int) -> None:
        """Remember the reports of the clients at the positions ``due``; ``until`` is the first interval to come."""
        if self.vectors.shape[1] != windows.vectors.shape[1]:
            self.vectors = np.zeros((self.vectors.shape[0], windows.vectors.shape[1]), dtype=np.float32)
        who = windows.clients[due]
        self.vectors[who] = windows.vectors[due]
        self.rounds[who], self.until[who] = round_index, until
        self.is_active[who] = windows.sizes[due] > 0
        for client, batch in zip(who.tolist(), split(windows.batch(due)), strict=True):
            self._batches[client] = batch

    def batch(self, clients: Counts) -> Batch:
        """Return the samples that the last reports of some clients summed up."""
        return joined([self._batches[client] for client in clients.tolist()])

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
            self._batches = dict(zip(clients, split(batch), strict=True))


def split(batch: Batch) -> list[Batch]:
    """Return a batch per client."""
    return [batch.rows(where, sizes=batch.sizes[client : client + 1]) for client, where in enumerate(batch.clients())]


def joined(batches: Sequence[Batch]) -> Batch:
    """Return batches of one client each as one; there is at least one."""
    return Batch(
        sizes=np.concatenate([batch.sizes for batch in batches]),
        n_classes=batches[0].n_classes,
        labels=np.concatenate([batch.labels for batch in batches]),
        predicted=np.concatenate([batch.predicted for batch in batches]),
        features=np.concatenate([batch.features for batch in batches]),
        errors=np.concatenate([batch.errors for batch in batches]),
    )
