"""Rounds of choosing and training on made-up clients, for the tests of selectors."""

import numpy as np

from fielding._typing import Counts, Vector
from fielding.federation.selection import Candidates, Feedback, Selection
from fielding.rng import hashed

N_TRAIN_SAMPLES = 40


def candidates_of(clients: Counts, round_index: int, seed: int = 0) -> Candidates:
    """Return candidates with the draws of a round."""
    return Candidates(clients=clients, draws=hashed(seed, "select", round_index, clients.astype(np.uint64)))


def feedback_of(
    clients: list[int],
    *,
    loss: list[float] | None = None,
    seconds: list[float] | None = None,
    cluster: int = 0,
    round_index: int = 0,
    late: dict[int, float] | None = None,
) -> Feedback:
    """Return answers for one cluster, of clients with more samples than they train on; ``late`` gives stragglers."""
    losses = np.array(loss or [1.0] * len(clients))
    times = np.array(seconds or [1.0] * len(clients))
    slow = late or {}
    return Feedback(
        round_index=round_index,
        n_train_samples=N_TRAIN_SAMPLES,
        clients=np.array(clients, dtype=np.int64),
        clusters=np.full(len(clients), cluster),
        n_samples=np.full(len(clients), 1000),
        loss=losses,
        square_loss=losses**2,
        seconds=times,
        compute_seconds=times / 2,
        stragglers=np.array(list(slow), dtype=np.int64),
        straggler_clusters=np.full(len(slow), cluster),
        straggler_seconds=np.array(list(slow.values())),
    )


class Federation:
    """Clients with fixed losses and speeds; each round every cluster asks some, and waits for all but the slowest."""

    def __init__(self, loss: Vector, seconds: Vector, *, n_clusters: int = 1, n_wanted: int = 10) -> None:
        self.loss, self.seconds = loss, seconds
        self.cluster_of = np.arange(loss.size) % n_clusters
        self.n_clusters, self.n_wanted = n_clusters, n_wanted

    def play(self, selection: Selection, rounds: range, *, overcommit: int = 0) -> list[list[int]]:
        """Return whom each cluster chose in each round."""
        return [
            self._round(selection, round_index, cluster, overcommit)
            for round_index in rounds
            for cluster in range(self.n_clusters)
        ]

    def _round(self, selection: Selection, round_index: int, cluster: int, overcommit: int) -> list[int]:
        members = np.flatnonzero(self.cluster_of == cluster)
        candidates = candidates_of(members, round_index)
        chosen = selection.choose(
            candidates, self.n_wanted + overcommit, cluster=cluster, round_index=round_index, members=members
        )
        steps = selection.steps(chosen, n_steps=4)
        factor = np.ones(chosen.size) if steps is None else steps / 4
        seconds = self.seconds[chosen] * (1.0 + factor) / 2
        order = np.argsort(seconds, kind="stable")
        kept, late = np.sort(order[: self.n_wanted]), order[self.n_wanted :]
        selection.feedback(
            feedback_of(
                chosen[kept].tolist(),
                loss=self.loss[chosen[kept]].tolist(),
                seconds=seconds[kept].tolist(),
                cluster=cluster,
                round_index=round_index,
                late=dict(zip(chosen[late].tolist(), seconds[late].tolist(), strict=True)),
            )
        )
        return [*chosen.tolist(), *([] if steps is None else steps.tolist())]
