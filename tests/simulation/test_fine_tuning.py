"""A few steps of each client's own before it is tested once more: from what it is served, and repeatably."""

from dataclasses import replace

import numpy as np
import pytest
from fielding.simulation.serving import Serving
from fielding.simulation.workers import SMALL_MODEL

from fielding._typing import Models
from fielding.federation.evaluation import ClientScores
from fielding.simulation import fine_tuning
from fielding.simulation.clients import SimulatedClients
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Trained, Trainer, TrainingPath
from tests.simulation.keeping import RecordingTrainer, plan_for
from tests.simulation.serving_cases import EVERYONE, RULE, labelled, mixed_trainer, model, serving_clients

TUNED = Serving(fine_tune=3)


def plain_trainer() -> Trainer:
    return trainer_for(ModelRequest(name="softmax", input_shape=(1,), n_classes=2, trainer="numpy"))


def plain_clients() -> SimulatedClients:
    return serving_clients(serving=TUNED, trainer=plain_trainer())


def plain_model() -> Models:
    return model()[:, :-2]


def test_clients_learn_their_own_labels() -> None:
    scores = plain_clients().scores(plain_model(), EVERYONE)

    assert scores.accuracy.tolist() == [1.0, 0.0, 0.5]
    assert scores.also["tuned"].accuracy.tolist() == [1.0, 1.0, 1.0]
    assert "corrected" not in scores.also


def test_the_model_that_serves_is_not_touched() -> None:
    served, clients = plain_model(), plain_clients()

    first, second = (clients.scores(served, EVERYONE) for _ in range(2))

    assert served.tolist() == plain_model().tolist()
    assert first.also["tuned"].loss.tolist() == second.also["tuned"].loss.tolist()


def test_only_the_window_is_tuned_on() -> None:
    found = plain_clients().other_scores(plain_model(), EVERYONE)

    assert all("tuned" not in scores.also for scores in found.values())


def test_tuning_is_charged_as_computing_and_nobody_waits() -> None:
    clients = plain_clients()
    clients.scores(plain_model(), EVERYONE)

    # Three steps of four samples, each as long as three passes, at 10, 20 and 30 ms.
    assert clients.ledger.client_seconds("probe") == pytest.approx([0.36, 0.72, 1.08])
    assert clients.ledger.client_bytes_up().sum() == clients.ledger.client_bytes_down().sum() == 0
    assert clients.now_s == 0.0


def test_whoever_is_not_tested_takes_no_steps() -> None:
    clients = serving_clients(labelled(empty=(1,)), TUNED, trainer=plain_trainer())

    scores = clients.scores(plain_model(), EVERYONE)

    assert scores.also["tuned"].clients.tolist() == [0, 2]
    assert clients.ledger.client_seconds("probe")[1] == 0.0


def test_with_a_correction_it_goes_on_from_what_it_is_served() -> None:
    corrected = serving_clients(serving=Serving(correction="prior", smoothing=1.0))
    tuned = serving_clients(
        serving=Serving(correction="prior", smoothing=1.0, fine_tune=1),
        rule=replace(RULE, rate=replace(RULE.rate, initial=1e-9)),
    )

    served = corrected.scores(model(0.2), EVERYONE).also["corrected"]
    after = tuned.scores(model(0.2), EVERYONE).also["tuned"]

    assert after.loss == pytest.approx(served.loss, rel=1e-5), "steps of no length leave what is served"


def test_the_offset_is_part_of_the_loss_that_it_learns_by() -> None:
    trainer = RecordingTrainer(inner=mixed_trainer())
    clients = serving_clients(serving=Serving(correction="prior", smoothing=1.0, fine_tune=3), trainer=trainer)

    clients.scores(model(), EVERYONE)

    offsets = [row for work in trainer.asked if work.offsets is not None for row in work.offsets.tolist()]
    assert offsets[0] == pytest.approx(np.log([8.5 / 9 / 0.5, 0.5 / 9 / 0.5]), rel=1e-5)
    assert offsets[2] == [0.0, 0.0]


def test_steps_are_drawn_apart_from_those_of_training() -> None:
    trainer = RecordingTrainer(inner=plain_trainer())
    rule = replace(RULE, n_steps=3)
    clients = serving_clients(serving=TUNED, trainer=trainer, rule=rule)

    clients.train(plan_for(plain_model(), [0, 1, 2]))
    clients.scores(plain_model(), EVERYONE)

    trained, tuned = (work.draws for work in trainer.asked)
    assert trained.shape == tuned.shape
    assert (trained != tuned).any()


def test_neither_workers_nor_pieces_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    path = TrainingPath(name="stacked", chunk=2, n_threads=1, eval_chunk=3)
    request = ModelRequest(
        name="mlp", hidden=SMALL_MODEL // 3, input_shape=(1,), n_classes=2, trainer="numpy", path=path
    )
    trainer, asked = trainer_for(request), list[int]()
    models = trainer.initial_model(1)[np.newaxis]

    def tuned(n_workers: int) -> ClientScores:
        clients = serving_clients(serving=TUNED, trainer=trainer, n_workers=n_workers)
        train = clients._workers.train

        def noted(work: LocalWork, *, is_told: bool) -> Trained:
            asked.append(work.start.size)
            return train(work, is_told=is_told)

        monkeypatch.setattr(clients._workers, "train", noted)
        return clients.scores(models, EVERYONE).also["tuned"]

    whole = tuned(1)
    monkeypatch.setattr(fine_tuning, "MOST_NUMBERS", 1)
    pieces = tuned(2)

    assert asked == [3, 2, 1]
    assert whole.loss.tobytes() == pieces.loss.tobytes()
    assert whole.clients.tolist() == pieces.clients.tolist() == [0, 1, 2]


def test_nobody_is_told_of_tuning() -> None:
    clients, told = plain_clients(), list[tuple[int, int]]()
    clients.on_trained(lambda done, total: told.append((done, total)))

    clients.scores(plain_model(), EVERYONE)

    assert told == []
