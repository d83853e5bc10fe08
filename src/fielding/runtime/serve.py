"""What clients do to the models that serve them: scores shifted to their own label mix, steps of their own."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix, Models, Vector
from fielding.client.ranges import Ranges, segment_means
from fielding.config.parts import CORRECTIONS
from fielding.errors import OptionError, unknown_name
from fielding.runtime.store import SampleStore
from fielding.runtime.workers import Compute
from fielding.serving.correction import (
    CALIBRATED,
    check_smoothing,
    label_offsets,
    predict_mixes,
    smooth_mixes,
    trust_mixes,
)
from fielding.training.head import SampleScores, score_samples
from fielding.training.label_mix import label_mix_of
from fielding.training.trainer import Scores

MOST_NUMBERS = 1 << 22  # probabilities held at a time, in numbers: 32 MB
NO_SAMPLES: SampleScores = (np.empty(0, dtype=np.float32), np.empty(0, dtype=np.bool_))
"""Loss and correctness of no samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The rule by which clients treat the model that serves them.

    Parameters
    ----------
    correction
        One of ``CORRECTIONS``: where a client takes its label mix from.
    smoothing
        For how many samples the model's mix counts beside the client's own; a number or ``"calibrated"``.
    fine_tune
        Local steps that a client takes before it is tested once more; 0: it is not.
    experts
        By which it reads samples, weighed by evidence; none: by the model alone.
    """

    correction: str = "none"
    smoothing: float | str = CALIBRATED
    fine_tune: int = 0
    experts: tuple[str, ...] = ()

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
        return self.correction == "predicted" or self.fine_tune > 0 or bool(self.experts)

    def count_looks(self, sizes: Counts) -> Counts:
        """Return how many samples clients with windows of such sizes put through a model to learn their mix."""
        return sizes if self.correction == "predicted" else np.zeros_like(sizes)


class LabelCorrection:
    """Finds out how the scores of each client's model are to be shifted (docs/serving.md).

    Their mix is that of their training samples; models carry the mix that they were trained on.
    """

    def __init__(self, store: SampleStore, compute: Compute, rule: Serving) -> None:
        self._store, self._compute, self._rule = store, compute, rule

    def offsets(self, models: Models, row: Counts, *, clients: Counts, training: Ranges) -> Scores:
        """Return what is added to scores of classes, float32, ``(n_asked, n_classes)``; zeros without samples.

        ``row``: which of the models serves each of ``clients``; one may come several times.
        """
        windows = training.some(clients)
        model_mixes = trust_mixes(label_mix_of(models, self._store.n_classes), self._rule.correction)[row]
        if self._rule.correction == "predicted":
            own = model_mixes.copy()
            for at in np.unique(row).tolist():
                served = np.flatnonzero((row == at) & (windows.sizes > 0))
                for some in _split_pieces(served, windows.sizes[served] * self._store.n_classes):
                    rows, sizes = windows.of(some)
                    scores, _ = self._compute.class_scores(models[at], rows, self._store.gather)
                    own[some] = predict_mixes(scores, sizes, model_mixes[some], smoothing=self._rule.smoothing)
        else:
            counts = np.zeros((windows.start.size, self._store.n_classes))
            known = np.flatnonzero(windows.sizes > 0)
            counts[known] = self._store.histograms(windows, known) * windows.sizes[known, np.newaxis]
            own = smooth_mixes(np.round(counts), model_mixes, self._rule.smoothing)
        return label_offsets(own, model_mixes)

    def score(self, model: Models, rows: Counts, offsets: Scores) -> tuple[SampleScores, SampleScores]:
        """Return loss and correctness of rows as they are and shifted, in one pass; ``offsets``: a row per client."""
        if not rows.size:
            return NO_SAMPLES, NO_SAMPLES
        scores, labels = self._compute.class_scores(model, rows, self._store.gather)
        return score_samples(scores, labels), score_samples(scores + offsets[self._store.owners(rows)], labels)

    def losses(self, samples: Ranges, models: Models, *, clients: Counts, training: Ranges) -> Matrix:
        """Return the mean loss of each model, as it would serve each of some clients, on some of its samples.

        Shape ``(n_asked, n_models)``. Each range of ``samples`` holds one at least; a client may come several times.
        ``training``: the windows that mixes are taken from.
        """
        rows, sizes = samples.of(np.arange(clients.size))
        found = np.full((clients.size, models.shape[0]), np.nan)
        for at, model in enumerate(models if rows.size else ()):
            row = np.zeros(clients.size, dtype=np.int64)
            offsets = self.offsets(model[np.newaxis], row, clients=clients, training=training)
            scores, labels = self._compute.class_scores(model, rows, self._store.gather)
            found[:, at] = segment_means(score_samples(scores + np.repeat(offsets, sizes, axis=0), labels)[0], sizes)
        return found


def _split_pieces(clients: Counts, numbers: Counts) -> list[Counts]:
    """Return clients in pieces of bounded size, by how many numbers each brings; a large one may be alone."""
    place = np.cumsum(numbers) // MOST_NUMBERS
    return np.split(clients, np.flatnonzero(np.diff(place)) + 1) if clients.size else []


class ServedModels:
    """The models that serve clients now, as the clients know them; without ``correction`` scores are not shifted."""

    def __init__(self, store: SampleStore, compute: Compute, correction: LabelCorrection | None) -> None:
        self._store, self._compute, self._correction = store, compute, correction
        self._models: Models | None = None
        self._row: Counts = np.empty(0, dtype=np.int64)

    def serve(self, models: Models, row: Counts) -> None:
        """Hand out models: of these, the row of each client, shape ``(n_clients,)``."""
        self._models, self._row = models, row

    @property
    def known(self) -> tuple[Models, Counts] | None:
        """The models that serve clients, and the row of each client; None while no model serves."""
        return None if self._models is None else (self._models, self._row)

    def errors(self, rows: Counts, training: Ranges) -> Vector:
        """Return 1 where a client's model errs on a row, 0 where not, NaN while no model serves."""
        errors = np.full(rows.size, np.nan)
        if self._models is None or not rows.size:
            return errors
        models, owner, offsets = self._models, self._store.owners(rows), None
        if self._correction is not None:
            everyone = np.arange(self._row.size)
            offsets = self._correction.offsets(models, self._row, clients=everyone, training=training)
        for row in np.unique(self._row[owner]).tolist():
            own = np.flatnonzero(self._row[owner] == row)
            is_right: Mask
            if self._correction is not None and offsets is not None:
                is_right = self._correction.score(models[row], rows[own], offsets)[1][1]
            else:
                is_right = self._compute.scores(models[row], rows[own], self._store.gather)[1]
            errors[own] = ~np.asarray(is_right)
        return errors
