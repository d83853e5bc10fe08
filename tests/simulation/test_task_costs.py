"""What jobs cost: bytes of models, samples of steps, and passes over windows."""

from dataclasses import replace

import numpy as np
import pytest
from fielding.simulation.task_costs import finish_times, is_first, job_costs, window_passes, without

from fielding.federation.clients import TrainingPlan
from fielding.federation.ledger import Costs
from tests.simulation.plans import counts, plan_of

THREE_MODELS = np.zeros((3, 10), dtype=np.float32)
MODEL_BYTES = 40


def costs_of(plan: TrainingPlan, more_passes: int = 0) -> dict[str, list[int]]:
    """Return what two jobs cost that do 2 and 3 steps of 5 samples and have 7 and 9 samples at hand."""
    costs = job_costs(plan, n_steps=counts([2, 3]), batch_size=5, sizes=counts([7, 9]), more_passes=more_passes)
    names = ("down_bytes", "up_bytes", "forward_samples", "train_samples")
    return {name: np.broadcast_to(getattr(costs, name), (2,)).tolist() for name in names}


PLAIN = {
    "down_bytes": [MODEL_BYTES] * 2,
    "up_bytes": [MODEL_BYTES] * 2,
    "forward_samples": [0, 0],
    "train_samples": [10, 15],
}


def two_jobs(n_models: int = 3) -> TrainingPlan:
    return plan_of([4, 2], models=THREE_MODELS[:n_models])


def test_a_job_receives_and_sends_a_model_and_trains_on_its_batches() -> None:
    assert costs_of(two_jobs()) == PLAIN


def test_who_chooses_receives_all_models_runs_its_window_through_each_and_names_one() -> None:
    assert costs_of(replace(two_jobs(), chooses=True)) == PLAIN | {
        "down_bytes": [3 * MODEL_BYTES] * 2,
        "up_bytes": [MODEL_BYTES + 4] * 2,
        "forward_samples": [21, 27],
    }


def test_a_choice_of_one_is_none() -> None:
    plan = replace(two_jobs(n_models=1), chooses=True)

    assert window_passes(plan) == 0
    assert costs_of(plan) == PLAIN


def test_the_loss_before_training_costs_a_pass_and_a_number() -> None:
    plan = replace(two_jobs(), with_start_loss=True)

    assert costs_of(plan) == PLAIN | {"up_bytes": [MODEL_BYTES + 4] * 2, "forward_samples": [7, 9]}


def test_who_chooses_knows_the_loss_before_training_already() -> None:
    plan = replace(two_jobs(), with_start_loss=True, chooses=True)

    assert window_passes(plan) == 3
    assert costs_of(plan)["up_bytes"] == [MODEL_BYTES + 8] * 2


@pytest.mark.parametrize(("models_worth", "n_bytes"), [(0.0, 0), (0.25, 10), (2.0, 80), (0.33, 13)])
def test_downloads_and_uploads_are_so_many_models_worth(models_worth: float, n_bytes: int) -> None:
    plan = replace(two_jobs(), downloads=np.array([models_worth, 1.0]), uploads=np.array([1.0, models_worth]))

    assert costs_of(plan) == PLAIN | {"down_bytes": [n_bytes, MODEL_BYTES], "up_bytes": [MODEL_BYTES, n_bytes]}


def test_who_sends_a_share_of_its_numbers_sends_a_share_of_the_bytes() -> None:
    assert costs_of(replace(two_jobs(), upload_shares=np.array([0.5, 0.9])))["up_bytes"] == [20, 36]


def test_more_passes_come_on_top() -> None:
    assert costs_of(replace(two_jobs(), with_start_loss=True), more_passes=100)["forward_samples"] == [107, 109]


def test_tasks_that_are_not_begun_cost_nothing_and_the_others_what_they_did() -> None:
    costs = Costs(down_bytes=8, up_bytes=counts([1, 2]), forward_samples=3, train_samples=counts([5, 6]))

    spared = without(costs, np.array([True, False]))

    assert [np.asarray(part).tolist() for part in (spared.down_bytes, spared.up_bytes)] == [[0, 8], [0, 2]]
    assert [np.asarray(part).tolist() for part in (spared.forward_samples, spared.train_samples)] == [[0, 3], [0, 6]]
    assert without(costs, np.array([False, False])) is costs


@pytest.mark.parametrize(
    ("clients", "seconds", "finish"),
    [
        ([], [], []),
        ([3, 1], [2.0, 5.0], [2.0, 5.0]),
        ([3, 1, 3, 3, 1], [2.0, 5.0, 1.0, 4.0, 0.5], [2.0, 5.0, 3.0, 7.0, 5.5]),
        ([0, 0, 0], [1.0, 0.0, 1.0], [1.0, 1.0, 2.0]),
    ],
)
def test_a_client_does_its_jobs_one_after_the_other(
    clients: list[int], seconds: list[float], finish: list[float]
) -> None:
    assert finish_times(counts(clients), np.array(seconds)).tolist() == finish


def test_the_same_thing_is_downloaded_once() -> None:
    assert is_first(counts([5, 5, 2, 5, 2, 9])).tolist() == [1, 0, 1, 0, 0, 1]
    assert is_first(counts([])).tolist() == []
