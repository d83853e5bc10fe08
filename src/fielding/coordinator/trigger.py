"""Stage 6: whether the clusters moved so far that all clients should be grouped anew."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from fielding._typing import Mask, Matrix, Membership
from fielding.coordinator.heterogeneity import mean_pairwise_distance
from fielding.coordinator.points import Points
from fielding.coordinator.spread import holds_pair_beyond
from fielding.distance import TIE, Kind, Metric
from fielding.errors import OptionError, echo


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Movement:
    """What one event of reports did to the clusters, after clients moved and centers were computed anew.

    Parameters
    ----------
    before, after
        The centers at the end of the previous event and now, shape ``(n_clusters, n_features)``.
    since_global
        The centers right after the last global clustering, same shape.
    stayed_live
        Which clusters have active members now and had some before this event.
    theta
        Mean distance between the centers of live clusters; for a lone one, between its clients (A6).
    points, membership
        The active clients and the cluster of each.
    metric, kind
        How distances are measured, and what a representation is.
    """

    before: Matrix
    after: Matrix
    since_global: Matrix
    stayed_live: Mask
    theta: float
    points: Points
    membership: Membership
    metric: Metric
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMemory:
    """What a trigger carries from one event to the next: the adaptive bound, and whether it fired last time."""

    delta: float | None = None
    fired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether to re-cluster, and the two numbers that decided it."""

    fires: bool
    shift: float
    threshold: float
    memory: TriggerMemory


class Trigger(Protocol):
    """Decides whether moved clusters justify grouping all clients anew."""

    name: ClassVar[str]

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Return the verdict on one event; equal input gives an equal verdict."""
        ...


def largest_shift(old: Matrix, new: Matrix, which: Mask, *, metric: Metric) -> float:
    """Return how far the center that moved most has moved, over some of the clusters; 0 for none.

    Examples
    --------
    >>> from fielding.distance import metric_named
    >>> largest_shift(np.eye(2), np.eye(2)[::-1], np.array([True, False]), metric=metric_named("l1"))
    2.0
    """
    moves = [float(metric.between(old[k : k + 1], new[k : k + 1])[0, 0]) for k in np.flatnonzero(which)]
    return max(moves, default=0.0)


def center_spacing(centers: Matrix, points: Points, *, metric: Metric, rng: np.random.Generator) -> float:
    """Return theta: the mean distance between centers; for a lone center, between its clients (A6)."""
    if centers.shape[0] < 2:
        return mean_pairwise_distance(points, metric=metric, rng=rng)
    upper = np.triu_indices(centers.shape[0], k=1)
    return float(metric.between(centers, centers)[upper].mean())


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
    """

    name: ClassVar[str] = "center-shift"
    tau: float = 1.0 / 3.0
    reference: Literal["previous", "last-global"] = "previous"

    def __post_init__(self) -> None:
        if not isinstance(self.tau, (int, float)) or not self.tau >= 0.0:
            raise OptionError(f"tau is {echo(self.tau)}; give a number from 0 to infinity")
        if self.reference not in ("previous", "last-global"):
            raise OptionError(f"reference is {echo(self.reference)}; use 'previous' or 'last-global'")

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Compare the largest shift with the threshold."""
        shift = _shift(movement, movement.before if self.reference == "previous" else movement.since_global)
        threshold = np.inf if np.isinf(self.tau) else self.tau * movement.theta
        fires = shift > threshold + TIE
        return Verdict(fires=fires, shift=shift, threshold=float(threshold), memory=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """Fires when a cluster holds two clients farther apart than Delta, which adapts (the paper's appendix).

    Delta starts at ``step``. After two firings in a row it doubles, up to the diameter of the metric; otherwise it
    falls by ``step``, down to ``step``. (The paper prints a minimum where only a maximum makes sense: A1.)

    Parameters
    ----------
    step
        The paper's c: where Delta starts and the least it can be.
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
        highest = max(self.step, movement.metric.diameter(movement.kind))
        after = 2.0 * delta if fires and memory.fired else delta - self.step
        adapted = TriggerMemory(delta=min(highest, max(self.step, after)), fired=fires)
        return Verdict(fires=fires, shift=_shift(movement, movement.before), threshold=delta, memory=adapted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """Fires at every event with a report: the paper's "global re-clustering"."""

    name: ClassVar[str] = "always"

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Say yes."""
        return Verdict(fires=True, shift=_shift(movement, movement.before), threshold=0.0, memory=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Never fires: the paper's "move individuals"."""

    name: ClassVar[str] = "never"

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Say no."""
        return Verdict(fires=False, shift=_shift(movement, movement.before), threshold=np.inf, memory=memory)


def _shift(movement: Movement, reference: Matrix) -> float:
    return largest_shift(reference, movement.after, movement.stayed_live, metric=movement.metric)


TRIGGERS: dict[str, type[CenterShift | Pairwise | Always | Never]] = {
    kind.name: kind for kind in (CenterShift, Pairwise, Always, Never)
}
