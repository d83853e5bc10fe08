"""A guard over clusters: they are kept where clients' own held-out loss says that they pay, and merged where not.

One cluster is always a candidate: the mean of all models. Judges run the training samples that just arrived, which no
client has trained on yet, through all candidates. Every judge downloads the candidates, and is charged for all of it.
``docs/methods/guard.md`` tells when which client is asked, and what that comes to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models
from fielding.client.report import UNEXPLAINED, ReportBatch
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.regrouping import place_clients
from fielding.federation.clients import Clients
from fielding.federation.cluster_models import Arrays
from fielding.federation.models import mean_by_members
from fielding.methods.method import client_index, draw_clients, positions_of

MOST_JUDGES, FEWEST_JUDGES, JUDGING_SHARE = 10, 5, 0.1
"""A tenth of the clients with a cluster judge at a time, but no more and no fewer than this."""
LEAST_JUDGED = 10  # fewer verdicts than this, over all times, merge nothing
LEAST_GAIN = 0.02  # clusters that cannot gain this much loss are merged: many models want more participants than one
SURE = 1.0  # standard errors that are added to a gain before it is called too small: a few verdicts err
LEAST_OF_PAIR = 3  # nor do fewer of either of two clusters merge them
LONGEST_WAIT = 8  # arrivals of data that are passed over at most between two times that clients are asked
FIRST_REST, LONGEST_REST = 8, 64
"""Arrivals of data after a merge until clients may be grouped anew; twice as many after the next, up to the longest."""
KEPT = 0.75  # what verdicts on the clusters before a re-clustering still count for the question whether clusters pay
LARGEST_GAIN = 0.5
"""What one judge's verdict counts at most, in loss, either way: a few samples far off must not outweigh all others."""
LARGEST_LOSS = 100.0
"""Losses above this, and those that are no number, count as this much: one broken model must not outweigh all else."""
_EVIDENCE = ("n", "total", "squares", "n_cross", "cross")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What the judges said."""

    # Mean held-out loss that clusters spare their clients, against one model for all; that of one client counts at most
    # LARGEST_GAIN, either way.
    gain: float
    error: float  # its standard error; infinite for a single judge
    n_judged: int  # verdicts that it is made of; older ones may count less

    def record(self) -> dict[str, Json]:
        """Return it for the event log."""
        error = None if not np.isfinite(self.error) else round(self.error, 6)
        return {"gain": round(self.gain, 6), "error": error, "n_judged": self.n_judged}


class Guard:
    """Collects what clients' losses say of clusters that stay the same, and decides which to merge.

    Data arrive in some rounds. It asks at the first arrival after the clusters were made, then passes over 1, 2, 4 and
    at last always 8 arrivals before it asks again, whatever was said.
    """

    def __init__(self) -> None:
        self._interval, self._has_arrived = -1, False
        self._wait, self._pause = 0, 1
        self._rest, self._next_rest = 0, FIRST_REST
        self._has_one = False
        self._evidence: dict[str, Matrix] = {}
        self.forget(1)

    def begin(self, clients: Clients) -> None:
        """Note whether data arrived; call it first in a round. A second call of the round sees no arrival."""
        is_new = clients.interval > self._interval
        self._has_arrived = is_new and bool(clients.fresh().any())
        if self._has_arrived:
            self._interval = clients.interval
            self._rest = max(0, self._rest - 1)

    def forget(self, n_clusters: int, *, kept: float = 0.0) -> None:
        """Begin anew: the clusters are others.

        ``kept``: what earlier verdicts still count for the question whether clusters pay at all.
        """
        self._wait, self._pause, self._has_one = 0, 1, False
        overall = [kept * self._evidence.get(name, np.zeros((1, 1))) for name in _EVIDENCE[:3]]
        pairs = [np.zeros((n_clusters, n_clusters)) for _ in _EVIDENCE[3:]]
        self._evidence = dict(zip(_EVIDENCE, (*overall, *pairs), strict=True))

    def note_merge(self, n_clusters: int) -> None:
        """Begin anew with clusters that were merged; clients are not grouped anew for a while, longer every time."""
        self.forget(n_clusters)
        self._rest, self._next_rest = self._next_rest, min(LONGEST_REST, 2 * self._next_rest)
        self._has_one = n_clusters == 1

    @property
    def allows_others(self) -> bool:
        """Whether clients may be grouped anew in this round."""
        return not self._rest

    @property
    def wants_others(self) -> bool:
        """Whether it is time to try clusters again after all were merged: a lone center never moves far by itself."""
        return self._has_one and not self._rest

    def look(
        self, models: Models, membership: Membership, clients: Clients, *, common: Models | None = None
    ) -> tuple[Opinion | None, Counts | None]:
        """Ask clients how the clusters do, if it is time to, and say which to merge.

        Returns what is known; and which cluster takes in the members of each, as positions: all into the largest, one
        pair, or None to leave all as it is. ``membership``: the cluster of each active client, -1 for all others.
        ``common``: the candidate for all; None: the mean of the models by these members.
        """
        if not self._has_arrived or np.unique(membership[membership >= 0]).size < 2:
            return None, None
        has_cluster = membership >= 0
        n_judges = int(min(MOST_JUDGES, max(FEWEST_JUDGES, JUDGING_SHARE * has_cluster.sum())))
        judges = draw_clients(clients, clients.fresh() & has_cluster, n_judges, purpose="guard")
        if not judges.size:
            return None, None
        self._wait -= 1
        if self._wait >= 0:
            return None, None
        one = mean_by_members(models, membership) if common is None else common
        candidates = np.concatenate([models, one[np.newaxis]])
        losses, answered = _newest_losses(judges, candidates, clients)
        if answered.any():  # wait longer for the next time; without an answer nothing happened
            self._add(losses[answered], membership[judges[answered]].astype(np.int64))
            self._wait, self._pause = self._pause, min(LONGEST_WAIT, 2 * self._pause)
        count, total, squares = (float(self._evidence[name][0, 0]) for name in _EVIDENCE[:3])
        if not count:
            return None, None
        mean = total / count
        spread = max(0.0, squares - count * mean**2)
        error = np.sqrt(spread / (count - 1) / count) if count > 1 else np.inf
        opinion = Opinion(gain=mean, error=float(error), n_judged=int(count))
        if opinion.n_judged < LEAST_JUDGED:
            return opinion, None
        if opinion.gain + SURE * opinion.error >= LEAST_GAIN:
            return opinion, self._pair()
        n_clusters = self._evidence["cross"].shape[0]
        largest = np.bincount(membership[membership >= 0], minlength=n_clusters).argmax()
        return opinion, np.full(n_clusters, largest)

    def arrays(self) -> Arrays:
        """Return what is known, for a checkpoint."""
        numbers = (self._wait, self._pause, self._rest, self._next_rest, self._interval, int(self._has_one))
        waits = np.array(numbers, dtype=np.int64)
        return {"guard/waits": waits, **{f"guard/{name}": values for name, values in self._evidence.items()}}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what :meth:`arrays` gave."""
        self._evidence = {name: np.array(arrays[f"guard/{name}"], dtype=np.float64) for name in _EVIDENCE}
        *waits, has_one = (int(number) for number in np.asarray(arrays["guard/waits"]).tolist())
        self._wait, self._pause, self._rest, self._next_rest, self._interval = waits
        self._has_arrived, self._has_one = False, bool(has_one)

    def _add(self, losses: Matrix, own: Counts) -> None:
        """Add what judges said; the last column is the one model for all."""
        n_clusters = losses.shape[1] - 1
        gains = np.clip(losses[:, -1] - losses[np.arange(own.size), own], -LARGEST_GAIN, LARGEST_GAIN)
        self._evidence["n"] += gains.size
        self._evidence["total"] += gains.sum()
        self._evidence["squares"] += np.square(gains).sum()
        for cluster in range(n_clusters):
            members = own == cluster
            with_each = losses[members, :-1]
            penalty = np.clip(with_each - with_each[:, [cluster]], -LARGEST_GAIN, LARGEST_GAIN)
            penalty[with_each >= LARGEST_LOSS] = np.inf  # what is broken for one breaks what it is merged with
            self._evidence["cross"][cluster] += penalty.sum(axis=0)
            self._evidence["n_cross"][cluster] += members.sum()

    def _pair(self) -> Counts | None:
        """Return the merger of the two clusters whose clients are served as well by each other's model, if any are.

        Of several pairs the one that gains most; ``cross[i, j]`` is what judges of i lose with the model of j, in sum,
        and row i of ``n_cross`` how many these are.
        """
        cross, count = self._evidence["cross"], self._evidence["n_cross"]
        is_judged = np.minimum(count, count.T) >= LEAST_OF_PAIR
        np.fill_diagonal(is_judged, val=False)
        costs = np.divide(cross + cross.T, count + count.T, out=np.full_like(cross, np.inf), where=is_judged)
        first, second = np.unravel_index(np.argmin(costs), costs.shape)  # the upper one of two equals
        if costs[first, second] > 0.0:
            return None
        into = np.arange(cross.shape[0])
        into[second] = first
        return into


def place_by_loss(
    coordinator: Coordinator, models: Models, reports: ReportBatch, clients: Clients
) -> Sequence[ClientId]:
    """Ask clients whose errors nothing explains how all clusters would serve them, and give each the best.

    Returns the clients that changed their cluster, in the order of ``clients``; one that is served no worse by its own
    stays. ``coordinator``: its membership changes. ``reports``: those of this round; only clients that saw errors
    without a reason are asked.
    """
    if reports.kinds is None or models.shape[0] < 2:
        return []
    lost = [reports.client_ids[at] for at in np.flatnonzero(reports.kinds == UNEXPLAINED).tolist()]
    if not lost:
        return []
    who = np.sort(positions_of(lost, client_index(clients.client_ids)))  # the order of reports has no meaning
    lost = [clients.client_ids[at] for at in who.tolist()]
    losses, answered = _newest_losses(who, models, clients)
    current = coordinator.registry.membership[coordinator.registry.rows_for(lost)]
    # A client without a cluster takes any.
    own = np.where(current >= 0, losses[np.arange(len(lost)), current], np.inf)
    moves = np.flatnonzero(answered & (losses.min(axis=1) < own))
    moved = [lost[at] for at in moves.tolist()]
    if moved:
        place_clients(coordinator, moved, losses[moves].argmin(axis=1))
    return moved


def _newest_losses(who: Counts, models: Models, clients: Clients) -> tuple[Matrix, Mask]:
    """Return the losses of models on samples that just came, at most LARGEST_LOSS, and which clients answered."""
    losses = clients.losses(who, models, blocks=[np.array([clients.interval])] * who.size, corrected=True)
    bounded = np.minimum(np.nan_to_num(losses, nan=LARGEST_LOSS, posinf=LARGEST_LOSS), LARGEST_LOSS)
    return bounded, np.asarray(~np.isnan(losses).all(axis=1))
