"""Photographs of a disk, taken while a run goes on: what a kill -9 at that moment would have left of it."""

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from fielding.flower.device.device import Device
from fielding.records.logs import Logs
from tests.flower.device_wire import DeviceWire


class Camera:
    """Knows every step of a run at which it can be killed, and takes a photograph of the disk at some of them.

    Parameters
    ----------
    subject
        The folder with everything that outlives a process.
    album
        Where photographs go.
    wanted
        The numbers of the steps to photograph.

    Attributes
    ----------
    steps
        What was about to happen or had happened, in order.
    photographs
        Copies of the subject, by the numbers of steps.
    """

    def __init__(self, subject: Path, album: Path, wanted: Collection[int] = ()) -> None:
        self._subject, self._album, self._wanted = subject, album, wanted
        self.steps: list[str] = []
        self.photographs: dict[int, Path] = {}

    def sees(self, what: str) -> None:
        """Take note of a step."""
        number = len(self.steps)
        self.steps.append(what)
        if number in self._wanted:
            self.photographs[number] = self._album / f"{number:05d}"
            shutil.copytree(self._subject, self.photographs[number])


@contextlib.contextmanager
def watching(camera: Camera) -> Iterator[None]:
    """Let a camera see all that touches disk or wire as long as the block lasts; nobody waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, what in STEPS:
            patch.setattr(owner, name, _seen(camera, getattr(owner, name), what, is_done=name != "fsync"))
        yield


STEPS: tuple[tuple[object, str, str], ...] = (
    (Path, "replace", "a file takes its place"),
    (Path, "unlink", "a file goes"),
    (os, "truncate", "a log is cut"),
    (os, "fsync", "a file reaches the disk"),
    (Logs, "append", "a line is written"),
    (DeviceWire, "push", "orders go out"),
    (DeviceWire, "pull", "answers come in"),
    (Device, "answer", "a device answers"),
)


def _seen(camera: Camera, call: Callable[..., Any], what: str, *, is_done: bool) -> Callable[..., Any]:
    """Return a call that is seen before and after."""

    def seen(*words: Any, **named: Any) -> Any:
        camera.sees(f"before {what}")
        found = call(*words, **named) if is_done else None
        camera.sees(f"after {what}")
        return found

    return seen
