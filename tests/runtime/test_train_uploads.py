"""What leaves clients of the models that they trained: all, some numbers, something spoiled, or nothing."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Mask, Models, Vector
from fielding.federation.clients import TrainingPlan, Updates
from fielding.runtime.train import LocalRule
from fielding.simulation.attacks import Spoiling
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from fielding.training.trainer import LearningRate
from tests.runtime.plans import counts, plan_of, runtime_of, scripted
from tests.simulation.run_cases import Sample, planted_windows

RULE = LocalRule(n_steps=1, batch_size=1, rate=LearningRate(initial=0.5, decay=0.5, every=2))
N_NUMBERS = 4000
OFFERED = np.stack([np.full(N_NUMBERS, 10.0), np.full(N_NUMBERS, 20.0)]).astype(np.float32)
TRAINED = np.stack([np.full(N_NUMBERS, 21.0), np.full(N_NUMBERS, 11.0)]).astype(np.float32)
ATTACKERS = np.ones(4, dtype=np.bool_)


def windows() -> SlidingWindows:
    """Return four clients, of which client c gets c + 1 samples every other round."""
    samples = [Sample(client=client, interval=at) for client in range(4) for at in range(4) for _ in range(client + 1)]
    return planted_windows(samples, n_clients=4, plan=WindowPlan(gap=2, window=2), n_intervals=4)


# ---- what is sent ------------------------------------------------------------------------------------------------


def plan_with(shares: Vector | None = None) -> TrainingPlan:
    """Return a plan for clients 2, 0 and 1, which start from models 1, 0 and 0."""
    return replace(plan_of([2, 0, 1], models=OFFERED, start=[1, 0, 0]), upload_shares=shares)


def sent(
    plan: TrainingPlan,
    *,
    attackers: Mask | None = None,
    kind: str = "sign-flip",
    round_index: int = 0,
    trained: Models = TRAINED,
) -> Updates:
    """Return what comes of the first and the last of three jobs, which move every number by 1."""
    attack = None if attackers is None else Spoiling(attackers=attackers, kind=kind).apply
    clients = runtime_of(windows(), scripted(trained, [3.0, 4.0]), RULE, attack=attack, round_index=round_index)
    return clients.train(plan, counts([0, 2]))


def share_of(models: Models, row: int, value: float) -> float:
    return float((models[row] == value).mean())


def test_honest_clients_send_what_they_trained() -> None:
    updates = sent(plan_with())

    assert (updates.models == TRAINED).all()
    assert (updates.loss.tolist(), updates.square_loss.tolist()) == ([3.0, 4.0], [9.0, 16.0])


def test_numbers_that_are_not_sent_count_as_unchanged_and_losses_are_sent_as_they_are() -> None:
    updates = sent(plan_with(np.array([0.25, 0.5, 1.0])))

    models = updates.models
    assert abs(share_of(models, 0, 21.0) - 0.25) < 0.03
    assert share_of(models, 0, 21.0) + share_of(models, 0, 20.0) == 1.0
    assert share_of(models, 1, 11.0) == 1.0, "the share of the job that is not done is not that of the one after it"
    assert updates.loss.tolist() == [3.0, 4.0]


def test_nothing_sent_is_the_model_that_was_offered() -> None:
    models = sent(plan_with(np.array([0.0, 1.0, 0.0]))).models

    assert (share_of(models, 0, 20.0), share_of(models, 1, 10.0)) == (1.0, 1.0)


def test_a_larger_share_sends_the_numbers_of_a_smaller_one_too_and_draws_decide() -> None:
    few, many, later = (
        sent(plan_with(np.full(3, share)), round_index=at).models == TRAINED
        for share, at in ((0.3, 0), (0.6, 0), (0.3, 1))
    )

    assert many[few].all()
    assert many.sum() > few.sum()
    assert (few[0] != few[1]).any(), "every client draws for itself"
    assert (few != later).any(), "and in every round"


def test_attackers_spoil_what_they_would_have_sent_from_their_own_start() -> None:
    models = sent(plan_with(np.full(3, 0.5)), attackers=np.array([False, False, True, False])).models

    assert set(np.unique(models[0]).tolist()) == {19.0, 20.0}
    assert set(np.unique(models[1]).tolist()) == {10.0, 11.0}


def test_what_is_not_sent_is_not_spoiled() -> None:
    models = sent(replace(plan_with(), uploads=np.array([0.0, 1.0, 1.0])), attackers=ATTACKERS).models

    assert (models[0] == 21.0).all()
    assert (models[1] == 9.0).all()


def test_what_is_no_model_any_more_when_it_is_spoiled_failed() -> None:
    updates = sent(plan_with(), attackers=np.array([False, False, True, False]), kind="nan")

    assert (updates.clients.tolist(), updates.missing) == ([1], {"failed": [2]})


def test_what_was_trained_stays_as_it_was() -> None:
    trained = TRAINED.copy()

    sent(plan_with(np.full(3, 0.5)), attackers=ATTACKERS, trained=trained)

    assert (trained == TRAINED).all()


# ---- what counts as a model --------------------------------------------------------------------------------------


def answers(
    models: Models, *, done: list[int] | None = None, loss: list[float] | None = None, round_index: int = 0
) -> Updates:
    """Return what comes of some of four jobs, of clients 2, 1, 3 and 0, which start from models 1, 0, 1 and 0."""
    plan = plan_of([2, 1, 3, 0], models=np.zeros((2, 2), dtype=np.float32), start=[1, 0, 1, 0])
    clients = runtime_of(windows(), scripted(models, loss), RULE, round_index=round_index)
    return clients.train(plan, counts(list(range(4)) if done is None else done))


def rows(n_rows: int) -> Models:
    return np.arange(2.0 * n_rows, dtype=np.float32).reshape(n_rows, 2)


def test_answers_are_those_of_the_jobs_that_were_done() -> None:
    updates = answers(rows(2), done=[0, 3], loss=[1.0, 3.0])

    assert updates.clients.tolist() == [2, 0]
    assert updates.start.tolist() == [1, 0]
    assert updates.jobs.tolist() == [0, 3]
    assert updates.n_samples.tolist() == [3, 1]
    assert updates.models.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert updates.square_loss.tolist() == [1.0, 9.0]
    assert updates.missing == {"failed": []}


def test_answers_carry_what_all_of_the_round_share() -> None:
    updates = answers(rows(4), round_index=5)

    assert (updates.n_parameters, updates.round_index, updates.interval) == (4, 5, 2)
    assert updates.learning_rate == 0.125


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_model_with_a_number_that_is_none_failed(number: float) -> None:
    models = rows(3)
    models[1, 1] = number

    updates = answers(models, done=[0, 2, 3])

    assert updates.clients.tolist() == [2, 0]
    assert updates.n_samples.tolist() == [3, 1]
    assert updates.jobs.tolist() == [0, 3]
    assert updates.models.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert updates.missing == {"failed": [3]}


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_an_answer_whose_loss_is_no_number_failed(loss: float) -> None:
    updates = answers(rows(4), loss=[1.0, 1.0, 1.0, loss])

    assert updates.clients.tolist() == [2, 1, 3]
    assert updates.missing == {"failed": [0]}


@pytest.mark.parametrize("number", [3e38, -3e38])
def test_large_models_are_models(number: float) -> None:
    assert answers(np.full((4, 2), number, dtype=np.float32)).clients.size == 4


def test_if_nothing_is_done_there_is_nothing() -> None:
    updates = answers(rows(0), done=[])

    assert (updates.clients.size, updates.loss.size, updates.models.shape) == (0, 0, (0, 2))
    assert updates.missing == {"failed": []}
