import numpy as np

from fielding.simulation.batches import drawn_batches
from fielding.simulation.workers import Workers
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Sgd, TrainingPath
from tests.simulation.small import N_CLASSES, N_FEATURES, small_windows

PATH = TrainingPath(name="stacked", chunk=2, n_threads=1, eval_chunk=7)


def test_one_worker_and_three_give_the_same_bits() -> None:
    windows = small_windows()
    trainer = trainer_for(ModelRequest(name="mlp", hidden=5, input_shape=(N_FEATURES,), n_classes=N_CLASSES, path=PATH))
    everyone = np.arange(windows.n_clients)
    draws = drawn_batches(windows.training(0), everyone, keys=everyone.astype(np.uint64), moment=(1, 0), shape=(3, 4))
    work = LocalWork(
        models=trainer.initial_model(1)[np.newaxis],
        start=np.zeros(everyone.size, dtype=np.int64),
        draws=draws,
        gather=windows.gather,
        sgd=Sgd(learning_rate=0.1, momentum=0.9),
    )
    rows = np.arange(windows.schedule.client.size)
    answers = []
    for n_workers in (1, 3):
        workers = Workers(trainer, n_workers)
        trained = workers.train(work)
        losses, right = workers.scores(trained.models[0], rows, windows.gather)
        workers.close()
        answers.append((trained.models, trained.loss, trained.square_loss, losses, right))

    for one, other in zip(*answers, strict=True):
        assert one.shape == other.shape
        assert (one == other).all()


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
