"""Stage 6: whether the clusters moved so far that all clients should be grouped anew."""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from fielding._typing import Matrix
from fielding.coordinator.center_shift import CenterShift
from fielding.coordinator.heterogeneity import mean_pairwise_distance
from fielding.coordinator.learned_tau import LearnedTau
from fielding.coordinator.movement import Movement, TriggerMemory, Verdict, largest_shift, shift_since_previous
from fielding.coordinator.points import Points
from fielding.coordinator.spread import holds_pair_beyond, widest_apart
from fielding.distance import Metric
from fielding.errors import OptionError, echo

__all__ = [
    "TRIGGERS",
    "Always",
    "CenterShift",
    "LearnedTau",
    "Movement",
    "Never",
    "Pairwise",
    "Trigger",
    "TriggerMemory",
    "Verdict",
    "center_spacing",
    "largest_shift",
]


class Trigger(Protocol):
    """Decides whether moved clusters justify grouping all clients anew.

    One with a verb ``rewarded(memory, gain) -> memory`` learns from what events brought; one with an attribute
    ``noise_floor`` that is true is told which shift is noise.
    """

    name: ClassVar[str]

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Return the verdict on one event; equal input gives an equal verdict."""
        ...


def center_spacing(centers: Matrix, points: Points, *, metric: Metric, rng: np.random.Generator) -> float:
    """Return theta: the mean distance between centers; for a lone center, between its clients (A6)."""
    if centers.shape[0] < 2:
        return mean_pairwise_distance(points, metric=metric, rng=rng)
    upper = np.triu_indices(centers.shape[0], k=1)
    return float(metric.between(centers, centers)[upper].mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """Fires when a cluster holds two clients farther apart than Delta, which adapts (the paper's appendix).

    Delta starts at ``step``. After two firings in a row it doubles, up to the diameter of the metric; otherwise it
    falls by ``step``, down to ``step``. (The paper prints a minimum where only a maximum makes sense: A1.) Vectors can
    lie any distance apart: there Delta goes up to that of two clients at opposite ends of this event.

    Parameters
    ----------
    step
        The paper's c: where Delta starts and the least it can be, in the unit of the metric. The default suits
        histograms under L1; for vectors give about a twentieth of the distance between clients far apart.
    """

    name: ClassVar[str] = "pairwise"
    step: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.step, (int, float)) or not 0.0 < self.step < np.inf:
            raise OptionError(f"step is {echo(self.step)}; give a positive number")

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Look for two clients of one cluster that lie too far apart."""
        delta = self.step if memory.delta is None else memory.delta
        fires = holds_pair_beyond(
            delta, movement.points, movement.membership, centers=movement.after, metric=movement.metric
        )
        highest = max(self.step, _diameter(movement))
        after = 2.0 * delta if fires and memory.fired else delta - self.step
        adapted = replace(memory, delta=min(highest, max(self.step, after)), fired=fires)
        return Verdict(fires=fires, shift=shift_since_previous(movement), threshold=delta, memory=adapted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """Fires at every event with a report: the paper's "global re-clustering"."""

    name: ClassVar[str] = "always"

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Say yes."""
        return Verdict(fires=True, shift=shift_since_previous(movement), threshold=0.0, memory=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Never fires: the paper's "move individuals"."""

    name: ClassVar[str] = "never"

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Say no."""
        return Verdict(fires=False, shift=shift_since_previous(movement), threshold=np.inf, memory=memory)


def _diameter(movement: Movement) -> float:
    """Return how far two clients can lie apart; where the metric sets no bound, how far they do."""
    bound = movement.metric.diameter(movement.kind)
    return bound if np.isfinite(bound) else widest_apart(movement.points, metric=movement.metric)


TRIGGERS: dict[str, type[CenterShift | LearnedTau | Pairwise | Always | Never]] = {
    kind.name: kind for kind in (CenterShift, LearnedTau, Pairwise, Always, Never)
}
