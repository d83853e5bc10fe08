"""Working copies of a module whose tensors lie in one flat vector, so that an SGD step is a handful of operations."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from threading import Lock

import numpy as np
import torch
from torch import nn

from fielding._typing import Floats, Models
from fielding.training.layout import Layout
from fielding.training.torch_module import tensors_of


class Replica:
    """A module, its numbers and their gradients, each as one vector.

    Parameters
    ----------
    module
        Is copied.
    layout
        Its tensors.
    device
        Where the copy lives.

    Attributes
    ----------
    module
        The copy; its parameters are views into ``parameters`` and their gradients into ``gradient``.
    parameters, gradient
        Shape ``(layout.parameter_size,)``.
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
            # A copy: PyTorch cannot express that nobody may write to an array.
            source = torch.tensor(model, device=self.parameters.device)
            pieces = torch.split(source, list(self._layout.sizes))
            for view, piece, shape in zip(self._views, pieces, self._layout.shapes, strict=True):
                view.copy_(piece.view(shape))
            for buffer, first in self._others:
                buffer.copy_(first)
            self.gradient.zero_()

    def arranged(self, numbers: Floats) -> torch.Tensor:
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
        return _flat(self._views)

    def gradient_of_model(self) -> Models:
        """Return the gradients as a new vector in the order of the layout, shape ``(layout.parameter_size,)``."""
        return _flat(self._slopes)


def _flat(views: list[torch.Tensor]) -> Models:
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

    @contextmanager
    def borrowed(self) -> Iterator[Replica]:
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
