"""Measurements of ours, which no method sees and nobody pays for: who is served how well, how alike clusters are."""

import numpy as np

from fielding._typing import Counts, Membership, Models
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.federation.evaluation import ClientScores
from fielding.rng import stream
from fielding.simulation.local_training import Moment
from fielding.simulation.scoring import Score, scored_clients
from fielding.traces.sliding import Ranges, SlidingWindows


class Measuring:
    """Measures the clients of a simulation.

    Parameters
    ----------
    windows
        What clients see when.
    score
        Scores the samples of one model.
    seed
        Of what is sampled because it is too much to measure in full.
    """

    def __init__(self, windows: SlidingWindows, score: Score, *, seed: int) -> None:
        self._windows, self._score, self._seed = windows, score, seed

    def served(self, models: Models, row: Counts, moment: Moment) -> ClientScores:
        """Score each client's model on the test samples of its window."""
        return self._scored(models, row, self._windows.testing(moment.round_index), moment)

    def served_elsewhere(self, models: Models, row: Counts, moment: Moment) -> dict[str, ClientScores]:
        """Score each client's model on other samples than those of its window.

        ``"newest"``, where windows show several intervals: test samples of the last one, since a window may show what
        the client has left behind. ``"prequential"``, on natural traces: all samples of the interval to come.
        """
        found: dict[str, ClientScores] = {}
        if self._windows.plan.n_visible > 1:
            found["newest"] = self._scored(models, row, self._windows.newest(moment.round_index), moment)
        if (ahead := self._served_next(models, row, moment)) is not None:
            found["prequential"] = ahead
        return found

    def _served_next(self, models: Models, row: Counts, moment: Moment) -> ClientScores | None:
        """Score each client's model on the samples that come next; None in scenarios, or if they are not new."""
        if self._windows.schedule.concepts is not None or not self._windows.looks_ahead:
            return None
        return self._scored(models, row, self._windows.upcoming(moment.round_index), moment)

    def heterogeneity(self, membership: Membership, moment: Moment) -> float | None:
        """Return the mean L1 distance between label histograms of clients of the same cluster; None without pairs."""
        clients = np.flatnonzero((moment.training.sizes > 0) & (membership >= 0))
        measured = mean_client_distance(
            Points(self._windows.histograms(moment.training, clients)),
            membership[clients],
            metric=metric_named("l1"),
            rng=stream(self._seed, "measured heterogeneity", moment.round_index),
        )
        return float(measured.mean) if measured.mean is not None and np.isfinite(measured.mean) else None

    def _scored(self, models: Models, row: Counts, ranges: Ranges, moment: Moment) -> ClientScores:
        tested = np.flatnonzero((ranges.sizes > 0) & (moment.training.sizes > 0))
        return scored_clients(models, row, ranges=ranges, tested=tested, score=self._score)
