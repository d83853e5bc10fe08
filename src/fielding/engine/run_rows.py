"""What a round is written down as: a line in each log."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Codes, Json, Membership, Vector
from fielding.client.report import DRIFT_KINDS
from fielding.coordinator.decision import Decision
from fielding.coordinator.registry import UNASSIGNED
from fielding.engine.round import Done, Federation
from fielding.federation.evaluation import ClientScores, adjusted_rand_index
from fielding.methods.method import Method, cluster_ids, heterogeneity
from fielding.records.logs import changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How clusters changed in a round, as seen from outside.

    Parameters
    ----------
    n_moved
        Clients that went from one cluster to another, both of which were there before and are there now.
    has_other_clusters
        Whether a cluster came or went.
    """

    n_moved: int
    has_other_clusters: bool


def round_row(federation: Federation, done: Done, changed: Changes) -> dict[str, Json]:
    """Return the line of ``rounds.jsonl`` of a round that was just done; ``changed`` counts where nobody decided."""
    decision, updates = done.decision, done.updates
    missing = {f"n_{reason}": len(clients) for reason, clients in updates.missing.items()}
    return {
        "round": done.round_index,
        "time_s": federation.clients.now_s,
        "n_reports": len(done.reports.client_ids),
        "n_moved": len(decision.moved) if decision else changed.n_moved,
        "reclustered": decision.reclustered if decision else changed.has_other_clusters,
        "n_clusters": decision.n_live if decision else int(federation.method.models.shape[0]),
        "n_asked": int(done.plan.clients.size),
        "n_participants": int(updates.clients.size),
        **missing,
        **_named_failures(federation, done),
        "train_loss": _finite_mean(updates.loss),
        **federation.clients.round_costs,
        **(done.scores.summary() if done.scores else {}),
        **(_agreement(federation) if done.scores else {}),
        **(_heterogeneity(federation) if done.scores else {}),
        **{f"{name}_accuracy": scores.summary()["accuracy"] for name, scores in done.other_scores.items()},
        **_served_otherwise(done),
    }


def _finite_mean(losses: Vector) -> float | None:
    """Return a mean; None if there is nothing to take it of, or it is not finite: JSON has no infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(losses.mean()) if losses.size else np.nan
    return mean if np.isfinite(mean) else None


def changes_of(method: Method, before: Membership | None, ids: tuple[int, ...] | None) -> Changes:
    """Return how the clusters of a method differ from what they were after the round before."""
    if before is None or ids is None:
        return Changes(n_moved=0, has_other_clusters=False)
    now, now_ids = stable_membership(method), cluster_ids(method)
    before = np.pad(before, (0, now.size - before.size), constant_values=UNASSIGNED)  # who joined was nowhere
    # Who leaves a cluster that is gone, or joins one that is new, did not move: its cluster changed.
    lasting = sorted(set(ids) & set(now_ids))
    has_moved = (before != now) & np.isin(before, lasting) & np.isin(now, lasting)
    return Changes(n_moved=int(has_moved.sum()), has_other_clusters=set(ids) != set(now_ids))


def _served_otherwise(done: Done) -> dict[str, Json]:
    """Return how clients fare if more is done to their models, ``corrected`` or ``tuned``; nothing if nothing is."""
    found: dict[str, Json] = {}
    for name, scores in (done.scores.also if done.scores else {}).items():
        summary = scores.summary()
        found |= {f"{name}_{figure}": summary[figure] for figure in ("accuracy", "worst_decile", "test_loss")}
    for where, others in done.other_scores.items():
        found |= {f"{name}_{where}_accuracy": one.summary()["accuracy"] for name, one in others.also.items()}
    return found


def _named_failures(federation: Federation, done: Done) -> dict[str, Json]:
    """Return who answered with something that is no model; nothing if nobody did."""
    failed = done.updates.missing.get("failed", [])
    return {"failed": [federation.clients.client_ids[client] for client in failed]} if failed else {}


def _heterogeneity(federation: Federation) -> dict[str, Json]:
    """Return how unlike clients of the same cluster are, and how unlike they would be if all were in one."""
    membership = federation.method.membership()
    measured = _measured(federation, membership)
    together = np.minimum(membership, 0)  # whoever has no cluster stays without one
    has_several = np.unique(membership[membership >= 0]).size > 1
    return {
        "measured_heterogeneity": measured,
        "unclustered_heterogeneity": _measured(federation, together) if has_several else measured,
    }


def _measured(federation: Federation, membership: Membership) -> float | None:
    measured = federation.clients.heterogeneity(membership)
    return None if measured is None else round(measured, 6)


def _agreement(federation: Federation) -> dict[str, Json]:
    """Return how well the clusters agree with the true concepts, where these are known."""
    truth = federation.clients.concepts()
    if truth is None:
        return {}
    membership = federation.method.membership()
    known = (membership >= 0) & (truth >= 0)
    return {"ari": adjusted_rand_index(membership[known], truth[known]) if known.any() else None}


def event_row(method: Method, done: Done) -> dict[str, Json] | None:
    """Return the line of ``events.jsonl``; None if nobody reported, or nobody listens."""
    decision = done.decision
    if decision is None or not (decision.reported or decision.notes):
        return None
    return {
        "round": done.round_index,
        "shift": decision.shift,
        "theta": decision.theta,
        "threshold": decision.threshold if decision.threshold != np.inf else None,
        "started": decision.started,
        "fired": decision.reclustered,
        "n_clusters": decision.n_live,
        "cluster_ids": list(decision.cluster_ids),
        "mean_client_distance": heterogeneity(method),
        "silhouettes": {str(k): score for k, score in decision.silhouettes.items()},
        **_kinds(done),
        **decision.notes,
        **_who(decision),
    }


def _kinds(done: Done) -> dict[str, Json]:
    """Return how many clients saw which kind of drift, if they looked for it."""
    kinds = done.reports.kinds
    if kinds is None or not kinds.any():
        return {}
    counts = np.bincount(kinds, minlength=len(DRIFT_KINDS)).tolist()
    return {"kinds": {name: count for name, count in zip(DRIFT_KINDS, counts, strict=True) if count}}


def _who(decision: Decision) -> dict[str, Json]:
    names = ("reported", "moved", "joined", "silenced")
    return {name: list(getattr(decision, name)) for name in names}


def client_row(federation: Federation, scores: ClientScores, round_index: int) -> dict[str, Json]:
    """Return the line of ``clients.jsonl``: every client that was tested."""
    ids, clusters = federation.clients.client_ids, (*cluster_ids(federation.method), -1)
    membership = federation.method.membership()
    return {
        "round": round_index,
        "client": [ids[client] for client in scores.clients.tolist()],
        "cluster": [clusters[membership[client]] for client in scores.clients.tolist()],
        "n_test": scores.n_test.tolist(),
        "correct": scores.correct.tolist(),
        "loss": [round(loss, 6) if np.isfinite(loss) else None for loss in scores.loss.tolist()],
        **{name: one.correct.tolist() for name, one in scores.also.items()},
    }


def stable_membership(method: Method) -> Membership:
    """Return the stable cluster id of each client, -1 for none."""
    table = np.array([*cluster_ids(method), -1], dtype=np.int32)
    return table[method.membership()]


def membership_row(federation: Federation, before: Membership | None, round_index: int) -> dict[str, Json] | None:
    """Return the line of ``memberships.jsonl``: who changed its cluster; None if nobody did."""
    return _change_row(federation, before, stable_membership(federation.method), round_index)


def concept_row(federation: Federation, before: Codes | None, round_index: int) -> dict[str, Json] | None:
    """Return the line of ``concepts.jsonl``: whose true concept changed; None if nobody's did, or nobody knows."""
    now = federation.clients.concepts()
    return None if now is None else _change_row(federation, before, now, round_index)


def _change_row(
    federation: Federation, before: Membership | Codes | None, now: Membership | Codes, round_index: int
) -> dict[str, Json] | None:
    """Return who is somewhere else now, or joined; None if nobody did. Without a before, all are new."""
    if before is not None and np.array_equal(before, now):
        return None
    changed: list[Json] = [list(pair) for pair in changes(before, now, federation.clients.client_ids)]
    return {"round": round_index, "changed": changed}
