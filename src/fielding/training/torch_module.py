"""PyTorch modules: built with a seed, looked at before anything is trained, and their numbers as one vector."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import prod
from threading import Lock

import numpy as np
import torch
from torch import nn

from fielding._typing import Features, Floats, Models
from fielding.config.parts import imported_function
from fielding.errors import OptionError, echo, error_words
from fielding.rng import stream
from fielding.training.factory import call_factory
from fielding.training.layout import Layout
from fielding.training.torch_models import MODULES, ModuleFactory, module_shape

_PROBE_SAMPLES = 2
_PROBE_SEED = 1
_AT_ONCE = 256  # samples that are predicted at a time


@contextmanager
def draw_by(seed: int) -> Iterator[None]:
    """Let PyTorch draw the numbers of a first model by a seed, within the block."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "initial model").integers(2**63)))
        yield


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blueprint:
    """What is to be known of an architecture; ``input_shape`` is that of one sample, channels first."""

    factory: ModuleFactory
    name: str
    input_shape: tuple[int, ...]
    n_classes: int

    def build(self, seed: int) -> nn.Module:
        """Return a new module in float32 on the CPU, the same for the same seed.

        Raises if the factory fails, returns no module, or the module has the wrong output or nothing to train.
        """
        with draw_by(seed):
            module = call_factory(self.factory, name=self.name, input_shape=self.input_shape, n_classes=self.n_classes)
            if not isinstance(module, nn.Module):
                raise OptionError(f"model {self.name} returned {echo(module)}; it must return a torch.nn.Module")
            module = module.float()
            with torch.no_grad():  # on two samples of zeros; lazy layers learn their sizes here
                self._checked_scores(module.eval(), torch.zeros(_PROBE_SAMPLES, *self.input_shape))
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise OptionError(f"model {self.name} has no parameters that take gradients; there is nothing to train")
        return module

    def draws_numbers(self, module: nn.Module) -> bool:
        """Return whether a module draws numbers from PyTorch's generator, as dropout does; it stays as it was.

        Raises if it fails in training, or its output there is wrong or independent of its parameters.
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

    def _checked_scores(self, module: nn.Module, features: torch.Tensor) -> torch.Tensor:
        """Return what a module makes of features, or raise if it is not what training needs."""
        mode = " in training" if module.training else ""
        wanted = (features.shape[0], self.n_classes)
        try:
            scores = module(features)
        except Exception as error:
            raise OptionError(
                f"model {self.name} fails{mode} on features of shape {tuple(features.shape)}: {error_words(error)}"
            ) from error
        if not isinstance(scores, torch.Tensor) or tuple(scores.shape) != wanted:
            got = tuple(scores.shape) if isinstance(scores, torch.Tensor) else echo(scores)
            raise OptionError(
                f"model {self.name} returns {got}{mode} for {features.shape[0]} samples; it must return {wanted}"
            )
        return scores


def module_with(
    tensors: Mapping[str, Floats], *, name: str, hidden: int, input_shape: tuple[int, ...], n_classes: int
) -> nn.Module:
    """Return a module of the model that a config names, with these numbers, ready to predict.

    ``name``: one of the built-in models, or ``module:function``. ``input_shape``: of a sample as a pool holds it; the
    module takes images channels first, and of dense models flat samples.
    """
    if name in ("mlp", "softmax"):
        n_inputs = prod(input_shape)
        layers = [nn.Linear(n_inputs, n_classes)]
        if name == "mlp":
            layers = [nn.Linear(n_inputs, hidden), nn.ReLU(), nn.Linear(hidden, n_classes)]  # type: ignore[list-item]
        module: nn.Module = nn.Sequential(*layers)
    else:
        own = MODULES.get(name) or imported_function(name, key="model.factory")
        module = Blueprint(factory=own, name=name, input_shape=module_shape(input_shape), n_classes=n_classes).build(0)
    state = {key: torch.from_numpy(np.array(value)) for key, value in tensors.items()}
    module.load_state_dict(state, strict=False)  # counters of BatchNorm are not among them
    return module.eval()


def class_scores(module: nn.Module, x: Features, *, is_dense: bool) -> Features:
    """Return scores of classes before softmax; ``x``: samples as a pool holds them, flat for a dense model."""
    shape = (prod(x.shape[1:]),) if is_dense else module_shape(x.shape[1:])
    images = np.moveaxis(x, 3, 1) if x.ndim == 4 and not is_dense else x
    parts = np.ascontiguousarray(images, dtype=np.float32).reshape((-1, *shape))
    with torch.inference_mode():
        found = [
            module(torch.from_numpy(parts[start : start + _AT_ONCE])).numpy()
            for start in range(0, len(parts), _AT_ONCE)
        ]
    return np.concatenate(found)


def layout_of(module: nn.Module) -> Layout:
    """Return the tensors of a module: parameters that take gradients, then what only rides along.

    The latter are frozen parameters and floating buffers. Whole-numbered buffers (the counters of BatchNorm) and
    buffers outside the state dict are not in the vector: every participant finds them as the factory made them.
    """
    names = list(_trained_tensors(module)) + list(_carried_tensors(module))
    tensors = tensors_of(module)
    return Layout(
        names=tuple(names),
        shapes=tuple(tuple(tensors[name].shape) for name in names),
        n_parameters=len(_trained_tensors(module)),
    )


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors of :func:`layout_of` themselves, in its order."""
    return {**_trained_tensors(module), **_carried_tensors(module)}


def _trained_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in module.named_parameters() if tensor.requires_grad}


def _carried_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    frozen = {name: tensor for name, tensor in module.named_parameters() if not tensor.requires_grad}
    kept = module.state_dict().keys()
    buffers = {name: tensor for name, tensor in module.named_buffers() if name in kept and tensor.is_floating_point()}
    return {**frozen, **buffers}


class Replica:
    """A module, its numbers and their gradients, each as one vector.

    Parameters of ``module`` are views into ``parameters`` and their gradients into ``gradient``.
    """

    def __init__(self, module: nn.Module, layout: Layout, *, device: torch.device) -> None:
        self.module = deepcopy(module).to(device)
        self._layout = layout
        numbers = torch.zeros(layout.size, device=device)
        self.parameters = numbers[: layout.parameter_size]
        self.gradient = torch.zeros_like(self.parameters)
        self._views: list[torch.Tensor] = []
        self._slopes: list[torch.Tensor] = []
        start = 0
        for place, (tensor, size) in enumerate(zip(tensors_of(self.module).values(), layout.sizes, strict=True)):
            view = _view(numbers[start : start + size], tensor.shape)
            tensor.data = view
            if place < layout.n_parameters:
                tensor.grad = _view(self.gradient[start : start + size], tensor.shape)
                self._slopes.append(tensor.grad)
            self._views.append(view)
            start += size
        moved = {view.data_ptr() for view in self._views}
        self._others = [(buffer, buffer.clone()) for buffer in self.module.buffers() if buffer.data_ptr() not in moved]

    def load(self, model: Models) -> None:
        """Write a flat vector into the module; buffers outside the vector are as the factory made them."""
        with torch.no_grad():
            # A copy: PyTorch has no read-only arrays.
            source = torch.tensor(model, device=self.parameters.device)
            pieces = torch.split(source, list(self._layout.sizes))
            for view, piece, shape in zip(self._views, pieces, self._layout.shapes, strict=True):
                view.copy_(piece.view(shape))
            for buffer, first in self._others:
                buffer.copy_(first)
            self.gradient.zero_()

    def arrange(self, numbers: Floats) -> torch.Tensor:
        """Return the parameters of a flat vector in the order of ``parameters``, where kernels lie differently."""
        end, sizes = self.parameters.numel(), list(self._layout.sizes[: self._layout.n_parameters])
        source = torch.tensor(numbers[:end], dtype=torch.float32, device=self.parameters.device)
        target = torch.empty_like(source)
        places = zip(torch.split(target, sizes), torch.split(source, sizes), self._layout.shapes, strict=False)
        for room, piece, shape in places:
            _view(room, torch.Size(shape)).copy_(piece.view(shape))
        return target

    def model(self) -> Models:
        """Return the numbers of the module as a new flat vector."""
        return _flatten(self._views)

    def gradient_of_model(self) -> Models:
        """Return the gradients as a new vector in the order of the layout, shape ``(layout.parameter_size,)``."""
        return _flatten(self._slopes)


def _flatten(views: list[torch.Tensor]) -> Models:
    with torch.no_grad():
        vector = torch.cat([view.reshape(-1) for view in views])
    return np.asarray(vector.cpu().numpy())


def _view(numbers: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return a piece of a vector in a shape; kernels of convolutions with their channels last, which is faster."""
    if len(shape) != 4:
        return numbers.view(shape)
    n_out, n_in, height, width = shape
    return numbers.view(n_out, height, width, n_in).permute(0, 3, 1, 2)


class Replicas:
    """Replicas to borrow: as many as there are borrowers at a time, whichever threads they are in."""

    def __init__(self, module: nn.Module, layout: Layout, *, device: torch.device) -> None:
        self._module = module
        self._layout = layout
        self._device = device
        self._lock = Lock()
        self._idle: list[Replica] = []

    def __reduce__(self) -> "tuple[partial[Replicas], tuple[nn.Module, Layout]]":
        """Go to another process without the replicas, which are made there anew."""
        return partial(Replicas, device=self._device), (self._module, self._layout)

    @contextmanager
    def borrow(self) -> Iterator[Replica]:
        """Lend a replica for the block; its numbers are those of its last borrower."""
        with self._lock:
            replica = self._idle.pop() if self._idle else None
        if replica is None:
            replica = Replica(self._module, self._layout, device=self._device)
        try:
            yield replica
        finally:
            with self._lock:
                self._idle.append(replica)
