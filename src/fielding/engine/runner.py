"""Round after round, written down, committed and resumable, until a rule says stop."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Json, Membership
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.client.report import DRIFT_KINDS, NO_REPORTS, ReportBatch
from fielding.coordinator.registry import UNASSIGNED
from fielding.engine.round import Done, Federation, hand_out, run_round, timing_record, welcome
from fielding.errors import CheckpointError
from fielding.federation.evaluation import ClientScores, adjusted_rand_index, finite_mean
from fielding.federation.ledger import Ledger
from fielding.methods.method import Method, cluster_ids, measure_heterogeneity
from fielding.records.logs import changes
from fielding.records.run_checkpoint import DRIVER, LEDGER, METHOD, SELECTION, RunCheckpoint
from fielding.records.run_folder import CLIENTS, CONCEPTS, EVENTS, MEMBERSHIPS, ROUNDS, TIMINGS, RunFolder
from fielding.reporting.numbers.run_summary import run_summary
from fielding.training.layout import Layout


def round_row(federation: Federation, done: Done, changed: tuple[int, bool] = (0, False)) -> dict[str, Json]:
    """Return the line of ``rounds.jsonl`` of a round that was just done.

    ``changed`` is what :func:`changes_of` gives; it counts where the method made no decision.
    """
    decision, updates = done.decision, done.updates
    n_moved, has_other_clusters = changed
    with np.errstate(over="ignore", invalid="ignore"):
        train_loss = float(updates.loss.mean()) if updates.loss.size else np.nan
    missing = {f"n_{reason}": len(clients) for reason, clients in updates.missing.items()}
    done_s = federation.clients.done_s
    failed: list[Json] = [federation.clients.client_ids[client] for client in updates.missing.get("failed", [])]
    return {
        "round": done.round_index,
        "time_s": federation.clients.now_s,
        **({} if done_s is None else {"first_time_s": float(done_s.min())}),
        "n_reports": len(done.reports.client_ids),
        "n_moved": len(decision.moved) if decision else n_moved,
        "reclustered": decision.reclustered if decision else has_other_clusters,
        "n_clusters": decision.n_live if decision else int(federation.method.models.shape[0]),
        "n_asked": int(done.plan.clients.size),
        "n_participants": int(updates.clients.size),
        **missing,
        **({"failed": failed} if failed else {}),
        "train_loss": train_loss if np.isfinite(train_loss) else None,  # JSON has no infinity
        **federation.clients.round_costs,
        **(_score_figures(done.scores) if done.scores else {}),
        **(_agreement(federation) if done.scores else {}),
        **(_heterogeneity(federation) if done.scores else {}),
        **federation.clients.round_notes,
        **_own_figures(federation, done),
    }


def changes_of(method: Method, before: Membership | None, ids: tuple[int, ...] | None) -> tuple[int, bool]:
    """Return how many clients moved since the round before, and whether a cluster came or went.

    Clients move between clusters that were there before and are there now.
    """
    if before is None or ids is None:
        return 0, False
    now, now_ids = stable_membership(method), cluster_ids(method)
    before = np.pad(before, (0, now.size - before.size), constant_values=UNASSIGNED)  # new clients were in no cluster
    # A client that leaves a cluster that is gone, or joins one that is new, did not move: its cluster changed.
    lasting = sorted(set(ids) & set(now_ids))
    has_moved = (before != now) & np.isin(before, lasting) & np.isin(now, lasting)
    return int(has_moved.sum()), set(ids) != set(now_ids)


def _score_figures(scores: Mapping[str, ClientScores]) -> dict[str, Json]:
    """Return the figures of an evaluation, and how clients fare that do more to their models, corrected or tuned."""
    window = scores["window"]
    found = window.summary()
    for how, one in window.also.items():
        found |= _chosen_figures(one, f"{how}_", ("accuracy", "worst_decile", "test_loss"))
    for where, one in scores.items():
        if where != "window":
            found |= _chosen_figures(one, f"{where}_", ("accuracy", "accuracy_ci95"))
            for how, more in one.also.items():
                found |= _chosen_figures(more, f"{how}_{where}_", ("accuracy",))
    served = scores.get("next", window).also.get("served")
    if served is not None and served.clients.size and served.expert_weights:
        # How many clients believe each expert most.
        believed = np.argmax(list(served.expert_weights.values()), axis=0)
        found["experts"] = {name: int((believed == at).sum()) for at, name in enumerate(served.expert_weights)}
    for where, one in scores.items():
        served = one.also.get("served")
        if served is not None and served.clients.size and served.expert_correct:
            # What clients would get from each expert alone.
            prefix = "" if where == "window" else f"{where}_"
            found[f"{prefix}expert_accuracy"] = {
                name: float((right / served.n_test).mean()) for name, right in served.expert_correct.items()
            }
    # Until the next release under the old name, too, what had it.
    old = [name for name in found if name.endswith("next_accuracy") and not name.startswith("served")]
    return found | {name.replace("next_", "prequential_"): found[name] for name in old}


def _chosen_figures(scores: ClientScores, prefix: str, names: Sequence[str]) -> dict[str, Json]:
    """Return some figures of scores, and all metrics of the user's own, under names with a prefix."""
    summary = scores.summary()
    kept = [figure for figure in summary if figure in names or figure.startswith("metric/")]
    return {f"{prefix}{figure}": summary[figure] for figure in kept}


def _own_figures(federation: Federation, done: Done) -> dict[str, Json]:
    """Return what the user's own code says of training, and all that it measured by cluster; nothing without any.

    ``train/NAME``: the mean over participants. ``by_cluster``: by stable id the means over its clients, of tests
    (``metric/NAME``, with accuracy and loss) and training (``train/NAME``), and what the server measured.
    """
    updates, window = done.updates, done.scores.get("window")
    found: dict[str, Json] = {}
    by_cluster: dict[int, dict[str, Json]] = {}
    ids, membership = (*cluster_ids(federation.method), UNASSIGNED), federation.method.membership()
    for name, values in updates.metrics.items():
        found[f"train/{name}"] = finite_mean(values)
        for row in np.unique(membership[updates.clients]).tolist():
            mean = finite_mean(values[membership[updates.clients] == row])
            by_cluster.setdefault(ids[row], {})[f"train/{name}"] = mean
    if window is not None and window.metrics:
        for row in np.unique(membership[window.clients]).tolist():
            figures = window.some(membership[window.clients] == row).summary()
            kept = [name for name in figures if name in ("accuracy", "test_loss") or name.startswith("metric/")]
            by_cluster.setdefault(ids[row], {}).update({name: figures[name] for name in kept})
    for cluster, measured in federation.clients.cluster_figures.items():
        by_cluster.setdefault(cluster, {}).update(measured)
    told: dict[str, Json] = {str(cluster): dict(by_cluster[cluster]) for cluster in sorted(by_cluster)}
    return {**found, **({"by_cluster": told} if told else {})}


def _heterogeneity(federation: Federation) -> dict[str, Json]:
    """Return how unlike clients of the same cluster are, and how unlike they would be if all were in one."""

    def measure(membership: Membership) -> float | None:
        measured = federation.clients.heterogeneity(membership)
        return None if measured is None else round(measured, 6)

    membership = federation.method.membership()
    clustered = measure(membership)
    has_several = np.unique(membership[membership >= 0]).size > 1
    # A client without a cluster stays without one.
    together = measure(np.minimum(membership, 0)) if has_several else clustered
    return {"measured_heterogeneity": clustered, "unclustered_heterogeneity": together}


def _agreement(federation: Federation) -> dict[str, Json]:
    """Return how well the clusters agree with the true concepts, where these are known."""
    truth = federation.clients.concepts()
    if truth is None:
        return {}
    membership = federation.method.membership()
    known = (membership >= 0) & (truth >= 0)
    return {"ari": adjusted_rand_index(membership[known], truth[known]) if known.any() else None}


def event_row(method: Method, done: Done) -> dict[str, Json] | None:
    """Return the line of ``events.jsonl``; None if no client reported, or the method does not listen."""
    decision, kinds = done.decision, done.reports.kinds
    if decision is None or not (decision.reported or decision.notes):
        return None
    seen: dict[str, Json] = {}
    if kinds is not None and kinds.any():  # how many clients saw which kind of drift, if they looked for it
        counts = np.bincount(kinds, minlength=len(DRIFT_KINDS)).tolist()
        seen = {"kinds": {name: count for name, count in zip(DRIFT_KINDS, counts, strict=True) if count}}
    return {
        "round": done.round_index,
        "shift": decision.shift,
        "theta": decision.theta,
        "threshold": decision.threshold if decision.threshold != np.inf else None,
        "started": decision.started,
        "fired": decision.reclustered,
        "n_clusters": decision.n_live,
        "cluster_ids": list(decision.cluster_ids),
        "mean_client_distance": measure_heterogeneity(method),
        "silhouettes": {str(k): score for k, score in decision.silhouettes.items()},
        **seen,
        **decision.notes,
        **{name: list(getattr(decision, name)) for name in ("reported", "moved", "joined", "silenced")},
    }


def client_row(federation: Federation, scores: Mapping[str, ClientScores], round_index: int) -> dict[str, Json]:
    """Return the line of ``clients.jsonl``: every client that was tested, with 0 samples where it has none."""
    ids, clusters = federation.clients.client_ids, (*cluster_ids(federation.method), -1)
    membership, window, done_s = federation.method.membership(), scores["window"], federation.clients.done_s
    tested = np.unique(np.concatenate([one.clients for one in scores.values()]))
    sooner: dict[str, Json] = {}
    if done_s is not None:
        for client in tested[done_s[tested] < federation.clients.now_s].tolist():
            sooner[str(clusters[membership[client]])] = float(done_s[client])

    def spread(one: ClientScores, counts: Counts) -> list[Json]:
        whole = np.zeros(tested.size, dtype=np.int64)
        whole[np.searchsorted(tested, one.clients)] = counts
        return list[Json](whole.tolist())

    losses: list[Json] = [None] * tested.size
    for at, loss in zip(np.searchsorted(tested, window.clients).tolist(), window.loss.tolist(), strict=True):
        losses[at] = round(loss, 6) if np.isfinite(loss) else None
    row: dict[str, Json] = {
        "round": round_index,
        **({"cluster_time_s": sooner} if sooner else {}),
        "client": [ids[client] for client in tested.tolist()],
        "cluster": [clusters[membership[client]] for client in tested.tolist()],
        "n_test": spread(window, window.n_test),
        "correct": spread(window, window.correct),
        "loss": losses,
        **{name: spread(one, one.correct) for name, one in window.also.items()},
    }
    for where, one in scores.items():
        if where != "window":
            row |= {f"{where}_n_test": spread(one, one.n_test), f"{where}_correct": spread(one, one.correct)}
            row |= {f"{where}_{how}": spread(more, more.correct) for how, more in one.also.items()}
    if (served := scores.get("next", window).also.get("served")) is not None:
        places = np.searchsorted(tested, served.clients)
        for what, by_expert in (("weights", served.expert_weights), ("losses", served.expert_losses)):
            whole = {name: np.full(tested.size, np.nan) for name in by_expert}
            for name, numbers in by_expert.items():
                whole[name][places] = numbers
            row[f"expert_{what}"] = {
                name: [round(one, 6) if np.isfinite(one) else None for one in numbers.tolist()]
                for name, numbers in whole.items()
            }
    return row


def stable_membership(method: Method) -> Membership:
    """Return the stable cluster id of each client, -1 for none."""
    table = np.array([*cluster_ids(method), -1], dtype=np.int32)
    return table[method.membership()]


def membership_row(federation: Federation, before: Membership | None, round_index: int) -> dict[str, Json] | None:
    """Return the line of ``memberships.jsonl``: clients that changed their cluster; None if there are none."""
    return _change_row(federation, before, stable_membership(federation.method), round_index)


def concept_row(federation: Federation, before: Codes | None, round_index: int) -> dict[str, Json] | None:
    """Return the line of ``concepts.jsonl``: clients whose true concept changed; None without changes or concepts."""
    now = federation.clients.concepts()
    return None if now is None else _change_row(federation, before, now, round_index)


def _change_row(
    federation: Federation, before: Membership | Codes | None, now: Membership | Codes, round_index: int
) -> dict[str, Json] | None:
    """Return the clients that are somewhere else now, or joined; None if none are. Without a before, all are new."""
    if before is not None and np.array_equal(before, now):
        return None
    changed: list[Json] = [list(pair) for pair in changes(before, now, federation.clients.client_ids)]
    return {"round": round_index, "changed": changed}


MOST_COMMITTING = 0.02
"""Largest share of the wall-clock time that checkpoints take, unless a number of rounds is asked for."""

Watch: TypeAlias = Callable[[Mapping[str, Json]], object]
"""Called after each round with its line of ``rounds.jsonl``; False stops the run, and nothing else does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to stop before the federation's own end, and when to commit.

    Parameters
    ----------
    gap
        Rounds between arrivals of data, for the summary.
    stop_at_accuracy
        Stop after the first evaluation that reaches it.
    checkpoint_every
        Rounds between checkpoints; None for as often as costs little.
    """

    gap: int = 1
    stop_at_accuracy: float | None = None
    checkpoint_every: int | None = None


class Runner:
    """Runs a federation into a folder, which must be begun or resumed, from the start or from a checkpoint of a run."""

    def __init__(
        self, federation: Federation, folder: RunFolder, *, layout: Layout, method_name: str, rules: Rules
    ) -> None:
        self.federation, self._folder, self._rules = federation, folder, rules
        self._layout, self._method_name = layout, method_name
        self._next_round = 0
        self._waiting: ReportBatch | None = None
        self._before: Membership | None = None
        self._concepts: Codes | None = None
        self._ids: tuple[int, ...] | None = None
        self._last_row: Mapping[str, Json] | None = None
        self._committed_at, self._commit_took = time.monotonic(), 0.0
        self._uncommitted = False

    def restore(self, checkpoint: RunCheckpoint) -> None:
        """Go on after the round that a checkpoint was written in."""
        if checkpoint.layout != self._layout:
            raise CheckpointError("the checkpoint holds models of another shape; begin anew in another folder")
        begun, joined = self.federation.clients.client_ids, checkpoint.client_ids
        if joined[: len(begun)] != begun:
            raise CheckpointError(
                f"the checkpoint has {len(joined)} clients, and the {len(begun)} that the run begins with are not the "
                "first of them; begin with those that it began with"
            )
        welcome(self.federation, begun, joined)
        self.federation.method.restore(
            checkpoint.values, under(METHOD, checkpoint.arrays) | {"models": checkpoint.models}
        )
        self.federation.selection.restore(under(SELECTION, checkpoint.arrays))
        rows = list(self._folder.logs.lines(ROUNDS))
        if len(rows) != checkpoint.round_index + 1:
            raise CheckpointError(
                f"{ROUNDS} holds {len(rows)} rounds, its checkpoint {checkpoint.round_index + 1}; "
                "begin anew in another folder"
            )
        ends = [float(str(row["time_s"])) for row in rows]
        sent = self.federation.clients.return_to(
            checkpoint.round_index,
            [0.0, *ends],
            ledger=Ledger.restored(under(LEDGER, checkpoint.arrays)),
            arrays=under(DRIVER, checkpoint.arrays),
        )
        if self.federation.clients.client_ids != checkpoint.client_ids:
            raise CheckpointError("clients came back as others than the checkpoint has; begin anew in another folder")
        hand_out(self.federation)
        self._waiting = self._waiting_after(rows, sent) if self.federation.is_delayed else None
        self._before, self._ids = stable_membership(self.federation.method), cluster_ids(self.federation.method)
        # A log without a line was begun by a resume: the next round writes down the concepts of all.
        has_concepts = next(self._folder.logs.lines(CONCEPTS), None) is not None
        self._concepts = self.federation.clients.concepts() if has_concepts else None
        self._next_round, self._last_row = checkpoint.round_index + 1, rows[-1]

    def _waiting_after(self, rows: Sequence[Mapping[str, Json]], sent: ReportBatch) -> ReportBatch | None:
        """Return the reports that wait after the last of some rounds; None if no client ever reported."""
        first = next((at for at, row in enumerate(rows) if row["n_reports"]), None)
        if self.federation.has_late_start:
            return sent if first is not None or len(sent.client_ids) else None
        if first is None:
            return None
        return NO_REPORTS if first == len(rows) - 1 else sent

    def run(self, watch: Watch = lambda _row: True) -> dict[str, Json] | None:
        """Run the rounds that are left; return the summary, or None if it was stopped and can go on."""
        # A run that a rule stopped is complete: resumed, it must not go on.
        reason = "rounds" if self._last_row is None else self._stopped_by(self._last_row) or "rounds"
        n_rounds = self.federation.n_rounds if reason == "rounds" else 0
        for round_index in range(self._next_round, n_rounds):
            with ONE_BLAS_THREAD:  # logs and models must not depend on the number of cores
                done = run_round(self.federation, round_index, self._waiting)
            row = self._record(done)
            self._next_round = round_index + 1
            goes_on = watch(row) is not False
            stopped_by = self._stopped_by(row)
            self._commit(is_due=not goes_on or stopped_by is not None)
            if stopped_by is not None:
                reason = stopped_by
                break
            if not goes_on:
                return None
        self._commit(is_due=True)
        return self.summary(reason)

    def summary(self, stopped_by: str) -> dict[str, Json]:
        """Return the figures of the run so far, from its logs."""
        logs = self._folder.logs
        figures = run_summary(list(logs.lines(ROUNDS)), logs.lines(EVENTS), gap=self._rules.gap)
        return {"method": self._method_name, "stopped_by": stopped_by, **figures}

    def checkpoint(self) -> RunCheckpoint:
        """Return the run after its last round."""
        clients, method = self.federation.clients, self.federation.method
        values, arrays = method.snapshot()
        return RunCheckpoint(
            round_index=self._next_round - 1,
            time_s=clients.now_s,
            method=self._method_name,
            layout=self._layout,
            models=method.models,
            cluster_ids=cluster_ids(method),
            client_ids=clients.client_ids,
            membership=method.membership(),
            values=values,
            arrays={
                **{f"{METHOD}{name}": array for name, array in arrays.items() if name != "models"},
                **{f"{LEDGER}{name}": array for name, array in clients.ledger.arrays().items()},
                **{f"{DRIVER}{name}": array for name, array in clients.snapshot().items()},
                **{f"{SELECTION}{name}": array for name, array in self.federation.selection.arrays().items()},
            },
            progress={},
        )

    def _record(self, done: Done) -> Mapping[str, Json]:
        """Write down a round (stage 13)."""
        folder, federation = self._folder, self.federation
        row = round_row(federation, done, changes_of(federation.method, self._before, self._ids))
        if len(done.reports.client_ids) and federation.keeps_reports:
            folder.write_reports(done.reports, done.round_index)
        lines = {
            ROUNDS: row,
            EVENTS: event_row(federation.method, done),
            MEMBERSHIPS: membership_row(federation, self._before, done.round_index),
            CONCEPTS: concept_row(federation, self._concepts, done.round_index),
            CLIENTS: client_row(federation, done.scores, done.round_index) if done.scores else None,
            TIMINGS: timing_record(done),
        }
        for name, line in lines.items():
            if line is not None:
                folder.logs.append(name, line)
        if lines[MEMBERSHIPS] is not None:
            self._before = stable_membership(federation.method)
        self._concepts = federation.clients.concepts()
        self._ids = cluster_ids(federation.method)
        self._waiting, self._uncommitted = done.waiting, True
        return row

    def _stopped_by(self, row: Mapping[str, Json]) -> str | None:
        accuracy, time_s = row.get("accuracy"), row["time_s"]
        target, latest = self._rules.stop_at_accuracy, self.federation.stop_at_time_s
        if target is not None and isinstance(accuracy, float) and accuracy >= target:
            return "accuracy"
        return "time" if latest is not None and isinstance(time_s, float) and time_s >= latest else None

    def _commit(self, *, is_due: bool) -> None:
        """Write a checkpoint if it is asked for, or if it is time for one."""
        every, now = self._rules.checkpoint_every, time.monotonic()
        if every is not None:
            is_due = is_due or self._next_round % every == 0
        else:
            is_due = is_due or (now - self._committed_at) * MOST_COMMITTING >= self._commit_took
        if is_due and self._uncommitted:
            self._folder.commit(self.checkpoint())
            self._committed_at, self._uncommitted = time.monotonic(), False
            self._commit_took = self._committed_at - now


def under(prefix: str, arrays: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.generic]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
