"""Stages 1 to 4 for all clients of a simulation at once: what a monitor per client would say, on arrays."""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask
from fielding.client.arrivals import Arrivals, Block, checked_arrivals, checked_column
from fielding.client.drift.drift_test import CHUNK, DriftTest, Evidence, checked_drift_test
from fielding.client.report import row_chunks
from fielding.client.representation.label import checked_n_labels, shares_of
from fielding.client.window import checked_bound, checked_round
from fielding.errors import InputError, OptionError, echo

ENTRIES = 65_536
"""Samples that are counted in one go: what they need fits a processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetReports:
    """The reports of one moment.

    ``clients`` rise; ``representations`` are shares of labels, float32, shape ``(n_reports, n_labels)``, zeros for a
    client that goes silent; ``kinds`` are positions in :data:`~fielding.client.report.DRIFT_KINDS`, None if not told
    apart.
    """

    clients: Counts
    representations: npt.NDArray[np.float32]
    n_samples: Counts
    kinds: npt.NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return int(self.clients.size)


class Fleet:
    """Follows the samples of many clients; each is treated as by a :class:`~fielding.client.monitor.Monitor`.

    A step costs time in proportion to the samples that come and leave, plus one drift test of the clients they
    belong to (of all clients, if the test goes by the clock).

    ``max_rounds``: how many rounds a sample stays visible, that of its arrival included, unless it is told with the
    arrival; None for ever.

    Examples
    --------
    >>> from fielding.client.arrivals import NO_ARRIVALS
    >>> from fielding.client.drift import AnyChange
    >>> fleet = Fleet(3, 2, drift_test=AnyChange(), max_rounds=2)
    >>> first = fleet.arrive(Arrivals.from_rows(np.array([[1, 1], [2, 0], [0, 0]])), round_index=0)
    >>> first.clients.tolist(), first.representations.tolist()
    ([0, 1], [[0.5, 0.5], [1.0, 0.0]])
    >>> fleet.arrive(Arrivals(clients=np.array([1]), labels=np.array([1])), round_index=1).clients.tolist()
    [1]
    >>> last = fleet.arrive(NO_ARRIVALS, round_index=2)
    >>> last.clients.tolist(), last.representations.tolist()
    ([0, 1], [[0.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, n_clients: int, n_labels: int, *, drift_test: DriftTest, max_rounds: int | None = None) -> None:
        if not isinstance(n_clients, (int, np.integer)) or isinstance(n_clients, bool) or n_clients < 0:
            raise OptionError(f"n_clients is {echo(n_clients)}; give a whole number of at least 0")
        shape = (int(n_clients), checked_n_labels(n_labels))
        self.max_rounds = checked_bound("max_rounds", max_rounds)
        self._drift_test = checked_drift_test(drift_test)
        self._blocks: list[Block] = []  # by the round in which they leave, the last first
        self._newest_round: int | None = None
        self._step = 0
        self._current, self._fresh, self._before, self._reported = (np.zeros(shape, dtype=np.int64) for _ in range(4))
        self._n_current, self._n_reported = (np.zeros(shape[0], dtype=np.int64) for _ in range(2))
        self._reported_round, self._noticed_step = (np.zeros(shape[0], dtype=np.int64) for _ in range(2))
        self._must_report, self._is_mixed = (np.zeros(shape[0], dtype=np.bool_) for _ in range(2))

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return int(self._current.shape[0])

    @property
    def n_labels(self) -> int:
        """Length of the class list."""
        return int(self._current.shape[1])

    @property
    def counts(self) -> Counts:
        """Label counts of every window now, a read-only view of shape ``(n_clients, n_labels)``."""
        view = self._current.view()
        view.flags.writeable = False
        return view

    def arrive(self, arrivals: Arrivals, round_index: int) -> FleetReports:
        """Take in the samples of a round, ``NO_ARRIVALS`` if only time passes, and return the reports that are due.

        An entry that names no client or label, or time that runs backwards, raises and leaves the fleet as before.
        """
        now = checked_round(round_index, self._newest_round)
        clients, labels, counts, leave = checked_arrivals(arrivals, (self.n_clients, self.n_labels))
        if leave is not None and leave.size and leave.min() <= now:
            raise InputError(f"samples that arrive in round {now} leave in round {leave.min()}; they must stay for one")
        self._newest_round = now
        self._step += 1
        leaving: list[Block] = []
        while self._blocks and self._blocks[-1].leave <= now:
            leaving.append(self._blocks.pop())
        coming = Block(
            step=self._step,
            leave=now + (self.max_rounds or 0),
            clients=clients,
            labels=labels,
            counts=counts,
        )
        n_arrived, has_changed = self._count(coming, leaving)
        for last in [] if leave is None else np.unique(leave).tolist():
            some = leave == last
            own = {name: getattr(coming, name)[some] for name in ("clients", "labels", "counts")}
            self._keep(replace(coming, leave=last, **own))
        if leave is None and self.max_rounds is not None:
            self._keep(coming)
        is_tested = has_changed | self._must_report
        if self._drift_test.is_timed:
            is_tested |= (self._n_current > 0) | (self._n_reported > 0)
        tested = np.flatnonzero(is_tested)
        due = tested[self._is_due(tested, n_arrived, now)]
        # A client that reports because it must has noticed nothing: it goes on comparing, unless more is known now.
        knows_more = has_changed[due] & (self._n_current[due] > self._before[due].sum(axis=1))
        noticed = due[~self._must_report[due] | knows_more]
        own = noticed[~self._must_report[noticed]]
        has_turned_over = self._is_mixed[own] & (self._fresh[own].sum(axis=1) == self._n_current[own])
        is_partly_old = (self._n_reported[own] > 0) & (self._n_current[own] > n_arrived[own])
        self._is_mixed[own] = is_partly_old & ~has_turned_over
        self._before[noticed] = self._current[noticed]
        self._fresh[noticed] = 0
        self._noticed_step[noticed] = self._step
        self._reported_round[due] = now
        return self.report(due)

    def report(self, clients: Counts) -> FleetReports:
        """Return reports of these clients, rising, on their windows as they are, and take them for sent."""
        counts = self._current[clients]
        self._reported[clients] = counts
        self._n_reported[clients] = self._n_current[clients]
        self._must_report[clients] = False
        shares = shares_of(counts).astype(np.float32)
        return FleetReports(clients=clients, representations=shares, n_samples=self._n_current[clients])

    def report_again(self, clients: npt.ArrayLike) -> None:
        """Make these clients report at the next step whatever the drift test says: a report was lost, or is wanted."""
        self._must_report[checked_column("clients", clients, self.n_clients)] = True

    def grow(self, n_labels: int) -> None:
        """Go over to a longer class list; this alone is nothing to report."""
        more = checked_n_labels(n_labels, at_least=self.n_labels) - self.n_labels
        self._current, self._fresh, self._before, self._reported = (
            np.pad(matrix, ((0, 0), (0, more))) for matrix in (self._current, self._fresh, self._before, self._reported)
        )

    def _count(self, coming: Block, leaving: list[Block]) -> tuple[Counts, Mask]:
        """Bring the counts of windows and of what is fresh up to date; return who got how many, and whose changed."""
        # Flat views: numpy adds at one index much faster than at a pair.
        current, fresh, before = self._current.reshape(-1), self._fresh.reshape(-1), self._before.reshape(-1)
        n_arrived = np.zeros(self.n_clients, dtype=np.int64)
        has_changed = np.zeros(self.n_clients, dtype=np.bool_)
        for block in leaving:
            for clients, cells, counts in self._cells(block):
                np.subtract.at(current, cells, counts)
                np.subtract.at(self._n_current, clients, counts)
                # What was there when something was noticed is not fresh any more, and stands in what was before.
                is_fresh = block.step > self._noticed_step[clients]
                np.subtract.at(fresh, cells[is_fresh], counts[is_fresh])
                np.add.at(before, cells[is_fresh], counts[is_fresh])
                has_changed[clients] = True
        for clients, cells, counts in self._cells(coming):
            np.add.at(current, cells, counts)
            np.add.at(fresh, cells, counts)
            np.add.at(n_arrived, clients, counts)
        self._n_current += n_arrived
        return n_arrived, has_changed | (n_arrived > 0)

    def _cells(self, block: Block) -> Iterator[tuple[Counts, Counts, Counts]]:
        """Yield the clients of a block, where their labels are counted, and how many; so many at a time as are fast."""
        for part in row_chunks(block.clients.size, ENTRIES):
            clients = block.clients[part].astype(np.int64)
            yield clients, clients * self.n_labels + block.labels[part], block.counts[part]

    def _keep(self, block: Block) -> None:
        """Note when samples leave."""
        if block.clients.size:
            insort(self._blocks, block, key=lambda one: -one.leave)

    def _is_due(self, tested: Counts, n_arrived: Counts, now: int) -> Mask:
        """Return which of some clients, rising, have to report."""
        has_samples, had_samples = self._n_current[tested] > 0, self._n_reported[tested] > 0
        due = np.asarray(self._must_report[tested] | (has_samples != had_samples))
        in_doubt = np.flatnonzero(has_samples & ~due)
        # The evidence is gathered in chunks too: copies of all matrices would double the memory.
        for part in row_chunks(in_doubt.size, CHUNK):
            rows = tested[in_doubt[part]]
            evidence = Evidence(
                reported=self._reported[rows],
                current=self._current[rows],
                fresh=self._fresh[rows],
                before=self._before[rows],
                age=now - self._reported_round[rows],
                arrived=n_arrived[rows],
                is_mixed=self._is_mixed[rows],
            )
            due[in_doubt[part]] = self._drift_test.drifted(evidence)
        return due
