"""Stages 1 to 4 in the simulator: data arrive, windows slide, and whoever drifted has something to tell."""

from typing import Protocol

import numpy as np

from fielding._typing import Counts
from fielding.client.arrivals import NO_ARRIVALS
from fielding.client.drift import DriftTest
from fielding.client.fleet import Fleet, FleetReports
from fielding.traces.sliding import SlidingWindows


class Observer(Protocol):
    """Watches all clients; has to be asked round by round, from 0."""

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
    """

    def __init__(self, windows: SlidingWindows, drift_test: DriftTest) -> None:
        plan = windows.plan
        self._windows = windows
        self._fleet = Fleet(
            windows.n_clients, len(windows.pool.classes), drift_test=drift_test, max_rounds=plan.n_visible * plan.gap
        )
        self._n_seen = 0
        self._holds = False

    def observe(self, round_index: int) -> FleetReports:
        """Let samples arrive and leave, and test for drift."""
        reports = NOTHING
        for interval in range(self._n_seen, self._windows.n_complete(round_index)):
            if round_index == 0:
                # Whoever reported while the first window filled up tells all of it at the start.
                self._fleet.report_again(np.flatnonzero(self._fleet.counts.any(axis=1)))
            arrival = (interval + 1) * self._windows.plan.gap
            reports = self._fleet.arrive(self._windows.arrivals(interval), arrival)
            self._n_seen, self._holds = interval + 1, False
        if self._holds:
            self._holds = False
            return self._fleet.arrive(NO_ARRIVALS, self._windows.plan.window + round_index)
        return reports

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._fleet.report_again(clients)
        self._holds = True


NOTHING = FleetReports(
    clients=np.empty(0, dtype=np.int64),
    representations=np.empty((0, 0), dtype=np.float32),
    n_samples=np.empty(0, dtype=np.int64),
)
"""Nobody has anything to tell."""
