"""What clients have told: reports that still have to act, which ones have come, and how many samples they have."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts
from fielding.client.report import DRIFT_KINDS, NO_REPORTS, ReportBatch
from fielding.errors import CheckpointError
from fielding.flower.orders import NO_REPORT
from fielding.flower.replies import Report

UNKNOWN = -1
"""In place of a number of samples: the client has not told yet."""
_NAMES = ("confirmed", "n_samples", "waiting", "waiting_n_samples", "waiting_kinds", "waiting_rows")
_NO_KIND = -1
_LOG = logging.getLogger(__name__)


class Inbox:
    """Keeps the reports of clients until they act, each once, however often it is sent.

    Parameters
    ----------
    n_features
        The length of a representation; None: that of most reports that wait when they are first opened, of equally
        many the shorter. So one client that comes first cannot decide for all; those of another length are refused
        and may come again.

    Attributes
    ----------
    confirmed
        The number of the newest report of each client that has come, shape ``(n_clients,)``.
    n_samples
        How many samples each could train on when it was last heard of, ``UNKNOWN`` before, same shape.

    Examples
    --------
    >>> inbox = Inbox()
    >>> inbox.grow(2)
    >>> report = Report(number=1, representation=np.array([1.0, 0.0], dtype=np.float32), n_samples=4)
    >>> inbox.take(1, report), inbox.take(1, report)
    (True, False)
    >>> inbox.opened(["ann", "bob"]).client_ids, inbox.opened(["ann", "bob"]).client_ids
    (['bob'], [])
    """

    def __init__(self, n_features: int | None = None) -> None:
        self.n_features = n_features
        self.confirmed: Counts = np.empty(0, dtype=np.int64)
        self.n_samples: Counts = np.empty(0, dtype=np.int64)
        self._waiting: dict[int, Report] = {}
        self._before: dict[int, int] = {}  # what was confirmed before reports whose length may yet be refused

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined."""
        n_new = n_clients - self.confirmed.size
        self.confirmed = np.pad(self.confirmed, (0, n_new), constant_values=NO_REPORT)
        self.n_samples = np.pad(self.n_samples, (0, n_new), constant_values=UNKNOWN)

    def take(self, client: int, report: Report) -> bool:
        """Take in a report, and return whether it counts: it is new, a vector, and as long as the others.

        Of a client that reports again before its last report acted, the newest counts. As long as nobody knows how
        long the others are, whatever length it has counts for the time being.
        """
        if report.number <= self.confirmed[client] or report.tally is not None:
            return False
        if self.n_features is None:
            self._before.setdefault(client, int(self.confirmed[client]))
        elif not report.is_silent and report.representation.size != self.n_features:
            return False
        self.confirmed[client] = report.number
        self._waiting[client] = report
        return True

    def opened(self, client_ids: Sequence[ClientId], of: Callable[[int], bool] = lambda _client: True) -> ReportBatch:
        """Return the reports that act now, by client, and keep them no longer; ``of`` says whose."""
        self._decide()
        clients = sorted(client for client in self._waiting if of(client))
        reports = [self._waiting.pop(client) for client in clients]
        for client in clients:
            self._before.pop(client, None)
        if not reports or self.n_features is None:  # of whom none ever had data, nothing can be told
            return NO_REPORTS
        kinds = [DRIFT_KINDS.index(report.kind or DRIFT_KINDS[0]) for report in reports]
        has_kinds = any(report.kind is not None for report in reports)
        return ReportBatch(
            client_ids=[client_ids[client] for client in clients],
            representations=np.stack([report.row(self.n_features) for report in reports]),
            n_samples=np.array([report.n_samples for report in reports], dtype=np.int64),
            kinds=np.array(kinds, dtype=np.int8) if has_kinds else None,
        )

    def _decide(self) -> None:
        """Find how long representations are, if somebody sent one by now, and refuse those of another length."""
        sizes = Counter(report.representation.size for report in self._waiting.values() if not report.is_silent)
        if self.n_features is not None or not sizes:
            return
        self.n_features = max(sizes, key=lambda size: (sizes[size], -size))
        before, self._before = self._before, {}
        for client, report in list(self._waiting.items()):
            if not report.is_silent and report.representation.size != self.n_features:
                got = (client, report.representation.size, self.n_features)
                _LOG.warning("client %d reports %d numbers, most others %d: refused", *got)
                del self._waiting[client]
                self.confirmed[client] = before.get(client, NO_REPORT)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs, the reports that wait among it."""
        self._decide()
        clients = sorted(self._waiting)
        reports = [self._waiting[client] for client in clients]
        width = self.n_features or 0
        kinds = [_NO_KIND if report.kind is None else DRIFT_KINDS.index(report.kind) for report in reports]
        columns = {
            "confirmed": self.confirmed.astype("<i8"),
            "n_samples": self.n_samples.astype("<i8"),
            "waiting": np.array(clients, dtype="<i8"),
            "waiting_n_samples": np.array([report.n_samples for report in reports], dtype="<i8"),
            "waiting_kinds": np.array(kinds, dtype="<i8"),
            "waiting_rows": np.array([report.row(width) for report in reports], dtype="<f4").reshape(
                len(reports), width
            ),
        }
        return {f"inbox.{name}": column for name, column in columns.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave, or raise :class:`CheckpointError`."""
        found = [arrays.get(f"inbox.{name}") for name in _NAMES]
        if any(one is None for one in found):
            raise CheckpointError("the checkpoint lacks the reports of a deployment; begin anew in another folder")
        confirmed, n_samples, waiting, sizes, kinds, rows = (np.asarray(one) for one in found)
        fits = confirmed.shape == n_samples.shape and waiting.shape == sizes.shape == kinds.shape == rows.shape[:1]
        if not fits or (waiting.size and not 0 <= waiting.min() <= waiting.max() < confirmed.size):
            raise CheckpointError("the reports of the checkpoint do not fit together; begin anew in another folder")
        self.confirmed, self.n_samples = confirmed.astype(np.int64), n_samples.astype(np.int64)
        self.n_features = int(rows.shape[1]) or self.n_features
        self._waiting = {
            client: Report(
                number=int(self.confirmed[client]),
                representation=row.astype(np.float32) if size else np.empty(0, dtype=np.float32),
                n_samples=size,
                kind=None if kind == _NO_KIND else DRIFT_KINDS[kind],
            )
            for client, row, size, kind in zip(waiting.tolist(), rows, sizes.tolist(), kinds.tolist(), strict=True)
        }
