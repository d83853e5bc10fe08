"""A device that rehearses: it notices that models lost touch with its samples, then trains on older ones, too."""

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json
from fielding.client.rehearsal import PURPOSE, Confidence, after_looks, look_ends, remembered
from fielding.errors import CheckpointError
from fielding.flower.device.local_jobs import settings_from
from fielding.flower.device.samples import NOTHING, Kept, kept_from
from fielding.flower.device.state import FOREIGN, KIND, DeviceState, read_whole, set_aside
from fielding.flower.wire.fields import Fields
from fielding.flower.wire.orders import TrainOrder
from fielding.records.container import Contents, write_contents
from fielding.rng import client_key, hashed

REHEARSAL = "rehearsal.fielding"
Losses = Callable[[Kept], npt.NDArray[np.float32]]
"""Returns the losses of samples, at least one, under the model that the device received."""
IntervalOf = Callable[[Counts], Counts]
"""Returns the intervals of rounds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placed:
    """Samples, and their places among all that ever came to the device, rising."""

    samples: Kept
    places: Counts

    def some(self, which: npt.NDArray[np.bool_]) -> "Placed":
        """Return some of them."""
        return Placed(samples=self.samples.some(which), places=self.places[which])


def _nothing() -> Placed:
    return Placed(samples=NOTHING, places=np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsed:
    """What a device that rehearses knows.

    Parameters
    ----------
    next_place
        The first sample that it has not looked at.
    confidence
        What it is used to.
    memory
        The samples that it remembers.
    """

    next_place: int
    confidence: Confidence
    memory: Placed


def rehearsed(order: TrainOrder, state: DeviceState, *, folder: Path, interval_of: IntervalOf, losses: Losses) -> Kept:
    """Look at what is new to a device, and return the samples that it remembers beyond its window.

    Whoever looked in a round has nothing new to look at when it is asked again.

    Parameters
    ----------
    order
        To train on the window.
    state
        What the device knows.
    folder
        Of the run.
    interval_of
        How rounds map to intervals.
    losses
        Under the model that is about to be trained.
    """
    window = _window(state)
    before = _read(folder)
    if before is None or before.next_place > state.n_taken:  # what it looked at is forgotten
        before = Rehearsed(next_place=0, confidence=Confidence(), memory=_nothing())
    new = window.some(window.places >= before.next_place)
    intervals = interval_of(new.samples.rounds)
    memory = before.memory
    if ends := look_ends(intervals):
        looked = after_looks(before.confidence, losses(new.samples.some(np.arange(ends[-1]))), ends)
        for begin in looked.alarms:
            old = window.some(interval_of(window.samples.rounds) < intervals[begin])
            memory = _chosen(_united(memory, old), order)
        next_place = int(new.places[ends[-1] - 1]) + 1
        _write(folder, Rehearsed(next_place=next_place, confidence=looked.confidence, memory=memory))
    return memory.some(memory.places < window.places[0]).samples if window.places.size else NOTHING


def _window(state: DeviceState) -> Placed:
    """Return the training samples of the window."""
    everything = Placed(samples=state.kept, places=state.places())
    return everything.some((state.kept.rounds >= state.first) & state.kept.is_training)


def _united(one: Placed, other: Placed) -> Placed:
    """Return the samples of both, each once."""
    more = other.some(~np.isin(other.places, one.places))
    places = np.concatenate([one.places, more.places])
    order = np.argsort(places)
    return Placed(samples=one.samples.followed_by(more.samples).some(order), places=places[order])


def _chosen(placed: Placed, order: TrainOrder) -> Placed:
    key = np.array([client_key(settings_from(order.settings).client)], dtype=np.uint64)
    draws = hashed(order.seed, PURPOSE, key, placed.places.astype(np.uint64))
    return placed.some(remembered(placed.samples.y, draws))


def _write(folder: Path, found: Rehearsed) -> None:
    arrays: dict[str, npt.NDArray[np.generic]] = {
        **found.memory.samples.arrays(),
        "places": found.memory.places,
        "confidence": np.array(astuple(found.confidence), dtype=np.float64),
    }
    values: dict[str, Json] = {"next": found.next_place}
    write_contents(Contents(values=values, arrays=arrays, progress={}, kind=KIND), folder / REHEARSAL)


def _read(folder: Path) -> Rehearsed | None:
    """Return what a device knows; None if nothing, or the file is damaged."""
    contents = read_whole(folder / REHEARSAL)
    if contents is None:
        return None
    try:
        places, confidence = (contents.arrays.get(name) for name in ("places", "confidence"))
        samples = kept_from(contents.arrays)
        if places is None or confidence is None or confidence.shape != (4,) or places.shape != samples.y.shape:
            raise CheckpointError(f"{folder / REHEARSAL} is no memory of a device")
        weight, mean, squares, excess = confidence.astype(np.float64).tolist()
        return Rehearsed(
            next_place=Fields(name=REHEARSAL, values=contents.values).whole("next"),
            confidence=Confidence(weight=weight, mean=mean, squares=squares, excess=excess),
            memory=replace(_nothing(), samples=samples, places=places.astype(np.int64)),
        )
    except FOREIGN as error:
        set_aside(folder, REHEARSAL, error)
        return None
