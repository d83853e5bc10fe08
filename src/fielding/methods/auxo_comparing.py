"""Auxo, inside a round: compare the updates of a cohort's participants, and change their scores accordingly."""

import numpy as np

from fielding._typing import Counts, Matrix, Vector
from fielding.methods.auxo_rules import AuxoRules
from fielding.methods.auxo_scores import UNDECIDED, CohortScores
from fielding.methods.gram import cosines_from, distances_to_mean, two_means


def begin_halves(
    scores: CohortScores, clients: Counts, cohort: int, *, inner: Matrix, rng: np.random.Generator
) -> bool:
    """Cut the participants of a cohort in two for the first time; return whether there were enough to do so.

    Parameters
    ----------
    scores
        Participants then lean to their half.
    clients, cohort
        The participants; once there are several cohorts, only those that are known in this one count.
    inner
        Inner products of their updates, less the mean update, shape ``(n_clients, n_clients)``.
    rng
        For 2-means.
    """
    used = scores.known(clients, cohort) if scores.n_cohorts > 1 else np.arange(clients.size)
    if used.size < 2:
        return False
    halves = two_means(cosines_from(inner)[np.ix_(used, used)], rng)
    # Not the positions among those used, as the authors' code has it: the scores would go to other clients.
    scores.lean(clients[used], cohort, halves.astype(np.int64))
    return True


def extend_halves(scores: CohortScores, clients: Counts, cohort: int, *, inner: Matrix, neighbors: int) -> None:
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
        order = np.concatenate([decided[:1], order[order != decided[0]]])  # nobody is nearer than itself
        scores.lean(clients[order[: clients.size // 4]], cohort, int(sides[decided[0]]))
        return
    n_asked = min(neighbors, 2 * n_smaller - 1)
    nearest = np.argsort(-likeness[np.ix_(undecided, decided)], axis=1, kind="stable")[:, :n_asked]
    votes = (sides[decided][nearest] == 1).sum(axis=1)
    more = np.maximum(votes, n_asked - votes)
    is_clear = 2 * more > 3 * (n_asked - more)
    scores.lean(clients[undecided[is_clear]], cohort, (2 * votes > n_asked).astype(np.int64)[is_clear])


def reward_likeness(scores: CohortScores, clients: Counts, cohort: int, *, inner: Matrix, rules: AuxoRules) -> bool:
    """Reward participants that are near the known ones of their cohort, and punish those that are far from them.

    With one cohort there is nothing to decide between. Return whether the cohort knows enough to go on: with fewer
    than two known participants it neither splits nor moves anybody.
    """
    if scores.n_cohorts == 1:
        return True
    known = scores.known(clients, cohort)
    if known.size < 2:
        return False
    distances = distances_to_mean(inner, known)
    rewards = _rewards(distances, rules.base_reward) * (known.size / clients.size)
    scores.reward(clients, cohort, rewards)
    return True


def _rewards(distances: Vector, base: float) -> Vector:
    """Return the base at no distance, falling to 0 at one standard deviation above the mean distance."""
    scale = float(distances.mean() + distances.std())
    return base - base * (distances / scale if scale > 0.0 else distances)
