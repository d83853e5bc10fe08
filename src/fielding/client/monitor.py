"""Stages 1 to 4 in one call: arriving samples in, a report out when the coordinator should know."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts
from fielding.client.drift.drift_test import DriftTest, Evidence, checked_drift_test
from fielding.client.report import ClientReport, checked_id
from fielding.client.representation.label import LabelHistogram
from fielding.client.window import Window, checked_labels, saved_column
from fielding.errors import CheckpointError, OptionError


class Monitor:
    """Follows the samples of one client and says when to report.

    A report is due when data first come, when the drift test fires, when the window runs empty (zeros: the client
    goes silent) and when data come back. The monitor takes for granted that a report arrives; if one was lost, or the
    coordinator wants one, call :meth:`report_again`. A report holds the whole state, so one that arrives twice does no
    harm.

    Parameters
    ----------
    window
        Which samples are current; it belongs to this monitor from now on and must be empty.
    label_version
        Version of the class list, sent with every report; None means the newest.

    Examples
    --------
    >>> from fielding.client.drift import AnyChange
    >>> monitor = Monitor("phone", 2, drift_test=AnyChange(), window=Window(max_rounds=2))
    >>> monitor.observe([0, 1], round_index=0).representation.tolist()
    [0.5, 0.5]
    >>> monitor.observe([1, 0], round_index=1) is None  # more of the same
    True
    >>> monitor.observe([], round_index=3).representation.tolist()  # every sample grew too old
    [0.0, 0.0]
    """

    def __init__(
        self,
        client_id: ClientId,
        n_labels: int,
        *,
        drift_test: DriftTest,
        window: Window,
        label_version: int | None = None,
    ) -> None:
        if len(window) > 0:
            raise OptionError(f"the window holds {len(window)} samples already; give each monitor an empty one")
        self.client_id = checked_id(client_id)
        self.label_version = label_version
        self._drift_test = checked_drift_test(drift_test)
        self._window = window
        self._current = LabelHistogram(n_labels)
        self._fresh = LabelHistogram(n_labels)
        self._before = LabelHistogram(n_labels)
        self._reported: Counts = np.zeros(n_labels, dtype=np.int64)
        self._reported_round = 0
        self._noticed_moment = window.n_arrived
        self._must_report = False
        self._is_mixed = False

    def observe(
        self, labels: npt.ArrayLike, round_index: int, *, clock: int | None = None, came: Counts | None = None
    ) -> ClientReport | None:
        """Take in the samples of a round, perhaps none, and return a report, or None if there is nothing to tell.

        A label that is not in the class list, or time that runs backwards, raises and leaves the monitor as before.
        ``clock`` and ``came``: where the window goes by time, the time now and that of each sample.
        """
        arriving = checked_labels(labels)
        self._current.tally(arriving)
        n_evicted = self._window.n_evicted
        leaving = self._window.add(arriving, round_index if clock is None else clock, came=came)
        self._current.add(arriving)
        self._current.remove(leaving)
        self._fresh.add(arriving)
        # Of what leaves, the first ones may have been there already when something was noticed last.
        was_fresh = leaving[max(0, self._noticed_moment - n_evicted) :]
        self._fresh.remove(was_fresh)
        self._before.add(was_fresh)
        if not self._is_due(arriving.size, round_index):
            return None
        had_reported = bool(self._reported.any())
        self._reported = self._current.counts
        self._reported_round = int(round_index)
        # A client that reports because it must has noticed nothing: it goes on comparing, unless more is known now.
        has_changed = arriving.size > 0 or leaving.size > 0
        if not self._must_report:
            has_turned_over = self._is_mixed and self._fresh.n_samples == self._current.n_samples
            self._is_mixed = had_reported and not has_turned_over and self._current.n_samples > arriving.size
        if not self._must_report or (has_changed and self._current.n_samples > self._before.n_samples):
            self._noticed_moment = self._window.n_arrived
            self._before.clear()
            self._before.add(self._window.labels())
            self._fresh.clear()
        self._must_report = False
        return ClientReport(
            client_id=self.client_id,
            representation=self._current.shares().astype(np.float32),
            n_samples=self._current.n_samples,
            label_version=self.label_version,
        )

    def report_again(self) -> None:
        """Make the next observation report whatever the drift test says: the last one was lost, or one is wanted."""
        self._must_report = True

    def grow(self, n_labels: int, label_version: int | None = None) -> None:
        """Go over to a longer class list; this alone is nothing to report."""
        self._current.grow(n_labels)
        self._fresh.grow(n_labels)
        self._before.grow(n_labels)
        self._reported = np.pad(self._reported, (0, self._current.n_labels - self._reported.size))
        self.label_version = label_version

    @property
    def counts(self) -> Counts:
        """Label counts of the window now, shape ``(n_labels,)``."""
        return self._current.counts

    @property
    def newest_round(self) -> int | None:
        """The round of the last observation; None before the first."""
        return self._window.newest_round

    def arrays(self) -> dict[str, Counts]:
        """Return what the monitor knows, for :meth:`restore`: a device that stops must not forget it."""
        last = [self._reported_round, self._noticed_moment, int(self._must_report), int(self._is_mixed)]
        return {
            **self._window.arrays(),
            "monitor.reported": self._reported.copy(),
            "monitor.before": self._before.counts,
            "monitor.last": np.array(last, dtype=np.int64),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` of another monitor gave, perhaps one with a shorter class list.

        Older states do not tell what was before, nor whether it was mixed: then it is what was reported.
        """
        reported, last = saved_column(arrays, "monitor.reported"), saved_column(arrays, "monitor.last")
        before = saved_column(arrays, "monitor.before") if last.size == 4 else reported
        n_labels = self._current.n_labels
        labels = saved_column(arrays, "window.labels")
        if (
            reported.size > n_labels
            or before.size != reported.size
            or before.min(initial=0) < 0
            or last.size not in (3, 4)
            or (labels.size and not 0 <= labels.min() <= labels.max() < n_labels)
        ):
            raise CheckpointError(f"what was saved describes no monitor of {n_labels} labels; start anew")
        self._window.restore(arrays)
        self._reported = np.pad(reported, (0, n_labels - reported.size))
        self._reported_round, self._noticed_moment, self._must_report = int(last[0]), int(last[1]), bool(last[2])
        self._is_mixed = last[3:].any().item()
        for histogram, counted in (
            (self._current, self._window.labels()),
            (self._fresh, self._window.since(self._noticed_moment)),
            (self._before, np.repeat(np.arange(before.size), before)),
        ):
            histogram.clear()
            histogram.add(counted)

    def _is_due(self, n_arrived: int, round_index: int) -> bool:
        """Return whether a report is due."""
        has_samples, had_samples = self._current.n_samples > 0, bool(self._reported.any())
        if self._must_report or has_samples != had_samples:
            return True
        if not has_samples:
            return False
        evidence = Evidence(
            reported=self._reported[np.newaxis],
            current=self._current.counts[np.newaxis],
            fresh=self._fresh.counts[np.newaxis],
            before=self._before.counts[np.newaxis],
            age=np.array([round_index - self._reported_round], dtype=np.int64),
            arrived=np.array([n_arrived], dtype=np.int64),
            is_mixed=np.array([self._is_mixed]),
        )
        return bool(self._drift_test.drifted(evidence)[0])
