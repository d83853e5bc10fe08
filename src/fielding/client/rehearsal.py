"""What a client does that rehearses: when it looks at new samples, and which of the old ones it remembers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Mask, Vector
from fielding.rng import Hashes

THRESHOLD, SLACK = 5.0, 0.5
"""Standard errors of shortfall that add up to an alarm, and those that each look is forgiven (METHODS.md 10)."""
LEAST_REFERENCE = 20.0  # samples that a reference needs before anything is held against it
LEAST_SPREAD = 0.1
"""Confidence lies between 0 and 1, mostly close to 1: the spread of a few samples without a mistake says too little."""
FORGETTING = 0.8  # weight of the reference after each look: models learn, and what was normal long ago is not now


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """What a client is used to, and how far newer samples fell short of it.

    ``weight``, ``mean`` and ``squares`` of the reference: samples, older ones counted less, the mean of their
    confidences, and the sum of squared deviations from it. ``excess`` is the CUSUM: shortfall beyond the slack, added
    up, never below 0; in standard errors.

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

        There is at least one: the probability of the true label of each new sample.
        """
        mean, excess = float(confidences.mean()), 0.0
        if self.weight >= LEAST_REFERENCE:
            spread = max(LEAST_SPREAD, float(np.sqrt(self.squares / (self.weight - 1.0))))
            error = spread * float(np.sqrt(1.0 / confidences.size + 1.0 / self.weight))
            excess = max(0.0, self.excess + (self.mean - mean) / error - SLACK)
        is_alarm = excess > THRESHOLD
        before = Confidence() if is_alarm else self
        # The new samples join the reference, and the older ones are partly forgotten.
        size, weight = confidences.size, FORGETTING * before.weight
        total, gap = weight + size, mean - before.mean
        own = float(((confidences - mean) ** 2).sum())
        after = Confidence(
            weight=total,
            mean=before.mean + gap * size / total,
            squares=FORGETTING * before.squares + own + gap * gap * weight * size / total,
            excess=0.0 if is_alarm else excess,
        )
        return after, is_alarm


PER_LABEL = 20  # most samples of a label that a client remembers (METHODS.md 10)
LEAST_LOOK = 10  # samples that a client looks at together at least; fewer wait for the next ones
PURPOSE = "rehearsal"
"""Of the hashes that choose what is remembered: of seed, client, and the place of a sample among all of the client."""


def look_ends(intervals: npt.NDArray[np.integer]) -> list[int]:
    """Return where each look at samples ends; a look begins where the one before ends, with an interval.

    Samples come by rising interval. What comes after the last end waits.
    """
    ends, taken = [0], 0
    for count in np.unique(intervals, return_counts=True)[1].tolist():
        taken += count
        if taken - ends[-1] >= LEAST_LOOK:
            ends.append(taken)
    return ends[1:]


def update_confidence(
    before: Confidence, losses: npt.NDArray[np.floating], ends: list[int]
) -> tuple[Confidence, list[int]]:
    """Return what a client is used to after some looks, and where the looks began that alarmed it.

    ``losses`` are those of the samples under the model that it received, ``ends`` where each look ends.
    """
    confidences, now, alarms, begin = label_probabilities(losses), before, [], 0
    for end in ends:
        now, is_alarm = now.after(confidences[begin:end])
        if is_alarm:
            alarms.append(begin)
        begin = end
    return now, alarms


def label_probabilities(losses: npt.NDArray[np.floating]) -> Vector:
    """Return the probabilities of labels, given their losses; a model that says nothing is not confident."""
    return np.asarray(np.nan_to_num(np.exp(-losses.astype(np.float64)), nan=0.0, posinf=0.0))


def choose_remembered(labels: npt.NDArray[np.integer], draws: Hashes) -> Mask:
    """Return which samples a client remembers: of each label at most ``PER_LABEL``, those with the smallest draws.

    Labels and draws are of all samples that ever were to be remembered; those that were forgotten need not be among
    them.

    Examples
    --------
    >>> draws = np.arange(25, dtype=np.uint64)[::-1]
    >>> np.flatnonzero(~choose_remembered(np.zeros(25, dtype=np.int32), draws)).tolist()
    [0, 1, 2, 3, 4]
    """
    order = np.lexsort((draws, labels))
    rank = np.arange(labels.size) - np.searchsorted(labels[order], labels[order])
    kept = np.zeros(labels.size, dtype=np.bool_)
    kept[order[rank < PER_LABEL]] = True
    return kept
