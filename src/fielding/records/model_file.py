"""Models as safetensors files with the names of a state dict, and models to start from."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Models
from fielding.atomic import replaced_file
from fielding.errors import CheckpointError, FileFormatError, InputError
from fielding.json_text import parse_json
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.training.label_mix import LABEL_MIX
from fielding.training.layout import Layout

SUFFIX = ".safetensors"


INPUT_KEYS = ("classes", "input_shape", "inputs")
"""What of a run's manifest goes into the metadata of a model, each as JSON: what it needs to be used elsewhere."""


def write_model(
    model: Models,
    layout: Layout,
    path: Path,
    manifest: Mapping[str, Json] | None = None,
    about: Mapping[str, Json] | None = None,
) -> None:
    """Write a model as named tensors, whole or not at all; without the label mix that it may carry for serving.

    ``manifest``: of its run; classes, and how raw features become those that the model takes, go into the metadata.
    ``about``: of a version that may be served again what else goes there; then the label mix does, too.
    """
    from safetensors.numpy import save

    if path.suffix != SUFFIX:
        raise InputError(f"{path.name} is no name for a model; end it with {SUFFIX}")
    # safetensors writes views such as x.T without a word in the wrong order.
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in layout.tensors(model).items()}
    mix = tensors.pop(LABEL_MIX, None)
    told: dict[str, Json] = {name: manifest[name] for name in INPUT_KEYS if manifest and name in manifest}
    if about is not None:
        told |= {**about, **({} if mix is None else {LABEL_MIX: mix.tolist()})}
    with replaced_file(path) as file:
        file.write(save(tensors, metadata={name: json.dumps(value) for name, value in told.items()} or None))


def read_model(path: Path, layout: Layout) -> Models:
    """Return the model to start from in a checkpoint, a run's folder or a safetensors file.

    Of a run with several clusters it is the mean of their models, by the number of their clients. If the layout has a
    label mix and the model there has none, it is even; if it is the other way round, it is left out. Of a
    version the label mix is metadata of the file.

    InputError if the model there is of another shape.
    """
    if path.suffix == SUFFIX:
        return _read_tensors(path, layout)
    checkpoint = load_run(newest_checkpoint(path) if path.is_dir() else path)
    if _without_mix(checkpoint.layout) != _without_mix(layout):
        raise InputError(
            f"{path} holds a model of {checkpoint.layout.size} numbers in {len(checkpoint.layout.names)} tensors, but "
            f"this config makes one of {layout.size} in {len(layout.names)}; use the same model and classes"
        )
    return layout.flat(_with_mix_of(layout, checkpoint.layout.tensors(checkpoint.mean_model())))


def _without_mix(layout: Layout) -> Layout:
    """Return what the numbers of a model mean without the label mix, which is a buffer."""
    kept = [pair for pair in zip(layout.names, layout.shapes, strict=True) if pair[0] != LABEL_MIX]
    return replace(layout, names=tuple(name for name, _ in kept), shapes=tuple(shape for _, shape in kept))


def _with_mix_of(layout: Layout, tensors: dict[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[np.float32]]:
    """Return tensors with a label mix if a layout has one, an even one if need be, and without if it has none."""
    if LABEL_MIX not in layout.names:
        return {name: tensor for name, tensor in tensors.items() if name != LABEL_MIX}
    shape = layout.shapes[layout.names.index(LABEL_MIX)]
    return {LABEL_MIX: np.full(shape, 1.0 / shape[0], dtype=np.float32), **tensors}


def _read_tensors(path: Path, layout: Layout) -> Models:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            mix = (file.metadata() or {}).get(LABEL_MIX)
        if mix is not None:
            tensors[LABEL_MIX] = np.array(parse_json(mix), dtype=np.float32)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FileFormatError(f"{path} is no safetensors file: {error}") from error
    try:
        exact = {name: tensor.astype(np.float32) for name, tensor in tensors.items()}
        model = layout.flat(_with_mix_of(layout, exact))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not np.isfinite(model).all():
        raise InputError(f"{path} holds a model with NaN or infinity; start from another one")
    return model
