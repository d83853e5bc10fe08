"""Samples that stay in the app: a device keeps their positions in a dataset, and asks for those that it needs."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from fielding._typing import Counts, Features
from fielding.errors import InputError, error_words
from fielding.runtime.own_code import DeviceNode


class Dataset(Protocol):
    """Samples by number, as a map-style dataset of torch has them: features, or a tuple that begins with them."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


OpenDataset: TypeAlias = Callable[[DeviceNode], Dataset]
"""Opens the dataset that the whole numbers of ``load_data`` are positions in."""


class References:
    """Samples of a dataset; it is opened when one is first asked for. ``open_dataset`` None: there is no dataset."""

    def __init__(self, open_dataset: OpenDataset | None, node: DeviceNode) -> None:
        self._open, self._node = open_dataset, node
        self._dataset: Dataset | None = None
        self._shape: tuple[int, ...] | None = None

    def check(self, indices: Counts) -> None:
        """Raise if a position is not in the dataset."""
        n_samples = len(self._opened())
        if indices.size and not 0 <= indices.min() <= indices.max() < n_samples:
            wrong = int(indices.max() if indices.min() >= 0 else indices.min())
            raise InputError(f"load_data gave position {wrong} of a dataset of {n_samples}; give 0 to {n_samples - 1}")

    def gather(self, indices: Counts, shape: tuple[int, ...] | None = None) -> Features:
        """Return samples as models see them, float32, one at least; all have one shape, ``shape`` if it is given."""
        dataset, found = self._opened(), np.empty(0, dtype=np.float32)
        for at, index in enumerate(indices.tolist()):
            try:
                sample = dataset[index]
            except Exception as error:  # whatever the user's dataset does
                raise InputError(f"sample {index} of the dataset cannot be read: {error_words(error)}") from error
            x = np.asarray(sample[0] if isinstance(sample, tuple) else sample)
            shape = x.shape if shape is None else shape
            if x.ndim < 1 or x.shape != shape or x.dtype.kind not in "biuf":
                raise InputError(
                    f"sample {index} of the dataset is {x.dtype} of shape {x.shape}; give numbers of shape {shape} as "
                    "of the others"
                )
            if not at:
                found = np.empty((indices.size, *shape), dtype=np.float32)
            found[at] = x
        if not np.isfinite(found).all():
            raise InputError("samples of the dataset hold NaN or infinity; every feature must be a finite number")
        return found

    def shape_of(self, index: int) -> tuple[int, ...]:
        """Return the shape of a sample, and so of all."""
        if self._shape is None:
            self._shape = self.gather(np.array([index])).shape[1:]
        return self._shape

    def _opened(self) -> Dataset:
        if self._open is None:
            raise InputError("the device keeps positions in a dataset, but client_app has no dataset; give it again")
        if self._dataset is None:
            self._dataset = self._open(self._node)
        return self._dataset
