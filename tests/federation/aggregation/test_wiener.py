"""Steps of the server that are as long as what is learnt holds for samples that come later."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.aggregation import Uploads
from fielding.federation.aggregation.wiener import ENOUGH, Wiener
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import carried_over

N_NUMBERS = 4


def step(carried: float, wiener: Wiener | None = None) -> np.ndarray:
    """Return the step of a server whose participants agreed for long."""
    wiener, model = wiener or Wiener(), np.zeros(N_NUMBERS, dtype=np.float32)
    memory = {name: np.full(N_NUMBERS, first, dtype=np.float32) for name, first in wiener.memory.items()}
    sent = np.array([[1.0, -2.0, 0.5, 0.25]], dtype=np.float32)
    uploads = Uploads(models=sent, weights=None, n_parameters=N_NUMBERS, learning_rate=0.1, carried_over=carried)
    for _ in range(600):
        new, memory = wiener.combine(model, uploads, memory)
    return np.asarray(new / sent[0])


@pytest.mark.parametrize(
    ("carried", "n_changes"), [(1.0, 4.0), (ENOUGH, 4.0), (ENOUGH / 2, 2.0), (ENOUGH / 4, 1.0), (0.0, 1.0)]
)
def test_steps_are_between_one_mean_change_and_the_gain(carried: float, n_changes: float) -> None:
    np.testing.assert_allclose(step(carried), n_changes, rtol=0.01)


def test_a_gain_below_one_stays() -> None:
    np.testing.assert_allclose(step(0.0, Wiener(gain=0.5)), 0.5, rtol=0.01)


def updates(loss: list[float], new: list[float] | None, names: tuple[str, ...] = ("served", "common")) -> Updates:
    n_answers = len(loss)
    told = None if new is None else np.column_stack([np.full(n_answers, 9.0), new])[:, : len(names)]
    return Updates(
        clients=np.arange(n_answers),
        groups=np.zeros(n_answers, dtype=np.int64),
        start=np.zeros(n_answers, dtype=np.int64),
        models=np.zeros((n_answers, N_NUMBERS), dtype=np.float32),
        n_samples=np.ones(n_answers, dtype=np.int64),
        loss=np.array(loss),
        square_loss=np.zeros(n_answers),
        n_parameters=N_NUMBERS,
        learning_rate=0.1,
        expert_losses=told,
        expert_names=names,
    )


BLIND = float(np.log(10))


@pytest.mark.parametrize(
    ("loss", "new", "share"),
    [
        ([BLIND / 2] * 3, [BLIND / 2] * 3, 1.0),  # as good on new samples
        ([0.0, 0.0], [BLIND / 2, BLIND / 2], 0.5),
        ([0.0, 0.0], [BLIND, BLIND + 9.0], 0.0),  # no better than a blind guess, or worse
        ([0.2], [0.1], 1.0),  # better on new samples
        ([0.0, 0.0], [BLIND / 2, np.nan], 0.5),  # a client that had no new samples yet
        ([0.0, np.inf], [BLIND / 2, 0.0], 0.5),  # a client that diverged
        ([np.nan], [0.5], 1.0),
        ([0.3], [np.nan], 1.0),
        ([0.3], None, 1.0),
        ([BLIND + 1.0], [0.5], 1.0),  # nothing is learnt yet
    ],
)
def test_what_is_carried_over_is_measured_from_a_blind_guess(
    loss: list[float], new: list[float] | None, share: float
) -> None:
    assert carried_over(updates(loss, new), 10) == pytest.approx(share)


def test_the_model_for_all_tells_and_where_there_is_none_the_one_that_serves() -> None:
    both = updates([0.0], [BLIND / 2])
    served = replace(both, expert_losses=np.array([[BLIND / 4, 0.0]]), expert_names=("served", "local"))

    assert carried_over(both, 10) == pytest.approx(0.5)
    assert carried_over(served, 10) == pytest.approx(0.75)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats()), min_size=1, max_size=9), st.integers(2, 1000))
def test_whatever_clients_tell_it_is_a_share(told: list[tuple[float, float]], n_classes: int) -> None:
    assert 0.0 <= carried_over(updates([one for one, _ in told], [new for _, new in told]), n_classes) <= 1.0
