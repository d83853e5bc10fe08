"""Sliding windows by index: the samples are held once, and a window is a range of positions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import Codes, Counts, Features, Mask, Matrix
from fielding.client.arrivals import Arrivals
from fielding.client.ranges import Positions, Ranges
from fielding.client.report import row_chunks
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import Schedule

_COUNTED_AT_ONCE = 1 << 22
"""Rows of a schedule."""


class SlidingWindows:
    """What every client can see at each training round (METHODS.md B6), for training and for testing apart.

    Examples
    --------
    >>> from fielding.traces.schedule import sort_schedule
    >>> pool = Pool(x=np.eye(3, dtype=np.float32), y=np.zeros(3, dtype=np.int32), classes=("cat",))
    >>> seen = sort_schedule((7,), 3, columns=([0, 0, 0], [0, 1, 2], [0, 1, 2], [0, 0, 0], [0, 0, 0]))
    >>> windows = SlidingWindows(pool, seen, WindowPlan(gap=2, window=4))
    >>> [windows.visible(round_index) for round_index in (0, 1, 2)]
    [(0, 2), (0, 2), (1, 3)]
    """

    def __init__(self, pool: Pool, schedule: Schedule, plan: WindowPlan) -> None:
        self.pool, self.schedule, self.plan = pool, schedule, plan
        self._is_test = is_test = pool.is_test()[schedule.sample]
        self._train, self._test = _Index(schedule, ~is_test), _Index(schedule, is_test)
        # Scenarios draw from a pool with replacement: what some client trained on before is not new to its model.
        first = np.full(len(pool), schedule.n_intervals, dtype=np.int32)
        np.minimum.at(first, schedule.sample[~is_test], schedule.interval[~is_test])
        self._new = _Index(schedule, is_test | (schedule.interval == first[schedule.sample]))

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return self.schedule.n_clients

    @property
    def n_classes(self) -> int:
        """Length of the class list."""
        return len(self.pool.classes)

    @property
    def n_rows(self) -> int:
        """Number of rows of the schedule."""
        return int(self.schedule.y.size)

    @property
    def gap(self) -> int:
        """Rounds between two intervals."""
        return self.plan.gap

    @property
    def n_visible(self) -> int:
        """Number of intervals that a window shows."""
        return self.plan.n_visible

    def n_complete(self, round_index: int) -> int:
        """Return how many intervals have come by the start of a round; those of the first window always have."""
        plan = self.plan
        return min(self.schedule.n_intervals, max(plan.n_first, (plan.lead + round_index) // plan.gap))

    def visible(self, round_index: int) -> tuple[int, int]:
        """Return the first interval that a window shows in a round, and the first that has not come yet.

        Of the first one a window by time may show a part alone.
        """
        stop = self.n_complete(round_index)
        return max(0, stop - self.plan.n_visible), stop

    def arrivals(self, interval: int) -> Arrivals:
        """Return the training samples that an interval brings, for the fleet."""
        y, last, ranges = self.schedule.y, self.schedule.last, self._train.ranges(interval, interval + 1)
        sizes = ranges.sizes
        labels = np.empty(int(sizes.sum()), dtype=y.dtype)
        leave = None if last is None else np.empty(labels.size, dtype=np.int64)
        done = 0
        for part in row_chunks(self.n_clients):  # rows of all at once would not fit a cache
            rows, _ = ranges.of(np.arange(part.start, part.stop))
            labels[done : done + rows.size] = y[rows]
            if leave is not None and last is not None:
                leave[done : done + rows.size] = (last[rows].astype(np.int64) + 1) * self.gap
            done += rows.size
        clients = np.repeat(np.arange(self.n_clients, dtype=np.int32), sizes)
        clients.flags.writeable = labels.flags.writeable = False  # the fleet may keep them
        return Arrivals(clients=clients, labels=labels, leave=leave)

    def training(self, round_index: int) -> Ranges:
        """Return what each client can train on in a round."""
        return self._train.windows(self.n_complete(round_index), self.n_visible)

    def training_blocks(self, clients: Counts, blocks: Sequence[Counts]) -> Ranges:
        """Return the training samples of some intervals of clients, whether or not a window still shows them.

        One range per job, in entries of their own; a client may come several times. ``blocks``: rising intervals of
        each.
        """
        return self._train.blocks(clients, blocks)

    def testing(self, round_index: int) -> Ranges:
        """Return what each client is tested on in a round: the test samples of its window."""
        return self._test.windows(self.n_complete(round_index), self.n_visible)

    def newest(self, round_index: int) -> Ranges:
        """Return the test samples of the newest interval."""
        stop = self.n_complete(round_index)
        return self._test.ranges(stop - 1, stop)

    def next(self, round_index: int) -> Ranges:
        """Return the samples of the interval to come that no client has trained on; none after the last interval.

        Those are its test samples, and the training samples that were dealt to no client in an earlier interval; what
        clients share counts as trained on.
        """
        stop = self.n_complete(round_index)
        return self._new.ranges(stop, min(stop + 1, self.schedule.n_intervals))

    def concepts(self, round_index: int) -> Codes | None:
        """Return the true concept of each client in the newest interval, or None if it is not known."""
        known = self.schedule.concepts
        return None if known is None else known[self.n_complete(round_index) - 1]

    def histograms(self, ranges: Ranges, clients: Counts) -> Matrix:
        """Return the label histograms of some clients' windows, shape ``(n_clients, n_classes)``; each has samples."""
        rows, sizes = ranges.of(clients)
        n_classes = len(self.pool.classes)
        place = np.repeat(np.arange(clients.size), sizes) * n_classes + self.schedule.y[rows]
        counts = np.bincount(place, minlength=clients.size * n_classes).reshape(clients.size, n_classes)
        return np.asarray(counts / sizes[:, np.newaxis])

    def gather(self, rows: Counts) -> tuple[Features, Codes]:
        """Return features, as they look to their clients, and labels of schedule rows, given in any order."""
        schedule = self.schedule
        x = self.pool.features(schedule.sample[rows])
        if len(schedule.looks) > 1:
            looks = schedule.look[rows]
            for look in np.unique(looks).tolist():
                if look:
                    chosen = looks == look
                    x[chosen] = schedule.looks[look].apply(x[chosen])
        return x, schedule.y[rows]

    def labels(self, rows: Counts) -> Codes:
        """Return the labels of schedule rows."""
        return self.schedule.y[rows]

    def targets(self, _rows: Counts) -> None:
        """Return None: labels of a trace are classes."""

    def owners(self, rows: Counts) -> Codes:
        """Return the client of each schedule row."""
        return self.schedule.client[rows]

    def intervals(self, rows: Counts) -> Counts:
        """Return the interval of each schedule row."""
        return self.schedule.interval[rows].astype(np.int64)

    def rounds(self, rows: Counts) -> Counts:
        """Return the round in which each schedule row came, below 0 before the start."""
        return (self.intervals(rows) + 1) * self.plan.gap - self.plan.lead

    def is_test(self, rows: Counts) -> Mask:
        """Return which schedule rows are for tests alone."""
        return self._is_test[rows]

    def version(self, round_index: int) -> tuple[int, ...]:
        """Return what a window shows in a round: it changes when windows do."""
        return self.visible(round_index)

    def moments(self, rows: Counts) -> Counts:
        """Return the interval of each schedule row."""
        return self.intervals(rows)

    def slots(self, rows: Counts) -> Counts:
        """Return the schedule rows themselves."""
        return rows

    def all_rows(self) -> Counts:
        """Return all schedule rows."""
        return np.arange(self.n_rows)

    def places(self, rows: Counts) -> Counts:
        """Return the place of each schedule row among those of its client."""
        return np.asarray(rows - self._first_rows()[self.schedule.client[rows]], dtype=np.int64)

    def marks(self, places: Counts) -> Counts:
        """Return, for the place up to which each client has looked, the first interval that is unseen; 0 for none."""
        rows = self._first_rows() + np.maximum(places, 1) - 1
        return np.where(places > 0, self.schedule.interval[np.minimum(rows, self.schedule.y.size - 1)] + 1, 0)

    def marked_places(self, marks: Counts) -> Counts:
        """Return how many samples each client has from before an interval."""
        first = self._first_rows()
        ends = np.append(first[1:], self.schedule.y.size)
        pairs = zip(first.tolist(), ends.tolist(), marks.tolist(), strict=True)
        found = [np.searchsorted(self.schedule.interval[start:end], mark) for start, end, mark in pairs]
        return np.array(found, dtype=np.int64)

    def _first_rows(self) -> Counts:
        """Return where the rows of each client begin."""
        return np.searchsorted(self.schedule.client, np.arange(self.n_clients))


class _Index:
    """Where the kept rows of each client and interval begin, and which of them leave with which interval."""

    def __init__(self, schedule: Schedule, keep: Mask) -> None:
        self._n_intervals = schedule.n_intervals
        kept, n_cells = np.flatnonzero(keep), schedule.n_clients * schedule.n_intervals
        self._entries: Positions = kept if keep.size >= 2**31 else kept.astype(np.int32)
        self._first = np.zeros(n_cells + 1, dtype=self._entries.dtype)
        for part in row_chunks(kept.size, _COUNTED_AT_ONCE):
            rows = kept[part]
            place = schedule.client[rows].astype(np.int64) * schedule.n_intervals + schedule.interval[rows]
            first, end = int(place[0]), int(place[-1]) + 1  # rows are sorted by them
            self._first[first + 1 : end + 1] += np.bincount(place - first).astype(self._first.dtype)
        np.cumsum(self._first, out=self._first)
        self._until: Counts | None = None  # where windows go by time: when each row leaves, beside its client
        if schedule.last is not None:  # rows that leave after the last interval leave together
            until = np.minimum(schedule.last[kept], schedule.n_intervals)
            self._until = schedule.client[kept].astype(np.int64) * (schedule.n_intervals + 1) + until

    def windows(self, stop: int, n_visible: int) -> Ranges:
        """Return the rows that have come with the first ``stop`` intervals and have not left.

        They leave after ``n_visible`` intervals, unless windows go by time.
        """
        windows = self.ranges(max(0, stop - n_visible), stop)
        if self._until is None:
            return windows
        clients = np.arange(windows.start.size)
        return replace(windows, start=np.searchsorted(self._until, clients * (self._n_intervals + 1) + stop))

    def ranges(self, first: int, stop: int) -> Ranges:
        """Return the windows from one interval up to, not including, another."""
        starts = np.arange(0, self._first.size - 1, self._n_intervals)
        return self._between(starts + first, starts + stop)

    def blocks(self, clients: Counts, blocks: Sequence[Counts]) -> Ranges:
        """Return the rows of some intervals of clients, one range per client."""
        n_blocks = np.array([block.size for block in blocks], dtype=np.int64)
        intervals = np.concatenate([np.empty(0, dtype=np.int64), *blocks]).astype(np.int64)
        place = np.repeat(clients.astype(np.int64) * self._n_intervals, n_blocks) + intervals
        entries, sizes = self._between(place, place + 1).of(np.arange(place.size))
        of_job = np.bincount(np.repeat(np.arange(clients.size), n_blocks), weights=sizes, minlength=clients.size)
        stop = np.cumsum(of_job.astype(np.int64))
        return Ranges(start=stop - of_job.astype(np.int64), stop=stop, entries=entries)

    def _between(self, first: Counts, stop: Counts) -> Ranges:
        start, end = (self._first[places].astype(np.int64) for places in (first, stop))
        return Ranges(start=start, stop=end, entries=self._entries)
