"""A device that rehearses looks at what is new once, and remembers what its window forgets."""

from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Counts
from fielding.flower.device.rehearsal import REHEARSAL, rehearsed
from fielding.flower.device.samples import Kept
from fielding.flower.device.state import DeviceState
from fielding.flower.wire.orders import TrainOrder
from tests.flower.devices import train

CALM, LOST = 0.1, 4.0
"""Losses of models that know the samples, and of models that do not."""


def arrived(rounds: list[int], *, n_aside: int = 0) -> Kept:
    """Return samples whose feature is their place; the first ones are kept aside."""
    n_samples = len(rounds)
    return Kept(
        x=np.arange(n_samples, dtype=np.float32)[:, np.newaxis],
        y=np.zeros(n_samples, dtype=np.int32),
        is_test=np.zeros(n_samples, dtype=np.bool_),
        rounds=np.array(rounds, dtype=np.int64),
        is_aside=np.arange(n_samples) < n_aside,
    )


def known(everything: Kept, *, first: int, now: int) -> DeviceState:
    """Return what a device knows that throws away what is older than its window."""
    came = everything.some(everything.rounds <= now)
    kept = came.some(came.rounds >= first)
    return DeviceState(round_index=now, kept=kept, monitor={}, report=None, first=first, n_taken=came.y.size)


def look(folder: Path, state: DeviceState, loss: float) -> tuple[list[int], int]:
    """Return the places of what is remembered beyond the window, and how many samples were looked at."""
    order: TrainOrder = train(state.round_index)
    looked_at = []

    def losses(samples: Kept) -> np.ndarray:
        looked_at.append(samples.y.size)
        return np.full(samples.y.size, loss, dtype=np.float32)

    def interval_of(rounds: Counts) -> Counts:
        return rounds

    found = rehearsed(order, state, folder=folder, interval_of=interval_of, losses=losses)
    return found.x.ravel().astype(int).tolist(), sum(looked_at)


EVERYTHING = arrived([0] * 20 + [1] * 20 + [2] * 12 + [3] * 4)


def test_what_the_window_held_when_it_was_alarmed_is_remembered_when_it_left(tmp_path: Path) -> None:
    assert look(tmp_path, known(EVERYTHING, first=0, now=0), CALM) == ([], 20)
    assert look(tmp_path, known(EVERYTHING, first=0, now=1), LOST) == ([], 20), "in the window there is nothing more"
    assert look(tmp_path, known(EVERYTHING, first=1, now=2), LOST) == (list(range(20)), 12)
    assert look(tmp_path, known(EVERYTHING, first=2, now=3), LOST) == (list(range(20)), 0), "four are too few"


def test_whoever_is_asked_again_has_looked_already(tmp_path: Path) -> None:
    look(tmp_path, known(EVERYTHING, first=0, now=0), CALM)
    look(tmp_path, known(EVERYTHING, first=0, now=1), LOST)
    before = (tmp_path / REHEARSAL).read_bytes()

    assert look(tmp_path, known(EVERYTHING, first=0, now=1), CALM) == ([], 0)
    assert (tmp_path / REHEARSAL).read_bytes() == before


def test_samples_that_come_within_an_interval_are_looked_at_too(tmp_path: Path) -> None:
    """In life an interval may grow; the simulator's are whole when they come."""
    few = arrived([0] * 15)
    assert look(tmp_path, known(few, first=0, now=0), CALM)[1] == 15
    assert look(tmp_path, known(arrived([0] * 15 + [0] * 10), first=0, now=0), CALM)[1] == 10


def test_what_is_kept_aside_is_neither_looked_at_nor_remembered(tmp_path: Path) -> None:
    everything = arrived([0] * 30 + [1] * 20 + [2] * 20, n_aside=10)
    assert look(tmp_path, known(everything, first=0, now=0), CALM)[1] == 20
    look(tmp_path, known(everything, first=0, now=1), LOST)

    assert look(tmp_path, known(everything, first=1, now=2), LOST)[0] == list(range(10, 30))


@pytest.mark.parametrize("is_damaged", [False, True], ids=["samples", "memory"])
def test_a_device_that_lost_something_begins_anew(is_damaged: bool, tmp_path: Path) -> None:
    look(tmp_path, known(EVERYTHING, first=0, now=1), CALM)
    if is_damaged:
        (tmp_path / REHEARSAL).write_bytes(b"damaged")
    lost = known(arrived([2] * 12), first=1, now=2)

    assert look(tmp_path, lost, CALM) == ([], 12)
