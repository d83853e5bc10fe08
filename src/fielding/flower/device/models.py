"""Models that a device keeps: the one that everybody sees samples with, and the one that serves it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Models, Vector
from fielding.errors import CheckpointError
from fielding.flower.device.state import FOREIGN, KIND, read_whole, set_aside
from fielding.flower.wire.fields import Fields, checked_layout
from fielding.flower.wire.orders import EvaluateOrder, SharedView, TrainOrder
from fielding.records.container import Contents, write_contents
from fielding.training.layout import Layout

SHARED, SERVED = "shared.fielding", "served.fielding"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldModel:
    """A model on the disk of a device.

    Parameters
    ----------
    key
        Which one it is: of a shared model its key, of one that serves the round at whose end it did.
    model, layout, settings
        As in an order.
    reference
        Of a shared model what windows are compared with; None: it has not come.
    """

    key: str
    model: Models
    layout: Layout
    settings: Mapping[str, Json]
    reference: Vector | None = None


def shared_here(folder: Path, view: SharedView | None) -> HeldModel | None:
    """Keep what an order brings of the shared model, and return all of it; None if the device lacks the model.

    Parameters
    ----------
    folder
        Of the run.
    view
        What the order says of it.
    """
    held = _read(folder, SHARED)
    if view is None:
        return held
    if view.model is not None and view.layout is not None:
        new = HeldModel(
            key=view.key, model=view.model, layout=view.layout, settings=view.settings, reference=view.reference
        )
    elif held is None or held.key.partition(".")[0] != view.model_key:
        return None
    elif view.reference is None:
        return held
    else:
        new = replace(held, key=view.key, reference=view.reference)
    if held is None or held.key != new.key:
        _write(folder, SHARED, new)
    return new


def confirmation(view: SharedView | None, held: HeldModel | None) -> str | None:
    """Return what a device tells the server that it holds; None if the server knows."""
    if view is None:
        return None
    key = "" if held is None else held.key
    return key if key != view.key or not view.is_bare else None


def served_here(folder: Path, order: object) -> HeldModel | None:
    """Return the model that served this device before an order; None if there was none.

    The model of a train order serves from the end of the round before it. One that came with a test then is exactly
    that; an older one is worth less than what the order brings.
    """
    held = _read(folder, SERVED)
    brought = _brought(order) if isinstance(order, TrainOrder) and order.round_index else None
    return brought if brought is not None and (held is None or int(held.key) < int(brought.key)) else held


def keep_served(folder: Path, order: object) -> None:
    """Keep the model that serves this device after an order, if the order brings one that is newer."""
    brought = _brought(order)
    held = None if brought is None else _read(folder, SERVED)
    if brought is not None and (held is None or int(held.key) < int(brought.key)):
        _write(folder, SERVED, brought)


def _brought(order: object) -> HeldModel | None:
    """Return the model of an order to train or to test; of several nobody knows which one serves."""
    if isinstance(order, EvaluateOrder):
        key = order.round_index
    elif isinstance(order, TrainOrder) and not order.others:
        key = order.round_index - 1
    else:
        return None
    return HeldModel(key=str(key), model=order.model, layout=order.layout, settings=order.settings)


def _write(folder: Path, name: str, held: HeldModel) -> None:
    arrays: dict[str, npt.NDArray[np.generic]] = {"model": held.model}
    if held.reference is not None:
        arrays["reference"] = held.reference
    values: dict[str, Json] = {"key": held.key, "layout": held.layout.record(), "settings": dict(held.settings)}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / name)


def _read(folder: Path, name: str) -> HeldModel | None:
    """Return a model; None if there is none, or the file is damaged."""
    contents = read_whole(folder / name)
    if contents is None:
        return None
    try:
        fields = Fields(name=name, values=contents.values)
        layout, settings = contents.values.get("layout"), contents.values.get("settings")
        model, reference = contents.arrays.get("model"), contents.arrays.get("reference")
        if model is None or not isinstance(layout, dict) or not isinstance(settings, dict):
            raise CheckpointError(f"{folder / name} holds no model of a device")
        key = fields.text("key", longest=64)
        if name == SERVED:
            int(key)  # a round
        return HeldModel(
            key=key,
            model=model.astype(np.float32),
            layout=checked_layout(layout, model.size),
            settings=settings,
            reference=None if reference is None else reference.astype(np.float64),
        )
    except FOREIGN as error:
        set_aside(folder, name, error)
        return None
