"""Auxo: cohorts that split by the updates that participants send anyway (METHODS.md 3).

Liu et al., "Auxo: Efficient Federated Learning via Scalable Client Clustering", SoCC 2023.
What the authors' code does by mistake is put right: scores go to clients, not to positions in a batch; several
neighbors decide, not one; exploration fades once a round, not at every decision; all cohorts share one clock; and every
client is tested on the model of its cohort, not those alone that fit it best. Read :meth:`Auxo.learn` first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.config.options import number, one_of, whole
from fielding.errors import OptionError, echo
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting, plan_by_cluster
from fielding.methods.update_geometry import (
    center_products,
    cosines_from,
    distances_to_mean,
    products,
    subtract,
    two_means,
)
from fielding.rng import client_keys, hashed, stream

SPLITS = ("ours", "forced", "original")
UNDECIDED: Final = -1  # the side of a client that leans to neither half of its cohort
FIRST_SCORE = 1.0
LEAST_FEATURE_SHARE = 1e-6


class Auxo:
    """Starts with one cohort, and splits cohorts whose participants' updates fall into two halves.

    Parameters
    ----------
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

    def __init__(
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
        one_of("split", split, SPLITS)
        if not isinstance(forced_rounds, (list, tuple)):
            raise OptionError(f"forced_rounds is {echo(forced_rounds)}; give a list of whole numbers from 1")
        for at in forced_rounds:
            whole("forced_rounds", at)
        if split == "forced" and not forced_rounds:
            raise OptionError('forced_rounds is empty; name the counters at which cohorts split, or another "split"')
        self._split_rule, self._forced_rounds = split, forced_rounds
        self._neighbors, self._min_results = whole("neighbors", neighbors), whole("min_results", min_results, least=2)
        self._start_round = whole("start_round", start_round, least=0)
        self._stop_after = whole("stop_after", stop_after, least=0)
        self._base_reward = number("base_reward", base_reward, most=1e6)
        n_parameters, n_clients = setting.n_parameters or setting.initial.size, len(setting.client_ids)
        n_compared = max(1, int(number("feature_share", feature_share, least=LEAST_FEATURE_SHARE) * n_parameters))
        self._feature = slice(n_parameters - n_compared, n_parameters)
        self._epsilon, self._epsilon_decay = number("epsilon", epsilon), number("epsilon_decay", epsilon_decay)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._parts, self._seed = setting.parts, setting.seed
        self._keys = client_keys(setting.client_ids)
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
        """Choose ``participants // n_cohorts`` clients in each cohort that can be asked, at least one.

        Slots that a small cohort cannot fill go to others unless the budget is strict, as with every method.
        """
        n_open = np.unique(self._membership[clients.askable()]).size
        share = max(1, self._parts.participants // self._ids.size)
        parts = replace(self._parts, participants=min(self._parts.participants, share * n_open))
        return plan_by_cluster(self._cluster_models, self._membership, clients, parts, is_parallel=True)

    def learn(self, updates: Updates) -> None:
        """Combine what came back; compare the updates, split cohorts that are ripe, and let participants move."""
        self._round = updates.round_index
        compared: list[tuple[int, Counts, Matrix]] = []  # cohort, participants, inner products of their updates
        for cohort in np.unique(updates.start).tolist() if self._round >= self._start_round else []:
            own = np.flatnonzero(updates.start == cohort)
            if own.size >= self._min_results:
                deltas = subtract(updates.models[own, self._feature], self.models[cohort, self._feature])
                compared.append((cohort, updates.clients[own], center_products(products(deltas, deltas))))
        self._cluster_models.learn(updates)
        scored = [(cohort, who) for cohort, who, inner in compared if self._score(cohort, who, inner)]
        n_before = self._ids.size
        for cohort, _ in scored:
            if self._is_ripe(cohort):
                self._split(cohort)
        if self._ids.size > n_before:
            self._place(np.arange(self._membership.size))
        elif scored:
            self._place(np.concatenate([who for _, who in scored]))

    def _score(self, cohort: int, clients: Counts, inner: Matrix) -> bool:
        """Change the scores of a cohort's participants; return whether it may split and move them."""
        self._counters[cohort] += 1
        if self._still_splits(cohort):
            if self._has_halves[cohort]:
                extend_halves(self._scores, clients, cohort, inner=inner, neighbors=self._neighbors)
            else:
                rng = stream(self._seed, "auxo-halves", self._round, int(self._ids[cohort]))
                self._has_halves[cohort] = begin_halves(self._scores, clients, cohort, inner=inner, rng=rng)
        return reward_likeness(self._scores, clients, cohort, inner=inner, base_reward=self._base_reward)

    def _still_splits(self, cohort: int) -> bool:
        """Return whether it still matters to which half participants lean."""
        if self._split_rule == "forced":
            return bool(self._counters[cohort] <= max(self._forced_rounds) + 1)
        return self._round < self._stop_after

    def _is_ripe(self, cohort: int) -> bool:
        if not self._still_splits(cohort):
            return False
        if self._split_rule == "forced":
            return int(self._counters[cohort]) in self._forced_rounds
        members = np.flatnonzero(self._membership == cohort)
        sides = self._scores.sides(members, cohort)
        return is_large_enough(
            n_clients=self._membership.size,
            participants=self._parts.participants,
            n_cohorts=self._ids.size,
            n_members=members.size,
            sides=(int((sides == 0).sum()), int((sides == 1).sum())),
            min_results=None if self._split_rule == "original" else self._min_results,
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


def is_large_enough(
    *,
    n_clients: int,
    participants: int,
    n_cohorts: int,
    n_members: int,
    sides: tuple[int, int],
    min_results: int | None,
) -> bool:
    """Return whether a cohort is large enough to split, and enough of its members lean to both halves.

    ``sides``: how many members lean to each half. ``min_results``: no cohort may expect fewer participants after a
    split, the authors' bounds, scaled to federations of any size (METHODS.md 3.7.1); None for the authors' own bounds,
    which federations of few clients never reach.
    """
    if min_results is None:
        is_large, least = n_members >= 100.0 * n_clients / participants, float(n_clients // 20)
    else:
        share = participants / (n_cohorts + 1)
        is_large, least = share >= min_results and n_members >= 2.0 * share, 0.05 * n_clients
    # From the second split on, about as many have to lean to either half.
    is_balanced = n_cohorts == 1 or 0.5 < sides[0] / max(sides[1], 1) < 2.0
    return is_large and min(sides) > least * 0.9 ** (n_cohorts - 1) and is_balanced


def begin_halves(
    scores: "CohortScores", clients: Counts, cohort: int, *, inner: Matrix, rng: np.random.Generator
) -> bool:
    """Cut the participants of a cohort in two for the first time; return whether there were enough to do so.

    ``scores``: participants then lean to their half. ``clients``, ``cohort``: the participants; once there are several
    cohorts, only those that are known in this one count. ``inner``: inner products of their updates, less the mean
    update, shape ``(n_clients, n_clients)``.
    """
    used = scores.known(clients, cohort) if scores.n_cohorts > 1 else np.arange(clients.size)
    if used.size < 2:
        return False
    halves = two_means(cosines_from(inner)[np.ix_(used, used)], rng)
    # Not the positions among those used, as the authors' code has it: the scores would go to other clients.
    scores.lean(clients[used], cohort, halves.astype(np.int64))
    return True


def extend_halves(scores: "CohortScores", clients: Counts, cohort: int, *, inner: Matrix, neighbors: int) -> None:
    """Let undecided participants of a cohort lean to the half of those whose updates point the same way.

    If only one half is there, a quarter of the participants follows its first member. If both are, each undecided one
    asks its nearest decided ones: at most ``neighbors``, and no more than let the smaller half win. More than three
    against two are wanted, whichever half wins.
    """
    sides = scores.sides(clients, cohort)
    decided, undecided = np.flatnonzero(sides != UNDECIDED), np.flatnonzero(sides == UNDECIDED)
    if not decided.size:
        return
    likeness = cosines_from(inner)
    n_smaller = min(int((sides == 0).sum()), int((sides == 1).sum()))
    if n_smaller == 0:
        order = np.argsort(-likeness[decided[0]], kind="stable")
        order = np.concatenate([decided[:1], order[order != decided[0]]])  # no client is nearer than itself
        scores.lean(clients[order[: clients.size // 4]], cohort, int(sides[decided[0]]))
        return
    n_asked = min(neighbors, 2 * n_smaller - 1)
    nearest = np.argsort(-likeness[np.ix_(undecided, decided)], axis=1, kind="stable")[:, :n_asked]
    votes = (sides[decided][nearest] == 1).sum(axis=1)
    more = np.maximum(votes, n_asked - votes)
    is_clear = 2 * more > 3 * (n_asked - more)
    scores.lean(clients[undecided[is_clear]], cohort, (2 * votes > n_asked).astype(np.int64)[is_clear])


def reward_likeness(scores: "CohortScores", clients: Counts, cohort: int, *, inner: Matrix, base_reward: float) -> bool:
    """Reward participants that are near the known ones of their cohort, and punish those that are far from them.

    At no distance the reward is the base; it falls to 0 at one standard deviation above the mean distance. With one
    cohort there is nothing to decide between. Return whether the cohort knows enough to go on: with fewer than two
    known participants it neither splits nor moves any client.
    """
    if scores.n_cohorts == 1:
        return True
    known = scores.known(clients, cohort)
    if known.size < 2:
        return False
    distances = distances_to_mean(inner, known)
    scale = float(distances.mean() + distances.std())
    rewards = base_reward - base_reward * (distances / scale if scale > 0.0 else distances)
    scores.reward(clients, cohort, rewards * (known.size / clients.size))
    return True


class CohortScores:
    """Scores of clients in cohorts, which change for participants alone, and double a column when a cohort splits.

    The authors keep two half scores, ``sub = score / 2 +- leaning``; only their difference ever matters.
    """

    def __init__(self, n_clients: int) -> None:
        self.score = np.full((n_clients, 1), FIRST_SCORE)
        self._leaning = np.zeros((n_clients, 1), dtype=np.int64)
        self._times = np.zeros((n_clients, 1), dtype=np.int64)

    @property
    def n_cohorts(self) -> int:
        """How many cohorts there are."""
        return self.score.shape[1]

    def sides(self, clients: Counts, cohort: int) -> Counts:
        """Return the half that each client leans to, 0 or 1; -1 if to none, or if its score is below 0."""
        leaning = self._leaning[clients, cohort]
        is_open = (leaning == 0) | (self.score[clients, cohort] < 0.0)
        return np.where(is_open, UNDECIDED, (leaning < 0).astype(np.int64))

    def known(self, clients: Counts, cohort: int) -> Counts:
        """Return the positions of those clients that counted before and whose score is above that of a stranger."""
        return np.flatnonzero((self._times[clients, cohort] > 0) & (self.score[clients, cohort] > FIRST_SCORE))

    def lean(self, clients: Counts, cohort: int, sides: Counts | int) -> None:
        """Let clients lean a step more to a half of their cohort."""
        self._leaning[clients, cohort] += np.where(np.asarray(sides) == 0, 1, -1)
        self._times[clients, cohort] += 1

    def reward(self, clients: Counts, cohort: int, rewards: Vector) -> None:
        """Add to the scores of clients; one that loses leans to no half any more."""
        self.score[clients, cohort] += rewards
        losers = clients[rewards < 0.0]
        self._leaning[losers, cohort] = 0
        self._times[losers, cohort] = 0
        self._times[clients, cohort] += 1

    def split(self, cohort: int) -> None:
        """Make the half 1 of a cohort a new cohort, the last one; who leans to a half gains a point there.

        A client that leans to none has counted in neither, so that it is placed like a newcomer.
        """
        leaning, score, times = self._leaning[:, cohort], self.score[:, cohort], self._times[:, cohort]
        stays, goes = leaning > 0, leaning < 0
        self.score = np.column_stack([self.score, score + goes])
        self._times = np.column_stack([self._times, times * goes])
        self.score[:, cohort] += stays
        self._times[:, cohort] *= stays
        self._leaning = np.column_stack([self._leaning, np.zeros_like(leaning)])
        self._leaning[:, cohort] = 0

    def preferred(self, clients: Counts) -> Membership:
        """Return the cohort with each client's highest score; ties: the lower one."""
        return np.asarray(np.argmax(self.score[clients], axis=1), dtype=np.int32)

    def is_new(self, clients: Counts) -> Mask:
        """Return who never counted anywhere."""
        return np.asarray(~self._times[clients].any(axis=1))

    def arrays(self) -> Arrays:
        """Return the scores, for a checkpoint."""
        return {"score": self.score.copy(), "leaning": self._leaning.copy(), "times": self._times.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.score = arrays["score"].astype(np.float64)
        self._leaning = arrays["leaning"].astype(np.int64)
        self._times = arrays["times"].astype(np.int64)


KIND = MethodKind(
    summary="cohorts that split by the updates of their participants; who trains may move, others stay (Auxo)",
    sends="nothing",
    build=Auxo,
)
