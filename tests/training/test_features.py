"""Features, scores and gradients of a model as it is tested, of every trainer."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn import functional  # noqa: E402

from fielding.errors import OptionError  # noqa: E402
from fielding.training.factory import ModelRequest, trainer_for  # noqa: E402
from fielding.training.numpy_models import Dense  # noqa: E402
from fielding.training.trainer import Trainer  # noqa: E402
from tests.training import by_differences, modules  # noqa: E402
from tests.training.jobs import samples, work_of  # noqa: E402
from tests.training.trainers import (  # noqa: E402
    CLASSES,
    HIDDEN,
    INPUTS,
    POOL,
    gradient_of,
    module_of,
    softmax_errors,
    trainer_of,
)

every_trainer = pytest.mark.parametrize("kind", ["numpy", "numpy softmax", "stacked", "stacked softmax", "module"])
SHAPE = (6, 5, 2)
IMAGES = samples(SHAPE, CLASSES)
FACTORIES = {
    "normalised": modules.normalised,
    "convolved": modules.convolved,
    "half_frozen": modules.half_frozen,
    "tied": modules.tied,
    "headed": modules.headed,
}


def images_trainer(name: str) -> Trainer:
    return trainer_for(
        ModelRequest(name=f"tests.training.modules:{name}", input_shape=SHAPE, n_classes=CLASSES, trainer="torch")
    )


@every_trainer
def test_features_through_the_last_layer_are_the_scores(kind: str) -> None:
    trainer = trainer_of(kind)
    model = trainer.initial_model(3)

    features, scores = trainer.features(model, POOL[0])

    *_, weight, bias = trainer.layout.tensors(model).values()
    assert features.dtype == scores.dtype == np.float32
    assert np.allclose(features @ weight.T + bias, scores, atol=1e-6)
    assert features.shape == (60, INPUTS if "softmax" in kind else HIDDEN)


@every_trainer
def test_features_are_those_of_the_plain_network(kind: str) -> None:
    trainer = trainer_of(kind)
    model = trainer.initial_model(3)
    module = module_of(trainer.layout, model)
    body = module[:2] if isinstance(module, torch.nn.Sequential) else torch.nn.Identity()

    features, scores = trainer.features(model, POOL[0])

    assert np.allclose(features, body(torch.tensor(POOL[0])).detach(), atol=1e-6)
    assert np.allclose(scores, module(torch.tensor(POOL[0])).detach(), atol=1e-6)


@every_trainer
def test_losses_follow_from_the_scores(kind: str) -> None:
    trainer = trainer_of(kind)
    model = trainer.initial_model(3)

    _, scores = trainer.features(model, POOL[0])
    losses, is_right = trainer.scores(model, *POOL)

    assert np.array_equal(scores.argmax(axis=1) == POOL[1], is_right)
    shares = softmax_errors(scores, POOL[1])[np.arange(60), POOL[1]] + 1.0
    assert np.allclose(losses, -np.log(shares), atol=1e-6)


@every_trainer
def test_gradients_are_those_of_autograd(kind: str) -> None:
    trainer = trainer_of(kind)
    model = trainer.initial_model(3)
    module = module_of(trainer.layout, model)
    labels = torch.tensor(POOL[1], dtype=torch.int64)
    functional.cross_entropy(module(torch.tensor(POOL[0])), labels, reduction="sum").backward()  # type: ignore[no-untyped-call]

    found = trainer.gradient(model, *POOL)

    assert found.dtype == np.float32
    assert found.shape == (trainer.layout.parameter_size,)
    assert np.allclose(found, gradient_of(module, trainer.layout.names), atol=1e-5)


@every_trainer
def test_gradients_are_slopes_of_the_summed_loss(kind: str) -> None:
    trainer = trainer_of(kind)
    dense = Dense(n_inputs=INPUTS, n_hidden=0 if "softmax" in kind else HIDDEN, n_classes=CLASSES)
    model = trainer.initial_model(3)
    x = POOL[0].astype(np.float64)

    slopes = by_differences.slopes(
        lambda at: 60 * by_differences.mean_loss(dense, at, x, POOL[1]), model.astype(np.float64)
    )

    assert np.allclose(trainer.gradient(model, *POOL), slopes, atol=2e-5)


@every_trainer
def test_gradients_of_chunks_sum_to_the_whole(kind: str) -> None:
    trainer = trainer_of(kind)
    model = trainer.initial_model(3)
    chunks = [trainer.gradient(model, POOL[0][part], POOL[1][part]) for part in (slice(0, 1), slice(1, 40))]
    rest = trainer.gradient(model, POOL[0][40:], POOL[1][40:])

    assert np.allclose(sum(chunks) + rest, trainer.gradient(model, *POOL), atol=1e-5)
    assert np.abs(rest).max() > 0.1


@every_trainer
def test_no_samples_have_no_gradient(kind: str) -> None:
    trainer = trainer_of(kind)

    found = trainer.gradient(trainer.initial_model(3), POOL[0][:0], POOL[1][:0])

    assert found.tolist() == [0.0] * trainer.layout.parameter_size


@every_trainer
def test_the_gradient_of_the_last_layer_needs_a_forward_pass_alone(kind: str) -> None:
    trainer = trainer_of(kind)
    model = trainer.initial_model(3)

    features, scores = trainer.features(model, POOL[0])

    errors = softmax_errors(scores, POOL[1])
    closed = np.concatenate([(errors.T @ features).reshape(-1), errors.sum(axis=0)])
    assert np.allclose(trainer.gradient(model, *POOL)[-closed.size :], closed, atol=1e-5)


def test_all_trainers_agree() -> None:
    model = trainer_of("numpy").initial_model(4)
    wanted = (*trainer_of("numpy").features(model, POOL[0]), trainer_of("numpy").gradient(model, *POOL))

    for kind in ("stacked", "module"):
        found = (*trainer_of(kind).features(model, POOL[0]), trainer_of(kind).gradient(model, *POOL))
        for one, other in zip(wanted, found, strict=True):
            assert np.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", FACTORIES)
def test_modules_have_the_gradients_of_autograd_in_the_order_of_the_layout(name: str) -> None:
    """Kernels lie otherwise in the trainer's memory, and running statistics are used as they are."""
    trainer = images_trainer(name)
    model = trainer.train(work_of(trainer, IMAGES)).models[0]
    module = FACTORIES[name](input_shape=(2, 6, 5), n_classes=CLASSES)
    state = {key: torch.tensor(part) for key, part in trainer.layout.tensors(model).items()}
    module.load_state_dict(state, strict=False)
    module.eval()
    scores = module(torch.tensor(IMAGES[0]).permute(0, 3, 1, 2))
    functional.cross_entropy(scores, torch.tensor(IMAGES[1], dtype=torch.int64), reduction="sum").backward()  # type: ignore[no-untyped-call]

    found = trainer.gradient(model, *IMAGES)

    wanted = gradient_of(module, trainer.layout.names[: trainer.layout.n_parameters])
    assert np.allclose(found, wanted, atol=2e-5)
    assert np.allclose(trainer.features(model, IMAGES[0])[1], scores.detach(), atol=1e-5)


@pytest.mark.parametrize("name", ["convolved", "noisy"])
def test_looking_at_a_model_leaves_training_as_it_was(name: str) -> None:
    trainer = images_trainer(name)
    work = work_of(trainer, IMAGES)
    before = trainer.train(work).models

    trainer.gradient(work.models[0], *IMAGES)
    trainer.features(work.models[0], IMAGES[0])

    assert np.array_equal(before, trainer.train(work).models)


def test_dropout_is_off_and_repeats() -> None:
    trainer = images_trainer("dropped")
    model = trainer.initial_model(1)

    features, _ = trainer.features(model, IMAGES[0])

    assert np.array_equal(features, IMAGES[0].transpose(0, 3, 1, 2).reshape(60, -1))
    assert np.array_equal(trainer.gradient(model, *IMAGES), trainer.gradient(model, *IMAGES))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("without_linear", "a representation on a shared model needs a torch.nn.Linear and model .* has none; let the"),
        ("pixelwise", r"gets \(1800, 2\) for 60 samples; .*, or leave a representation on a shared model out"),
    ],
)
def test_a_module_without_features_is_refused(name: str, words: str) -> None:
    trainer = images_trainer(name)

    with pytest.raises(OptionError, match=words):
        trainer.features(trainer.initial_model(1), IMAGES[0])

    assert trainer.gradient(trainer.initial_model(1), *IMAGES).any()


def test_a_module_that_detaches_its_scores_when_tested_has_no_gradient() -> None:
    trainer = images_trainer("detached_when_tested")

    with pytest.raises(OptionError, match="tested returns scores without gradients when tested; do not detach them"):
        trainer.gradient(trainer.initial_model(1), *IMAGES)


def test_samples_of_more_dimensions_are_flattened() -> None:
    square = (POOL[0].reshape(-1, 2, 2), POOL[1])
    for kind in ("numpy", "stacked", "numpy softmax", "stacked softmax"):
        trainer = trainer_of(kind)
        model = trainer.initial_model(1)
        assert np.array_equal(trainer.gradient(model, *POOL), trainer.gradient(model, *square))
        assert np.array_equal(trainer.features(model, POOL[0])[0], trainer.features(model, square[0])[0])
