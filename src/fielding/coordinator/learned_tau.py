"""A trigger that finds its own factor: explores a few, keeps the one that pays best, looks again now and then (C7)."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from fielding._options import check_flag
from fielding._typing import Vector
from fielding.coordinator.center_shift import Reference, Shifts, check_reference
from fielding.coordinator.movement import Movement, TriggerMemory, Verdict
from fielding.errors import InputError, OptionError, echo

PAPER = 1.0 / 3.0
"""As long as no other arm does clearly better, the nearest to the paper's factor decides."""
CLEARLY = 2.0
"""Standard errors by which a mean reward has to be higher to be clearly better."""
KEPT = 0.5
"""What earlier rewards still count when all arms are tried again: the world may have changed."""
BASELINE_RATE = 0.3
"""How fast the baseline follows rewards."""


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

    Parameters
    ----------
    arms
        The factors to choose from, rising.
    tries
        How often each is tried before the best is kept.
    revisit
        All are tried again after so many events; earlier rewards then count half.
    reference, noise_floor
        As in :class:`~fielding.coordinator.center_shift.CenterShift`.
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
        memory = self._opened(memory)
        shifts = Shifts.of(movement, self.reference, noise_floor=self.noise_floor)
        verdicts = [shifts.verdict(tau, memory) for tau in self.arms]
        taken = verdicts[self.chosen(memory)]
        alike = [arm for arm, verdict in enumerate(verdicts) if verdict.fires == taken.fires]
        credited = () if len(alike) == len(self.arms) else tuple(alike)
        fresh = tuple(count + (arm in credited) for arm, count in enumerate(memory.fresh))
        after = replace(memory, n_assessed=memory.n_assessed + 1, fresh=fresh, credited=credited)
        return replace(taken, memory=after)

    def chosen(self, memory: TriggerMemory) -> int:
        """Return the arm whose turn it is.

        Examples
        --------
        >>> trigger = LearnedTau(arms=(0.0, 0.5), tries=2)
        >>> trigger.chosen(TriggerMemory(fresh=(2, 1)))
        1
        >>> steady = TriggerMemory(fresh=(2, 2), weights=(2.0, 2.0), sums=(0.6, 0.2), squares=(0.18, 0.02))
        >>> trigger.chosen(steady)  # 0.3 and 0.3 against 0.1 and 0.1
        0
        >>> trigger.chosen(replace(steady, squares=(0.36, 0.04)))  # 0.6 and 0.0 against 0.2 and 0.0
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

    def _opened(self, memory: TriggerMemory) -> TriggerMemory:
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
    """Return the factors as a tuple, or raise unless they are two or more different ones that rise.

    Examples
    --------
    >>> checked_arms([0, 0.5])
    (0.0, 0.5)
    """
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
