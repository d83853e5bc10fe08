"""Stage 11 in private: one noised mean of the updates of each cluster, made once by the server (DP-FedAvg).

McMahan et al., 2018: each update is cut down to a length, noise is added to the sum of a cluster's, and the sum is
divided by how many participants the cluster was expected to have, not by how many it had.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np

from fielding._typing import Mask, Models, Vector
from fielding.client.privacy.gaussian import draw_normals
from fielding.client.privacy.geometric import RandomWords
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.training import PrivateTraining, draw_samples
from fielding.federation.clients import Updates

_LOG = logging.getLogger(__name__)
ALL = "all"  # whom the ledger charges: every client at once
MOST_NOISE = 5.0
"""Length that the noise on a cluster's mean may have at most, in clips; a cluster with more does not train."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DpFedAvg:
    """How participants are drawn and their updates summed, so that models tell little of any client.

    ``words``: the randomness of a round, by its index, for the draw (0) and for the noise (1); ``n_parameters``: how
    many numbers of a model are trained.
    """

    rule: PrivateTraining
    ledger: PrivacyLedger
    words: Callable[[int, int], RandomWords]
    n_parameters: int

    @property
    def least_members(self) -> int:
        """Number of clients from which on a cluster trains: with fewer, noise would be too long beside a clip."""
        return max(1, ceil(self.rule.noise * sqrt(self.n_parameters) / (self.rule.rate * MOST_NOISE)))

    def expected(self, sizes: Vector) -> Vector:
        """Return how many participants each cluster has on average, 0 if it is too small to train.

        ``sizes``: how many clients each has. Whoever sees which clusters train, and by how much, learns of these:
        where they must not be known exactly, they are noised.
        """
        return np.where(sizes >= self.least_members, self.rule.rate * sizes, 0.0)

    def draw_clients(self, n_clients: int, round_index: int) -> Mask:
        """Return which clients are to train in a round, each by chance and by itself; none if the budget is spent."""
        if not self.ledger.grants(ALL, round_index):
            return np.zeros(n_clients, dtype=np.bool_)
        drawn = draw_samples(n_clients, self.rule.rate, n_steps=1, words=self.words(round_index, 0))
        return np.asarray(drawn[0], dtype=np.bool_)

    def noised(self, models: Models, updates: Updates, expected: Vector) -> Updates:
        """Return one answer for each cluster that trains, the noised mean of its updates, also if none came.

        Once the budget is spent there is no answer, and models stay as they are: a round that a crash made the server
        go through again was released twice, each time with other noise, and spent twice.
        """
        at, rows = updates.round_index, np.flatnonzero(expected)
        if not self.ledger.spend([(ALL, at + 1)], at)[0]:
            _LOG.warning(
                "round %d: what models may tell of a client is spent (privacy.training_epsilon is %g for %d rounds), "
                "so models stay as they are",
                at,
                self.rule.epsilon,
                self.rule.n_times,
            )
            rows = rows[:0]
        words, made = self.words(at, 1), models[rows].copy()
        for place, row in enumerate(rows.tolist()):
            start = models[row, : self.n_parameters].astype(np.float64)
            total = self.rule.noise * self.rule.clip * draw_normals(self.n_parameters, words)
            for sent in updates.models[updates.start == row]:
                change = sent[: self.n_parameters] - start
                total += change * min(1.0, self.rule.clip / max(float(np.linalg.norm(change)), 1e-30))
            made[place, : self.n_parameters] = start + total / expected[row]
        return replace(
            updates,
            clients=np.full(rows.size, -1),
            groups=np.arange(rows.size),
            start=rows,
            models=made,
            n_samples=np.ones(rows.size, dtype=np.int64),
            loss=np.zeros(rows.size),
            square_loss=np.zeros(rows.size),
            start_loss=None,
            expert_losses=None,
            metrics={},
        )
