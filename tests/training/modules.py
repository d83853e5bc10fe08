"""Modules as users bring them, good and bad; imported by name in the tests of the PyTorch trainer."""

import torch
from torch import nn


def normalised(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with BatchNorm, for images or vectors."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.Linear(n_inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, n_classes))


def convolved(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with a convolution and BatchNorm."""
    return nn.Sequential(
        nn.Conv2d(input_shape[0], 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, n_classes),
    )


def dropped(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with dropout."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(n_inputs, n_classes))


def lazy(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that learns its input size from the first batch."""
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n_classes))


def counting(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network whose BatchNorm averages over all batches seen, so that its counter matters."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(n_inputs, momentum=None), nn.Linear(n_inputs, n_classes))


def half_frozen(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network whose first layer takes no gradients."""
    n_inputs = int(torch.Size(input_shape).numel())
    first = nn.Linear(n_inputs, 8).requires_grad_(False)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(8, n_classes))


def all_frozen(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that cannot be trained."""
    return half_frozen(input_shape=input_shape, n_classes=n_classes).requires_grad_(False)


def one_class_too_many(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with the wrong number of scores."""
    return normalised(input_shape=input_shape, n_classes=n_classes + 1)


def two_outputs(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a module that returns no tensor."""

    class Two(nn.Linear):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
            return x, x

    return Two(1, n_classes)


def of_another_size(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that other samples would suit."""
    return nn.Linear(99, n_classes)


def not_a_module(*, input_shape: tuple[int, ...], n_classes: int) -> str:
    """Return something else."""
    return "a module"


def of_other_words(shape: tuple[int, ...]) -> nn.Module:
    """Take other arguments than those that are given."""
    return nn.Linear(shape[0], 2)


NOT_A_FUNCTION = 3
