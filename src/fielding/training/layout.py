"""What the numbers of a flat model vector mean: names and shapes of its tensors."""

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Models
from fielding.errors import CheckpointError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Names and shapes of the tensors of a model, in the order of the flat vector.

    ``names`` are keys of the state dict: floating parameters first, then floating buffers. Server optimisers touch only
    the ``n_parameters`` first.

    Examples
    --------
    >>> layout = Layout(names=("weight", "bias"), shapes=((2, 3), (2,)), n_parameters=2)
    >>> layout.size
    8
    >>> parts = layout.tensors(np.arange(8, dtype=np.float32))
    >>> parts["bias"].tolist(), layout.flat(parts).tolist() == list(range(8))
    ([6.0, 7.0], True)
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    n_parameters: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements of each tensor."""
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(self.sizes)

    @property
    def parameter_size(self) -> int:
        """Length of its part that holds parameters."""
        return sum(self.sizes[: self.n_parameters])

    def tensors(self, model: Models) -> dict[str, npt.NDArray[np.float32]]:
        """Return named views into a flat vector, or into rows of them with one more leading dimension."""
        if model.shape[-1] != self.size:
            raise InputError(f"a model has {model.shape[-1]} numbers; this one needs {self.size}")
        parts, start = {}, 0
        for name, shape, size in zip(self.names, self.shapes, self.sizes, strict=True):
            parts[name] = model[..., start : start + size].reshape((*model.shape[:-1], *shape))
            start += size
        return parts

    def flat(self, tensors: dict[str, npt.NDArray[np.float32]]) -> Models:
        """Return the flat vector of named tensors; names and shapes must be those of the layout."""
        if tensors.keys() != set(self.names):
            odd = sorted(tensors.keys() ^ set(self.names))
            raise InputError(f"tensor {odd[0]!r} is missing or unknown; the model has {', '.join(self.names)}")
        for name, shape in zip(self.names, self.shapes, strict=True):
            if tensors[name].shape != shape:
                raise InputError(f"tensor {name!r} has shape {tensors[name].shape}; it must be {shape}")
        return np.concatenate([np.ravel(tensors[name]) for name in self.names]).astype(np.float32)

    def record(self) -> dict[str, Json]:
        """Return the layout as JSON would hold it."""
        return {
            "names": list(self.names),
            "shapes": [list(shape) for shape in self.shapes],
            "n_parameters": self.n_parameters,
        }


def layout_from(record: object) -> Layout:
    """Return the layout that a record describes."""
    try:
        if not isinstance(record, dict):
            raise TypeError(type(record).__name__)
        return Layout(
            names=tuple(str(name) for name in record["names"]),
            shapes=tuple(tuple(int(n) for n in shape) for shape in record["shapes"]),
            n_parameters=int(record["n_parameters"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint describes no model ({error!r})") from error
