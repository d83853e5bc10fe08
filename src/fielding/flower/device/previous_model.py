"""The model that a device trained last, which it keeps for itself between rounds (MOON)."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Models
from fielding.flower.device.state import FOREIGN, KIND, read_whole, set_aside
from fielding.flower.wire.fields import Fields
from fielding.flower.wire.orders import TrainOrder
from fielding.records.container import Contents, write_contents

PREVIOUS = "previous.fielding"
_NOW, _BEFORE = "now", "before"
"""The last model of the newest round in which the device trained, and that of the rounds before."""


def previous_model(folder: Path, order: TrainOrder) -> Models | None:
    """Return the model that a device trained last before the round of an order; None if there is none.

    All jobs of a round have the same one, however often they are asked for.
    """
    kept = _read(folder)
    if kept is None:
        return None
    round_index, models = kept
    model = models.get(_NOW if round_index < order.round_index else _BEFORE)
    return model if model is not None and model.size == order.layout.size else None


def keep_model(folder: Path, order: TrainOrder, model: Models) -> None:
    """Keep what a job gave, in place of what jobs of the same round gave; a model that is not finite is not kept."""
    if not np.isfinite(model).all():
        return
    round_index, models = _read(folder) or (-1, {})
    if round_index > order.round_index:
        return
    before = models.get(_NOW if round_index < order.round_index else _BEFORE)
    arrays: dict[str, npt.NDArray[np.generic]] = {_NOW: model}
    if before is not None:
        arrays[_BEFORE] = before
    values = {"round": order.round_index}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / PREVIOUS)


def _read(folder: Path) -> tuple[int, dict[str, Models]] | None:
    """Return the round of the newest model, and all that are kept; None if there are none, or the file is damaged."""
    contents = read_whole(folder / PREVIOUS)
    if contents is None:
        return None
    try:
        round_index = Fields(name=PREVIOUS, values=contents.values).whole("round")
    except FOREIGN as error:
        set_aside(folder, PREVIOUS, error)
        return None
    return round_index, {name: array.astype(np.float32) for name, array in contents.arrays.items()}
