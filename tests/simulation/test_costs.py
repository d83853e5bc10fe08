"""What jobs and answers cost, and how charges add up by client and by round."""

from dataclasses import replace

import numpy as np
import pytest

from fielding.federation.clients import TrainingPlan
from fielding.federation.ledger import Costs, Ledger
from fielding.simulation.costs import Accounts, answer_costs, finish_times, job_costs, without
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from tests.runtime.plans import counts, plan_of

THREE_MODELS = np.zeros((3, 10), dtype=np.float32)
MODEL_BYTES = 40


def costs_of(plan: TrainingPlan) -> dict[str, list[int]]:
    """Return what two jobs cost that train on 10 and 15 samples and put 7 and 9 through a model."""
    costs = job_costs(plan, n_trained=counts([10, 15]), n_passed=counts([7, 9]))
    names = ("down_bytes", "up_bytes", "forward_samples", "train_samples")
    return {name: np.broadcast_to(getattr(costs, name), (2,)).tolist() for name in names}


PLAIN = {
    "down_bytes": [MODEL_BYTES] * 2,
    "up_bytes": [MODEL_BYTES] * 2,
    "forward_samples": [7, 9],
    "train_samples": [10, 15],
}


def two_jobs(n_models: int = 3) -> TrainingPlan:
    return plan_of([4, 2], models=THREE_MODELS[:n_models])


def test_a_job_receives_and_sends_a_model_and_trains_on_its_batches() -> None:
    assert costs_of(two_jobs()) == PLAIN


@pytest.mark.parametrize(
    ("change", "n_models", "n_figures"),
    [
        ({"chooses": True}, 3, 1),
        ({"with_start_loss": True}, 1, 1),
        ({"with_start_loss": True, "chooses": True}, 3, 2),
    ],
)
def test_who_chooses_receives_all_models_and_names_one_and_a_loss_is_a_number_more(
    change: dict[str, bool], n_models: int, n_figures: int
) -> None:
    assert costs_of(replace(two_jobs(), **change)) == PLAIN | {  # type: ignore[arg-type]
        "down_bytes": [n_models * MODEL_BYTES] * 2,
        "up_bytes": [MODEL_BYTES + 4 * n_figures] * 2,
    }


def test_a_choice_of_one_is_none() -> None:
    assert costs_of(replace(two_jobs(n_models=1), chooses=True)) == PLAIN


@pytest.mark.parametrize(("models_worth", "n_bytes"), [(0.0, 0), (0.25, 10), (2.0, 80), (0.33, 13)])
def test_downloads_and_uploads_are_so_many_models_worth(models_worth: float, n_bytes: int) -> None:
    plan = replace(two_jobs(), downloads=np.array([models_worth, 1.0]), uploads=np.array([1.0, models_worth]))

    assert costs_of(plan) == PLAIN | {"down_bytes": [n_bytes, MODEL_BYTES], "up_bytes": [MODEL_BYTES, n_bytes]}


def test_who_sends_a_share_of_its_numbers_sends_a_share_of_the_bytes() -> None:
    assert costs_of(replace(two_jobs(), upload_shares=np.array([0.5, 0.9])))["up_bytes"] == [20, 36]


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


def test_models_are_downloaded_once_and_not_by_who_holds_them_but_every_answer_is_sent() -> None:
    clients, passed = counts([5, 5, 2, 5, 2, 9]), counts([1, 2, 3, 4, 5, 6])

    costs = answer_costs(clients, THREE_MODELS, passed)
    fewer = answer_costs(clients, THREE_MODELS, passed, np.array([False] * 5 + [True]))

    assert np.asarray(costs.down_bytes).tolist() == [3 * MODEL_BYTES, 0, 3 * MODEL_BYTES, 0, 0, 3 * MODEL_BYTES]
    assert np.asarray(fewer.down_bytes).tolist() == [3 * MODEL_BYTES, 0, 3 * MODEL_BYTES, 0, 0, 0]
    assert (costs.up_bytes, fewer.up_bytes) == (12, 12)
    assert np.asarray(costs.forward_samples).tolist() == [3, 6, 9, 12, 15, 18]


def test_to_count_samples_is_to_send_a_number_and_to_look_at_no_model() -> None:
    costs = answer_costs(counts([1, 4]), np.empty((0, 0), dtype=np.float32), counts([7, 8]))

    assert np.asarray(costs.down_bytes).tolist() == np.asarray(costs.forward_samples).tolist() == [0, 0]
    assert costs.up_bytes == 4


def accounts_of(n_clients: int = 3) -> Accounts:
    """Return accounts of clients that need 1, 2, 3 s for 10 samples and a second for 1,024 bits."""
    devices = Devices(ms_per_sample=100.0 * np.arange(1.0, n_clients + 1.0), kbps=np.ones(n_clients))
    accounts = Accounts(n_clients, Hardware(devices=devices, availability=AlwaysAvailable()))
    accounts.begin()
    return accounts


def test_charges_add_up_in_the_ledger_and_in_the_round_and_no_time_passes() -> None:
    accounts = accounts_of()
    for _ in range(2):
        spent = accounts.charge("report", np.array([0, 2]), Costs(up_bytes=128, forward_samples=10))

    assert spent.tolist() == pytest.approx([2.0, 4.0])
    assert accounts.round_costs == pytest.approx({"bytes_down": 0, "bytes_up": 512, "client_seconds": 12.0})
    assert accounts.ledger.client_bytes_up("report").tolist() == [256, 0, 256]
    assert accounts.now_s == 0.0


def test_a_new_round_has_cost_nothing_but_the_ledger_goes_on() -> None:
    accounts = accounts_of()
    accounts.charge("model", np.array([1]), Costs(down_bytes=125))
    accounts.begin()

    assert set(accounts.round_costs.values()) == {0}
    assert accounts.ledger.client_bytes_down("model").tolist() == [0, 125, 0]


def test_answers_are_waited_for_and_a_client_gives_its_own_one_after_the_other() -> None:
    accounts = accounts_of()
    accounts.answer(np.array([0, 0, 1]), Costs(forward_samples=10))

    assert accounts.now_s == pytest.approx(2.0)
    assert accounts.ledger.client_seconds("probe").tolist() == pytest.approx([2.0, 2.0, 0.0])


def test_one_comes_back_to_a_time_with_or_without_what_was_charged_by_then() -> None:
    accounts, before = accounts_of(), Ledger(3)
    accounts.charge("model", np.array([1]), Costs(down_bytes=125))
    accounts.return_to(7.0)

    assert accounts.now_s == 7.0
    assert accounts.ledger.client_bytes_down("model").sum() == 125
    accounts.return_to(8.0, before)
    assert accounts.ledger is before
