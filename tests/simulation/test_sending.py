"""What the server receives: all of a model, some of its numbers, or something spoiled."""

from dataclasses import replace

import numpy as np
from fielding.simulation.answers import Settled
from fielding.simulation.sending import sent
from fielding.simulation.spoiling import Spoiling

from fielding._typing import Models, Vector
from fielding.training.trainer import Trained
from tests.simulation.plans import plan_of, settled_as

N_NUMBERS = 4000
OFFERED = np.stack([np.full(N_NUMBERS, 10.0), np.full(N_NUMBERS, 20.0)]).astype(np.float32)
DRAWS = np.array([77, 78], dtype=np.uint64)


def settled(shares: Vector | None = None) -> Settled:
    """Return clients 2, 0 and 1, of which the second is late; they start from models 1, 0 and 0."""
    plan = replace(plan_of([2, 0, 1], models=OFFERED, start=[1, 0, 0]), upload_shares=shares)
    return settled_as(plan, ["", "straggler", ""])


def trained() -> Trained:
    models = np.stack([np.full(N_NUMBERS, 21.0), np.full(N_NUMBERS, 11.0)]).astype(np.float32)
    return Trained(models=models, loss=np.ones(2), square_loss=np.ones(2))


def share_of(models: Models, row: int, value: float) -> float:
    return float((models[row] == value).mean())


def test_honest_clients_send_what_they_trained() -> None:
    done = trained()

    assert sent(done, settled(), DRAWS, None) is done


def test_numbers_that_are_not_sent_count_as_unchanged() -> None:
    models = sent(trained(), settled(np.array([0.25, 0.5, 1.0])), DRAWS, None).models

    assert abs(share_of(models, 0, 21.0) - 0.25) < 0.03
    assert share_of(models, 0, 21.0) + share_of(models, 0, 20.0) == 1.0
    assert share_of(models, 1, 11.0) == 1.0, "the late one's share is not that of the one after it"


def test_nothing_sent_is_the_model_that_was_offered() -> None:
    models = sent(trained(), settled(np.array([0.0, 1.0, 0.0])), DRAWS, None).models

    assert (share_of(models, 0, 20.0), share_of(models, 1, 10.0)) == (1.0, 1.0)


def test_a_larger_share_sends_the_numbers_of_a_smaller_one_too_and_draws_decide() -> None:
    few, many, others = (
        sent(trained(), settled(np.full(3, share)), draws, None).models[0] == 21.0
        for share, draws in ((0.3, DRAWS), (0.6, DRAWS), (0.3, DRAWS + np.uint64(5)))
    )

    assert many[few].all()
    assert many.sum() > few.sum()
    assert (few != others).any()


def test_what_was_trained_stays_as_it_was() -> None:
    done = trained()

    sent(done, settled(np.full(3, 0.5)), DRAWS, Spoiling(attackers=np.ones(3, dtype=np.bool_), kind="sign-flip"))

    assert (done.models == trained().models).all()


def test_attackers_spoil_what_they_would_have_sent_from_their_own_start() -> None:
    spoiling = Spoiling(attackers=np.array([False, False, True]), kind="sign-flip")

    models = sent(trained(), settled(np.full(3, 0.5)), DRAWS, spoiling).models

    assert set(np.unique(models[0]).tolist()) == {19.0, 20.0}
    assert set(np.unique(models[1]).tolist()) == {10.0, 11.0}


def test_losses_are_sent_as_they_are() -> None:
    done = replace(trained(), loss=np.array([3.0, 4.0]))

    assert sent(done, settled(np.full(3, 0.5)), DRAWS, None).loss.tolist() == [3.0, 4.0]


def test_what_is_not_sent_is_not_spoiled() -> None:
    alone = settled()
    alone = replace(alone, plan=replace(alone.plan, uploads=np.array([0.0, 1.0, 1.0])))
    spoiling = Spoiling(attackers=np.array([True, True, True]), kind="sign-flip")

    uploads = sent(trained(), alone, DRAWS, spoiling).models

    assert (uploads[0] == 21.0).all()
    assert (uploads[1] == 9.0).all()
