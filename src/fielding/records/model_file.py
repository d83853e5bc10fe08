"""Models as safetensors files with the names of a state dict, and models to start from."""

from pathlib import Path

import numpy as np

from fielding._typing import Models
from fielding.atomic import replaced_file
from fielding.errors import CheckpointError, FileFormatError, InputError
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.training.layout import Layout

SUFFIX = ".safetensors"


def write_model(model: Models, layout: Layout, path: Path) -> None:
    """Write a model as named tensors, whole or not at all."""
    from safetensors.numpy import save

    if path.suffix != SUFFIX:
        raise InputError(f"{path.name} is no name for a model; end it with {SUFFIX}")
    # safetensors writes views such as x.T without a word in the wrong order.
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in layout.tensors(model).items()}
    with replaced_file(path) as file:
        file.write(save(tensors))


def read_model(path: Path, layout: Layout) -> Models:
    """Return the model to start from in a checkpoint, a run's folder or a safetensors file.

    Of a run with several clusters it is the mean of their models, by the number of their clients.

    Raises
    ------
    InputError
        If the model there is of another shape.
    """
    if path.suffix == SUFFIX:
        return _read_tensors(path, layout)
    checkpoint = load_run(newest_checkpoint(path) if path.is_dir() else path)
    if checkpoint.layout != layout:
        raise InputError(
            f"{path} holds a model of {checkpoint.layout.size} numbers in {len(checkpoint.layout.names)} tensors, but "
            f"this config makes one of {layout.size} in {len(layout.names)}; use the same model and classes"
        )
    return checkpoint.mean_model()


def _read_tensors(path: Path, layout: Layout) -> Models:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FileFormatError(f"{path} is no safetensors file: {error}") from error
    try:
        model = layout.flat({name: tensor.astype(np.float32) for name, tensor in tensors.items()})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not np.isfinite(model).all():
        raise InputError(f"{path} holds a model with NaN or infinity; start from another one")
    return model
