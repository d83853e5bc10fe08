"""The model that each client trained last (MOON): who keeps it, what it is for, and what that costs."""

from dataclasses import replace

import numpy as np
import pytest

from fielding.errors import CheckpointError, OptionError
from fielding.runtime.memory import PreviousModels
from fielding.simulation.clients import SimulatedClients
from tests.runtime.keeping import (
    RULE,
    averaging,
    concept_windows,
    keeping_clients,
    resumes_at_every_round,
)
from tests.runtime.plans import RecordingTrainer, plan_of

CLIENTS, MODELS = "previous.clients", "previous.models"
"""Names in a checkpoint."""
MOON = replace(RULE, moon=1.0)
STATIC = concept_windows([0] * 8)


def kept_of(clients: SimulatedClients) -> dict[int, bytes]:
    arrays = clients.snapshot()
    pairs = zip(arrays[CLIENTS].tolist(), arrays[MODELS], strict=True)
    return {client: model.tobytes() for client, model in pairs}


def test_a_client_keeps_the_model_that_it_trained_last_until_it_trains_again() -> None:
    federation = averaging(keeping_clients(STATIC, MOON))

    first = federation.round([0, 2])
    assert kept_of(federation.clients) == {0: first.models[0].tobytes(), 2: first.models[1].tobytes()}
    second = federation.round([2, 5])

    assert kept_of(federation.clients) == {
        0: first.models[0].tobytes(),
        2: second.models[0].tobytes(),
        5: second.models[1].tobytes(),
    }


def test_the_trainer_is_given_the_previous_models_of_those_who_have_one() -> None:
    clients = keeping_clients(STATIC, replace(MOON, moon=2.0, moon_temperature=0.25), record=True)
    federation = averaging(clients)

    first = federation.round([1, 3])
    federation.round([2, 3])

    assert isinstance(clients.trainer, RecordingTrainer)
    begun, later = (work.contrast for work in clients.trainer.asked)
    assert begun is not None
    assert later is not None
    assert not begun.has_previous.any()
    assert (later.mu, later.temperature, later.has_previous.tolist()) == (2.0, 0.25, [False, True])
    assert (later.previous[1] == first.models[1]).all()


def test_moon_changes_the_models_of_whoever_has_trained_before_and_of_nobody_else() -> None:
    plain, moon = (averaging(keeping_clients(STATIC, rule)) for rule in (RULE, MOON))

    assert (plain.round([0, 1]).models == moon.round([0, 1]).models).all()
    before, after = plain.round([1, 2]).models, moon.round([1, 2]).models

    assert (before[0] != after[0]).any()
    assert (before[1] == after[1]).all()


def test_two_more_passes_per_sample_trained_on_are_charged_and_no_bytes() -> None:
    plain, moon = (averaging(keeping_clients(STATIC, rule)) for rule in (RULE, MOON))
    for federation in (plain, moon):
        federation.round([0, 1])
        federation.round([1, 2])

    more = moon.clients.ledger.client_seconds() - plain.clients.ledger.client_seconds()

    # Client 1 alone has a previous model: 3 steps of 5 samples under 2 models at 20 ms.
    assert more == pytest.approx([0.0, 3 * 5 * 2 * 0.020, 0.0, 0.0, 0.0, 0.0])
    assert moon.clients.ledger.totals()["bytes_up"] == plain.clients.ledger.totals()["bytes_up"]
    assert moon.clients.ledger.totals()["bytes_down"] == plain.clients.ledger.totals()["bytes_down"]


def test_whoever_is_too_late_or_only_probed_keeps_nothing() -> None:
    clients = keeping_clients(STATIC, MOON)
    model = clients.trainer.initial_model(1)[np.newaxis]
    clients.begin(0)

    clients.train(replace(plan_of([0, 4], models=model), wanted=np.array([1])))
    clients.train(replace(plan_of([2, 3], models=model), is_probe=True))

    assert list(kept_of(clients)) == [0]


def test_a_client_with_several_jobs_keeps_the_last() -> None:
    clients = keeping_clients(STATIC, MOON)
    models = np.stack([clients.trainer.initial_model(seed) for seed in (1, 2)])
    clients.begin(0)

    updates = clients.train(replace(plan_of([3, 3], models=models), start=np.array([0, 1])))

    assert (updates.models[0] != updates.models[1]).any()
    assert kept_of(clients) == {3: updates.models[1].tobytes()}


def test_what_is_not_finite_is_not_kept() -> None:
    previous = PreviousModels()

    previous.keep(np.array([1, 2]), np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32))
    previous.keep(np.array([1, 2]), np.array([[5.0, np.nan], [6.0, 7.0]], dtype=np.float32))

    assert previous.of(np.array([1, 2]), 2)[0].tolist() == [[1.0, 2.0], [6.0, 7.0]]


def test_what_is_kept_is_a_copy() -> None:
    previous, models = PreviousModels(), np.ones((1, 2), dtype=np.float32)

    previous.keep(np.array([0]), models)
    models[:] = 9.0
    previous.of(np.array([0]), 2)[0][:] = 7.0

    assert previous.of(np.array([0]), 2)[0].tolist() == [[1.0, 1.0]]


def test_a_run_with_moon_goes_on_bit_for_bit_after_any_round() -> None:
    participants = [[0, 1], [1, 2], [], [0, 5], [5, 1], [0, 1, 2, 3]]

    assert resumes_at_every_round(lambda: keeping_clients(STATIC, MOON), participants)


def test_without_moon_nothing_is_kept() -> None:
    federation = averaging(keeping_clients(STATIC, RULE))
    federation.round([0, 1])

    assert not federation.clients.snapshot().keys() & {CLIENTS, MODELS}


def test_a_checkpoint_without_previous_models_or_with_unfit_ones_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"lacks 'previous\.clients'"):
        PreviousModels().restore({MODELS: np.zeros((0, 0))})
    with pytest.raises(CheckpointError, match=r"shapes \(1,\) and \(2, 3\); give a row per client"):
        PreviousModels().restore({CLIENTS: np.zeros(1), MODELS: np.zeros((2, 3))})


def test_a_model_without_features_is_refused_in_the_first_round() -> None:
    federation = averaging(keeping_clients(STATIC, MOON, model="softmax"))

    with pytest.raises(OptionError, match="contrast needs a hidden layer"):
        federation.round([0])
