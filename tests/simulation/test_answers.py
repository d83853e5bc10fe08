"""What came back is sorted into models and reasons; nothing that is not finite gets through."""

import numpy as np
import pytest
from fielding.simulation.answers import Circumstances, updates_of

from fielding._typing import Models
from fielding.federation.clients import Updates
from fielding.training.trainer import Trained
from tests.simulation.plans import counts, plan_of, settled_as

SIZES = counts([11, 12, 13, 14])
NOW = Circumstances(n_parameters=2, learning_rate=0.25, round_index=6, interval=3)


def answers(models: Models, *, reasons: list[str], loss: list[float] | None = None) -> Updates:
    """Return the answers of clients 5, 3, 8 and 9, whose jobs start from models 1, 0, 1 and 0."""
    plan = plan_of([5, 3, 8, 9], models=np.zeros((2, 2), dtype=np.float32), start=[1, 0, 1, 0])
    losses = np.array(loss if loss is not None else [1.0] * models.shape[0])
    trained = Trained(models=models, loss=losses, square_loss=losses**2)
    return updates_of(settled_as(plan, reasons, duration_s=2.5), trained, SIZES, NOW)


def rows(n_rows: int) -> Models:
    return np.arange(2.0 * n_rows, dtype=np.float32).reshape(n_rows, 2)


def test_kept_jobs_are_answers_and_the_others_are_missing_with_a_reason() -> None:
    updates = answers(rows(2), reasons=["", "straggler", "offline", ""], loss=[1.0, 3.0])

    assert updates.clients.tolist() == [5, 9]
    assert updates.start.tolist() == [1, 0]
    assert updates.jobs.tolist() == [0, 3]
    assert updates.n_samples.tolist() == [11, 14]
    assert updates.models.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert updates.square_loss.tolist() == [1.0, 9.0]
    assert updates.missing == {"straggler": [3], "offline": [8], "refused": [], "failed": []}
    assert updates.late.tolist() == [1]


def test_answers_carry_what_all_of_the_round_share() -> None:
    updates = answers(rows(4), reasons=["", "", "", ""])

    assert (updates.n_parameters, updates.learning_rate, updates.round_index, updates.interval) == (2, 0.25, 6, 3)
    assert updates.duration_s == 2.5
    assert updates.seconds.tolist() == [1.0, 2.0, 3.0, 4.0], "of all jobs, answered or not"
    assert updates.compute_seconds.tolist() == [0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_model_with_a_number_that_is_none_failed(number: float) -> None:
    models = rows(3)
    models[1, 1] = number

    updates = answers(models, reasons=["", "straggler", "", ""])

    assert updates.clients.tolist() == [5, 9]
    assert updates.models.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert updates.missing["failed"] == [8]


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_an_answer_whose_loss_is_no_number_failed(loss: float) -> None:
    updates = answers(rows(4), reasons=["", "", "", ""], loss=[1.0, 1.0, 1.0, loss])

    assert updates.clients.tolist() == [5, 3, 8]
    assert updates.missing["failed"] == [9]


def test_large_models_are_models() -> None:
    updates = answers(np.full((4, 2), 3e38, dtype=np.float32), reasons=["", "", "", ""])

    assert updates.clients.size == 4


def test_the_refused_are_named() -> None:
    updates = answers(rows(1), reasons=["refused", "", "refused", "straggler"])

    assert updates.missing == {"straggler": [9], "offline": [], "refused": [5, 8], "failed": []}


def test_if_nobody_answers_there_is_nothing_but_names() -> None:
    updates = answers(rows(0), reasons=["offline", "offline", "straggler", "offline"])

    assert updates.clients.size == 0
    assert updates.models.shape == (0, 2)
    assert updates.missing == {"straggler": [8], "offline": [5, 3, 9], "refused": [], "failed": []}
