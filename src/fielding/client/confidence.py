"""A client's CUSUM on how confident a model is about what really came: it tells whether the two lost touch."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Vector

THRESHOLD, SLACK = 5.0, 0.5
"""Standard errors of shortfall that add up to an alarm, and those that each look is forgiven (METHODS.md 10)."""
LEAST_REFERENCE = 20.0
"""Samples that a reference needs before anything is held against it."""
LEAST_SPREAD = 0.1
"""Confidence lies between 0 and 1, mostly close to 1: the spread of a few samples without a mistake says too little."""
FORGETTING = 0.8
"""Weight of the reference after each look: models learn, and what was normal long ago is not now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """What a client is used to, and how far newer samples fell short of it.

    Parameters
    ----------
    weight, mean, squares
        Of the reference: samples, older ones counted less, the mean of their confidences, and the sum of squared
        deviations from it.
    excess
        The CUSUM: shortfall beyond the slack, added up, never below 0; in standard errors.

    Examples
    --------
    >>> calm, is_alarm = Confidence().after(np.full(20, 0.9))
    >>> is_alarm, calm.after(np.full(20, 0.88))[1], calm.after(np.full(20, 0.5))[1]
    (False, False, True)
    """

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    excess: float = 0.0

    def after(self, confidences: Vector) -> tuple["Confidence", bool]:
        """Return the state after one more look, and whether it raises the alarm.

        The mean of the new confidences is held against the mean of the reference, in standard errors of their
        difference, so looks at few samples and at many weigh alike. After an alarm the new samples are the reference.

        Parameters
        ----------
        confidences
            Probability of the true label of each new sample, shape ``(n_samples,)``, at least one.
        """
        mean, excess = float(confidences.mean()), 0.0
        if self.weight >= LEAST_REFERENCE:
            spread = max(LEAST_SPREAD, float(np.sqrt(self.squares / (self.weight - 1.0))))
            error = spread * float(np.sqrt(1.0 / confidences.size + 1.0 / self.weight))
            excess = max(0.0, self.excess + (self.mean - mean) / error - SLACK)
        if excess > THRESHOLD:
            return Confidence()._joined(confidences, 0.0), True
        return self._joined(confidences, excess), False

    def _joined(self, confidences: Vector, excess: float) -> "Confidence":
        """Return the state with new samples in the reference and the older ones partly forgotten."""
        size, mean, weight = confidences.size, float(confidences.mean()), FORGETTING * self.weight
        total, gap = weight + size, mean - self.mean
        own = float(((confidences - mean) ** 2).sum())
        return Confidence(
            weight=total,
            mean=self.mean + gap * size / total,
            squares=FORGETTING * self.squares + own + gap * gap * weight * size / total,
            excess=excess,
        )
