"""Trackers by their names."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fielding.errors import OptionError, unknown_name
from fielding.simulation.experiment import Watching
from fielding.tracking.mlflow import Mlflow
from fielding.tracking.tensorboard import TensorBoard
from fielding.tracking.tracked import tracked, warn
from fielding.tracking.tracker import Placed, Tracker
from fielding.tracking.wandb import Wandb

TRACKERS: dict[str, Callable[[str | None], Tracker]] = {
    "mlflow": Mlflow,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}
"""Every tracker, made from where it writes to: None for its own choice."""


def tracker_named(name: str, target: str | None = None) -> Tracker:
    """Return a tracker.

    ``target``: where it writes to: a folder, a database, a server; None for its own choice. OptionError if there is
    none of this name, if its package is not installed, or if it cannot write to such a target.

    Examples
    --------
    >>> tracker_named("mlfow")
    Traceback (most recent call last):
    fielding.errors.OptionError: unknown tracker 'mlfow'; did you mean 'mlflow'? Known: mlflow, tensorboard, wandb
    """
    if name not in TRACKERS:
        raise unknown_name("tracker", name, TRACKERS)
    return TRACKERS[name](target)


def trackers_from(options: Sequence[str]) -> list[Tracker]:
    """Return trackers by what users typed, each ``NAME`` or ``NAME=TARGET``.

    The texts are all that another process needs to track its runs in the same places.
    """
    found = []
    for option in options:
        name, equals, target = option.partition("=")
        if equals and not target:
            raise OptionError(
                f"--track {option} names no place; write {name}=PLACE, or {name} alone for its own choice"
            )
        found.append(tracker_named(name, target or None))
    return found


def places(trackers: Sequence[Tracker], folder: Path) -> list[str]:
    """Return a line for each tracker that can tell where it shows the runs in a folder."""
    return [f"{one.name}: {one.place(folder)}" for one in trackers if isinstance(one, Placed)]


@dataclass(frozen=True, slots=True)
class TrackedBy:
    """Tracks any run by what users typed; unlike trackers themselves it can be sent to another process.

    Examples
    --------
    >>> TrackedBy(("tensorboard=tb",))
    TrackedBy(options=('tensorboard=tb',))
    """

    options: tuple[str, ...] = ()

    def __call__(
        self, folder: Path, watch: Watching, note: Callable[[str], None] = warn
    ) -> AbstractContextManager[Watching]:
        """Return :func:`~fielding.tracking.tracked.tracked` of a run; ``note`` is told what fails."""
        return tracked(folder, trackers_from(self.options), watch=watch, note=note)
