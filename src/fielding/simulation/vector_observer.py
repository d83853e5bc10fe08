"""Stages 1 to 4 with a representation of the user's own: any function from a window to a vector."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fielding._typing import Counts, Features, Floats, Mask
from fielding.client.drift import AnyChange, DriftTest, Threshold
from fielding.client.drift.sample_tests import check_vector_test, vectors_drifted
from fielding.client.fleet import FleetReports
from fielding.distance import Metric
from fielding.errors import InputError, echo
from fielding.simulation.observers import NOTHING, Looked
from fielding.traces.sliding import SlidingWindows

Represent: TypeAlias = Callable[[Features, Counts, int], Floats]
"""Returns the representation of a window: features ``(n, ...)``, labels ``(n,)``, number of classes -> ``(d,)``."""


class VectorObserver:
    """Clients report what a function makes of their training window.

    Parameters
    ----------
    windows
        What clients see when.
    represent
        The function; called for every window that changed.
    drift_test
        Any that needs no label counts: any change, threshold (in the unit of the metric), periodic, always, never.
    metric
        The distance that a threshold is measured in.
    """

    def __init__(self, windows: SlidingWindows, represent: Represent, *, drift_test: DriftTest, metric: Metric) -> None:
        check_vector_test(drift_test)
        self._windows, self._represent = windows, represent
        self._drift_test, self._metric = drift_test, metric
        self._reported: Floats | None = None
        self._reported_round = np.zeros(windows.n_clients, dtype=np.int64)
        self._was_active = np.zeros(windows.n_clients, dtype=np.bool_)
        self._owes = np.zeros(windows.n_clients, dtype=np.bool_)
        self._visible = (0, 0)
        self.looked = Looked()

    def observe(self, round_index: int) -> FleetReports:
        """Describe the windows that changed and compare them with what was reported."""
        self.looked = Looked()
        visible = self._windows.visible(round_index)
        touched = self._owes.copy()
        if visible != self._visible:
            touched |= self._changed(visible)
            if self._drift_test.is_timed:
                touched |= self._was_active
            self._visible = visible
        clients = np.flatnonzero(touched)
        if not clients.size:
            return NOTHING
        vectors, sizes = self._described(clients, round_index)
        due = self._is_due(clients, vectors, has=sizes > 0, round_index=round_index)
        # A function of the user's own is taken to look at every sample once; by the clock alone only who reports looks.
        looks = np.full_like(due, isinstance(self._drift_test, (AnyChange, Threshold))) | due
        self.looked = Looked(
            clients=clients[looks], forward=sizes[looks], backward=np.zeros(int(looks.sum()), dtype=np.int64)
        )
        return self._sent(clients[due], vectors[due], sizes[due], round_index)

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._owes[clients] = True

    def _changed(self, visible: tuple[int, int]) -> Mask:
        """Return whose window gained or lost samples."""
        changed = np.zeros(self._windows.n_clients, dtype=np.bool_)
        gone = range(self._visible[0], min(visible[0], self._visible[1]))
        for interval in (*gone, *range(max(visible[0], self._visible[1]), visible[1])):
            changed[self._windows.arrivals(interval).clients] = True
        return changed

    def _described(self, clients: Counts, round_index: int) -> tuple[Floats, Counts]:
        """Return the representation of each window, zeros for an empty one, and how many samples it sums up."""
        ranges, n_classes = self._windows.training(round_index), len(self._windows.pool.classes)
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
            return _checked_vector(self._represent(x, y, n_classes))
        except InputError as error:
            raise InputError(f"coordinator.representation: {error}") from None
        except Exception as error:  # whatever the user's function does
            words = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(f"coordinator.representation fails on {y.size} samples: {words}") from error

    def try_out(self) -> None:
        """Describe one window of the start, so that a function that cannot work is found before anything is written."""
        ranges = self._windows.training(0)
        window, _ = ranges.of(np.flatnonzero(ranges.sizes)[:1])
        if window.size:
            x, y = self._windows.gather(window)
            self._vector(x, y.astype(np.int64), len(self._windows.pool.classes))

    def _is_due(self, clients: Counts, vectors: Floats, *, has: Mask, round_index: int) -> Mask:
        """Return who appears, disappears, owes a report or drifted."""
        due = self._owes[clients] | (has != self._was_active[clients])
        if self._reported is not None:
            age = round_index - self._reported_round[clients]
            due |= has & vectors_drifted(self._drift_test, vectors, self._reported[clients], age, self._metric)
        return np.asarray(due)

    def _sent(self, clients: Counts, vectors: Floats, sizes: Counts, round_index: int) -> FleetReports:
        """Remember what is reported and return it."""
        if self._reported is None:
            self._reported = np.zeros((self._windows.n_clients, vectors.shape[1]), dtype=np.float32)
        self._reported[clients] = vectors
        self._reported_round[clients] = round_index
        self._was_active[clients] = sizes > 0
        self._owes[clients] = False
        return FleetReports(clients=clients, representations=vectors.astype(np.float32), n_samples=sizes)


def _checked_vector(vector: Floats) -> Floats:
    """Return what a user's function made, or raise if it is no vector that can be reported."""
    array = np.asarray(vector)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"a representation is {echo(vector)}; return a vector of finite numbers")
    if not array.any():
        raise InputError("a representation is all zeros, which says that a client has no data; add a constant 1 to it")
    return array.astype(np.float32)
