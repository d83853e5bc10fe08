"""What models make of the samples of a device, as they are or corrected to its label mix; by whoever's code."""

import numpy as np

from fielding._typing import Mask, Matrix, Models, Vector
from fielding.flower.device.local_jobs import JobSettings, label_shares, sample_scores, summed_up, trainer_here
from fielding.flower.device.own_code import OwnCode, own_score, own_sight, shown_model
from fielding.flower.device.samples import Kept
from fielding.serving.correction import label_offsets, predict_mixes, smooth_mixes, trust_mixes
from fielding.training.head import Judged, features_of, judged
from fielding.training.label_mix import label_mix_of
from fielding.training.layout import Layout
from fielding.training.trainer import Scores, Trainer


class DeviceScoring:
    """Scores samples with models of one layout; nothing is loaded before it is used.

    All samples that it is given are at least one.

    Parameters
    ----------
    layout
        What the numbers of models mean.
    settings
        Of the order that the models came with.
    own
        The user's own code, if she trains.
    """

    def __init__(self, layout: Layout, settings: JobSettings, own: OwnCode) -> None:
        self._layout, self.settings, self._own = layout, settings, own
        self._trainer: Trainer | None = None

    def score(self, model: Models, samples: Kept) -> tuple[int, float]:
        """Return how many samples a model gets right, and its mean loss."""
        if self._own.evaluate is None:
            return summed_up(sample_scores(self._made(samples), model, samples))
        scored = own_score(self._own.evaluate, shown_model(self._layout, model), samples)
        return scored.correct, scored.loss

    def judged(self, model: Models, samples: Kept) -> Judged:
        """Return loss and correctness of each sample."""
        if self._own.train is None:
            return sample_scores(self._made(samples), model, samples)
        return judged(self.seen(model, samples)[1], samples.y)

    def seen(self, model: Models, samples: Kept) -> tuple[Scores, Scores]:
        """Return what goes into the last layer of a model, and the scores of classes, a row per sample."""
        if self._own.train is not None:
            return own_sight(self._own.embed, shown_model(self._layout, model), samples, self.settings.classes)
        rows = np.arange(samples.y.size)
        return features_of(self._made(samples), model, rows, lambda some: (samples.x[some], samples.y[some]))

    def _made(self, samples: Kept) -> Trainer:
        if self._trainer is None:
            self._trainer = trainer_here(self._layout, self.settings, samples, self._own.model)
        return self._trainer

    # ---- as models serve the device --------------------------------------------------------------------------------

    def served(self, model: Models, samples: Kept, window: Kept) -> tuple[int, float]:
        """Return what :meth:`score` does of a model as it would serve the device; ``window``: its training samples."""
        scores = self.seen(model, samples)[1]
        return summed_up(judged(scores + self.offsets(model, window), samples.y))

    def is_right(self, model: Models, samples: Kept, window: Kept) -> Mask:
        """Return which samples a model gets right as it serves the device."""
        if not self.settings.is_corrected:
            return self.judged(model, samples)[1]
        return judged(self.seen(model, samples)[1] + self.offsets(model, window), samples.y)[1]

    def offsets(self, model: Models, window: Kept) -> Scores:
        """Return what a model's scores of classes are shifted by, from the mix that it carries to the device's own.

        Parameters
        ----------
        model
            Carries its label mix.
        window
            Training samples of the device, perhaps none: then nothing is shifted.

        Returns
        -------
        float32, shape ``(1, n_classes)``.
        """
        carried = label_mix_of(model[np.newaxis], self.settings.classes)
        trusted = trust_mixes(carried, self.settings.correction)
        return label_offsets(self._own_mix(model, window, trusted), trusted)

    def _own_mix(self, model: Models, window: Kept, trusted: Matrix) -> Matrix:
        settings, sizes = self.settings, np.array([window.y.size])
        if not window.y.size:
            return trusted
        if settings.correction == "predicted":
            scores = self.seen(model, window)[1]
            return predict_mixes(scores, sizes, trusted, smoothing=settings.smoothing)
        counts = np.round(label_shares(window, settings.classes) * window.y.size)
        return smooth_mixes(counts, trusted, settings.smoothing)

    def errors(self, model: Models, samples: Kept, window: Kept) -> Vector:
        """Return 1 where a model errs as it serves the device, else 0, shape ``(n_samples,)``."""
        return np.asarray(~self.is_right(model, samples, window), dtype=np.float64)
