"""The samples of one device as a runtime of one client sees them: rows are places among all that ever came."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Codes, Counts, Features, Mask, Matrix, Vector
from fielding.client.arrivals import Arrivals
from fielding.client.ranges import Ranges, joined_ranges
from fielding.flower.device.dataset import References
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.sample_files import SampleFiles
from fielding.flower.device.samples import IN_APP, Kept


class DeviceStore:
    """A :class:`~fielding.runtime.store.SampleStore` of one client: its window begins with the moment ``first``.

    Features are in ``files``, or with ``references`` in the app.
    """

    n_clients = 1

    def __init__(
        self, kept: Kept, files: SampleFiles, rule: DeviceRule, *, first: int, references: References | None = None
    ) -> None:
        self.kept, self._files, self._rule, self._first, self._references = kept, files, rule, first, references

    @property
    def n_classes(self) -> int:
        """Length of the class list."""
        return self._rule.n_classes

    def n_complete(self, round_index: int) -> int:
        """Return how many intervals of data have come by a round, as the server counts them."""
        return int(self._rule.interval_of(np.array([round_index]))[0]) + 1

    @property
    def n_rows(self) -> int:
        """Number of samples that the device still has."""
        return int(self.kept.y.size)

    @property
    def gap(self) -> int:
        """Rounds between two intervals of data."""
        return self._rule.gap

    @property
    def n_visible(self) -> int:
        """Number of intervals that the window shows."""
        return -(-self._rule.max_rounds // self._rule.gap)

    def visible(self, round_index: int) -> tuple[int, int]:
        """Return the first round of the intervals that the window shows whole, and the first that has not come.

        Where it goes by time: the first round of which it shows samples.
        """
        if self._rule.window_ms is None:
            return self._first - 1 + self._rule.gap, self._first + self._rule.max_rounds
        last = max([self._rule.last_tick(round_index), *self.kept.rounds[-1:].tolist()])
        return min([last, *self.kept.rounds[self._is_shown()][:1].tolist()]), last + 1

    def version(self, round_index: int) -> tuple[int, ...]:
        """Return numbers that change when the window does: it slides, or samples come late."""
        last = int(self.kept.places[-1]) if self.kept.places.size else -1
        if self._rule.window_ms is None:
            return (self._first, last)
        return (self._rule.last_tick(round_index), int(self._is_shown().sum()), last)

    def _is_shown(self) -> Mask:
        return np.asarray(self.kept.moment >= self._first)

    def moments(self, rows: Counts) -> Counts:
        """Return the round in which each row came."""
        return self.rounds(rows)

    def rounds(self, rows: Counts) -> Counts:
        """Return the round in which each row came, below 0 before the start."""
        return self.kept.rounds[self.slots(rows)]

    def is_test(self, rows: Counts) -> Mask:
        """Return which rows are for tests alone."""
        return self.kept.is_test[self.slots(rows)]

    def all_rows(self) -> Counts:
        """Return the places of all samples that the device still has."""
        return self.kept.places

    def training(self, _round_index: int) -> Ranges:
        """Return what the device can train on: the training samples of its window."""
        return self._window(self.kept.is_training)

    def testing(self, _round_index: int) -> Ranges:
        """Return the test samples of the window."""
        return self._window(self.kept.is_test)

    def _window(self, which: Mask) -> Ranges:
        return joined_ranges([self.kept.places[which & self._is_shown()]])

    def training_blocks(self, clients: Counts, blocks: Sequence[Counts]) -> Ranges:  # noqa: ARG002
        """Return the training samples of some intervals; what the device has thrown away by now is left out."""
        intervals = self._rule.interval_of(self.kept.rounds)
        return joined_ranges([self.kept.places[self.kept.is_training & np.isin(intervals, one)] for one in blocks])

    def slots(self, rows: Counts) -> Counts:
        """Return where the samples of rows are."""
        return np.searchsorted(self.kept.places, rows)

    def gather(self, rows: Counts) -> tuple[Features, Codes]:
        """Return features and labels of rows."""
        at = self.slots(rows)
        file, row, is_in_app = self.kept.file[at], self.kept.row[at], self.kept.file[at] == IN_APP
        if self._references is None or not is_in_app.any():
            return self._files.gather(file, row, self.shape), self.kept.y[at]
        x = np.empty((at.size, *self.shape), dtype=np.float32)
        x[is_in_app] = self._references.gather(row[is_in_app], self.kept.key[at][is_in_app], self.shape)
        x[~is_in_app] = self._files.gather(file[~is_in_app], row[~is_in_app], self.shape)
        return x, self.kept.y[at]

    def targets(self, rows: Counts) -> Vector | None:
        """Return the labels of rows where labels are numbers, not classes; else None."""
        return self.kept.target[self.slots(rows)] if self.kept.has_targets else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        first = np.flatnonzero(self.kept.file == IN_APP)[:1]
        if self._files.arrays or self._references is None or not first.size:
            return self._files.shape
        return self._references.shape_of(self.kept.row[first], self.kept.key[first])

    def labels(self, rows: Counts) -> Codes:
        """Return the labels of rows."""
        return self.kept.y[self.slots(rows)]

    def arrivals(self, interval: int) -> Arrivals:
        """Return the training samples of an interval."""
        rows, _ = self.training_blocks(np.zeros(1, dtype=np.int64), [np.array([interval])]).of(np.zeros(1, np.int64))
        return Arrivals(clients=np.zeros(rows.size, dtype=np.int64), labels=self.labels(rows).astype(np.int64))

    def owners(self, rows: Counts) -> Codes:
        """Return the only client for each row."""
        return np.zeros(rows.size, dtype=np.int32)

    def intervals(self, rows: Counts) -> Counts:
        """Return the interval in which each row came."""
        return self._rule.interval_of(self.rounds(rows))

    def places(self, rows: Counts) -> Counts:
        """Return the rows: they are places."""
        return rows

    def histograms(self, ranges: Ranges, which: Counts) -> Matrix:
        """Return the shares of labels in some ranges, shape ``(n_ranges, n_classes)``; each has samples."""
        counts = [np.bincount(self.labels(ranges.of(np.array([one]))[0]), minlength=self.n_classes) for one in which]
        return np.asarray(np.array(counts).reshape(which.size, self.n_classes) / ranges.sizes[which, np.newaxis])

    def marks(self, places: Counts) -> Counts:
        """Return places: a device may receive more samples of an interval that it has looked at."""
        return places

    def marked_places(self, marks: Counts) -> Counts:
        """Return the places that :meth:`marks` gave."""
        return marks
