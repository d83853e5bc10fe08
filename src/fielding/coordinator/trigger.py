"""Stage 6: whether the clusters moved so far that all clients should be grouped anew."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from fielding._typing import Counts, Matrix, Membership, Vector
from fielding.config.options import check_flag, one_of
from fielding.config.parts import Family
from fielding.coordinator.heterogeneity import mean_pairwise_distance
from fielding.coordinator.movement import Movement, TriggerMemory, Verdict, center_shifts, shift_since_previous
from fielding.coordinator.noise_floor import noise_floors
from fielding.coordinator.points import Points
from fielding.distance import TIE, Metric
from fielding.errors import InputError, OptionError, echo

Reference: TypeAlias = Literal["previous", "last-global"]  # since when shifts are measured
PAPER = 1.0 / 3.0  # as long as no other arm does clearly better, the nearest to the paper's factor decides
CLEARLY = 2.0  # standard errors by which a mean reward has to be higher to be clearly better
KEPT = 0.5  # what earlier rewards still count when all arms are tried again: the world may have changed
BASELINE_RATE = 0.3  # how fast the baseline follows rewards
LARGEST_BLOCK = 4096
"""Clients on each side of the pairs that are looked at; above that only those farthest from the center."""


class Trigger(Protocol):
    """Decides whether moved clusters justify grouping all clients anew.

    One with a verb ``rewarded(memory, gain) -> memory`` learns from what events brought; one with an attribute
    ``noise_floor`` that is true is given which shift is noise.
    """

    name: ClassVar[str]

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Return the verdict on one event; equal input gives an equal verdict."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shifts:
    """How far centers moved, and how far sampling alone moves them.

    The shift of each cluster, 0 for those that did not stay live, and the shift that each has to go beyond whatever the
    factor, both of shape ``(n_clusters,)``.
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
        """Return whether some center went beyond its threshold, with the shift of the one that moved most of those."""
        if np.isinf(tau) or not self.moved.size:
            largest = float(self.moved.max(initial=0.0))
            return Verdict(fires=False, shift=largest, threshold=np.inf, memory=memory)
        thresholds = np.maximum(tau * self.theta, self.floors)
        beyond = self.moved > thresholds + TIE
        most = int(np.argmax(np.where(beyond, self.moved, -1.0) if beyond.any() else self.moved))
        shift, threshold = float(self.moved[most]), float(thresholds[most])
        return Verdict(fires=bool(beyond.any()), shift=shift, threshold=threshold, memory=memory)


def check_reference(reference: object) -> None:
    """Raise unless this is a moment that shifts can be measured from."""
    if reference not in ("previous", "last-global"):
        raise OptionError(f"reference is {echo(reference)}; use 'previous' or 'last-global'")


def center_spacing(centers: Matrix, points: Points, *, metric: Metric, rng: np.random.Generator) -> float:
    """Return theta: the mean distance between centers; for a lone center, between its clients (A6)."""
    if centers.shape[0] < 2:
        return mean_pairwise_distance(points, metric=metric, rng=rng)
    upper = np.triu_indices(centers.shape[0], k=1)
    return float(metric.between(centers, centers)[upper].mean())


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise:
    """Fires when a cluster holds two clients farther apart than Delta, which adapts (the paper's appendix).

    Delta starts at ``step``. After two firings in a row it doubles, up to the diameter of the metric; otherwise it
    falls by ``step``, down to ``step``. Vectors can lie any distance apart: there Delta goes up to that of two clients
    at opposite ends of this event.

    ``step`` is the paper's c, in the unit of the metric. The default suits histograms under L1; for vectors give about
    a twentieth of the distance between clients far apart. ``rule``: ``"max"``, or ``"min"`` for the paper's letter,
    ``min(c, Delta - c)``, by which Delta is 0 after the first event and below afterwards, so that every event fires
    (A1).
    """

    name: ClassVar[str] = "pairwise"
    step: float = 0.1
    rule: Literal["max", "min"] = "max"

    def __post_init__(self) -> None:
        one_of("rule", self.rule, ("max", "min"))
        if not isinstance(self.step, (int, float)) or not 0.0 < self.step < np.inf:
            raise OptionError(f"step is {echo(self.step)}; give a positive number")

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Look for two clients of one cluster that lie too far apart."""
        delta = self.step if memory.delta is None else memory.delta
        fires = holds_pair_beyond(
            delta, movement.points, movement.membership, centers=movement.after, metric=movement.metric
        )
        # How far two clients can lie apart; where the metric sets no bound, how far they do.
        bound = movement.metric.diameter(movement.kind)
        widest = bound if np.isfinite(bound) else widest_apart(movement.points, metric=movement.metric)
        highest = max(self.step, widest)
        if fires and memory.fired:
            after = 2.0 * delta
        else:
            after = (max if self.rule == "max" else min)(self.step, delta - self.step)
        adapted = replace(memory, delta=max(-highest, min(highest, after)), fired=fires)
        return Verdict(fires=fires, shift=shift_since_previous(movement), threshold=delta, memory=adapted)


def holds_pair_beyond(delta: float, points: Points, membership: Membership, *, centers: Matrix, metric: Metric) -> bool:
    """Return whether some cluster holds two clients farther apart than ``delta`` (strict, beyond 1e-9).

    Exact for up to :data:`LARGEST_BLOCK` candidates per cluster; beyond, the clients farthest from the center are
    looked at, so that a "no" may miss a pair. ``centers`` are the means of each cluster's clients, one row each.
    """
    radii = np.empty(len(points), dtype=np.float64)
    for part, rows in points.chunks():
        radii[part] = metric.between(rows, centers)[np.arange(rows.shape[0]), membership[part]]
    order = np.argsort(membership, kind="stable")
    ends = np.searchsorted(membership[order], np.arange(centers.shape[0] + 1))
    for start, end in pairwise(ends):
        members = order[start:end]
        if members.size > 1 and _cluster_holds_pair(delta, points, members, radii=radii[members], metric=metric):
            return True
    return False


def _cluster_holds_pair(delta: float, points: Points, members: Counts, *, radii: Vector, metric: Metric) -> bool:
    widest = float(radii.max())
    if metric.has_triangle and 2.0 * widest <= delta:
        return False  # any two clients lie within twice the radius
    if metric.is_norm and widest > delta + TIE:
        return True  # a norm is convex: some member lies at least as far as the mean of all does
    # By the triangle inequality one end of such a pair lies beyond delta/2, the other beyond delta - widest.
    ends = radii > delta / 2.0 if metric.has_triangle else np.ones(members.size, dtype=np.bool_)
    others = radii > delta - widest if metric.has_triangle else ends
    farthest_first = np.argsort(-radii, kind="stable")
    left = members[farthest_first[ends[farthest_first]][:LARGEST_BLOCK]]
    right = points.take(np.sort(members[farthest_first[others[farthest_first]][:LARGEST_BLOCK]]))
    for start in range(0, left.size, 256):
        block = points.take(np.sort(left[start : start + 256]))
        if (metric.between(block, right) > delta + TIE).any():
            return True
    return False


def widest_apart(points: Points, *, metric: Metric) -> float:
    """Return about how far two of the clients lie apart at most: at least half of it where detours are longer.

    From the client farthest from the mean of all to the one farthest from that client; 0 for none.
    """
    if not len(points):
        return 0.0
    total = np.sum([rows.sum(axis=0) for _, rows in points.chunks()], axis=0)
    end = int(np.argmax(_distances(points, (total / len(points))[np.newaxis], metric)))
    return float(_distances(points, points.take(np.array([end])), metric).max())


def _distances(points: Points, place: Matrix, metric: Metric) -> Vector:
    """Return the distance of every client from one place."""
    return np.concatenate([metric.between(rows, place)[:, 0] for _, rows in points.chunks()])


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTau:
    """Center shift with a factor that is learned from what events brought.

    At every event one arm decides: first the one that was tried least (ties: the first), until each was tried ``tries``
    times; then the one nearest to the paper's 1/3, unless the mean reward of another is clearly higher; and after
    ``revisit`` events all are tried again. Clearly, because rewards are noisy: what few participants say of few rounds
    varies several times as much as what a decision changes, and the best of some means of two rewards is the luckiest.

    What an event brings depends on what was decided, not on the arm that decided it. So its reward goes to every arm
    that would have decided alike, and counts as a try of all of them. An event at which all arms agree tells nothing
    about arms: it is credited to none, for crediting it to all would pull the means of arms with few rewards more than
    those of arms with many. Rewards are taken relative to a running mean of rewards, since early events bring more than
    late ones whatever is decided.

    ``arms`` are the factors to choose from, rising; the others as in
    :class:`~fielding.coordinator.trigger.CenterShift`.
    """

    name: ClassVar[str] = "learned-tau"
    arms: tuple[float, ...] = (0.0, 1.0 / 6.0, 1.0 / 3.0, 0.5, 2.0 / 3.0)
    tries: int = 2
    revisit: int = 20
    reference: Reference = "previous"
    noise_floor: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", checked_arms(self.arms))
        for name in ("tries", "revisit"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{name} is {echo(value)}; give a whole number from 1")
        check_reference(self.reference)
        check_flag("noise_floor", self.noise_floor)

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:
        """Let the arm whose turn it is decide, and note which others would have decided alike."""
        memory = self._open(memory)
        shifts = Shifts.of(movement, self.reference, noise_floor=self.noise_floor)
        verdicts = [shifts.verdict(tau, memory) for tau in self.arms]
        taken = verdicts[self.choose_arm(memory)]
        alike = [arm for arm, verdict in enumerate(verdicts) if verdict.fires == taken.fires]
        credited = () if len(alike) == len(self.arms) else tuple(alike)
        fresh = tuple(count + (arm in credited) for arm, count in enumerate(memory.fresh))
        after = replace(memory, n_assessed=memory.n_assessed + 1, fresh=fresh, credited=credited)
        return replace(taken, memory=after)

    def choose_arm(self, memory: TriggerMemory) -> int:
        """Return the arm whose turn it is.

        Examples
        --------
        >>> trigger = LearnedTau(arms=(0.0, 0.5), tries=2)
        >>> trigger.choose_arm(TriggerMemory(fresh=(2, 1)))
        1
        >>> steady = TriggerMemory(fresh=(2, 2), weights=(2.0, 2.0), sums=(0.6, 0.2), squares=(0.18, 0.02))
        >>> trigger.choose_arm(steady)  # 0.3 and 0.3 against 0.1 and 0.1
        0
        >>> trigger.choose_arm(replace(steady, squares=(0.36, 0.04)))  # 0.6 and 0.0 against 0.2 and 0.0
        1
        """
        if not memory.fresh or min(memory.fresh) < self.tries:
            return int(np.argmin(memory.fresh)) if memory.fresh else 0
        means, paper = _means(memory), int(np.argmin([abs(arm - PAPER) for arm in self.arms]))
        best = int(np.argmax(means))
        return best if _is_clearly_better(memory, best, paper) else paper

    def rewarded(self, memory: TriggerMemory, gain: float) -> TriggerMemory:
        """Return the memory after the last event turned out to bring so much; a second reward for it is passed over."""
        if isinstance(gain, bool) or not isinstance(gain, (int, float)) or not math.isfinite(gain):
            raise InputError(f"the gain of an event is {echo(gain)}; give a finite number")
        if not memory.credited:
            return memory
        usual = float(gain) if memory.baseline is None else memory.baseline
        excess = float(gain) - usual
        weights, sums, squares = (list(values) for values in (memory.weights, memory.sums, memory.squares))
        for arm in memory.credited:
            weights[arm] += 1.0
            sums[arm] += excess
            squares[arm] += excess**2
        return replace(
            memory,
            weights=tuple(weights),
            sums=tuple(sums),
            squares=tuple(squares),
            credited=(),
            baseline=usual + BASELINE_RATE * excess,
        )

    def _open(self, memory: TriggerMemory) -> TriggerMemory:
        """Return the memory with a place for every arm, and with a new exploration if it is time for one."""
        n_arms = len(self.arms)
        if len(memory.fresh) != n_arms or len(memory.squares) != n_arms:
            nothing = (0.0,) * n_arms
            return replace(memory, fresh=(0,) * n_arms, weights=nothing, sums=nothing, squares=nothing, credited=())
        if memory.n_assessed % self.revisit or not memory.n_assessed:
            return memory
        return replace(
            memory,
            fresh=(0,) * n_arms,
            weights=tuple(KEPT * weight for weight in memory.weights),
            sums=tuple(KEPT * total for total in memory.sums),
            squares=tuple(KEPT * total for total in memory.squares),
        )


def checked_arms(arms: object) -> tuple[float, ...]:
    """Return the factors as a tuple, or raise unless they are two or more different ones that rise."""
    values = list(arms) if isinstance(arms, (list, tuple)) else []
    are_numbers = all(isinstance(arm, (int, float)) and not isinstance(arm, bool) for arm in values)
    if len(values) < 2 or not are_numbers or not all(0.0 <= arm < math.inf for arm in values):
        raise OptionError(f"arms is {echo(arms)}; give two or more factors from 0 that rise")
    if any(one >= other for one, other in pairwise(values)):
        raise OptionError(f"arms is {echo(arms)}; give them in rising order, each once")
    return tuple(float(arm) for arm in values)


def _means(memory: TriggerMemory) -> Vector:
    """Return the mean reward of every arm; one that was never credited is no candidate."""
    return np.array(
        [total / weight if weight else -math.inf for total, weight in zip(memory.sums, memory.weights, strict=True)]
    )


def _is_clearly_better(memory: TriggerMemory, arm: int, other: int) -> bool:
    """Return whether the mean reward of an arm is higher than another's by more than the noise of rewards explains."""
    weights, means = np.array(memory.weights), _means(memory)
    if not weights[other] or means[arm] <= means[other]:
        return False
    shown = weights > 0.0
    n_free = weights.sum() - shown.sum()  # rewards beyond one for each mean; old ones count less
    if n_free <= 0.0:
        return False
    spread = max(0.0, float((np.array(memory.squares)[shown] - weights[shown] * means[shown] ** 2).sum())) / n_free
    error = math.sqrt(spread * (1.0 / weights[arm] + 1.0 / weights[other]))
    return bool(means[arm] - means[other] > CLEARLY * error)


TRIGGERS: Family[type[CenterShift | LearnedTau | Pairwise | Always | Never]] = Family("trigger")
