"""Stages 1 to 4 in the simulator: data arrive, windows slide, and whoever drifted has something to tell."""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from fielding._typing import Counts
from fielding.client.drift import DriftTest
from fielding.client.fleet import Fleet, FleetReports
from fielding.client.representation.label import shares_of
from fielding.client.representation.representation import Effort, Representation
from fielding.traces.sliding import SlidingWindows


def _nobody() -> Counts:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Looked:
    """How many samples clients put through a model to describe them, whether or not they report.

    Parameters
    ----------
    clients
        Who, rising, shape ``(n_looked,)``.
    forward, backward
        Samples that each put through a model, and those that went back through it, too, same shape.
    received
        Numbers that each was sent for it, once: the shared model, and what windows are compared with; same shape, or
        one number for all.
    """

    clients: Counts = field(default_factory=_nobody)
    forward: Counts = field(default_factory=_nobody)
    backward: Counts = field(default_factory=_nobody)
    received: Counts | int = 0

    def without(self, clients: Counts) -> "Looked":
        """Return what it took all but some clients."""
        kept = ~np.isin(self.clients, clients)
        received = self.received[kept] if isinstance(self.received, np.ndarray) else self.received
        return Looked(
            clients=self.clients[kept], forward=self.forward[kept], backward=self.backward[kept], received=received
        )

    @classmethod
    def at(cls, n_samples: Counts, effort: Effort) -> "Looked":
        """Return what it takes all clients to look at so many samples each.

        Examples
        --------
        >>> Looked.at(np.array([0, 3]), "backward").clients.tolist()
        [1]
        """
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
    def looked(self) -> Looked:
        """What it took clients to look at what arrived with the last observation."""
        ...

    def observe(self, round_index: int) -> FleetReports:
        """Take in what arrives by the start of a round and return the reports that are due."""
        ...

    def hold(self, clients: Counts) -> None:
        """Take reports back that could not be sent; they are due again in the next round."""
        ...


class LabelObserver:
    """Clients report the label histogram of their training window.

    Parameters
    ----------
    windows
        What clients see when.
    drift_test
        When they report again.
    representation
        What they make of their label counts.
    """

    looked = Looked()  # labels are counted as they come

    def __init__(
        self, windows: SlidingWindows, drift_test: DriftTest, representation: Representation | None = None
    ) -> None:
        self._representation = representation
        plan = windows.plan
        self._windows = windows
        self._fleet = Fleet(
            windows.n_clients, len(windows.pool.classes), drift_test=drift_test, max_rounds=plan.n_visible * plan.gap
        )
        self._n_seen = 0
        self._held = NOTHING.clients

    def observe(self, round_index: int) -> FleetReports:
        """Let samples arrive and leave, and test for drift."""
        held, self._held = self._held, NOTHING.clients
        n_complete = self._windows.n_complete(round_index)
        if self._n_seen == n_complete:
            return self._told_again(held)
        self._fleet.report_again(held)
        reports = NOTHING
        for interval in range(self._n_seen, n_complete):
            if round_index == 0:
                # Whoever reported while the first window filled up tells all of it at the start.
                self._fleet.report_again(np.flatnonzero(self._fleet.counts.any(axis=1)))
            arrival = (interval + 1) * self._windows.plan.gap
            reports = self._fleet.arrive(self._windows.arrivals(interval), arrival)
        self._n_seen = n_complete
        return self._as_represented(reports)

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._held = clients

    def _told_again(self, clients: Counts) -> FleetReports:
        """Return the reports of clients whose windows are as they were; nobody else is looked at."""
        if not clients.size:
            return NOTHING
        counts = self._fleet.counts[clients]
        return self._as_represented(
            FleetReports(
                clients=clients, representations=shares_of(counts).astype(np.float32), n_samples=counts.sum(axis=1)
            )
        )

    def _as_represented(self, reports: FleetReports) -> FleetReports:
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
"""Nobody has anything to tell."""
