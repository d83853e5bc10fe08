"""The model that a run begins with if it is the user's own: kept in the run folder, since nobody can draw it again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fielding._typing import Models
from fielding.errors import CheckpointError, InputError
from fielding.flower.own_models import named_arrays, parameter_names
from fielding.flower.samples import AnyModel, Tensors
from fielding.records.container import Contents, read_contents, write_contents
from fielding.training.layout import Layout, layout_from

FirstModel: TypeAlias = Callable[[], AnyModel]
"""Returns the model that training starts from: arrays by name, or a torch module."""
FILE, KIND = "first_model.ckpt", "first model"


def own_first_model(first_model: FirstModel) -> tuple[Models, Layout]:
    """Return the first model of the user's own code, parameters before anything else in it, or raise."""
    given = first_model()
    tensors = named_arrays(given, "first_model")
    parameters = parameter_names(given, tensors)
    names = tuple(sorted(tensors, key=lambda name: name not in parameters))
    for name in names:
        if not np.isfinite(tensors[name]).all():
            raise InputError(f"{name!r} in the model that first_model gave holds NaN or infinity; begin with numbers")
    layout = Layout(
        names=names,
        shapes=tuple(tensors[name].shape for name in names),
        n_parameters=sum(name in parameters for name in names),
    )
    return layout.flat(tensors), layout


def kept_first_model(first_model: FirstModel, folder: Path, *, is_begun: bool) -> FirstModel:
    """Return what gives the model that the run in a folder began with, or begins with.

    Parameters
    ----------
    first_model
        Draws one, another one at every call for all we know.
    folder
        Of the run.
    is_begun
        Whether it goes on: then the model that lies in the folder counts.
    """

    def kept() -> AnyModel:
        path = folder / FILE
        if is_begun and path.exists():
            return _read(path)
        model, layout = own_first_model(first_model)
        values = {"layout": layout.record()}
        write_contents(Contents(values=values, arrays={"model": model}, progress={}, kind=KIND), path)
        return _Kept(model=model, layout=layout)

    return kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    """A model that tells of itself what a torch module does."""

    model: Models
    layout: Layout

    def state_dict(self) -> Tensors:
        return self.layout.tensors(self.model)

    def named_parameters(self) -> Iterator[tuple[str, object]]:
        return iter(list(self.state_dict().items())[: self.layout.n_parameters])


def _read(path: Path) -> _Kept:
    contents = read_contents(path)
    model = contents.arrays.get("model")
    if contents.kind != KIND or model is None:
        raise CheckpointError(f"{path} holds no first model of a run; begin anew in another folder")
    return _Kept(model=model.astype(np.float32), layout=layout_from(contents.values.get("layout")))
