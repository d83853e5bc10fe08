"""The contrastive part of the loss of PyTorch modules against a plain loop, and modules that have no features."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fielding.errors import OptionError  # noqa: E402
from fielding.training.factory import ModelRequest, trainer_for  # noqa: E402
from fielding.training.torch_contrast import FeatureTap, contrastive_losses, push_between  # noqa: E402
from fielding.training.trainer import Contrast, LocalWork, Sgd, Trainer  # noqa: E402
from tests.training import modules  # noqa: E402
from tests.training.jobs import in_chunks, parts_of, samples, some_contrast, with_all_asked, work_of  # noqa: E402

SHAPE, CLASSES = (6, 5, 2), 3
POOL = samples(SHAPE, CLASSES)
FACTORIES = {"normalised": modules.normalised, "convolved": modules.convolved, "headed": modules.headed}


def trainer_of(name: str) -> Trainer:
    return trainer_for(
        ModelRequest(name=f"tests.training.modules:{name}", input_shape=SHAPE, n_classes=CLASSES, trainer="torch")
    )


def body_and_head(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return what makes the features of a module, and its last layer."""
    if isinstance(module, modules.Headed):
        return nn.Sequential(nn.Flatten(), module.body, nn.ReLU()), module.head
    *body, head = module.children()
    return nn.Sequential(*body), head


def plain_loop(name: str, trainer: Trainer, work: LocalWork, contrast: Contrast, row: int) -> np.ndarray:
    """Return the model of one participant, trained as the authors of MOON wrote it."""
    module, start, previous = (FACTORIES[name](input_shape=(2, 6, 5), n_classes=CLASSES) for _ in range(3))
    begin = work.models[work.start[row]]
    for one, model in ((module, begin), (start, begin), (previous, contrast.previous[row])):
        state = {key: torch.tensor(part) for key, part in trainer.layout.tensors(model).items()}
        one.load_state_dict(state, strict=False)
    body, head = body_and_head(module)
    references = [body_and_head(reference)[0].eval() for reference in (start, previous)]
    likeness = nn.CosineSimilarity(dim=-1)
    optimiser = torch.optim.SGD(module.parameters(), lr=work.sgd.learning_rate, momentum=work.sgd.momentum)
    for entries in work.draws[row]:
        x, y = work.gather(entries)
        images, labels = torch.tensor(x).permute(0, 3, 1, 2), torch.tensor(y, dtype=torch.int64)
        optimiser.zero_grad()
        z = body(images)
        loss = functional.cross_entropy(head(z), labels)
        if contrast.has_previous[row]:
            scores = torch.stack([likeness(z, reference(images).detach()) for reference in references], dim=1)
            loss = loss + contrast.mu * functional.cross_entropy(scores / contrast.temperature, 0 * labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    done = module.state_dict()
    return np.concatenate([done[key].numpy().reshape(-1) for key in trainer.layout.names])


@pytest.mark.parametrize("name", FACTORIES)
def test_a_participant_learns_what_a_plain_loop_learns(name: str) -> None:
    trainer = trainer_of(name)
    work = work_of(trainer, POOL, sgd=Sgd(learning_rate=0.1, momentum=0.9), size=(3, 6, 5))
    contrast = some_contrast(work)

    plain, done = trainer.train(work), trainer.train(replace(work, contrast=contrast))

    for row in range(3):
        assert np.allclose(done.models[row], plain_loop(name, trainer, work, contrast, row), atol=1e-5)
        assert np.array_equal(done.models[row], plain.models[row]) is (row == 2)  # who has no previous model


def test_reported_losses_are_without_the_term() -> None:
    trainer = trainer_of("normalised")
    work = work_of(trainer, POOL, size=(2, 1, 5))

    assert np.array_equal(
        trainer.train(work).loss, trainer.train(replace(work, contrast=some_contrast(work, mu=1e3))).loss
    )


@pytest.mark.parametrize("name", ["convolved", "noisy"])
def test_two_threads_give_the_bits_of_one(name: str) -> None:
    trainer = trainer_of(name)
    work = with_all_asked(work_of(trainer, POOL, size=(6, 3, 5)), trainer.layout, n_classes=CLASSES)

    alone = in_chunks(trainer, work, chunk=1, n_workers=1)

    assert np.array_equal(alone, in_chunks(trainer, work, chunk=1, n_workers=2))
    assert np.array_equal(alone, trainer.train(work).models)


def test_after_a_contrast_plain_training_is_as_before() -> None:
    trainer = trainer_of("normalised")
    work = work_of(trainer, POOL)
    before = parts_of(trainer.train(work))

    trainer.train(replace(work, contrast=some_contrast(work)))

    for one, other in zip(before, parts_of(trainer.train(work)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "without_linear",
            "contrast needs a torch.nn.Linear and model .*without_linear has none; let the module end in",
        ),
        ("lazy", "nothing before the last torch.nn.Linear of model .*lazy is; let the module end in"),
        ("half_frozen", "nothing before the last torch.nn.Linear of model .*half_frozen is"),
        ("pixelwise", r"gets \(\d+, 2\) for 5 samples; let the module end in"),
    ],
)
@pytest.mark.parametrize("has_previous", [True, False])
def test_a_module_without_features_is_refused_in_the_first_round_too(name: str, words: str, has_previous: bool) -> None:
    trainer = trainer_of(name)
    work = work_of(trainer, POOL, size=(1, 1, 5))
    contrast = replace(some_contrast(work), has_previous=np.array([has_previous]))

    with pytest.raises(OptionError, match=words) as refusal:
        trainer.train(replace(work, contrast=contrast))

    assert "\n" not in str(refusal.value)
    assert np.isfinite(trainer.train(work).loss).all()


def test_features_of_the_layer_that_runs_last_are_taken_and_no_hook_is_left() -> None:
    module = modules.headed(input_shape=(4,), n_classes=2)
    x = torch.ones(3, 4)

    with FeatureTap(module, name="headed") as tap:
        module(x)
        found = tap.features(3)

    assert torch.equal(found, module.body(x).relu())
    assert not any(layer._forward_pre_hooks for layer in module.modules())


def test_rows_of_each_sample_are_one_feature() -> None:
    layer = nn.Linear(2, 1)
    with FeatureTap(layer, name="rows") as tap:
        layer(torch.ones(3, 5, 2, requires_grad=True))

        assert tap.features(3).shape == (3, 10)


def test_features_that_are_all_zero_have_a_cosine_and_a_gradient_of_zero() -> None:
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]], requires_grad=True)
    start = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    previous = torch.tensor([[0.0, 1.0], [0.0, 0.0], [5.0, 0.0]])

    losses = contrastive_losses(z, push_between(previous, start), temperature=0.5)
    losses.sum().backward()  # type: ignore[no-untyped-call]

    assert torch.allclose(losses, torch.tensor([0.0, 0.0, 2.0]).exp().add(1.0).log())
    assert torch.equal(z.grad[:2], torch.zeros(2, 2))
    # The second cosine is 0 and shall grow: by hand, -sigmoid(2) / 0.5 along the second unit.
    assert torch.allclose(z.grad[2], torch.tensor([0.0, -2.0 / (1.0 + np.exp(-2.0))], dtype=torch.float32))
