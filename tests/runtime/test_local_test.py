"""How well clients are served: on whose samples, by which model, and after a few steps of their own."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Counts, Models
from fielding.client.ranges import Ranges
from fielding.errors import InputError
from fielding.federation.evaluation import ClientScores
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.serve import NO_SAMPLES, Serving
from fielding.runtime.test import score_clients
from fielding.runtime.workers import SMALL_MODEL, Measured
from fielding.traces.histograms import WindowPlan
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.head import SampleScores
from fielding.training.trainer import LocalWork, Trained, TrainingPath
from tests.runtime.plans import RecordingTrainer, plan_of, runtime_of, scripted, softmax_trainer
from tests.runtime.serving_cases import EVERYONE, RULE, labelled, mixed_trainer, model, serving_runtime
from tests.simulation.run_cases import Sample, planted_windows

TUNED = Serving(fine_tune=3)


# ---- as they are -----------------------------------------------------------------------------------------------


def test_every_way_keeps_clients_and_their_samples_apart() -> None:
    ranges = Ranges(start=np.array([0, 1, 3]), stop=np.array([1, 3, 6]), entries=np.arange(6))

    def judge(model: Models, rows: Counts) -> tuple[SampleScores, SampleScores]:
        if not rows.size:
            return NO_SAMPLES, NO_SAMPLES
        losses = (rows + model[0]).astype(np.float32)
        return (losses, losses > 3), (-losses, losses < 3)

    models = np.array([[0.0], [9.0], [10.0]], dtype=np.float32)
    first, second = score_clients(models, np.array([2, 0, 0]), ranges, np.array([0, 2]), judge)

    assert first.clients.tolist() == second.clients.tolist() == [0, 2]
    assert (first.loss.tolist(), second.loss.tolist()) == ([10.0, 4.0], [-10.0, -4.0])
    assert (first.correct.tolist(), second.correct.tolist()) == ([1, 2], [0, 0])
    assert first.n_test.tolist() == [1, 3]


def test_everyone_with_data_is_tested_on_the_model_that_serves_it() -> None:
    samples = [
        Sample(client=0, interval=0),
        Sample(client=0, interval=0, label=1, for_testing=True),
        Sample(client=1, interval=0, label=1),
        Sample(client=1, interval=0, label=1, for_testing=True),
        Sample(client=1, interval=0, for_testing=True),
        Sample(client=2, interval=0, for_testing=True),  # nothing to train on
        Sample(client=0, interval=1, label=1),
    ]
    windows = planted_windows(samples, n_clients=3, plan=WindowPlan(gap=1, window=1), n_intervals=2)
    models = np.array([[0.0], [1.0]], dtype=np.float32)
    clients = runtime_of(windows, scripted(models), RULE)

    now = clients.test(models, np.array([0, 1, 0]))["window"]
    ahead = clients.test(models, EVERYONE, {"next": windows.next(0)})["next"]

    # Models always say one label; a wrong answer costs 2.
    assert now.clients.tolist() == [0, 1]
    assert now.n_test.tolist() == [1, 2]
    assert now.correct.tolist() == [0, 1]
    assert now.loss.tolist() == [2.0, 1.0]
    assert (ahead.clients.tolist(), ahead.n_test.tolist(), ahead.correct.tolist()) == ([0], [1], [0])


def test_a_compute_that_tests_whole_windows_has_its_figures_told_beside_corrected_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = serving_runtime()
    honest, n_test = clients.test(model(), EVERYONE)["window"], 4

    def measured(*_asked: object) -> Measured:
        return Measured(np.full(3, n_test), np.full(3, 3), np.full(3, 7.0), {})

    monkeypatch.setattr(clients.compute, "tests_whole_windows", True)
    monkeypatch.setattr(clients.compute, "measure", measured)
    found = clients.test(model(), EVERYONE)["window"]

    assert (found.correct.tolist(), found.loss.tolist()) == ([3] * 3, [7.0] * 3)
    assert found.also["corrected"].loss.tolist() == honest.also["corrected"].loss.tolist()
    n_test = 3
    with pytest.raises(InputError, match="evaluate tested 3 of 4 samples"):
        clients.test(model(), EVERYONE)


# ---- after steps of their own ----------------------------------------------------------------------------------


def tuning_runtime() -> ClientRuntime:
    return serving_runtime(serving=TUNED, trainer=softmax_trainer())


def plain_model() -> Models:
    return model()[:, :-2]


def test_clients_learn_their_own_labels() -> None:
    scores = tuning_runtime().test(plain_model(), EVERYONE)["window"]

    assert scores.accuracy.tolist() == [1.0, 0.0, 0.5]
    assert scores.also["tuned"].accuracy.tolist() == [1.0, 1.0, 1.0]
    assert "corrected" not in scores.also


def test_the_model_that_serves_is_not_touched() -> None:
    served, clients = plain_model(), tuning_runtime()

    first, second = (clients.test(served, EVERYONE)["window"] for _ in range(2))

    assert served.tolist() == plain_model().tolist()
    assert first.also["tuned"].loss.tolist() == second.also["tuned"].loss.tolist()


def test_with_a_correction_it_goes_on_from_what_it_is_served() -> None:
    corrected = serving_runtime(serving=Serving(correction="prior", smoothing=1.0))
    tuned = serving_runtime(
        serving=Serving(correction="prior", smoothing=1.0, fine_tune=1),
        rule=replace(RULE, rate=replace(RULE.rate, initial=1e-9)),
    )

    served = corrected.test(model(0.2), EVERYONE)["window"].also["corrected"]
    after = tuned.test(model(0.2), EVERYONE)["window"].also["tuned"]

    assert after.loss == pytest.approx(served.loss, rel=1e-5), "steps of no length leave what is served"


def test_the_offset_is_part_of_the_loss_that_it_learns_by() -> None:
    trainer = RecordingTrainer(inner=mixed_trainer())
    clients = serving_runtime(serving=Serving(correction="prior", smoothing=1.0, fine_tune=3), trainer=trainer)

    clients.test(model(), EVERYONE)

    offsets = [row for work in trainer.asked if work.offsets is not None for row in work.offsets.tolist()]
    assert offsets[0] == pytest.approx(np.log([8.5 / 9 / 0.5, 0.5 / 9 / 0.5]), rel=1e-5)
    assert offsets[2] == [0.0, 0.0]


def test_steps_are_drawn_apart_from_those_of_training() -> None:
    trainer = RecordingTrainer(inner=softmax_trainer())
    rule = replace(RULE, n_steps=3)
    clients = serving_runtime(serving=TUNED, trainer=trainer, rule=rule)

    clients.train(plan_of([0, 1, 2], models=plain_model()))
    clients.test(plain_model(), EVERYONE)

    trained, tuned = (work.draws for work in trainer.asked)
    assert trained.shape == tuned.shape
    assert (trained != tuned).any()


def test_clients_that_are_tested_tune_once_for_all_samples_that_they_are_tested_on() -> None:
    windows = labelled(empty=(1,))
    trainer = RecordingTrainer(inner=softmax_trainer())
    clients = serving_runtime(windows, TUNED, trainer=trainer)

    found = clients.test(plain_model(), EVERYONE, {"next": windows.next(0)})

    assert found["window"].also["tuned"].clients.tolist() == [0, 2]
    assert found["next"].also["tuned"].clients.tolist() == found["next"].clients.tolist()
    assert found["next"].clients.size
    assert len(trainer.asked) == 1


def test_neither_workers_nor_pieces_change_a_bit_and_no_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    path = TrainingPath(name="stacked", chunk=2, n_threads=1, eval_chunk=3)
    request = ModelRequest(
        name="mlp", hidden=SMALL_MODEL // 3, input_shape=(1,), n_classes=2, trainer="numpy", path=path
    )
    trainer, asked, told = trainer_for(request), list[int](), list[int]()
    models = trainer.initial_model(1)[np.newaxis]

    def tuned(n_workers: int) -> ClientScores:
        clients = serving_runtime(serving=TUNED, trainer=trainer, n_workers=n_workers)
        train = clients.compute.train

        def noted(work: LocalWork, at_hand: Ranges, *, with_progress: bool) -> Trained:
            asked.append(work.start.size)
            return train(work, at_hand, with_progress=with_progress)

        monkeypatch.setattr(clients.compute, "train", noted)
        monkeypatch.setattr(clients.compute, "on_trained", lambda done, _total: told.append(done))
        found = clients.test(models, EVERYONE)["window"].also["tuned"]
        clients.compute.close()
        return found

    whole = tuned(1)
    monkeypatch.setattr("fielding.runtime.test.MOST_NUMBERS", 1)
    pieces = tuned(2)

    assert (asked, told) == ([3, 2, 1], [])
    assert whole.loss.tobytes() == pieces.loss.tobytes()
    assert whole.clients.tolist() == pieces.clients.tolist() == [0, 1, 2]
