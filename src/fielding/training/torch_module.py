"""Modules that users bring: found by name, built with a seed, and looked at before anything is trained."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import nn

from fielding.errors import FieldingError, OptionError, echo
from fielding.rng import stream
from fielding.training.layout import Layout
from fielding.training.torch_models import ModuleFactory

_PROBE_SAMPLES = 2
_PROBE_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blueprint:
    """What is to be known of an architecture.

    Parameters
    ----------
    factory
        Makes modules.
    name
        What users call it.
    input_shape
        Shape of one sample as the module sees it, channels first.
    n_classes
        Scores per sample.
    """

    factory: ModuleFactory
    name: str
    input_shape: tuple[int, ...]
    n_classes: int

    def built(self, seed: int) -> nn.Module:
        """Return a new module in float32 on the CPU, the same for the same seed.

        Raises
        ------
        OptionError
            If the factory fails, returns no module, or the module has the wrong output or nothing to train.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "initial model").integers(2**63)))
            module = self._made()
            self._check_output(module)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise OptionError(f"model {self.name} has no parameters that take gradients; there is nothing to train")
        return module

    def _made(self) -> nn.Module:
        try:
            module = self.factory(input_shape=self.input_shape, n_classes=self.n_classes)
        except FieldingError:
            raise
        except Exception as error:
            raise OptionError(f"model {self.name} failed when called as {self._call()}: {_line(error)}") from error
        if not isinstance(module, nn.Module):
            raise OptionError(f"model {self.name} returned {echo(module)}; it must return a torch.nn.Module")
        return module.float()

    def draws_numbers(self, module: nn.Module) -> bool:
        """Return whether a module draws numbers from PyTorch's generator, as dropout does; it stays as it was.

        Raises
        ------
        OptionError
            If the module fails in training, or its output there is wrong or independent of its parameters.
        """
        # Not zeros, on which noise may depend; not below 0, nor 1 and above, as features may be indices of a table.
        generator = torch.Generator().manual_seed(_PROBE_SEED)
        features = torch.rand(_PROBE_SAMPLES, *self.input_shape, generator=generator)
        copy = deepcopy(module)
        with torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            with torch.no_grad():
                self._checked_scores(copy.eval(), features)
            with torch.enable_grad():
                scores = self._checked_scores(copy.train(), features)
            is_random = not torch.equal(before, torch.get_rng_state())
        if not scores.requires_grad:
            raise OptionError(f"model {self.name} returns scores without gradients; do not detach them in training")
        return is_random

    def _check_output(self, module: nn.Module) -> None:
        """Score two samples of zeros; lazy layers learn their sizes here."""
        with torch.no_grad():
            self._checked_scores(module.eval(), torch.zeros(_PROBE_SAMPLES, *self.input_shape))

    def _checked_scores(self, module: nn.Module, features: torch.Tensor) -> torch.Tensor:
        """Return what a module makes of features, or raise if it is not what training needs."""
        mode = " in training" if module.training else ""
        wanted = (features.shape[0], self.n_classes)
        try:
            scores = module(features)
        except Exception as error:
            raise OptionError(
                f"model {self.name} fails{mode} on features of shape {tuple(features.shape)}: {_line(error)}"
            ) from error
        if not isinstance(scores, torch.Tensor) or tuple(scores.shape) != wanted:
            got = tuple(scores.shape) if isinstance(scores, torch.Tensor) else echo(scores)
            raise OptionError(
                f"model {self.name} returns {got}{mode} for {features.shape[0]} samples; it must return {wanted}"
            )
        return scores

    def _call(self) -> str:
        return f"factory(input_shape={self.input_shape}, n_classes={self.n_classes})"


def _line(error: Exception) -> str:
    """Return an error in one line."""
    return echo(f"{type(error).__name__}: {error}").strip("'\"")


def layout_of(module: nn.Module) -> Layout:
    """Return the tensors of a module: parameters that take gradients, then what only rides along.

    The latter are frozen parameters and floating buffers. Whole-numbered buffers (the counters of BatchNorm) and
    buffers outside the state dict are not in the vector: every participant finds them as the factory made them.
    """
    names = list(_trained(module)) + list(_carried(module))
    tensors = tensors_of(module)
    return Layout(
        names=tuple(names),
        shapes=tuple(tuple(tensors[name].shape) for name in names),
        n_parameters=len(_trained(module)),
    )


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors of :func:`layout_of` themselves, in its order."""
    return {**_trained(module), **_carried(module)}


def _trained(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}


def _carried(module: nn.Module) -> dict[str, torch.Tensor]:
    frozen = {name: tensor for name, tensor in module.named_parameters() if not tensor.requires_grad}
    kept = module.state_dict().keys()
    buffers = {name: tensor for name, tensor in module.named_buffers() if name in kept and tensor.is_floating_point()}
    return {**frozen, **buffers}
