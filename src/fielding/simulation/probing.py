"""Questions to clients beside training: who can be reached answers, and pays for it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fielding._typing import Counts, Mask, Matrix
from fielding.federation.ledger import Costs
from fielding.simulation.local_training import LocalTraining, Moment
from fielding.simulation.questions import Question
from fielding.simulation.serving import Correcting, Serving
from fielding.traces.sliding import Ranges, SlidingWindows

Pay: TypeAlias = Callable[[Counts, Costs], None]
"""Charges clients for what they do, one task each, and lets the time pass that it takes."""
Measure: TypeAlias = Callable[[Ranges, Counts], Matrix]
"""Returns numbers for the samples of each question, given who is asked."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probing:
    """Lets clients measure something on their samples.

    Parameters
    ----------
    windows, local
        What clients see when, and what they compute.
    correcting, serving
        How they shift the scores of models that serve them, None if they do not; and what that costs.
    is_online, pay
        Who can be reached now, and how answers are paid for.
    """

    windows: SlidingWindows
    local: LocalTraining
    correcting: Correcting | None
    serving: Serving
    is_online: Callable[[Counts], Mask]
    pay: Pay

    def losses(self, question: Question, moment: Moment, *, corrected: bool) -> Matrix:
        """Return the mean loss of models on the samples of each question, as they are or as they would serve."""
        correcting, models = self.correcting if corrected else None, question.models
        if correcting is None:
            return self._asked(question, moment, lambda samples, _asked: self.local.losses(samples, models))
        training = moment.training
        if (
            question.blocks is not None or question.aside
        ):  # the mix is that of the window: not what they are asked about
            question = replace(question, more_passes=self.serving.looked_at(training.sizes[question.clients]))
        return self._asked(
            question,
            moment,
            lambda samples, asked: correcting.losses(samples, models, clients=asked, training=training),
        )

    def accuracies(self, question: Question, moment: Moment) -> Matrix:
        """Return the share of the samples of each question that models get right."""
        return self._asked(question, moment, lambda samples, _asked: self.local.accuracies(samples, question.models))

    def sizes(self, question: Question, moment: Moment) -> Counts:
        """Return how many samples each question is about; 0 for whoever cannot be reached."""
        sizes = self._asked(question, moment, lambda samples, _asked: samples.sizes[:, np.newaxis].astype(np.float64))
        return np.nan_to_num(sizes[:, 0]).astype(np.int64)

    def _asked(self, question: Question, moment: Moment, measure: Measure) -> Matrix:
        """Return the answers, a row per question, NaN where there is none."""
        if question.aside:
            samples = self.windows.aside(moment.round_index).some(question.clients)
        else:
            samples = self.local.samples(moment, question.clients, question.blocks)
        reached = np.flatnonzero(self.is_online(question.clients) & (samples.sizes > 0))
        asked = question.clients[reached]
        self.pay(asked, question.costs(reached, samples.sizes))
        found = np.full((question.clients.size, question.n_answers), np.nan)
        found[reached] = measure(samples.some(reached), asked)
        return found
