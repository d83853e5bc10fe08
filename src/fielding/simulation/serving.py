"""Models served as if they had been trained on each client's own label mix (docs/serving.md)."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Matrix, Models
from fielding.errors import OptionError, unknown_name
from fielding.federation.ledger import Costs
from fielding.serving.correction import (
    CALIBRATED,
    CORRECTIONS,
    check_smoothing,
    label_offsets,
    predict_mixes,
    smooth_mixes,
    trust_mixes,
)
from fielding.simulation.scoring import NO_SAMPLES, Judge, Score
from fielding.simulation.segments import segment_means
from fielding.simulation.workers import Workers
from fielding.traces.sliding import Ranges, SlidingWindows
from fielding.training.head import Judged, judged
from fielding.training.label_mix import label_mix_of
from fielding.training.trainer import Scores

MOST_NUMBERS = 1 << 22
"""Probabilities held at a time, in numbers: 32 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What clients do to the model that serves them.

    Parameters
    ----------
    correction
        One of ``CORRECTIONS``: where a client takes its label mix from.
    smoothing
        For how many samples the model's mix counts beside the client's own; a number or ``"calibrated"``.
    fine_tune
        Local steps that a client takes before it is tested once more; 0: it is not.
    """

    correction: str = "none"
    smoothing: float | str = CALIBRATED
    fine_tune: int = 0

    def __post_init__(self) -> None:
        if self.correction not in CORRECTIONS:
            raise unknown_name("correction", self.correction, CORRECTIONS)
        if self.fine_tune < 0:
            raise OptionError(f"fine_tune is {self.fine_tune}; give a number of steps, or 0 for none")
        check_smoothing(self.smoothing)

    @property
    def is_corrected(self) -> bool:
        """Whether scores are shifted."""
        return self.correction != "none"

    @property
    def has_own_work(self) -> bool:
        """Whether clients compute more than scores at an evaluation."""
        return self.correction == "predicted" or self.fine_tune > 0

    def looked_at(self, sizes: Counts) -> Counts:
        """Return how many samples clients with windows of such sizes put through a model to learn their mix."""
        return sizes if self.correction == "predicted" else np.zeros_like(sizes)

    def own_costs(self, sizes: Counts, tested: Counts, *, batch_size: int) -> Costs:
        """Return what all clients compute for themselves at an evaluation; nothing of it is sent.

        Parameters
        ----------
        sizes
            Training samples in each client's window, shape ``(n_clients,)``.
        tested
            Who is tested.
        batch_size
            Samples of a step.

        Examples
        --------
        >>> serving = Serving(correction="predicted", fine_tune=2)
        >>> costs = serving.own_costs(np.array([7, 8]), np.array([1]), batch_size=5)
        >>> np.asarray(costs.forward_samples).tolist(), np.asarray(costs.train_samples).tolist()
        ([7, 8], [0, 10])
        """
        steps = np.zeros_like(sizes)
        steps[tested] = self.fine_tune
        return Costs(forward_samples=self.looked_at(sizes), train_samples=steps * batch_size)


class Correcting:
    """Finds out how the scores of each client's model are to be shifted.

    Parameters
    ----------
    windows
        What clients see when; their mix is that of their training samples.
    workers
        Who computes; their models carry the mix that they were trained on.
    rule
        Where the client's mix is taken from.
    """

    def __init__(self, windows: SlidingWindows, workers: Workers, rule: Serving) -> None:
        self._windows, self._workers, self._rule = windows, workers, rule
        self._n_classes = len(windows.pool.classes)

    def offsets(self, models: Models, row: Counts, *, clients: Counts, training: Ranges) -> Scores:
        """Return what is added to the scores of each class.

        Parameters
        ----------
        models
            shape ``(n_models, n_numbers)``.
        row
            Which of them serves each of the clients, shape ``(n_asked,)``.
        clients
            The clients, same shape; one may come several times.
        training
            The training windows of all clients.

        Returns
        -------
        float32, shape ``(n_asked, n_classes)``; zeros for who has no samples.
        """
        windows = training.some(clients)
        model_mixes = trust_mixes(label_mix_of(models, self._n_classes), self._rule.correction)[row]
        if self._rule.correction == "predicted":
            own = self._predicted(models, row, windows, model_mixes)
        else:
            own = smooth_mixes(self._counts(windows), model_mixes, self._rule.smoothing)
        return label_offsets(own, model_mixes)

    def judge(self, offsets: Scores) -> Judge:
        """Return who scores samples as they are and shifted, in one pass; ``offsets``: a row for every client."""
        owner = self._windows.schedule.client

        def judge(model: Models, rows: Counts) -> tuple[Judged, Judged]:
            if not rows.size:
                return NO_SAMPLES, NO_SAMPLES
            scores, labels = self._workers.class_scores(model, rows, self._windows.gather)
            return judged(scores, labels), judged(scores + offsets[owner[rows]], labels)

        return judge

    def score(self, offsets: Scores) -> Score:
        """Return who scores samples shifted alone; otherwise as :meth:`judge`."""
        judge = self.judge(offsets)
        return lambda model, rows: judge(model, rows)[1]

    def losses(self, samples: Ranges, models: Models, *, clients: Counts, training: Ranges) -> Matrix:
        """Return the mean loss of each model, as it would serve each of some clients, on some of its samples.

        Parameters
        ----------
        samples
            What each is asked about; each has a sample.
        models
            shape ``(n_models, n_numbers)``.
        clients
            Who, shape ``(n_asked,)``; one may come several times.
        training
            The training windows of all clients: what their mix is taken from.

        Returns
        -------
        shape ``(n_asked, n_models)``.
        """
        rows, sizes = samples.of(np.arange(clients.size))
        found = np.full((clients.size, models.shape[0]), np.nan)
        for at, model in enumerate(models if rows.size else ()):
            row = np.zeros(clients.size, dtype=np.int64)
            offsets = self.offsets(model[np.newaxis], row, clients=clients, training=training)
            scores, labels = self._workers.class_scores(model, rows, self._windows.gather)
            found[:, at] = segment_means(judged(scores + np.repeat(offsets, sizes, axis=0), labels)[0], sizes)
        return found

    def _counts(self, windows: Ranges) -> Matrix:
        """Return the labels in windows, shape ``(n_asked, n_classes)``."""
        counts = np.zeros((windows.start.size, self._n_classes))
        known = np.flatnonzero(windows.sizes > 0)
        counts[known] = self._windows.histograms(windows, known) * windows.sizes[known, np.newaxis]
        return np.round(counts)

    def _predicted(self, models: Models, row: Counts, windows: Ranges, model_mixes: Matrix) -> Matrix:
        """Return the mixes that models make out in windows, whose labels are not looked at."""
        own = model_mixes.copy()
        for at in np.unique(row).tolist():
            served = np.flatnonzero((row == at) & (windows.sizes > 0))
            for some in _in_pieces(served, windows.sizes[served] * self._n_classes):
                rows, sizes = windows.of(some)
                scores, _ = self._workers.class_scores(models[at], rows, self._windows.gather)
                own[some] = predict_mixes(scores, sizes, model_mixes[some], smoothing=self._rule.smoothing)
        return own


def _in_pieces(clients: Counts, numbers: Counts) -> list[Counts]:
    """Return clients in pieces of bounded size, by how many numbers each brings; a large one may be alone."""
    place = np.cumsum(numbers) // MOST_NUMBERS
    return np.split(clients, np.flatnonzero(np.diff(place)) + 1) if clients.size else []
