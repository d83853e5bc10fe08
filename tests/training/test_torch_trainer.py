"""Local training of PyTorch modules against a plain loop with ``torch.optim.SGD``."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from fielding.errors import OptionError  # noqa: E402
from fielding.training.factory import ModelRequest, trainer_for  # noqa: E402
from fielding.training.layout import Layout  # noqa: E402
from fielding.training.torch_trainer import ALONE_FROM, THREADS_FROM, TorchTrainer, sequential_path  # noqa: E402
from fielding.training.trainer import LocalWork, Sgd, Trainer  # noqa: E402
from tests.training import modules  # noqa: E402
from tests.training.jobs import FULL_SGD, in_chunks, parts_of, samples, some_factors, some_pull, work_of  # noqa: E402

SHAPE, CLASSES = (6, 5, 2), 3
POOL = samples(SHAPE, CLASSES)
FACTORIES = {
    "normalised": modules.normalised,
    "convolved": modules.convolved,
    "half_frozen": modules.half_frozen,
    "tied": modules.tied,
}


def trainer_of(name: str) -> Trainer:
    return trainer_for(
        ModelRequest(name=f"tests.training.modules:{name}", input_shape=SHAPE, n_classes=CLASSES, trainer="torch")
    )


def plain_loop(name: str, work: LocalWork, layout: Layout, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the model and the losses of one participant, as anybody would write it."""
    module = FACTORIES[name](input_shape=(2, 6, 5), n_classes=CLASSES)
    state = {key: torch.tensor(part) for key, part in layout.tensors(work.models[work.start[row]]).items()}
    module.load_state_dict(state, strict=False)
    named = {key: parameter for key, parameter in module.named_parameters() if parameter.requires_grad}
    parameters = list(named.values())
    first = [parameter.detach().clone() for parameter in parameters]
    sgd = work.sgd
    rate = sgd.learning_rate * (1.0 if work.rate_factors is None else work.rate_factors[row])
    optimiser = torch.optim.SGD(parameters, lr=rate, momentum=sgd.momentum, weight_decay=sgd.weight_decay)
    losses = []
    for entries in work.draws[row]:
        x, y = work.gather(entries)
        each = torch.nn.functional.cross_entropy(
            module(torch.tensor(x).permute(0, 3, 1, 2)), torch.tensor(y, dtype=torch.int64), reduction="none"
        )
        loss = each.mean() + sgd.prox / 2 * sum(
            (now - then).square().sum() for now, then in zip(parameters, first, strict=True)
        )
        if work.pull is not None:
            anchor = layout.tensors(work.pull.anchors[work.pull.row[row]])
            strength = layout.tensors(work.pull.strength.astype(np.float32))
            for key, parameter in named.items():
                pulled = torch.tensor(strength[key]) * (parameter - torch.tensor(anchor[key])).square()
                loss = loss + pulled.sum() / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(each.detach().numpy())
    done = module.state_dict()
    return np.concatenate([done[key].numpy().reshape(-1) for key in layout.names]), np.stack(losses)


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize(
    "sgd", [Sgd(learning_rate=0.1), FULL_SGD, replace(FULL_SGD, prox=-0.1)], ids=["plain", "full", "away"]
)
def test_a_participant_learns_what_a_plain_loop_learns(name: str, sgd: Sgd) -> None:
    trainer = trainer_of(name)
    work = work_of(trainer, POOL, sgd=sgd)

    done = trainer.train(work)

    for row in range(work.start.size):
        model, losses = plain_loop(name, work, trainer.layout, row)
        assert np.allclose(done.models[row], model, atol=2e-6)
        assert done.loss[row] == pytest.approx(losses.mean(), rel=1e-5)
        assert done.square_loss[row] == pytest.approx(np.square(losses).mean(), rel=1e-5)


@pytest.mark.parametrize("name", FACTORIES)
def test_a_pull_and_a_rate_do_what_they_do_in_a_plain_loop(name: str) -> None:
    trainer = trainer_of(name)
    work = work_of(trainer, POOL)
    asked = replace(work, rate_factors=some_factors(work), pull=some_pull(work, trainer.layout))

    done = trainer.train(asked)

    for row in range(work.start.size):
        model, _ = plain_loop(name, asked, trainer.layout, row)
        assert np.allclose(done.models[row], model, atol=2e-6)
        assert not np.allclose(done.models[row], trainer.train(work).models[row], atol=1e-2)


def test_frozen_parameters_neither_move_nor_decay() -> None:
    trainer = trainer_of("half_frozen")
    work = work_of(trainer, POOL)

    done = trainer.train(work).models[0]

    end = trainer.layout.parameter_size
    assert np.array_equal(done[end:], work.models[0, end:])
    assert not np.isclose(done[:end], work.models[0, :end]).any()


def test_running_statistics_go_in_and_come_out_with_the_model() -> None:
    trainer = trainer_of("normalised")
    work = work_of(trainer, POOL, sgd=Sgd(learning_rate=0.0), size=(1, 1, 5))
    end = trainer.layout.parameter_size
    models = work.models.copy()
    models[0, end:] = np.arange(16, dtype=np.float32)

    done = trainer.train(replace(work, models=models)).models[0]

    assert np.array_equal(done[:end], models[0, :end])
    fresh = trainer.train(work).models[0]
    # momentum 0.1: nine tenths of what was there, and the same tenth of the batch
    assert np.allclose(done[end:] - 0.9 * models[0, end:], fresh[end:] - 0.9 * work.models[0, end:], atol=1e-5)


def test_counters_start_anew_for_every_participant() -> None:
    trainer = trainer_of("counting")
    work = work_of(trainer, POOL, size=(1, 3, 5))

    assert np.array_equal(trainer.train(work).models, trainer.train(work).models)


def test_scores_use_the_running_statistics_and_leave_them_alone() -> None:
    trainer = trainer_of("normalised")
    model = trainer.initial_model(1)

    alone = [trainer.scores(model, POOL[0][row : row + 1], POOL[1][row : row + 1])[0][0] for row in range(8)]
    together, _ = trainer.scores(model, POOL[0][:8], POOL[1][:8])

    assert np.allclose(alone, together, atol=1e-6)


def test_scores_take_the_model_that_is_given_not_the_last_one() -> None:
    trainer = trainer_of("normalised")
    first = trainer.initial_model(1)
    before, _ = trainer.scores(first, *POOL)

    trainer.train(work_of(trainer, POOL))

    assert np.array_equal(before, trainer.scores(first, *POOL)[0])


@pytest.mark.parametrize("name", ["convolved", "dropped", "noisy", "noisy_unless_zero"])
def test_two_threads_give_the_bits_of_one(name: str) -> None:
    trainer = trainer_of(name)
    work = work_of(trainer, POOL, size=(6, 5, 5))

    assert np.array_equal(
        in_chunks(trainer, work, chunk=1, n_workers=1), in_chunks(trainer, work, chunk=1, n_workers=2)
    )


@pytest.mark.parametrize("name", ["dropped", "noisy", "noisy_unless_zero", "always_noisy"])
def test_dropout_follows_the_samples_and_not_the_global_generator(name: str) -> None:
    trainer = trainer_of(name)
    work = work_of(trainer, POOL, size=(2, 3, 5))
    state = torch.get_rng_state()

    first = trainer.train(work).models
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        again = trainer.train(work).models

    assert np.array_equal(first, again)
    assert torch.equal(state, torch.get_rng_state())
    reversed_rows = trainer.train(replace(work, start=work.start[::-1], draws=work.draws[::-1])).models
    assert np.array_equal(first, reversed_rows[::-1])


def test_scores_of_a_module_that_always_draws_repeat() -> None:
    trainer = trainer_of("always_noisy")
    model = trainer.initial_model(1)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        first, _ = trainer.scores(model, *POOL)
        again, _ = trainer.scores(model, *POOL)

    assert np.array_equal(first, again)


def test_numbers_drawn_for_some_samples_only_are_an_error_in_one_line() -> None:
    trainer = trainer_of("rarely_noisy")
    large = (20.0 * POOL[0], POOL[1])
    trainer.train(work_of(trainer, POOL))
    trainer.scores(trainer.initial_model(1), *POOL)

    for attempt in (
        lambda: trainer.train(work_of(trainer, large)),
        lambda: trainer.scores(trainer.initial_model(1), *large),
    ):
        with pytest.raises(OptionError, match=r"rarely_noisy .* would not repeat; let it always draw") as refusal:
            attempt()
        assert "\n" not in str(refusal.value)


def test_prox_of_zero_is_plain_sgd_bit_for_bit() -> None:
    trainer = trainer_of("convolved")
    work = work_of(trainer, POOL, sgd=Sgd(learning_rate=0.1, momentum=0.9))

    for one, other in zip(
        parts_of(trainer.train(work)),
        parts_of(trainer.train(replace(work, sgd=replace(work.sgd, prox=0.0)))),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_a_batch_that_batchnorm_cannot_use_is_an_error_in_one_line() -> None:
    trainer = trainer_of("normalised")

    with pytest.raises(OptionError, match="cannot train on batches of 1: Expected more than 1 value"):
        trainer.train(work_of(trainer, POOL, size=(1, 1, 1)))


def test_the_thread_count_of_the_caller_comes_back() -> None:
    before = torch.get_num_threads()
    trainer = trainer_of("normalised")
    torch.set_num_threads(2)
    try:
        trainer.train(work_of(trainer, POOL))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def path_of(n_numbers: int, *, is_random: bool = False) -> tuple[str, int, bool]:
    layout = Layout(names=("weight",), shapes=((n_numbers,),), n_parameters=1)
    path = sequential_path(layout, (3, 32, 32), is_random=is_random)
    return path.name, path.chunk, path.n_threads == 1


def test_only_large_and_random_modules_are_trained_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fielding.blas_threads.n_threads", lambda: 8)

    assert path_of(11_000_000) == ("sequential", 1, True)
    assert path_of(ALONE_FROM) == ("sequential", 1, False)
    assert path_of(THREADS_FROM, is_random=True) == ("sequential", 1, False)
    assert path_of(THREADS_FROM - 1, is_random=True) == ("sequential", 1, True)


@pytest.mark.parametrize(
    ("input_shape", "eval_chunk"), [((1, 28, 28), 127), ((3, 32, 32), 32), ((3, 224, 224), 8), ((10,), 128)]
)
def test_large_samples_are_scored_in_small_chunks(input_shape: tuple[int, ...], eval_chunk: int) -> None:
    layout = Layout(names=("weight",), shapes=((1,),), n_parameters=1)

    assert sequential_path(layout, input_shape, is_random=False).eval_chunk == eval_chunk


def test_a_trainer_on_another_path_is_the_same_trainer() -> None:
    trainer = trainer_of("normalised")
    assert isinstance(trainer, TorchTrainer)
    other = trainer.with_path(replace(trainer.path, n_threads=2, eval_chunk=7))

    assert (other.path.n_threads, other.path.eval_chunk, trainer.path.n_threads) == (2, 7, 1)
    assert np.array_equal(other.initial_model(3), trainer.initial_model(3))
