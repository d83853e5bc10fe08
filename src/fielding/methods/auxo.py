"""Auxo: cohorts that split by the updates that participants send anyway (Liu et al., SoCC 2023; METHODS.md section 3).

What the authors' code does by mistake is put right: scores go to clients, not to positions in a batch; several
neighbors decide, not one; exploration fades once a round, not at every decision; all cohorts share one clock; and every
client is tested on the model of its cohort, not those alone that fit it best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Counts, Json, Matrix, Membership, Models
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.auxo_comparing import begin_halves, extend_halves, reward_likeness
from fielding.methods.auxo_rules import AuxoRules, Cohort
from fielding.methods.auxo_scores import CohortScores
from fielding.methods.gram import centered, products
from fielding.methods.method import MethodSetting, Parts, plan_by_cluster
from fielding.methods.option_checks import number
from fielding.methods.probing import difference
from fielding.rng import client_key, hashed, stream

_LEAST_SHARE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Compared:
    """The participants of a cohort, and the inner products of their updates, less the mean update."""

    cohort: int
    clients: Counts
    inner: Matrix


class Auxo:
    """Starts with one cohort, and splits cohorts whose participants' updates fall into two halves.

    Parameters
    ----------
    setting
        What it is made of.
    split
        When a cohort splits: ``"ours"`` (bounds that scale with the federation), ``"forced"`` (at given counters,
        as shipped by the authors), ``"original"`` (the authors' bounds, which federations of few clients never reach).
    forced_rounds
        How many comparisons a cohort has behind it, those of its ancestors included, when it splits (only with
        ``"forced"``).
    base_reward
        What a participant gains that is exactly like the others of its cohort.
    epsilon, epsilon_decay
        Chance that a participant goes to a random cohort, and the factor on it per round.
    neighbors
        How many decided participants decide on an undecided one, at most.
    feature_share
        The last part of an update that is compared, of its parameters.
    min_results
        With fewer answers, a cohort compares none; with ``"ours"``, no cohort may expect fewer after a split.
    start_round, stop_after
        Rounds before which nothing is compared, and after which no cohort splits any more; the latter does not matter
        with ``"forced"``.
    """

    def __init__(  # noqa: PLR0913 - the knobs of the paper
        self,
        setting: MethodSetting,
        *,
        split: str = "ours",
        forced_rounds: Sequence[int] = (50, 100),
        base_reward: float = 5.0,
        epsilon: float = 0.01,
        epsilon_decay: float = 0.99,
        neighbors: int = 5,
        feature_share: float = 0.1,
        min_results: int = 5,
        start_round: int = 0,
        stop_after: int = 500,
    ) -> None:
        self._rules = AuxoRules(
            split=split,
            forced_rounds=forced_rounds,
            base_reward=base_reward,
            neighbors=neighbors,
            min_results=min_results,
            start_round=start_round,
            stop_after=stop_after,
        )
        n_parameters, n_clients = setting.n_parameters or setting.initial.size, len(setting.client_ids)
        n_compared = max(1, int(number("feature_share", feature_share, least=_LEAST_SHARE) * n_parameters))
        self._feature = slice(n_parameters - n_compared, n_parameters)
        self._epsilon, self._epsilon_decay = number("epsilon", epsilon), number("epsilon_decay", epsilon_decay)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._parts, self._seed = setting.parts, setting.seed
        self._keys = np.array([client_key(one) for one in setting.client_ids], dtype=np.uint64)
        self._scores = CohortScores(n_clients)
        self._membership = np.zeros(n_clients, dtype=np.int32)
        self._counters, self._has_halves = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
        self._ids = np.zeros(1, dtype=np.int64)
        self._round = 0

    @property
    def models(self) -> Models:
        """One row per cohort."""
        return self._cluster_models.models

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose as many participants in every cohort."""
        parts = equal_shares(self._parts, self._membership, clients, n_cohorts=self._ids.size)
        return plan_by_cluster(self._cluster_models, self._membership, clients, parts)

    def learn(self, updates: Updates) -> None:
        """Combine what came back; compare the updates, split cohorts that are ripe, and let participants move."""
        self._round = updates.round_index
        compared = self._compared(updates) if self._round >= self._rules.start_round else []
        self._cluster_models.learn(updates)
        judged = [one for one in compared if self._judged(one)]
        n_before = self._ids.size
        for one in judged:
            if self._is_ripe(one.cohort):
                self._split(one.cohort)
        if self._ids.size > n_before:
            self._place(np.arange(self._membership.size))
        elif judged:
            self._place(np.concatenate([one.clients for one in judged]))

    def _compared(self, updates: Updates) -> list[_Compared]:
        """Return what the participants of each cohort have in common, where enough of them answered."""
        found = []
        for cohort in np.unique(updates.start).tolist():
            own = np.flatnonzero(updates.start == cohort)
            if own.size >= self._rules.min_results:
                deltas = difference(updates.models[own, self._feature], self.models[cohort, self._feature])
                inner = centered(products(deltas, deltas))
                found.append(_Compared(cohort=cohort, clients=updates.clients[own], inner=inner))
        return found

    def _judged(self, one: _Compared) -> bool:
        """Change the scores of a cohort's participants; return whether it may split and move them."""
        cohort, scores, rules = one.cohort, self._scores, self._rules
        self._counters[cohort] += 1
        if rules.still_splits(self._round, int(self._counters[cohort])):
            if self._has_halves[cohort]:
                extend_halves(scores, one.clients, cohort, inner=one.inner, neighbors=rules.neighbors)
            else:
                rng = stream(self._seed, "auxo-halves", self._round, int(self._ids[cohort]))
                self._has_halves[cohort] = begin_halves(scores, one.clients, cohort, inner=one.inner, rng=rng)
        return reward_likeness(scores, one.clients, cohort, inner=one.inner, rules=rules)

    def _is_ripe(self, cohort: int) -> bool:
        counter = int(self._counters[cohort])
        if not self._rules.still_splits(self._round, counter):
            return False
        members = np.flatnonzero(self._membership == cohort)
        sides = self._scores.sides(members, cohort)
        return self._rules.is_ripe(
            Cohort(
                n_clients=self._membership.size,
                participants=self._parts.participants,
                n_cohorts=self._ids.size,
                n_members=members.size,
                sides=(int((sides == 0).sum()), int((sides == 1).sum())),
                counter=counter,
            )
        )

    def _split(self, cohort: int) -> None:
        """Start a new cohort from the model and the counter of one that splits."""
        n_cohorts = self._ids.size
        self._scores.split(cohort)
        self._cluster_models.mix(np.eye(n_cohorts)[[*range(n_cohorts), cohort]])
        self._counters = np.append(self._counters, self._counters[cohort])
        self._has_halves = np.append(self._has_halves, np.False_)
        self._has_halves[cohort] = False
        self._ids = np.append(self._ids, self._ids.max() + 1)

    def _place(self, clients: Counts) -> None:
        """Give clients the cohort with their highest score; newcomers, and now and then another, a random one."""
        n_cohorts = self._ids.size
        chance = self._epsilon * self._epsilon_decay**self._round
        explores = hashed(self._seed, "auxo-explore", self._round, self._keys[clients]) < chance * 2.0**64
        anywhere = hashed(self._seed, "auxo-cohort", self._round, self._keys[clients]) % np.uint64(n_cohorts)
        is_random = explores | self._scores.is_new(clients)
        self._membership = self._membership.copy()
        self._membership[clients] = np.where(is_random, anywhere.astype(np.int32), self._scores.preferred(clients))

    def membership(self) -> Membership:
        """Return the cohort of each client."""
        return self._membership

    def cluster_ids(self) -> tuple[int, ...]:
        """Return the stable ids of the cohorts: of a split, the half 0 keeps the id."""
        return tuple(self._ids.tolist())

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return models, scores and cohorts."""
        return {}, {
            **self._cluster_models.arrays(),
            **self._scores.arrays(),
            "membership": self._membership,
            "counters": self._counters.copy(),
            "has_halves": self._has_halves.copy(),
            "ids": self._ids,
        }

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self._cluster_models.restore(arrays)
        self._scores.restore(arrays)
        self._membership = arrays["membership"].astype(np.int32)
        self._counters = arrays["counters"].astype(np.int64)
        self._has_halves = arrays["has_halves"].astype(np.bool_)
        self._ids = arrays["ids"].astype(np.int64)


def equal_shares(parts: Parts, membership: Membership, clients: Clients, *, n_cohorts: int) -> Parts:
    """Return the parts with ``participants // n_cohorts`` for each cohort that can be asked, at least one, never more.

    Slots that a small cohort cannot fill go to others unless the budget is strict, as with every method.
    """
    n_open = np.unique(membership[clients.askable()]).size
    share = max(1, parts.participants // n_cohorts)
    return replace(parts, participants=min(parts.participants, share * n_open))
