"""Useful and fast clients first: Oort (Lai et al., OSDI 2021; METHODS.md 9.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

import numpy as np

from fielding._options import check_flag
from fielding._typing import Counts, Mask, Vector
from fielding.errors import OptionError, echo
from fielding.federation.selection.client_statistics import learn_clients
from fielding.federation.selection.feedback import Feedback
from fielding.federation.selection.memory import Memory
from fielding.federation.selection.options import check_between, check_whole
from fielding.federation.selection.pacer import paced_percentiles
from fielding.federation.selection.sampling import smallest_draws, weighted_sample
from fielding.federation.selection.scoring import (
    exploitation_chances,
    exploration_chances,
    preferred_seconds,
    speed_factors,
    staleness_bonus,
    statistical_scores,
)
from fielding.federation.selection.selector import Candidates, Known

_ROUNDING = 1e-9


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
        check_whole("pacer_rounds", self.pacer_rounds, 1)
        check_whole("blacklist_after", self.blacklist_after, -1)
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
        barred = self._barred(times)
        tried, untried = np.flatnonzero((times > 0) & ~barred), np.flatnonzero((times == 0) & ~barred)
        n_exploit, n_explore = self._places(n_places, tried.size, untried.size, known.cluster["exploration"])
        exploited = self._exploited(candidates, known, tried, n_exploit)
        explored = self._explored(candidates, known, untried, n_explore)
        spare = np.flatnonzero(barred)
        spare = spare[smallest_draws(candidates.draws[spare], n_places - exploited.size - explored.size)]
        return np.sort(candidates.clients[np.concatenate([exploited, explored, spare])])

    def hear(self, clients: Counts, n_samples: Counts | None, memory: Memory) -> None:
        """Note how many samples clients have; if asked to, forget when they took part."""
        if n_samples is not None:
            memory.clients["n_samples"][clients] = n_samples
        if self.forget_on_report:
            memory.clients["last_round"][clients] = 0.0

    def learn(self, feedback: Feedback, memory: Memory) -> None:
        """Write down what clients were worth and how long they took, and move the pacer."""
        rows = feedback.trained_clusters
        exploited = learn_clients(feedback, memory)
        own = memory.clusters
        own["n_train_samples"][rows] = feedback.n_train_samples
        own["exploration"][rows] = np.maximum(own["exploration"][rows] * self.exploration_decay, self.exploration_min)
        own["rounds"][rows] += 1
        own["utility_now"][rows] += exploited
        self._pace(rows[own["rounds"][rows] % self.pacer_rounds == 0], memory)

    def scores(self, clients: Counts, known: Known) -> Vector:
        """Return the scores of clients that were tried, at least one."""
        own = {name: column[clients] for name, column in known.clients.items()}
        bonus = staleness_bonus(own["last_round"], known.round_index + 1, self.uncertainty)
        preferred = preferred_seconds(known.clients["seconds"][known.members], known.cluster["percentile"])
        factors = speed_factors(own["seconds"], preferred, self.penalty)
        return (statistical_scores(own["utility"], self.clip) + bonus) * factors

    def _pace(self, rows: Counts, memory: Memory) -> None:
        """Compare the stretch of rounds that ends now with the one before, and begin a new one."""
        own = memory.clusters
        # Before the first stretch there is none: a utility of 0, which the pacer leaves alone.
        own["percentile"][rows] = paced_percentiles(
            own["percentile"][rows],
            own["utility_before"][rows],
            own["utility_now"][rows],
            delta=self.pacer_delta,
            bounds=(self.pacer_flat, self.pacer_sharp),
        )
        own["utility_before"][rows] = own["utility_now"][rows]
        own["utility_now"][rows] = 0.0

    def _places(self, n_places: int, n_tried: int, n_untried: int, exploration: float) -> tuple[int, int]:
        """Return how many are exploited and explored; places that one side cannot fill go to the other."""
        n_explore = min(n_untried, n_places - floor(n_places * (1.0 - exploration) + _ROUNDING))
        n_exploit = min(n_tried, n_places - n_explore)
        return n_exploit, min(n_untried, n_places - n_exploit)

    def _barred(self, times: Vector) -> Mask:
        """Return who was asked too often: of those the most often asked, up to a share of all (ties: the first)."""
        barred = np.zeros(times.size, dtype=np.bool_)
        if self.blacklist_after >= 0:
            often = np.argsort(-times, kind="stable")[: floor(self.blacklist_share * times.size + _ROUNDING)]
            barred[often] = times[often] > self.blacklist_after
        return barred

    def _exploited(self, candidates: Candidates, known: Known, tried: Counts, n_places: int) -> Counts:
        if not n_places:
            return tried[:0]
        scores = self.scores(candidates.clients[tried], known)
        chances = exploitation_chances(scores, n_places, cutoff=self.cutoff, pool=self.pool)
        return tried[weighted_sample(chances, candidates.draws[tried], n_places)]

    def _explored(self, candidates: Candidates, known: Known, untried: Counts, n_places: int) -> Counts:
        if not n_places:
            return untried[:0]
        clients, draws = candidates.clients[untried], candidates.draws[untried]
        # No penalty for being slow: nobody knows the speed of a client before it was tried.
        chances = exploration_chances(self._expected(clients, known), draws, ceil(self.sample_window * n_places))
        return untried[weighted_sample(chances, draws, n_places)]

    def _expected(self, clients: Counts, known: Known) -> Vector:
        """Return the samples that each could train on; who never told counts like the mean of those who did."""
        told = known.clients["n_samples"][clients]
        knows = np.isfinite(told)
        usual = told[knows].mean() if knows.any() else 1.0
        return np.minimum(np.where(knows, told, usual), known.cluster["n_train_samples"])
