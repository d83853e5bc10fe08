"""The label mix that a model carries: how training moves it, and that nothing else sees it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fielding._typing import Models
from fielding.errors import InputError, OptionError
from fielding.federation.models import mean_model
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import LABEL_MIX, LEAST_SHARE, LabelMixTrainer, label_mix_of, strip_mix
from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import LocalWork
from tests.training.jobs import parts_of, samples, some_mixes, with_all_asked, work_of

N_CLASSES = 4
INNER = NumpyTrainer(Dense(n_inputs=3, n_hidden=5, n_classes=N_CLASSES))
POOL = samples((3,), N_CLASSES)


def keeping(rate: float = 0.25, *, is_balanced: bool = False) -> LabelMixTrainer:
    return LabelMixTrainer(INNER, N_CLASSES, rate=rate, is_balanced=is_balanced)


def started_with(mixes: list[list[float]]) -> LocalWork:
    """Return the work of three participants; the first and the last start from the first of two mixes."""
    work = work_of(keeping(), POOL, size=(3, 2, 5))
    models = work.models.copy()
    models[:, -N_CLASSES:] = mixes
    return replace(work, models=models)


OLD = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.2, 0.8]]
OWN = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32)


def mixes_after(trainer: LabelMixTrainer, work: LocalWork) -> Models:
    return trainer.train(work).models[:, -N_CLASSES:]


def test_the_mix_is_a_buffer_after_all_others_and_starts_even() -> None:
    trainer = keeping()

    assert trainer.layout.names == (*INNER.layout.names, LABEL_MIX)
    assert trainer.layout.n_parameters == INNER.layout.n_parameters
    assert trainer.layout.parameter_size == trainer.layout.size - N_CLASSES == INNER.layout.size
    assert trainer.path == INNER.path
    assert trainer.initial_model(3)[-N_CLASSES:].tolist() == [0.25] * N_CLASSES
    assert np.array_equal(strip_mix(trainer.initial_model(3), N_CLASSES), INNER.initial_model(3))


def test_training_moves_the_mix_toward_that_of_the_participant() -> None:
    found = mixes_after(keeping(0.25), replace(started_with(OLD), mixes=OWN))

    assert np.allclose(
        found, [[0.625, 0.375, 0.0, 0.0], [0.0, 0.25, 0.15, 0.6], [0.4, 0.425, 0.075, 0.1]], atol=2 * LEAST_SHARE
    )
    assert found.dtype == np.float32


@pytest.mark.parametrize(("rate", "wanted"), [(0.0, [0.5, 0.5, 0.0, 0.0]), (1.0, [0.1, 0.2, 0.3, 0.4])])
def test_a_rate_of_zero_keeps_the_old_mix_and_of_one_takes_the_new(rate: float, wanted: list[float]) -> None:
    found = mixes_after(keeping(rate), replace(started_with(OLD), mixes=OWN))

    assert np.allclose(found[2], wanted, atol=2 * LEAST_SHARE)


def test_balanced_training_moves_the_mix_toward_the_even_one() -> None:
    found = mixes_after(keeping(0.5, is_balanced=True), replace(started_with(OLD), mixes=OWN))

    assert np.allclose(found[1], [0.125, 0.125, 0.225, 0.525], atol=2 * LEAST_SHARE)
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("is_balanced", [False, True])
def test_who_does_not_know_its_mix_keeps_the_old_one_bit_for_bit(is_balanced: bool) -> None:
    work, trainer = started_with([[0.7, 0.1, 0.1, 0.1], [3.0, -1.0, 0.0, 0.0]]), keeping(is_balanced=is_balanced)

    assert np.array_equal(mixes_after(trainer, work), work.models[work.start, -N_CLASSES:])
    unknown = np.zeros((3, N_CLASSES), dtype=np.float32)
    unknown[1] = 0.25
    some = mixes_after(trainer, replace(work, mixes=unknown))
    assert np.array_equal(some[[0, 2]], work.models[[0, 0], -N_CLASSES:])
    assert np.allclose(some[1], [0.75 * 1.0 + 0.0625, 0.0625, 0.0625, 0.0625], atol=4 * LEAST_SHARE)


def test_counts_in_place_of_shares_weigh_no_more() -> None:
    work = started_with(OLD)

    shares = mixes_after(keeping(), replace(work, mixes=OWN))
    counts = mixes_after(keeping(), replace(work, mixes=100.0 * OWN))

    assert np.allclose(shares, counts, atol=1e-7)


def test_what_somebody_else_broke_weighs_no_more_than_a_mix() -> None:
    broken = started_with([[1e30, -1e30, 0.0, 0.0], [np.nan, 1.0, 0.0, 0.0]])

    found = mixes_after(keeping(0.5), replace(broken, mixes=OWN))

    assert np.allclose(found[0], [1.0, 0.0, 0.0, 0.0], atol=4 * LEAST_SHARE)
    assert np.allclose(found[1], [0.125, 0.625, 0.125, 0.125], atol=4 * LEAST_SHARE)


@pytest.mark.parametrize("is_balanced", [False, True])
def test_all_else_is_learned_as_without_the_mix_bit_for_bit(is_balanced: bool) -> None:
    trainer = keeping(is_balanced=is_balanced)
    bare = with_all_asked(work_of(INNER, POOL), INNER.layout, n_classes=N_CLASSES)
    assert bare.pull is not None
    assert bare.contrast is not None

    def tailed(rows: Models) -> Models:
        return np.concatenate([rows, np.full((rows.shape[0], N_CLASSES), 0.25, dtype=np.float32)], axis=1)

    strength = np.concatenate([bare.pull.strength, np.zeros(N_CLASSES)])
    work = replace(
        bare,
        models=tailed(bare.models),
        pull=replace(bare.pull, anchors=tailed(bare.pull.anchors), strength=strength),
        contrast=replace(bare.contrast, previous=tailed(bare.contrast.previous)),
    )

    found, wanted = trainer.train(work), INNER.train(bare)

    assert np.array_equal(strip_mix(found.models, N_CLASSES), wanted.models)
    for one, other in zip(parts_of(found)[1:], parts_of(wanted)[1:], strict=True):
        assert np.array_equal(one, other)


def test_a_pull_on_the_mix_is_refused() -> None:
    work = work_of(keeping(), POOL)
    size = work.models.shape[1]
    pull = with_all_asked(work, keeping().layout, n_classes=N_CLASSES).pull
    assert pull is not None

    with pytest.raises(InputError, match="strength is not 0 on buffers"):
        keeping().train(replace(work, pull=replace(pull, strength=np.ones(size))))


def test_scores_features_and_gradients_do_not_see_the_mix() -> None:
    trainer = keeping()
    model = trainer.initial_model(2)
    bare = strip_mix(model, N_CLASSES)

    for found, wanted in (
        (trainer.scores(model, *POOL), INNER.scores(bare, *POOL)),
        (trainer.features(model, POOL[0]), INNER.features(bare, POOL[0])),
        ((trainer.gradient(model, *POOL),), (INNER.gradient(bare, *POOL),)),
    ):
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(one, other)
    assert trainer.gradient(model, *POOL).shape == (trainer.layout.parameter_size,)


def test_the_mix_comes_after_the_buffers_of_a_module() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    inner = trainer_for(
        ModelRequest(name="tests.training.modules:normalised", input_shape=(3,), n_classes=N_CLASSES, trainer="torch")
    )
    trainer = LabelMixTrainer(inner, N_CLASSES, rate=0.5, is_balanced=False)
    work = work_of(trainer, POOL)
    bare = replace(work, models=strip_mix(work.models, N_CLASSES))

    done = trainer.train(replace(work, mixes=OWN)).models

    assert trainer.layout.names[-3:] == ("2.running_mean", "2.running_var", LABEL_MIX)
    assert np.array_equal(strip_mix(done, N_CLASSES), inner.train(bare).models)
    assert np.allclose(done[0, -N_CLASSES:], [0.625, 0.125, 0.125, 0.125], atol=1e-6)


def test_rounds_of_averaging_lead_to_the_mix_of_everybody() -> None:
    trainer = keeping(0.5)
    work = work_of(trainer, POOL, size=(6, 1, 5))
    mixes = some_mixes(work, N_CLASSES)
    model = work.models[0]

    for _ in range(30):
        done = trainer.train(replace(work, models=model[None], start=np.zeros(6, dtype=np.int64), mixes=mixes))
        model = mean_model(done.models)

    assert np.allclose(label_mix_of(model, N_CLASSES), mixes.mean(axis=0), atol=1e-5)


@given(
    arrays(np.float32, st.tuples(st.integers(0, 3), st.integers(3, 5)), elements=st.floats(width=32)),
)
def test_whatever_a_buffer_holds_its_mix_is_one(models: Models) -> None:
    mixes = label_mix_of(models, 3)

    assert mixes.shape == (models.shape[0], 3)
    assert mixes.dtype == np.float64
    assert np.allclose(mixes.sum(axis=1), 1.0)
    assert (mixes >= 0.9 * LEAST_SHARE).all()


@pytest.mark.parametrize(
    ("tail", "mix"),
    [
        ([1.0, 3.0], [0.25, 0.75]),
        ([2.0, 6.0], [0.25, 0.75]),
        ([np.nan, 1.0], [0.5, 0.5]),
        ([np.inf, 1.0], [0.5, 0.5]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([-1.0, -2.0], [0.5, 0.5]),
        ([-1.0, 2.0], [LEAST_SHARE / (1.0 + LEAST_SHARE), 1.0 / (1.0 + LEAST_SHARE)]),
    ],
)
def test_mixes_are_read_as_shares(tail: list[float], mix: list[float]) -> None:
    model = np.array([9.0, *tail], dtype=np.float32)

    assert np.allclose(label_mix_of(model, 2), mix, rtol=1e-12)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), True, "fast"])
def test_a_rate_that_is_no_share_is_refused(rate: float) -> None:
    with pytest.raises(OptionError, match=r"mix_rate is .*; give a number from 0 to 1"):
        keeping(rate)


def test_a_model_that_has_such_a_tensor_is_refused() -> None:
    with pytest.raises(OptionError, match="has a tensor 'label_mix'"):
        LabelMixTrainer(keeping(), N_CLASSES, rate=0.5, is_balanced=False)
