"""Questions to clients: who can be reached answers about the samples that are meant, and pays for it."""

import numpy as np
import pytest
from fielding.simulation.local_training import LocalTraining, Moment
from fielding.simulation.probing import Probing
from fielding.simulation.questions import Question
from fielding.simulation.serving import Correcting, Serving
from fielding.simulation.workers import Workers

from fielding._typing import Counts, Mask, Matrix, Models
from fielding.federation.ledger import Costs
from fielding.traces.sliding import SlidingWindows
from tests.simulation.serving_cases import PREDICTED, PRIOR, RULE, labelled, mixed_trainer, model

BOTH = np.concatenate([model(slope=0.0), model(slope=1.0)])
"""A model in doubt, and one that is right."""
LOG_2 = float(np.log(2.0))


class Asking:
    """Three clients that can be asked, of whom some are offline, and what they paid."""

    def __init__(self, serving: Serving, *, offline: tuple[int, ...] = (), kept_aside: float = 0.0) -> None:
        given = labelled()
        self.windows = SlidingWindows(given.pool, given.schedule, given.plan, kept_aside=kept_aside)
        self.moment = Moment(round_index=0, training=self.windows.training(0))
        self.paid: list[tuple[Counts, Costs]] = []
        self._offline = offline
        workers = Workers(mixed_trainer(), 1)
        self.probing = Probing(
            windows=self.windows,
            local=LocalTraining(self.windows, workers, RULE, seed=1, keys=np.arange(3, dtype=np.uint64)),
            correcting=Correcting(self.windows, workers, serving) if serving.is_corrected else None,
            serving=serving,
            is_online=self._is_online,
            pay=lambda clients, costs: self.paid.append((clients, costs)),
        )

    def _is_online(self, clients: Counts) -> Mask:
        return ~np.isin(clients, self._offline)

    def losses(
        self, clients: list[int], models: Models = BOTH, *, corrected: bool = True, aside: bool = False
    ) -> Matrix:
        question = Question(clients=np.array(clients), blocks=None, models=models, aside=aside)
        return self.probing.losses(question, self.moment, corrected=corrected)

    def n_passes(self) -> list[int]:
        """Return how many samples each put through a model."""
        return np.asarray(self.paid[-1][1].forward_samples).tolist()


def test_losses_are_corrected_if_they_are_to_be_as_the_model_would_serve() -> None:
    asking = Asking(PRIOR)

    raw, corrected = (asking.losses([0, 1, 2], corrected=corrected) for corrected in (False, True))

    assert raw[:, 0] == pytest.approx(LOG_2)
    # Smoothed by one sample of the model's even mix, 8 of 8 become 8.5 of 9.
    assert corrected[:, 0] == pytest.approx([-np.log(8.5 / 9.0)] * 2 + [LOG_2])
    assert (corrected[:2, 1] < raw[:2, 1]).all()
    assert corrected[2] == pytest.approx(raw[2])


def test_without_a_correction_models_serve_as_they_are() -> None:
    asking = Asking(Serving())

    assert asking.losses([0, 1]).tolist() == asking.losses([0, 1], corrected=False).tolist()


def test_who_is_offline_says_nothing_and_pays_nothing() -> None:
    asking = Asking(PRIOR, offline=(1,))

    found = asking.losses([1, 2, 0])

    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1:]).all()
    assert found[1:].tolist() == Asking(PRIOR).losses([2, 0]).tolist()
    clients, costs = asking.paid[-1]
    assert clients.tolist() == [2, 0]
    assert np.asarray(costs.down_bytes).tolist() == [4 * BOTH.size] * 2
    assert asking.n_passes() == [16, 16]


def test_questions_about_samples_kept_aside_are_about_those_alone() -> None:
    asking = Asking(PRIOR, kept_aside=0.4)
    aside, kept = asking.windows.aside(0).sizes, asking.windows.training(0).sizes
    assert (aside + kept).tolist() == [8, 8, 8]
    assert (aside > 0).all()

    found = asking.losses([0, 1, 2], aside=True)

    assert asking.n_passes() == (2 * aside).tolist()
    # The mix is that of what they train on: n of n samples become (n + 1/2) of (n + 1).
    assert found[:2, 0] == pytest.approx(-np.log((kept[:2] + 0.5) / (kept[:2] + 1.0)))


def test_a_mix_that_has_to_be_estimated_costs_passes_over_the_window() -> None:
    asking = Asking(PREDICTED, kept_aside=0.4)
    aside, kept = asking.windows.aside(0).sizes, asking.windows.training(0).sizes

    asking.losses([0, 2], aside=True)
    assert asking.n_passes() == (2 * (aside + kept))[[0, 2]].tolist()
    asking.losses([0, 2])
    assert asking.n_passes() == (2 * kept)[[0, 2]].tolist(), "the window is looked at anyway"
    asking.losses([0, 2], aside=True, corrected=False)
    assert asking.n_passes() == (2 * aside)[[0, 2]].tolist()


def test_accuracies_and_sizes_are_those_of_the_samples() -> None:
    asking = Asking(PRIOR, offline=(1,))
    everyone = np.arange(3)
    accuracies = asking.probing.accuracies(Question(clients=everyone, blocks=None, models=BOTH), asking.moment)
    blocks = [np.array([0]), np.array([0]), np.empty(0, dtype=np.int64)]

    assert accuracies[[0, 2]].tolist() == [[1.0, 1.0], [0.5, 1.0]]
    assert np.isnan(accuracies[1]).all()
    assert asking.probing.sizes(Question(clients=everyone, blocks=blocks), asking.moment).tolist() == [8, 0, 0]
    assert asking.n_passes() == [0], "to count is to look at no model"
