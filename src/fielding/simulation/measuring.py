"""Measurements of ours, which no method sees and nobody pays for: who is served how well, how alike clusters are."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import Counts, Membership, Models
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.federation.evaluation import ClientScores
from fielding.rng import stream
from fielding.simulation.fine_tuning import FineTuning
from fielding.simulation.local_training import Moment
from fielding.simulation.scoring import Score, scored_clients, scored_ways
from fielding.simulation.serving import Correcting
from fielding.traces.sliding import Ranges, SlidingWindows
from fielding.training.trainer import Scores


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
    correcting
        Shifts scores to each client's label mix; None: they are measured as they are alone.
    tuning
        Tunes each client's model; None: they are not tuned.
    """

    def __init__(
        self,
        windows: SlidingWindows,
        score: Score,
        *,
        seed: int,
        correcting: Correcting | None = None,
        tuning: FineTuning | None = None,
    ) -> None:
        self._windows, self._score, self._seed = windows, score, seed
        self._correcting, self._tuning = correcting, tuning
        self._last: tuple[Models, Counts, int, Scores] | None = None

    def served(self, models: Models, row: Counts, moment: Moment) -> ClientScores:
        """Score each client's model on the test samples of its window; also corrected and tuned, if asked for."""
        ranges = self._windows.testing(moment.round_index)
        found = self._scored(models, row, ranges, moment)
        if self._tuning is None:
            return found
        return replace(found, also={**found.also, "tuned": self._tuned(self._tuning, models, row, moment)})

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
        tested = _tested(ranges, moment)
        if self._correcting is None:
            return scored_clients(models, row, ranges=ranges, tested=tested, score=self._score)
        judge = self._correcting.judge(self._offsets(self._correcting, models, row, moment))
        plain, corrected = scored_ways(models, row, ranges=ranges, tested=tested, judge=judge)
        return replace(plain, also={"corrected": corrected})

    def _offsets(self, correcting: Correcting, models: Models, row: Counts, moment: Moment) -> Scores:
        """Return the offsets of all clients; the same models are measured on several samples, so the last are kept."""
        last = self._last
        if last is None or not (last[0] is models and last[1] is row and last[2] == moment.round_index):
            everyone = np.arange(self._windows.n_clients)
            offsets = correcting.offsets(models, row, clients=everyone, training=moment.training)
            last = self._last = (models, row, moment.round_index, offsets)
        return last[3]

    def _tuned(self, tuning: FineTuning, models: Models, row: Counts, moment: Moment) -> ClientScores:
        """Score the models that clients have after their own steps, with the offsets that they took them with."""
        ranges, score, offsets = self._windows.testing(moment.round_index), self._score, None
        if self._correcting is not None:
            offsets = self._offsets(self._correcting, models, row, moment)
            score = self._correcting.score(offsets)
        own_row, pieces = np.zeros(row.size, dtype=np.int64), []
        clients = _tested(ranges, moment)
        for some, own in tuning.tuned(models, row, clients=clients, moment=moment, offsets=offsets):
            own_row[some] = np.arange(some.size)
            pieces.append(scored_clients(own, own_row, ranges=ranges, tested=some, score=score))
        return _together(pieces)


def _tested(ranges: Ranges, moment: Moment) -> Counts:
    """Return who is tested: those with test samples, if they also have some to train on."""
    return np.flatnonzero((ranges.sizes > 0) & (moment.training.sizes > 0))


def _together(pieces: Sequence[ClientScores]) -> ClientScores:
    """Return the scores of all clients, who come piece by piece."""
    none = np.empty(0, dtype=np.int64)
    return ClientScores(
        clients=np.concatenate([none, *(one.clients for one in pieces)]),
        n_test=np.concatenate([none, *(one.n_test for one in pieces)]),
        correct=np.concatenate([none, *(one.correct for one in pieces)]),
        loss=np.concatenate([np.empty(0), *(one.loss for one in pieces)]),
    )
