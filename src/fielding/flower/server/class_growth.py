"""A longer class list for a run that goes on: last layers and label shares of its checkpoint grow with it."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding.errors import InputError
from fielding.methods.method import Method
from fielding.records.run_checkpoint import DRIVER, METHOD, RunCheckpoint
from fielding.training.head import NO_HEAD, head_size
from fielding.training.layout import Layout

GROWING = ("fielding", "global", "flash")  # methods whose state is known to grow
_MODELS = (f"{METHOD}memory/", f"{METHOD}common", f"{METHOD}slow", f"{METHOD}pace/", f"{METHOD}retired/models")
"""What the names of arrays that hold models, or what a server remembers of each of their numbers, begin with."""
_SHARES = f"{DRIVER}inbox.waiting_rows"


def check_growth(method: str, *, has_own_model: bool, is_label: bool) -> None:
    """Raise if the class list of a run cannot become longer."""
    why = ""
    if has_own_model:
        why = "the model is your own (first_model), and its last layer cannot grow"
    elif method not in GROWING:
        why = f"the method {method} cannot take it; {' and '.join((', '.join(GROWING[:-1]), GROWING[-1]))} can"
    elif not is_label:
        why = 'devices describe their windows by more than labels; only coordinator.representation = "label" grows'
    if why:
        raise InputError(f"classes of the run config may not change here: {why}; begin anew in another folder")


def grow_classes(checkpoint: RunCheckpoint, layout: Layout, n_classes: int) -> RunCheckpoint:
    """Return the checkpoint of a run with models of a layout that has more classes in its last layer.

    A new class begins with weights of zero and the lowest bias of the others, so that what a model says of those hardly
    changes; it has a share of zero in all label shares, and the server remembers nothing of its numbers.

    Raises
    ------
    InputError
        If the layouts differ by more than rows of the last layer.
    """
    before = checkpoint.layout
    n_before = before.shapes[before.n_parameters - 1][0] if head_size(layout, n_classes) else 0
    grown = tuple(
        (n_classes, *shape[1:]) if shape[:1] == (n_before,) and shape != wanted else shape
        for shape, wanted in zip(before.shapes, layout.shapes, strict=False)
    )
    if not n_before or before.names != layout.names or grown != layout.shapes:
        raise InputError(f"models cannot take a longer class list: {NO_HEAD}; begin anew in another folder")

    def grow(rows: npt.NDArray[np.generic], *, is_model: bool) -> npt.NDArray[np.float32]:
        tensors = before.tensors(rows.astype(np.float32))
        bias = before.names[before.n_parameters - 1]
        parts = []
        for name, shape in zip(layout.names, layout.shapes, strict=True):
            old = tensors[name]
            new = np.zeros((*rows.shape[:-1], *shape), dtype=np.float32)
            if is_model and name == bias and old.shape != new.shape:
                new[...] = old.min(axis=-1, keepdims=True)
            new[tuple(slice(0, size) for size in old.shape)] = old
            parts.append(new.reshape((*rows.shape[:-1], -1)))
        return np.concatenate(parts, axis=-1)

    arrays = dict(checkpoint.arrays)
    for name, array in checkpoint.arrays.items():
        if name.startswith(_MODELS) and array.shape[-1:] == (before.size,):
            is_model = "memory/" not in name and "common/" not in name and "pace/" not in name
            arrays[name] = grow(array, is_model=is_model)
    if arrays.get(_SHARES, np.empty((0, 0))).shape[1] == n_before:
        arrays[_SHARES] = np.pad(arrays[_SHARES], ((0, 0), (0, n_classes - n_before)))
    models = grow(checkpoint.models, is_model=True)
    return replace(checkpoint, layout=layout, models=models, arrays={**arrays, "models": models})


def grow_labels(method: Method, n_classes: int) -> None:
    """Let the coordinator of a method, if it has one, know of a longer class list."""
    coordinator = getattr(method, "coordinator", None)
    if coordinator is not None and 0 < max(coordinator.registry.label_widths, default=0) < n_classes:
        coordinator.grow_labels(n_classes)
