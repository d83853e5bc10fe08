"""One round, stages 1 to 13 as a list of calls. READ FIRST: everything else is detail."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Json, Membership, Models, Vector
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.coordinator.decision import Decision
from fielding.errors import InputError, echo
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.federation.models import mean_by_members
from fielding.federation.selection import Feedback, Selection, Uniform
from fielding.methods.method import Adapts, Grows, Method, PlacesClients, Serves, cluster_ids, model_for_all


class Driver(Clients, Protocol):
    """What a driver adds to the client API: rounds begin, time passes, and costs add up."""

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        ...

    @property
    def round_costs(self) -> Mapping[str, float]:
        """What this round cost so far: ``bytes_down``, ``bytes_up``, ``client_seconds``."""
        ...

    @property
    def worked_s(self) -> float:
        """Wall-clock seconds that local steps took in this round."""
        ...

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start; of the latest cluster, if clusters go on by themselves."""
        ...

    @property
    def done_s(self) -> Vector | None:
        """Simulated time at which the cluster of each client was done with the round; None if all are at ``now_s``."""
        ...

    def wait_for_all(self) -> None:
        """Let clusters that go on by themselves wait for the latest of them."""
        ...

    def begin(self, round_index: int) -> ReportBatch:
        """Let data arrive, and return what clients have to tell.

        Clients may join here, and nowhere else: ``client_ids`` is then longer, new ones at its end, and from now on all
        arrays by client, the ledger too, have the new length. None is ever taken away: one that left is not askable.
        """
        ...

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model, by which they describe their data from the next round on."""
        ...

    def share(self, model: Models) -> None:
        """Freeze a model and send it to all clients."""
        ...

    @property
    def round_notes(self) -> Mapping[str, Json]:
        """What else ``rounds.jsonl`` is to tell of this round: skill of a shared model that came, clients that fail."""
        ...

    @property
    def cluster_figures(self) -> Mapping[int, Mapping[str, float]]:
        """What the driver itself measured of the clusters' models in this round, by cluster and name; else nothing."""
        ...

    def serve(self, models: Models, row: Counts) -> None:
        """Let clients know the models that serve them: of these, the row of each."""
        ...

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what participants of a round send with their models; nothing unless the method hears only those."""
        ...

    def charge_reports(self) -> None:
        """Charge the reports that came last to the clients that sent them."""
        ...

    def snapshot(self) -> Arrays:
        """Return what the driver has to find again to come back to this round, beside clock and ledger."""
        ...

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        """Come back to the end of a round that was done before, and return the reports sent in it before training.

        ``times`` holds the simulated time at the start of each round up to it, and at its end; ``arrays`` is what
        :meth:`snapshot` gave. Clients that had joined by then are back afterwards, all in the same order; a driver that
        does not know them by itself keeps their ids in its snapshot.
        """
        ...

    def heterogeneity(self, membership: Membership) -> float | None:
        """Return how different the data of clients of the same cluster are; no method sees it."""
        ...

    def concepts(self) -> Codes | None:
        """Return the true concept of each client now, for scoring, or None if it is not known."""
        ...


def peak_bytes() -> int | None:
    """Return the most memory that this process held so far, in bytes; None where the system does not tell.

    Linux's getrusage is asked only where there is no ``/proc``: it would count what the parent process held.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Federation:
    """The parts that a round puts to work.

    Parameters
    ----------
    evaluate_every, n_rounds
        Clients are tested every so many rounds, in the first and in the last.
    stop_at_time_s
        The round in which the latest cluster reaches this simulated time is the last.
    is_delayed
        Whether reports act in the round after the one they were sent in, as they do when they travel with training.
    has_late_start
        Whether clients train before they can report, since a shared model has to be trained first: then their first
        reports are delayed, too. Otherwise these act at once, or there would be no clusters.
    selection
        Chooses participants: it hears reports and how training went, whatever the method.
    n_train_samples
        Local steps times batch size, for the selection.
    keeps_reports
        Whether reports are written down; flags tell a replay nothing.
    has_heads
        Whether clusters differ in the last layers of their models alone.
    """

    clients: Driver
    method: Method
    evaluate_every: int
    n_rounds: int
    stop_at_time_s: float | None = None
    is_delayed: bool = False
    has_late_start: bool = False
    selection: Selection = field(default_factory=lambda: Selection(Uniform(), 0))
    n_train_samples: int = 1
    keeps_reports: bool = True
    has_heads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Done:
    """What happened in a round.

    Parameters
    ----------
    round_index
        From 0.
    reports
        Those that acted in this round.
    waiting
        Those that will act in the next one; None if no client ever reported, or nothing is delayed.
    decision
        What the coordinator made of them; None if the method does not listen.
    plan, updates
        Which clients were asked to train, and what came back.
    scores
        How well clients are served, by the names of :data:`~fielding.federation.evaluation.SCORES`; nothing if this
        round was not evaluated.
    seconds
        Wall-clock time of each stage, and of the ``whole`` round.
    """

    round_index: int
    reports: ReportBatch
    waiting: ReportBatch | None
    decision: Decision | None
    plan: TrainingPlan
    updates: Updates
    scores: Mapping[str, ClientScores]
    seconds: Mapping[str, float] = field(default_factory=dict)


def run_round(federation: Federation, round_index: int, waiting: ReportBatch | None = None) -> Done:
    """Advance a federation by one round, from 0, one after the other.

    If reports are delayed, those that were sent in the round before are ``waiting`` and act now; None if no client ever
    reported.
    """
    clients, method, watch = federation.clients, federation.method, _StopWatch()
    known = clients.client_ids
    sent = watch.measure("observe", lambda: clients.begin(round_index))  # 1-4: data arrive; clients that drifted say so
    welcome(federation, known, clients.client_ids)
    clients.charge_reports()
    acting, waiting = _in_turn(federation, sent, waiting) if federation.is_delayed else (sent, None)
    _hear(federation, acting)
    decision = watch.measure("adapt", lambda: _adapt(method, acting, clients))  # 5-8: move, re-cluster, warm-start
    plan = watch.measure("select", lambda: method.plan(clients))  # 9: which clients train
    updates = watch.measure("train", lambda: clients.train(plan))  # 10: local training
    watch.seconds["steps"] = round(clients.worked_s, 6)
    federation.selection.feedback(_feedback(plan, updates, federation.n_train_samples))
    watch.measure("learn", lambda: _learn(federation, updates))  # 11: one model per cluster
    if len((collected := clients.collect(updates.clients)).client_ids):  # for methods that hear participants alone
        clients.charge_reports()
        _hear(federation, collected)
        acting, decision = collected, watch.measure("adapt", lambda: _adapt(method, collected, clients))
    scores = watch.measure("evaluate", lambda: _evaluate(federation, round_index))  # 12
    hand_out(federation)
    return Done(
        round_index=round_index,
        reports=acting,
        waiting=waiting,
        decision=decision,
        plan=plan,
        updates=updates,
        scores=scores,
        seconds=watch.totals(),
    )  # 13 is the runner's: what happened is written down


def welcome(federation: Federation, known: tuple[ClientId, ...], now: tuple[ClientId, ...]) -> None:
    """Let method and selection know of clients that joined, if any did.

    ``known`` are the clients that they know, ``now`` all there are: the same ones, and new ones behind them.

    Raises
    ------
    InputError
        If the method cannot take in clients during a run, or known ones stand elsewhere.
    """
    if now == known:
        return
    if now[: len(known)] != known:
        raise InputError(
            f"{len(known)} clients are {len(now)} others now; keep all in their order, new ones at the end"
        )
    if not isinstance(federation.method, Grows):
        raise InputError(
            f"clients joined during the run ({echo(now[len(known)])}, {len(now) - len(known)} in all), but the method "
            f"{type(federation.method).__name__} cannot take them in; choose one that can, such as fielding or global"
        )
    federation.method.grow(now)
    federation.selection.grow(len(now))


def hand_out(federation: Federation) -> None:
    """Let clients have the models that serve them after a round, and the shared model if it is time for it."""
    clients, method = federation.clients, federation.method
    clients.serve(*serving(method, has_heads=federation.has_heads))
    if clients.awaits_model:
        clients.share(mean_by_members(method.models, method.membership()))


def _in_turn(
    federation: Federation, sent: ReportBatch, waiting: ReportBatch | None
) -> tuple[ReportBatch, ReportBatch | None]:
    """Return the reports that act now, and those that wait for the next round.

    At the start there is nothing to wait for: without reports there would be no clusters.
    """
    if waiting is not None:
        return waiting, sent
    if not len(sent.client_ids):
        return sent, None
    return (NO_REPORTS, sent) if federation.has_late_start else (sent, NO_REPORTS)


def _hear(federation: Federation, reports: ReportBatch) -> None:
    """Let clusters meet if there are reports, which act on all of them, and the selection hear these if it listens."""
    if len(reports.client_ids):
        federation.clients.wait_for_all()
    if federation.selection.looks_at_members and len(reports.client_ids):
        position = {client_id: at for at, client_id in enumerate(federation.clients.client_ids)}
        clients = np.array([position[client_id] for client_id in reports.client_ids], dtype=np.int64)
        federation.selection.note_reports(clients, reports.representations, n_samples=reports.n_samples)


def _feedback(plan: TrainingPlan, updates: Updates, n_train_samples: int) -> Feedback:
    """Return the feedback of a round for the selection."""
    cluster_of = plan.start if plan.selected_for is None else plan.selected_for
    return Feedback(
        round_index=updates.round_index,
        n_train_samples=n_train_samples,
        clients=updates.clients,
        clusters=cluster_of[updates.jobs],
        n_samples=updates.n_samples,
        loss=updates.loss,
        square_loss=updates.square_loss,
        seconds=updates.seconds[updates.jobs],
        compute_seconds=updates.compute_seconds[updates.jobs],
        stragglers=plan.clients[updates.late],
        straggler_clusters=cluster_of[updates.late],
        straggler_seconds=updates.seconds[updates.late],
        failed=np.array(updates.missing.get("failed", []), dtype=np.int64),
    )


def _adapt(method: Method, reports: ReportBatch, clients: Clients) -> Decision | None:
    return method.adapt(reports, clients) if isinstance(method, Adapts) else None


def _learn(federation: Federation, updates: Updates) -> None:
    """Let the method make new models; clusters meet if one of them came or went."""
    before = cluster_ids(federation.method)
    federation.method.learn(updates)
    if cluster_ids(federation.method) != before:
        federation.clients.wait_for_all()


def _evaluate(federation: Federation, round_index: int) -> Mapping[str, ClientScores]:
    """Test every client on the model that serves it, if it is time to."""
    latest = federation.stop_at_time_s
    is_last = round_index == federation.n_rounds - 1 or (latest is not None and federation.clients.now_s >= latest)
    if (round_index + 1) % federation.evaluate_every and not is_last and round_index:
        return {}
    if isinstance(federation.method, PlacesClients):
        federation.method.place(federation.clients)
    models, row = serving(federation.method, has_heads=federation.has_heads)
    return federation.clients.scores(models, row)


def serving(method: Method, *, has_heads: bool = False) -> tuple[Models, Counts]:
    """Return models and the row of each client; clients without a cluster are served by the last: the model for all.

    ``has_heads``: whether clusters differ in their last layers alone; then that model is there in any case.
    """
    models, membership = method.models, method.membership()
    row = membership.astype(np.int64)
    if isinstance(method, Serves) and (served := method.served) is not None:
        models = served[:-1]
    if (membership < 0).any() or (has_heads and models.shape[0] > 1):
        models = np.concatenate([models, model_for_all(method)[np.newaxis]])
        row = np.where(row < 0, models.shape[0] - 1, row)
    return models, row


class _StopWatch:
    """Notes how long each stage took, and all of them together."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = time.perf_counter()

    def measure(self, stage: str, call: Callable[[], Answer]) -> Answer:
        """Do the work of a stage and note its wall-clock time; a stage that comes twice is noted as one."""
        begun = time.perf_counter()
        answer = call()
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.perf_counter() - begun, 6)
        return answer

    def totals(self) -> dict[str, float]:
        """Return the wall-clock time of each stage and, as ``whole``, since the start."""
        return {**self.seconds, "whole": round(time.perf_counter() - self._begun, 6)}


def timing_record(done: Done) -> dict[str, Json]:
    """Return the line of ``timings.jsonl``: all that differs between equal runs."""
    return {"round": done.round_index, **done.seconds, "peak_bytes": peak_bytes()}
