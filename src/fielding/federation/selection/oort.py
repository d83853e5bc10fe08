"""Oort: useful and fast clients first (Lai et al., OSDI 2021; METHODS.md 9.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.config.options import check_flag
from fielding.errors import OptionError, echo
from fielding.federation.selection.selector import (
    Candidates,
    Feedback,
    Known,
    SelectionMemory,
    check_at_least,
    check_between,
    smallest_draws,
    weighted_sample,
)
from fielding.rng import Hashes

_ROUNDING = 1e-9
_LEAST_RANGE = 1e-4
_BELOW_LEAST = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Oort:
    """Exploits clients whose samples have high losses, unless they are slow, and explores those it never tried.

    A client is worth ``|B| sqrt(mean square loss)``, known from its last participation; the longer ago that was, the
    more is added; slower than the preferred duration, it is divided down. The pacer moves the preferred duration. The
    first choice of a run is uniform. The defaults are those of the authors' repository.

    Parameters
    ----------
    exploration, exploration_decay, exploration_min
        Share of the places for clients that were never tried: at first, what is left of it after a round, at least.
    pacer_rounds, pacer_delta, percentile
        The pacer compares stretches of so many rounds and moves the preferred duration by so many percentiles of the
        cluster's durations; where it starts.
    pacer_flat, pacer_sharp
        Changes of utility up to the one, and from the other on, as multiples of the stretch before, move the pacer.
    penalty
        The power by which slow clients count less.
    clip
        The quantile of utilities above which more counts no more.
    cutoff, pool
        Exploited are clients whose score reaches this share of the score that would just be enough, and at least
        ``pool`` for each place.
    sample_window
        How many of the largest untried clients have a chance for each place.
    uncertainty
        The weight of the time since the last participation.
    blacklist_after, blacklist_share
        Clients that were asked more often stay out while others are there, at most this share of the candidates;
        -1 for never.
    forget_on_report
        Whether a report makes a client count as one that took part long ago.
    """

    exploration: float = 0.9
    exploration_decay: float = 0.95
    exploration_min: float = 0.2
    pacer_rounds: int = 20
    pacer_delta: float = 5.0
    percentile: float = 10.0
    pacer_flat: float = 0.1
    pacer_sharp: float = 5.0
    penalty: float = 2.0
    clip: float = 0.98
    cutoff: float = 0.7
    pool: float = 1.0
    sample_window: float = 5.0
    uncertainty: float = 0.1
    blacklist_after: int = -1
    blacklist_share: float = 0.3
    forget_on_report: bool = False
    client_memory: ClassVar[Mapping[str, float]] = {
        "utility": 0.0,
        "seconds": np.nan,
        "last_round": 0.0,
        "times": 0.0,
        "n_samples": np.nan,
    }
    needs_distances: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("exploration", "exploration_decay", "exploration_min", "clip", "cutoff", "blacklist_share"):
            check_between(name, getattr(self, name), 0.0, 1.0)
        for name in ("pacer_delta", "percentile"):
            check_between(name, getattr(self, name), 0.0, 100.0)
        for name in ("penalty", "uncertainty", "pacer_flat", "pacer_sharp"):
            check_between(name, getattr(self, name), 0.0, 1e6)
        for name in ("pool", "sample_window"):
            check_between(name, getattr(self, name), 1.0, 1e6)
        check_at_least("pacer_rounds", self.pacer_rounds, 1)
        check_at_least("blacklist_after", self.blacklist_after, -1)
        check_flag("forget_on_report", self.forget_on_report)
        if self.percentile < self.pacer_delta:
            raise OptionError(
                f"percentile is {echo(self.percentile)}, less than one step; give at least {self.pacer_delta:g}, "
                "or a smaller pacer_delta"
            )

    @property
    def cluster_memory(self) -> Mapping[str, float]:
        """Exploration, the pacer, and how many samples a client can train on at most."""
        return {
            "exploration": self.exploration,
            "percentile": self.percentile,
            "rounds": 0.0,
            "utility_before": 0.0,
            "utility_now": 0.0,
            "n_train_samples": np.inf,
        }

    @property
    def needs_reports(self) -> bool:
        """Only if they make it forget."""
        return self.forget_on_report

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Return useful, fast, and untried candidates, rising."""
        known, n_places = candidates.known, min(max(0, n_wanted), candidates.clients.size)
        if known is None or not known.clients["times"].any():
            return np.sort(candidates.clients[smallest_draws(candidates.draws, n_places)])
        times = known.clients["times"][candidates.clients]
        barred = np.zeros(times.size, dtype=np.bool_)
        if self.blacklist_after >= 0:  # those asked most often, up to a share of all (ties: the first)
            often = np.argsort(-times, kind="stable")[: floor(self.blacklist_share * times.size + _ROUNDING)]
            barred[often] = times[often] > self.blacklist_after
        tried, untried = np.flatnonzero((times > 0) & ~barred), np.flatnonzero((times == 0) & ~barred)
        # Places that one side cannot fill go to the other.
        exploration = known.cluster["exploration"]
        n_explore = min(untried.size, n_places - floor(n_places * (1.0 - exploration) + _ROUNDING))
        n_exploit = min(tried.size, n_places - n_explore)
        n_explore = min(untried.size, n_places - n_exploit)
        exploited = self._exploit(candidates, known, tried, n_exploit)
        explored = self._explore(candidates, known, untried, n_explore)
        spare = np.flatnonzero(barred)
        spare = spare[smallest_draws(candidates.draws[spare], n_places - exploited.size - explored.size)]
        return np.sort(candidates.clients[np.concatenate([exploited, explored, spare])])

    def _exploit(self, candidates: Candidates, known: Known, tried: Counts, n_places: int) -> Counts:
        if not n_places:
            return tried[:0]
        scores = self.scores(candidates.clients[tried], known)
        chances = exploitation_chances(scores, n_places, cutoff=self.cutoff, pool=self.pool)
        return tried[weighted_sample(chances, candidates.draws[tried], n_places)]

    def _explore(self, candidates: Candidates, known: Known, untried: Counts, n_places: int) -> Counts:
        if not n_places:
            return untried[:0]
        clients, draws = candidates.clients[untried], candidates.draws[untried]
        # By the samples that each could train on; a client that never said counts like the mean of those that did. No
        # penalty for being slow: the speed of a client is unknown before it was tried.
        n_samples = known.clients["n_samples"][clients]
        is_known = np.isfinite(n_samples)
        usual = n_samples[is_known].mean() if is_known.any() else 1.0
        rewards = np.minimum(np.where(is_known, n_samples, usual), known.cluster["n_train_samples"])
        chances = exploration_chances(rewards, draws, ceil(self.sample_window * n_places))
        return untried[weighted_sample(chances, draws, n_places)]

    def note_reports(self, clients: Counts, n_samples: Counts | None, memory: SelectionMemory) -> None:
        """Note how many samples clients have; if asked to, forget when they took part."""
        if n_samples is not None:
            memory.clients["n_samples"][clients] = n_samples
        if self.forget_on_report:
            memory.clients["last_round"][clients] = 0.0

    def learn(self, feedback: Feedback, memory: SelectionMemory) -> None:
        """Write down what clients were worth and how long they took, and move the pacer."""
        rows = feedback.trained_clusters
        exploited = learn_clients(feedback, memory)
        own = memory.clusters
        own["n_train_samples"][rows] = feedback.n_train_samples
        own["exploration"][rows] = np.maximum(own["exploration"][rows] * self.exploration_decay, self.exploration_min)
        own["rounds"][rows] += 1
        own["utility_now"][rows] += exploited
        # Compare stretches of rounds that end now with those before: of the first, a utility of 0, which says nothing.
        ended = rows[own["rounds"][rows] % self.pacer_rounds == 0]
        own["percentile"][ended] = pace_percentiles(
            own["percentile"][ended],
            own["utility_before"][ended],
            own["utility_now"][ended],
            delta=self.pacer_delta,
            bounds=(self.pacer_flat, self.pacer_sharp),
        )
        own["utility_before"][ended] = own["utility_now"][ended]
        own["utility_now"][ended] = 0.0

    def scores(self, clients: Counts, known: Known) -> Vector:
        """Return the scores of clients that were tried, at least one."""
        own = {name: column[clients] for name, column in known.clients.items()}
        bonus = staleness_bonus(own["last_round"], known.round_index + 1, self.uncertainty)
        preferred = preferred_seconds(known.clients["seconds"][known.members], known.cluster["percentile"])
        factors = speed_factors(own["seconds"], preferred, self.penalty)
        return (statistical_scores(own["utility"], self.clip) + bonus) * factors


def learn_clients(feedback: Feedback, memory: SelectionMemory) -> Vector:
    """Write down what clients were worth and how long they took in a round of training.

    Returns the mean utility of the exploited (clients that answered and had been tried in an earlier round), one for
    each of ``feedback.trained_clusters``; 0 where there were none.
    """
    known, rows = memory.clients, feedback.trained_clusters
    worth = utilities(feedback.n_samples, feedback.square_loss, feedback.n_train_samples)
    was_tried = known["times"][feedback.clients] > 0
    exploited = _means_by_cluster(feedback.clusters[was_tried], worth[was_tried], rows)

    # Of a client with several answers the mean utility and the longest time count.
    answered, at = np.unique(feedback.clients, return_inverse=True)
    known["utility"][answered] = np.bincount(at, weights=worth, minlength=answered.size) / np.bincount(at)
    known["n_samples"][feedback.clients] = feedback.n_samples
    write_longest(known["seconds"], feedback.clients, feedback.seconds)

    # A straggler was tried, and is worth what is usual in its cluster; else in all; else what it was.
    is_late = ~np.isin(feedback.stragglers, feedback.clients)
    late = feedback.stragglers[is_late]
    stragglers, first = np.unique(late, return_index=True)
    by_cluster = _means_by_cluster(feedback.clusters, worth, rows)
    usual = by_cluster[np.searchsorted(rows, feedback.straggler_clusters[is_late][first])]
    if worth.size:
        usual = np.where(np.isnan(usual), worth.mean(), usual)
    known["utility"][stragglers] = np.where(np.isnan(usual), known["utility"][stragglers], usual)
    write_longest(known["seconds"], late, feedback.straggler_seconds[is_late])

    # A client that sent no model was tried, and is worth nothing; else it would be explored for ever.
    failed = np.setdiff1d(feedback.failed, np.concatenate([feedback.clients, feedback.stragglers]))
    known["utility"][failed] = 0.0
    for clients in (answered, stragglers, failed):
        known["last_round"][clients] = feedback.round_index + 1
        known["times"][clients] += 1
    return np.nan_to_num(exploited)


def _means_by_cluster(clusters: Counts, values: Vector, rows: Counts) -> Vector:
    """Return the mean of the values of each row, NaN where there are none."""
    at = np.searchsorted(rows, clusters)
    heads = np.bincount(at, minlength=rows.size)
    sums = np.bincount(at, weights=values, minlength=rows.size)
    return np.asarray(np.divide(sums, heads, out=np.full(rows.size, np.nan), where=heads > 0))


def write_longest(column: Vector, clients: Counts, seconds: Vector) -> None:
    """Write the longest of each client's new times into a column; other clients keep theirs."""
    column[clients] = -np.inf
    np.maximum.at(column, clients, seconds)


def utilities(n_samples: Counts, square_loss: Vector, n_train_samples: int) -> Vector:
    """Return what each answer was worth: the samples it could train on, times the root of the mean square loss.

    An answer whose loss is no finite number is worth the mean of the others, nothing if there are none.

    Examples
    --------
    >>> utilities(np.array([100, 3]), np.array([4.0, 1.0]), 50).tolist()
    [100.0, 3.0]
    """
    with np.errstate(invalid="ignore"):
        worth = np.minimum(n_samples, n_train_samples) * np.sqrt(square_loss)
    sound = np.isfinite(worth)
    return np.where(sound, worth, worth[sound].mean() if sound.any() else 0.0)


def preferred_seconds(seconds: Vector, percentile: float) -> float:
    """Return the duration that a share of the clients keeps to; infinite at 100 or if no duration is known.

    ``seconds``: the duration of each client's last participation, NaN where unknown.
    """
    known = np.sort(seconds[np.isfinite(seconds)])
    if percentile >= 100.0 or not known.size:
        return float("inf")
    return float(known[min(int(known.size * percentile / 100.0), known.size - 1)])


def speed_factors(seconds: Vector, preferred: float, penalty: float) -> Vector:
    """Return by how much scores shrink: ``(T / t)^penalty`` for clients slower than preferred, else 1.

    Examples
    --------
    >>> speed_factors(np.array([1.0, 4.0, np.nan]), 2.0, 2.0).tolist()
    [1.0, 0.25, 1.0]
    """
    factors = np.ones(seconds.size)
    is_slow = seconds > preferred
    factors[is_slow] = (preferred / seconds[is_slow]) ** penalty
    return factors


def statistical_scores(utility: Vector, clip: float) -> Vector:
    """Return utilities between the least and the greatest as numbers from about 0 to 1, the greatest clipped.

    ``utility``: of the clients that were tried, at least one. ``clip``: the quantile above which a utility counts no
    more.
    """
    # The least is lowered a little, so that no client is left without a chance.
    least, greatest = utility.min() * _BELOW_LEAST, utility.max()
    highest = np.sort(utility)[min(int(utility.size * clip), utility.size - 1)]
    return np.asarray((np.minimum(utility, highest) - least) / max(greatest - least, _LEAST_RANGE))


def staleness_bonus(last_round: Vector, round_now: int, uncertainty: float) -> Vector:
    """Return ``sqrt(uncertainty * ln(now) / last)``: the longer ago a client took part, the more.

    ``last_round``: when each took part last, counted from 1; 0 for never, which counts as the first round.
    """
    return np.asarray(np.sqrt(uncertainty * np.log(round_now) / np.maximum(last_round, 1.0)))


def exploitation_chances(scores: Vector, n_slots: int, *, cutoff: float, pool: float) -> Vector:
    """Return each client's chance to be the first that is drawn: by score, among the best; sums to 1.

    ``scores``: not negative, shape ``(n_tried,)``, at least one. ``cutoff``: the best are those whose score reaches
    this share of the score at rank ``n_slots``. ``pool``: they are at least this many for each slot (ties in).
    """
    ranked = np.sort(scores)[::-1]
    cut = ranked[min(n_slots, ranked.size - 1)] * cutoff
    widest = ranked[min(max(n_slots, int(np.ceil(pool * n_slots))), ranked.size) - 1] if n_slots else cut
    weights = np.where(scores >= min(cut, widest), scores, 0.0)
    if not weights.any():
        weights = np.ones(scores.size)
    return np.asarray(weights / weights.sum())


def exploration_chances(rewards: Vector, draws: Hashes, n_pool: int) -> Vector:
    """Return each untried client's chance to be the first that is drawn: by reward, among the best; sums to 1.

    ``rewards``: what is expected of each before it was tried, not negative, shape ``(n_untried,)``, at least one.
    ``draws``: a random number for each, which breaks ties, same shape.
    """
    weights = np.zeros(rewards.size)
    best = np.lexsort((draws, -rewards))[: max(1, n_pool)]
    weights[best] = rewards[best] if rewards[best].any() else 1.0
    return np.asarray(weights / weights.sum())


def pace_percentiles(
    percentile: Vector, before: Vector, now: Vector, *, delta: float, bounds: tuple[float, float]
) -> Vector:
    """Return the percentiles of preferred durations after a comparison of two stretches of rounds, one per cluster.

    Where the utility of exploited clients stays about the same, there is nothing more to get from fast clients: the
    percentile grows. Where it changes sharply, it shrinks. A first stretch without utility says nothing.

    ``percentile``: as it was, shape ``(n_clusters,)``. ``before``, ``now``: summed utility of the two stretches, same
    shape. ``delta``: the step, and the least percentile; 100 is the most. ``bounds``: a change up to the first multiple
    of ``before`` is flat, one from the second on is sharp.

    Examples
    --------
    >>> before, now = np.array([100.0, 100.0, 100.0]), np.array([95.0, 150.0, 600.0])
    >>> pace_percentiles(np.full(3, 30.0), before, now, delta=5.0, bounds=(0.1, 5.0)).tolist()
    [35.0, 30.0, 25.0]
    """
    change, says_something = np.abs(now - before), before > 0.0
    is_flat: Mask = says_something & (change <= bounds[0] * before)
    is_sharp: Mask = says_something & ~is_flat & (change >= bounds[1] * before)
    moved = percentile + delta * is_flat - delta * is_sharp
    return np.where(is_flat | is_sharp, np.clip(moved, delta, 100.0), percentile)
