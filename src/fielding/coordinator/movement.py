"""What an event did to the clusters, what a trigger remembers, and what it answers."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Codes, Mask, Matrix, Membership, Vector
from fielding.coordinator.points import Points
from fielding.distance import Kind, Metric


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled:
    """Which active clients reported anew in the same cluster: all that is noise in a shift.

    Parameters
    ----------
    stayed
        Clients that were active members of their cluster at the reference, still are, and reported since, in the order
        of the points of a movement, shape ``(n_points,)``. A client that moved, joined, left or came back is no noise.
    n_before, n_after
        How many samples stood behind their representation then and stand behind it now, same shape; 0 is unknown.
    """

    stayed: Mask
    n_before: Codes
    n_after: Codes


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
    resampled, resampled_since_global
        What is noise in the shift since the previous event, and since the last global clustering; None unless the
        trigger asks for it by an attribute ``noise_floor`` that is true.
    noise_variance
        Variance of the noise on each count of samples; 0: reports are exact.
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
    resampled: Resampled | None = None
    resampled_since_global: Resampled | None = None
    noise_variance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMemory:
    """What a trigger carries from one event to the next, as JSON can hold it.

    Pairwise: the adaptive bound ``delta``, and whether it ``fired`` last time. Learned tau: events so far
    (``n_assessed``), how often each arm was tried in the exploration in hand (``fresh``), how many rewards each arm was
    credited with, old ones counting less, their sum and the sum of their squares (``weights``, ``sums``, ``squares``),
    the arms that the reward of the last event goes to (``credited``), and what events bring of late, whatever was
    decided (``baseline``).
    """

    delta: float | None = None
    fired: bool = False
    n_assessed: int = 0
    fresh: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    sums: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()
    credited: tuple[int, ...] = ()
    baseline: float | None = None

    def __post_init__(self) -> None:
        for name in ("fresh", "weights", "sums", "squares", "credited"):  # JSON gives lists back
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether to re-cluster, and the two numbers that decided it."""

    fires: bool
    shift: float
    threshold: float
    memory: TriggerMemory


def center_shifts(old: Matrix, new: Matrix, which: Mask, *, metric: Metric) -> Vector:
    """Return how far each center has moved; 0 for clusters that do not count."""
    shifts = np.zeros(which.size)
    for k in np.flatnonzero(which):
        shifts[k] = metric.between(old[k : k + 1], new[k : k + 1])[0, 0]
    return shifts


def largest_shift(old: Matrix, new: Matrix, which: Mask, *, metric: Metric) -> float:
    """Return how far the center that moved most has moved, over some of the clusters; 0 for none."""
    return float(center_shifts(old, new, which, metric=metric).max(initial=0.0))


def shift_since_previous(movement: Movement) -> float:
    """Return the largest shift since the previous event, over the clusters that stayed live."""
    return largest_shift(movement.before, movement.after, movement.stayed_live, metric=movement.metric)
