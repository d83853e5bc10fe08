"""The knobs of Auxo, and when a cohort is ripe to be split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fielding.errors import OptionError, echo
from fielding.methods.option_checks import number, one_of, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """What a split is decided on.

    Parameters
    ----------
    n_clients, participants, n_cohorts
        Of the whole federation.
    n_members
        Clients of this cohort.
    sides
        How many of them lean to each half.
    counter
        How often its participants were compared, those of its ancestors included.
    """

    n_clients: int
    participants: int
    n_cohorts: int
    n_members: int
    sides: tuple[int, int]
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxoRules:
    """How participants are compared, rewarded and split.

    Parameters
    ----------
    split
        ``"ours"``, ``"forced"`` or ``"original"``.
    forced_rounds
        With ``"forced"``: the counters of a cohort at which it splits.
    base_reward
        What a participant gains that is exactly like the others.
    neighbors
        How many decided participants decide on an undecided one, at most.
    min_results
        With fewer answers, a cohort compares none; with ``"ours"``, no cohort may expect fewer after a split.
    start_round, stop_after
        Rounds before which nothing is compared, and after which no cohort splits any more; the latter does not matter
        with ``"forced"``.
    """

    split: str = "ours"
    forced_rounds: Sequence[int] = (50, 100)
    base_reward: float = 5.0
    neighbors: int = 5
    min_results: int = 5
    start_round: int = 0
    stop_after: int = 500

    def __post_init__(self) -> None:
        """Raise if a knob is out of its range."""
        one_of("split", self.split, SPLITS)
        if not isinstance(self.forced_rounds, (list, tuple)):
            raise OptionError(f"forced_rounds is {echo(self.forced_rounds)}; give a list of whole numbers from 1")
        for at in self.forced_rounds:
            whole("forced_rounds", at)
        if self.split == "forced" and not self.forced_rounds:
            raise OptionError('forced_rounds is empty; name the counters at which cohorts split, or another "split"')
        for name, least in (("neighbors", 1), ("min_results", 2), ("start_round", 0), ("stop_after", 0)):
            whole(name, getattr(self, name), least=least)
        number("base_reward", self.base_reward, most=1e6)

    def still_splits(self, round_index: int, counter: int) -> bool:
        """Return whether it still matters to which half participants lean."""
        if self.split == "forced":
            return counter <= max(self.forced_rounds) + 1
        return round_index < self.stop_after

    def is_ripe(self, cohort: Cohort) -> bool:
        """Return whether a cohort splits now."""
        return SPLITS[self.split](cohort, self)


def _is_due(cohort: Cohort, rules: AuxoRules) -> bool:
    return cohort.counter in rules.forced_rounds


def _is_large_enough(cohort: Cohort, rules: AuxoRules) -> bool:
    """Scale the authors' bounds to federations of any size (METHODS.md 3.7.1)."""
    share = cohort.participants / (cohort.n_cohorts + 1)
    return share >= rules.min_results and cohort.n_members >= 2.0 * share and _is_even(cohort, 0.05 * cohort.n_clients)


def _is_huge(cohort: Cohort, rules: AuxoRules) -> bool:  # noqa: ARG001
    is_large = cohort.n_members >= 100.0 * cohort.n_clients / cohort.participants
    return is_large and _is_even(cohort, cohort.n_clients // 20)


def _is_even(cohort: Cohort, least: float) -> bool:
    """Return whether enough lean to both halves; from the second split on, about as many to either."""
    first, second = cohort.sides
    is_balanced = cohort.n_cohorts == 1 or 0.5 < first / max(second, 1) < 2.0
    return min(first, second) > least * 0.9 ** (cohort.n_cohorts - 1) and is_balanced


SPLITS: dict[str, Callable[[Cohort, AuxoRules], bool]] = {
    "ours": _is_large_enough,
    "forced": _is_due,
    "original": _is_huge,
}
"""When a cohort splits, by the name that configs use."""
