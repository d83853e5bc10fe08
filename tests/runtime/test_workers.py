import threading

import numpy as np
import numpy.typing as npt
import pytest

from fielding.runtime.train import draw_batches as drawn_batches
from fielding.runtime.workers import SMALL_MODEL, Workers
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Sgd, Trainer, TrainingPath
from tests.simulation.small import N_CLASSES, N_FEATURES, small_windows

STACKED = TrainingPath(name="stacked", chunk=2, n_threads=1, eval_chunk=7)
SEQUENTIAL = TrainingPath(name="sequential", chunk=1, n_threads=1, eval_chunk=7)
LARGE = 2500
"""Hidden units that make a model of at least SMALL_MODEL numbers."""


def dense(hidden: int, path: TrainingPath = STACKED) -> Trainer:
    return trainer_for(
        ModelRequest(name="mlp", hidden=hidden, input_shape=(N_FEATURES,), n_classes=N_CLASSES, path=path)
    )


def module(name: str, path: TrainingPath | None = SEQUENTIAL) -> Trainer:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    factory = f"tests.training.modules:{name}"
    return trainer_for(
        ModelRequest(name=factory, input_shape=(N_FEATURES,), n_classes=N_CLASSES, trainer="torch", path=path)
    )


def work_for(trainer: Trainer) -> LocalWork:
    windows = small_windows()
    everyone = np.arange(windows.n_clients)
    draws = drawn_batches(windows.training(0), everyone, keys=everyone.astype(np.uint64), moment=(1, 0), shape=(3, 4))
    return LocalWork(
        models=trainer.initial_model(1)[np.newaxis],
        start=np.zeros(everyone.size, dtype=np.int64),
        draws=draws,
        gather=windows.gather,
        sgd=Sgd(learning_rate=0.1, momentum=0.9),
    )


def answers(trainer: Trainer, n_workers: int) -> list[npt.NDArray]:
    """Return all that workers answer, after a check that more than one of them are threads."""
    windows, workers = small_windows(), Workers(trainer, n_workers)
    assert (workers._threads is not None) is (n_workers > 1)
    trained = workers.train(work_for(trainer))
    scores = workers.scores(trained.models[0], np.arange(windows.schedule.client.size), windows.gather)
    workers.close()
    return [trained.models, trained.loss, trained.square_loss, *scores]


# Dropout in threads: the path says one thread per call, as on a machine with one core.
@pytest.mark.parametrize("name", ["dense", "normalised", "dropped"])
def test_one_worker_and_three_give_the_same_bits(name: str) -> None:
    trainer = dense(LARGE) if name == "dense" else module(name)

    for one, other in zip(answers(trainer, 1), answers(trainer, 3), strict=True):
        assert one.shape == other.shape
        assert (one == other).all()


def test_workers_do_what_one_call_for_everyone_does() -> None:
    trainer = dense(LARGE)
    alone = trainer.train(work_for(trainer))

    models, loss, square_loss, *_ = answers(trainer, 3)

    assert np.allclose(models, alone.models, atol=1e-6)
    assert np.allclose(loss, alone.loss)
    assert np.allclose(square_loss, alone.square_loss)


def test_threads_are_made_only_where_they_pay() -> None:
    assert dense(LARGE).layout.size >= SMALL_MODEL > dense(LARGE // 2).layout.size

    for trainer, n_workers, is_parallel in (
        (dense(LARGE), 2, True),
        (dense(LARGE), 1, False),
        (dense(LARGE // 2), 2, False),
        (module("normalised"), 2, True),
        (module("normalised", TrainingPath(name="sequential", chunk=1, n_threads=2, eval_chunk=7)), 2, False),
    ):
        workers = Workers(trainer, n_workers)
        assert (workers._threads is not None) is is_parallel
        workers.close()


def test_nobody_to_train_gives_nothing() -> None:
    trainer = trainer_for(ModelRequest(name="softmax", input_shape=(N_FEATURES,), n_classes=N_CLASSES))
    workers = Workers(trainer, 1)
    work = LocalWork(
        models=trainer.initial_model(1)[np.newaxis],
        start=np.empty(0, dtype=np.int64),
        draws=np.empty((0, 3, 4), dtype=np.int64),
        gather=small_windows().gather,
        sgd=Sgd(learning_rate=0.1),
    )

    assert workers.train(work).models.shape == (0, trainer.layout.size)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_progress_is_told_by_calls_and_from_the_calling_thread(n_workers: int) -> None:
    trainer = dense(LARGE)
    workers, told, threads = Workers(trainer, n_workers), list[tuple[int, int]](), set[int]()

    def on_trained(done: int, total: int) -> None:
        told.append((done, total))
        threads.add(threading.get_ident())

    workers.on_trained = on_trained
    work = work_for(trainer)
    workers.train(work)
    workers.close()

    n_tasks = work.start.size
    assert told == [(min(done, n_tasks), n_tasks) for done in range(2, n_tasks + 2, 2)]
    assert threads == {threading.get_ident()}
