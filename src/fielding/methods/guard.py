"""A guard over clusters: they are kept where clients' own held-out loss says that they pay, and merged where not.

One cluster is always a candidate: the mean of all models. Samples that just arrived are held out, since nobody has
trained on them yet; every judge downloads the candidates and runs these samples through them, and is charged for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import ClientId, Counts, Json, Matrix, Membership, Models
from fielding.client.report import DRIFT_KINDS, ReportBatch
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.regrouping import place_clients
from fielding.federation.clients import Clients
from fielding.federation.cluster_models import Arrays
from fielding.federation.models import mean_by_members
from fielding.methods.method import client_index, positions_of

JUDGES = 20
"""Clients that are asked at a time."""
LEAST_JUDGED = 10
"""Fewer verdicts than this decide nothing."""
SURE = 2.0
"""Standard errors by which clusters must be ahead before they are left alone for longer."""
LONGEST_WAIT = 8
"""Arrivals of data after which clients are asked again at the latest."""
UNEXPLAINED = DRIFT_KINDS.index("unexplained")
_EVIDENCE = ("n", "total", "squares", "n_cross", "cross")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What the judges said.

    Parameters
    ----------
    gain
        Mean held-out loss that clusters spare their clients, against one model for all.
    error
        Its standard error; infinite for a single judge.
    n_judged
        Verdicts that it is made of.
    """

    gain: float
    error: float
    n_judged: int

    def record(self) -> dict[str, Json]:
        """Return it for the event log."""
        error = None if not np.isfinite(self.error) else round(self.error, 6)
        return {"gain": round(self.gain, 6), "error": error, "n_judged": self.n_judged}


class Guard:
    """Collects what clients' losses say of clusters that stay the same, and decides which to merge.

    Parameters
    ----------
    n_judges
        Clients that are asked at an arrival.
    """

    def __init__(self, n_judges: int = JUDGES) -> None:
        self._n_judges = n_judges
        self._wait, self._pause = 0, 1
        self._rest, self._next_rest = 0, 1
        self._evidence: dict[str, Matrix] = {}
        self.forget(1)

    def forget(self, n_clusters: int, *, has_merged: bool = False) -> None:
        """Begin anew: the clusters are others.

        Parameters
        ----------
        n_clusters
            How many there are.
        has_merged
            Whether that is the guard's doing: then nobody is grouped anew for a while, longer every time.
        """
        self._wait, self._pause = 0, 1
        if has_merged:
            self._rest, self._next_rest = self._next_rest, min(LONGEST_WAIT, 2 * self._next_rest)
        one, pairs = np.zeros((1, 1)), np.zeros((n_clusters, n_clusters))
        self._evidence = dict(zip(_EVIDENCE, (one, one.copy(), one.copy(), pairs, pairs.copy()), strict=True))

    def allows_others(self, clients: Clients) -> bool:
        """Return whether clients may be grouped anew in this round; an arrival of data brings that nearer."""
        if self._rest and clients.fresh().any():
            self._rest -= 1
        return not self._rest

    def look(self, models: Models, membership: Membership, clients: Clients) -> tuple[Opinion | None, Counts | None]:
        """Ask clients how the clusters do, if it is time to, and say which to merge.

        Returns
        -------
        What is known; and which cluster takes in the members of each, as positions, None to leave all as it is.
        """
        alive = np.unique(membership[membership >= 0])
        if alive.size < 2 or not self._judges(membership, clients).size:
            return None, None
        self._wait -= 1
        if self._wait >= 0:
            return None, None
        opinion = self._ask(models, membership, clients)
        return opinion, self._verdict(opinion, membership)

    def _ask(self, models: Models, membership: Membership, clients: Clients) -> Opinion | None:
        """Ask some clients how the clusters do; None while too little is known."""
        judges = self._judges(membership, clients)
        candidates = np.concatenate([models, mean_by_members(models, membership)[np.newaxis]])
        newest = np.array([clients.interval])
        losses = clients.losses(judges, candidates, blocks=[newest] * judges.size, corrected=True)
        answered = np.isfinite(losses).all(axis=1)
        self._add(losses[answered], membership[judges[answered]].astype(np.int64))
        return self._opinion()

    def _verdict(self, opinion: Opinion | None, membership: Membership) -> Counts | None:
        """Return which cluster takes in the members of each, as positions; None to leave all as it is."""
        if opinion is None or opinion.n_judged < LEAST_JUDGED:
            return None
        n_clusters = self._evidence["cross"].shape[0]
        if opinion.gain <= 0.0:
            return np.full(n_clusters, np.bincount(membership[membership >= 0], minlength=n_clusters).argmax())
        if opinion.gain > SURE * opinion.error:
            self._wait, self._pause = self._pause, min(LONGEST_WAIT, 2 * self._pause)
        return self._pairs()

    def arrays(self) -> Arrays:
        """Return what is known, for a checkpoint."""
        waits = np.array([self._wait, self._pause, self._rest, self._next_rest], dtype=np.int64)
        return {"guard/waits": waits, **{f"guard/{name}": values for name, values in self._evidence.items()}}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what :meth:`arrays` gave."""
        self._evidence = {name: np.asarray(arrays[f"guard/{name}"], dtype=np.float64) for name in _EVIDENCE}
        waits = np.asarray(arrays["guard/waits"]).tolist()
        self._wait, self._pause, self._rest, self._next_rest = (int(number) for number in waits)

    def _judges(self, membership: Membership, clients: Clients) -> Counts:
        """Return some of the clients that have a cluster and new samples."""
        able = np.flatnonzero(clients.fresh() & (membership >= 0))
        return np.sort(able[np.argsort(clients.draws("guard", able), kind="stable")[: self._n_judges]])

    def _add(self, losses: Matrix, own: Counts) -> None:
        """Add what judges said; the last column is the one model for all."""
        n_clusters = losses.shape[1] - 1
        if self._evidence["cross"].shape[0] != n_clusters:
            self.forget(n_clusters)
        at = np.arange(own.size)
        gains = losses[:, -1] - losses[at, own]
        self._evidence["n"] += gains.size
        self._evidence["total"] += gains.sum()
        self._evidence["squares"] += np.square(gains).sum()
        for cluster in range(n_clusters):
            members = own == cluster
            penalty = losses[members, :-1] - losses[members, cluster][:, np.newaxis]
            self._evidence["cross"][cluster] += penalty.sum(axis=0)
            self._evidence["n_cross"][cluster] += members.sum()

    def _opinion(self) -> Opinion | None:
        count, total, squares = (float(self._evidence[name][0, 0]) for name in _EVIDENCE[:3])
        if not count:
            return None
        mean = total / count
        spread = max(0.0, squares - count * mean**2)
        error = np.sqrt(spread / (count - 1) / count) if count > 1 else np.inf
        return Opinion(gain=mean, error=float(error), n_judged=int(count))

    def _pairs(self) -> Counts | None:
        """Return which clusters to merge because either's clients are served as well by the other's model."""
        cross, count = self._evidence["cross"], self._evidence["n_cross"]
        both = cross + cross.T
        judged = np.minimum(count, count.T) * 2 >= LEAST_JUDGED / 2
        n_pairs = count + count.T
        costs = np.divide(both, n_pairs, out=np.full_like(both, np.inf), where=judged & (n_pairs > 0))
        np.fill_diagonal(costs, np.inf)
        first, second = np.unravel_index(np.argmin(costs), costs.shape)
        if costs[first, second] > 0.0:
            return None
        into = np.arange(cross.shape[0])
        into[max(first, second)] = min(first, second)
        return into


def place_by_loss(
    coordinator: Coordinator, models: Models, reports: ReportBatch, clients: Clients
) -> Sequence[ClientId]:
    """Ask clients whose errors nothing explains how all clusters would serve them, and give each the best.

    Parameters
    ----------
    coordinator
        Its membership changes.
    models
        One row per cluster.
    reports
        Those of this round; only clients that saw errors without a reason are asked.
    clients
        The door.

    Returns
    -------
    Who changed its cluster.
    """
    if reports.kinds is None or models.shape[0] < 2:
        return []
    lost = [reports.client_ids[at] for at in np.flatnonzero(reports.kinds == UNEXPLAINED).tolist()]
    if not lost:
        return []
    who = positions_of(lost, client_index(clients.client_ids))
    losses = clients.losses(who, models, blocks=[np.array([clients.interval])] * who.size, corrected=True)
    answered = np.flatnonzero(np.isfinite(losses).all(axis=1))
    rows = coordinator.registry.rows_for([lost[at] for at in answered.tolist()])
    best = losses[answered].argmin(axis=1)
    changes = best != coordinator.registry.membership[rows]
    moved = [lost[at] for at in answered[changes].tolist()]
    if moved:
        place_clients(coordinator, moved, best[changes])
    return moved
