"""Samples that stay in the app: a device keeps their positions or keys in a dataset, and asks for what it needs."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Features
from fielding.errors import InputError, echo, error_words
from fielding.runtime.own_code import DeviceNode


class Dataset(Protocol):
    """Samples by number or by key, as a map-style dataset of torch has them: features, or a tuple that begins so."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


OpenDataset: TypeAlias = Callable[[DeviceNode], Dataset]
"""Opens the dataset that the whole numbers of ``load_data`` are positions in, or its texts keys of."""


class References:
    """Samples of a dataset; it is opened when one is first asked for. ``open_dataset`` None: there is no dataset."""

    def __init__(self, open_dataset: OpenDataset | None, node: DeviceNode) -> None:
        self._open, self._node = open_dataset, node
        self._dataset: Dataset | None = None
        self._shape: tuple[int, ...] | None = None

    def check(self, indices: Counts, keys: npt.NDArray[np.bytes_]) -> None:
        """Raise if a position is not in the dataset; of keys only a mapping can tell."""
        if (keys != b"").any():
            dataset: object = self._opened()
            known = dataset if isinstance(dataset, Mapping) else None
            for key in map(bytes.decode, [] if known is None else keys.tolist()):
                if known is not None and key not in known:
                    raise InputError(f"load_data gave the key {echo(key)}, which the dataset does not have")
            return
        n_samples = len(self._opened())
        if indices.size and not 0 <= indices.min() <= indices.max() < n_samples:
            wrong = int(indices.max() if indices.min() >= 0 else indices.min())
            raise InputError(f"load_data gave position {wrong} of a dataset of {n_samples}; give 0 to {n_samples - 1}")

    def gather(self, indices: Counts, keys: npt.NDArray[np.bytes_], shape: tuple[int, ...] | None = None) -> Features:
        """Return samples as models see them, float32, one at least; all have one shape, ``shape`` if it is given.

        One that has a key is asked for by it.
        """
        dataset, found = self._opened(), np.empty(0, dtype=np.float32)
        for at, (position, key) in enumerate(zip(indices.tolist(), keys.tolist(), strict=True)):
            index = key.decode() if key else position
            try:
                sample = dataset[index]
            except Exception as error:  # whatever the user's dataset does
                raise InputError(f"sample {echo(index)} of the dataset cannot be read: {error_words(error)}") from error
            x = np.asarray(sample[0] if isinstance(sample, tuple) else sample)
            shape = x.shape if shape is None else shape
            if x.ndim < 1 or x.shape != shape or x.dtype.kind not in "biuf":
                raise InputError(
                    f"sample {echo(index)} of the dataset is {x.dtype} of shape {x.shape}; give numbers of shape "
                    f"{shape} as of the others"
                )
            if not at:
                found = np.empty((indices.size, *shape), dtype=np.float32)
            found[at] = x
        if not np.isfinite(found).all():
            raise InputError("samples of the dataset hold NaN or infinity; every feature must be a finite number")
        return found

    def shape_of(self, index: Counts, key: npt.NDArray[np.bytes_]) -> tuple[int, ...]:
        """Return the shape of a sample, and so of all."""
        if self._shape is None:
            self._shape = self.gather(index, key).shape[1:]
        return self._shape

    def _opened(self) -> Dataset:
        if self._open is None:
            raise InputError("the device keeps positions in a dataset, but client_app has no dataset; give it again")
        if self._dataset is None:
            self._dataset = self._open(self._node)
        return self._dataset
