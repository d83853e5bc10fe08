"""What every aggregator can do and is given, and the plain ones: the mean, and the mean with momentum."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fielding._typing import Models, Vector
from fielding.errors import OptionError, echo
from fielding.federation.models import mean_model

_LARGEST = float(np.finfo(np.float32).max)


def storable(values: Vector) -> Vector:
    """Return the values that float32 can hold: squares of absurd changes could not be."""
    return np.clip(values, -_LARGEST, _LARGEST)


def check_above_zero(name: str, value: object) -> None:
    """Raise unless the option is a finite number above 0.

    Examples
    --------
    >>> check_above_zero("eta", "fast")
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: eta is 'fast'; give a number above 0
    """
    if not _is_number(value) or not 0.0 < value < float("inf"):  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number above 0")


def check_below(name: str, value: object, bound: float) -> None:
    """Raise unless the option is a number from 0 to below a bound."""
    if not _is_number(value) or not 0.0 <= value < bound:  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from 0 to below {bound:g}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uploads:
    """What the participants of one cluster sent."""

    models: Models  # by client, at least one, shape (n_participants, n_numbers); all finite
    weights: Vector | None  # what each counts, shape (n_participants,); None if all count the same
    n_parameters: int  # how many of the numbers are parameters; the others are buffers, which only ever take means
    learning_rate: float  # of the local steps
    # Loss of the model that they started from on all of each client's samples, where it was asked for.
    start_loss: Vector | None = None
    # Share of what models know of samples that they are trained on which they know of samples that come later, 0 to 1.
    carried_over: float = 1.0


def mean_change(model: Models, uploads: Uploads) -> tuple[Models, slice, Vector, Vector]:
    """Return the mean of uploads, where parameters stand in it, and where these started and what the mean changes."""
    new, part = mean_model(uploads.models, uploads.weights), slice(0, uploads.n_parameters)
    start = model[part].astype(np.float64)
    return new, part, start, new[part].astype(np.float64) - start


def remembered(memory: Mapping[str, Models], part: slice, **after: Vector) -> dict[str, Models]:
    """Return what to remember of a model: as before, but for its parameters."""
    kept = {name: array.copy() for name, array in memory.items()}
    for name, values in after.items():
        kept[name][part] = values
    return kept


class Aggregator(Protocol):
    """Stage 11: makes one model of the models that came back; what it must remember goes in and comes out."""

    @property
    def memory(self) -> Mapping[str, float]:
        """What it remembers per number of every cluster's model, by name, and the value that it begins with."""
        ...

    @property
    def needs_start_loss(self) -> bool:
        """Whether participants have to say how well the model served them before they trained."""
        ...

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the next model of a cluster, and what to remember.

        ``model``: what the participants started from, shape ``(n_numbers,)``. ``memory``: what was remembered, by name,
        each of shape ``(n_numbers,)``.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Goes from the model to the mean of the uploads, or a part or multiple of that way (McMahan et al., 2017).

    With the mean change D: ``w += eta D``. Parameters only: buffers take the mean.

    Parameters
    ----------
    eta
        The server's learning rate; with 1 the new model is the mean, whatever the uploads started from.
    """

    eta: float = 1.0
    memory: ClassVar[Mapping[str, float]] = {}
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_above_zero("eta", self.eta)

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the mean of the uploads, or where the step ends."""
        new = mean_model(uploads.models, uploads.weights)
        if self.eta != 1.0:
            part = slice(0, uploads.n_parameters)
            start = model[part].astype(np.float64)
            new[part] = start + self.eta * (new[part] - start)
        return new, {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FedAvgM:
    """Averages with momentum at the server (Hsu, Qi and Brown, 2019).

    With the mean change D: ``m = beta m + D``, ``w += eta m``; ``m`` begins with 0. Steps in one direction add up to
    ``1 / (1 - beta)`` times their length, so smaller local learning rates suit it. Parameters only: buffers take the
    mean.

    Parameters
    ----------
    eta
        The server's learning rate.
    beta
        How much of the last step goes into the next one; with 0 it is the mean.
    """

    eta: float = 1.0
    beta: float = 0.9
    memory: ClassVar[Mapping[str, float]] = {"m": 0.0}
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_above_zero("eta", self.eta)
        check_below("beta", self.beta, 1.0)

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the model after a step of the server, and its momentum."""
        new, part, start, change = mean_change(model, uploads)
        step = self.beta * memory["m"][part].astype(np.float64) + change
        new[part] = start + self.eta * step
        return new, remembered(memory, part, m=step)
