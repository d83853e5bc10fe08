"""The paper's trigger: some center moved by more than a share of the mean distance between centers."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fielding._options import check_flag
from fielding._typing import Vector
from fielding.coordinator.movement import Movement, TriggerMemory, Verdict, center_shifts
from fielding.coordinator.noise_floor import noise_floors
from fielding.distance import TIE
from fielding.errors import OptionError, echo

Reference: TypeAlias = Literal["previous", "last-global"]
"""Since when shifts are measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shifts:
    """How far centers moved, and how far sampling alone moves them.

    Parameters
    ----------
    moved
        The shift of each cluster, shape ``(n_clusters,)``; 0 for those that did not stay live.
    floors
        The shift that each has to go beyond whatever the factor, same shape.
    theta
        What factors are factors of.
    """

    moved: Vector
    floors: Vector
    theta: float

    @classmethod
    def of(cls, movement: Movement, reference: Reference, *, noise_floor: bool) -> "Shifts":
        """Return the shifts of an event."""
        is_previous = reference == "previous"
        old = movement.before if is_previous else movement.since_global
        moved = center_shifts(old, movement.after, movement.stayed_live, metric=movement.metric)
        floors = np.zeros(moved.size)
        if noise_floor:
            floors = noise_floors(movement, old, movement.resampled if is_previous else movement.resampled_since_global)
        return cls(moved=moved, floors=floors, theta=movement.theta)

    def verdict(self, tau: float, memory: TriggerMemory) -> Verdict:
        """Return whether some center went beyond its threshold; told is the one that moved most, of those that did."""
        if np.isinf(tau) or not self.moved.size:
            largest = float(self.moved.max(initial=0.0))
            return Verdict(fires=False, shift=largest, threshold=np.inf, memory=memory)
        thresholds = np.maximum(tau * self.theta, self.floors)
        beyond = self.moved > thresholds + TIE
        told = int(np.argmax(np.where(beyond, self.moved, -1.0) if beyond.any() else self.moved))
        shift, threshold = float(self.moved[told]), float(thresholds[told])
        return Verdict(fires=bool(beyond.any()), shift=shift, threshold=threshold, memory=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class CenterShift:
    """Fires when some center moved by more than ``tau`` times theta (the paper's rule, strict).

    Parameters
    ----------
    tau
        Factor of theta; 0 re-clusters at every real movement, infinity never.
    reference
        ``"previous"`` measures the shift since the previous event, ``"last-global"`` since the last global
        clustering, so that a slow creep adds up (A3).
    noise_floor
        Whether a center also has to move by more than sampling alone would move it (99 %; see ``noise_floor.py``).
    """

    name: ClassVar[str] = "center-shift"
    tau: float = 1.0 / 3.0
    reference: Reference = "previous"
    noise_floor: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tau, (int, float)) or not self.tau >= 0.0:
            raise OptionError(f"tau is {echo(self.tau)}; give a number from 0 to infinity")
        check_reference(self.reference)
        check_flag("noise_floor", self.noise_floor)

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Compare the shifts with the threshold."""
        return Shifts.of(movement, self.reference, noise_floor=self.noise_floor).verdict(self.tau, memory)


def check_reference(reference: object) -> None:
    """Raise unless this is a moment that shifts can be measured from."""
    if reference not in ("previous", "last-global"):
        raise OptionError(f"reference is {echo(reference)}; use 'previous' or 'last-global'")
