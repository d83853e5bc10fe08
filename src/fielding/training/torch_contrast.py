"""The contrastive part of the loss in PyTorch: by hand for stacked dense models, by autograd for modules.

The formulas are those of :mod:`fielding.training.numpy_models`.
"""

from types import TracebackType

import torch
from torch import nn
from torch.nn import functional

from fielding.errors import OptionError
from fielding.training.numpy_models import SHORTEST_SQUARE, Dense, reference_layers
from fielding.training.trainer import Contrast, LocalWork


def push_between(previous: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return the direction of features to leave minus that of features to keep, along the last axis."""
    return previous * _inverse_lengths(previous) - start * _inverse_lengths(start)


def contrastive_losses(features: torch.Tensor, push: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """Return ``-log(s / (s + p))`` of each sample; see :class:`~fielding.training.trainer.Contrast`.

    ``push``: what :func:`push_between` makes of the features under the other two models.
    """
    lean = (push * features * _inverse_lengths(features)).sum(dim=-1)
    return functional.softplus(lean / temperature)


def _inverse_lengths(vectors: torch.Tensor) -> torch.Tensor:
    """Return 1 / length of vectors along the last axis, which stays; 0, and a gradient of 0, for what counts as 0."""
    squares = vectors.square().sum(dim=-1, keepdim=True)
    is_long = squares > SHORTEST_SQUARE
    return torch.where(is_long, squares, 1.0).rsqrt() * is_long


class StackedTorchContrast:
    """The contrastive term of some participants' hidden activations, each against two models of its own."""

    def __init__(self, dense: Dense, work: LocalWork, contrast: Contrast, *, device: torch.device) -> None:
        weight, bias = reference_layers(dense, work, contrast)
        self._weight, self._bias = torch.tensor(weight, device=device), torch.tensor(bias, device=device)
        self._temperature = contrast.temperature
        strength = contrast.mu / contrast.temperature * contrast.has_previous[:, None, None]
        self._strength = torch.tensor(strength, dtype=torch.float32, device=device)

    def gradient(self, x: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
        """Return the gradient of each participant's mean term with respect to its activations, in their shape."""
        previous, start = torch.baddbmm(self._bias, x, self._weight).relu_().chunk(2, dim=2)
        push, inverse = push_between(previous, start), _inverse_lengths(active)
        direction = active * inverse
        lean = (push * direction).sum(dim=2, keepdim=True)
        share = torch.sigmoid(lean / self._temperature)
        push -= lean * direction
        return push.mul_(share * inverse * (self._strength / x.shape[1]))


class FeatureTap:
    """Remembers, within its block, what goes into the last ``torch.nn.Linear`` of a module that runs.

    The last that runs, not the last that was made: a module may keep its layers in any order.

    ``wanted_by``: what the features are for, as messages say it.
    """

    def __init__(self, module: nn.Module, *, name: str, wanted_by: str = "contrast") -> None:
        self._module = module
        self._name = name
        self._wanted_by = wanted_by
        self._advice = f"let the module end in a torch.nn.Linear on trained features, or leave {wanted_by} out"
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        self._input: torch.Tensor | None = None

    def __enter__(self) -> "FeatureTap":
        layers = [layer for layer in self._module.modules() if isinstance(layer, nn.Linear)]
        self._hooks = [layer.register_forward_pre_hook(self._remember) for layer in layers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._input = None

    def features(self, n_samples: int) -> torch.Tensor:
        """Return the features of the samples that the module saw last, shape ``(n_samples, width)``; forget them.

        Raises if no linear layer ran, its input is not a row or more per sample, or in training does not depend on
        anything that is trained.
        """
        found, self._input = self._input, None
        if found is None:
            raise OptionError(
                f"{self._wanted_by} needs a torch.nn.Linear and model {self._name} has none; {self._advice}"
            )
        if found.ndim < 2 or found.shape[0] != n_samples:
            raise OptionError(
                f"{self._wanted_by} needs features per sample and the last torch.nn.Linear of model {self._name} gets "
                f"{tuple(found.shape)} for {n_samples} samples; {self._advice}"
            )
        if torch.is_grad_enabled() and not found.requires_grad:
            raise OptionError(
                f"{self._wanted_by} needs features that are trained and nothing before the last torch.nn.Linear of "
                f"model {self._name} is; {self._advice}"
            )
        return found.flatten(1)

    def _remember(self, _layer: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self._input = inputs[0] if inputs else None


class ModuleContrast:
    """The contrastive term of one participant's module.

    Without a ``push``, that of all steps, there is no term. Features are looked for all the same, so that a module
    without any is refused at once, and not when the first participant comes back.
    """

    def __init__(self, contrast: Contrast, tap: FeatureTap, *, push: torch.Tensor | None) -> None:
        self._contrast = contrast
        self._tap = tap
        self._push = push

    def loss(self, losses: torch.Tensor, *, step: int) -> torch.Tensor:
        """Return the loss of the batch that the module saw last, from the losses of its samples without the term."""
        features = self._tap.features(losses.shape[0])
        if self._push is None:
            return losses.mean()
        terms = contrastive_losses(features, self._push[step], temperature=self._contrast.temperature)
        return losses.mean() + self._contrast.mu * terms.mean()
