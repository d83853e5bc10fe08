"""One round, stages 1 to 13 as a list of calls. READ FIRST: everything else is detail."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from fielding._typing import Codes, Counts, Json, Models
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.coordinator.decision import Decision
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.federation.models import mean_by_members
from fielding.methods.method import Method

Answer = TypeVar("Answer")


class Driver(Clients, Protocol):
    """What a driver adds to the door: rounds begin, time passes, and costs add up."""

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
        """Simulated seconds since the start."""
        ...

    def begin(self, round_index: int) -> ReportBatch:
        """Let data arrive, and return what clients have to tell."""
        ...

    def charge_reports(self, reports: ReportBatch) -> None:
        """Charge reports to whoever sent them."""
        ...

    def return_to(self, round_index: int, times: Sequence[float], *, ledger: Ledger) -> ReportBatch:
        """Come back to the end of a round that was done before, and return the reports that were sent in it.

        ``times`` holds the simulated time at the start of each round up to it, and at its end.
        """
        ...

    def concepts(self) -> Codes | None:
        """Return the true concept of each client now, for scoring, or None if nobody knows."""
        ...

    def prequential_scores(self, models: Models, row: Counts) -> ClientScores | None:
        """Measure each client's model on the samples that come next; None where that is not asked for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Federation:
    """The parts that a round puts to work.

    Parameters
    ----------
    clients
        The door.
    method
        Who groups clients and owns the models.
    evaluate_every, n_rounds
        Clients are tested every so many rounds, in the first and in the last.
    stop_at_time_s
        The round that reaches this simulated time is the last.
    is_delayed
        Whether reports act in the round after the one they were sent in, as they do when they travel with training.
    """

    clients: Driver
    method: Method
    evaluate_every: int
    n_rounds: int
    stop_at_time_s: float | None = None
    is_delayed: bool = False


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
        Those that will act in the next one.
    decision
        What the coordinator made of them; None if the method does not listen.
    plan, updates
        Who was asked to train, and what came back.
    scores, prequential
        How well clients are served; None if this round was not evaluated.
    seconds
        Wall-clock time of each stage.
    """

    round_index: int
    reports: ReportBatch
    waiting: ReportBatch
    decision: Decision | None
    plan: TrainingPlan
    updates: Updates
    scores: ClientScores | None
    prequential: ClientScores | None
    seconds: Mapping[str, float] = field(default_factory=dict)


def run_round(federation: Federation, round_index: int, waiting: ReportBatch = NO_REPORTS) -> Done:
    """Advance a federation by one round.

    Parameters
    ----------
    federation
        Its method and its clients move on.
    round_index
        From 0, one after the other.
    waiting
        Reports that were sent in the round before and act now.
    """
    clients, method, watch = federation.clients, federation.method, _StopWatch()
    sent = watch.timed("observe", lambda: clients.begin(round_index))  # 1-4: data arrive; who drifted says so
    clients.charge_reports(sent)
    # At the start there is nothing to wait for: without reports there would be no clusters.
    acting, waiting = (waiting, sent) if federation.is_delayed and round_index else (sent, NO_REPORTS)
    decision = watch.timed("adapt", lambda: method.adapt(acting, round_index))  # 5-8: move, re-cluster, warm-start
    plan = watch.timed("select", lambda: method.plan(clients))  # 9: who trains
    updates = watch.timed("train", lambda: clients.train(plan))  # 10: local training
    watch.seconds["steps"] = round(clients.worked_s, 6)
    watch.timed("learn", lambda: method.learn(updates))  # 11: one model per cluster
    scores, prequential = watch.timed("evaluate", lambda: _evaluated(federation, round_index))  # 12
    return Done(
        round_index=round_index,
        reports=acting,
        waiting=waiting,
        decision=decision,
        plan=plan,
        updates=updates,
        scores=scores,
        prequential=prequential,
        seconds=watch.seconds,
    )  # 13 is the runner's: what happened is written down


def _evaluated(federation: Federation, round_index: int) -> tuple[ClientScores | None, ClientScores | None]:
    """Test every client on the model that serves it, if it is time to."""
    latest = federation.stop_at_time_s
    is_last = round_index == federation.n_rounds - 1 or (latest is not None and federation.clients.now_s >= latest)
    if (round_index + 1) % federation.evaluate_every and not is_last and round_index:
        return None, None
    models, row = serving(federation.method)
    return federation.clients.scores(models, row), federation.clients.prequential_scores(models, row)


def serving(method: Method) -> tuple[Models, Counts]:
    """Return models and the row of each client; who has no cluster is served by the mean of all models."""
    models, membership = method.models, method.membership()
    row = membership.astype(np.int64)
    if (membership < 0).any():
        models = np.concatenate([models, mean_by_members(models, membership)[np.newaxis]])
        row = np.where(row < 0, models.shape[0] - 1, row)
    return models, row


class _StopWatch:
    """Notes how long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, stage: str, call: Callable[[], Answer]) -> Answer:
        """Do the work of a stage and note its wall-clock time."""
        begun = time.perf_counter()
        answer = call()
        self.seconds[stage] = round(time.perf_counter() - begun, 6)
        return answer


def timing_record(done: Done) -> dict[str, Json]:
    """Return the line of ``timings.jsonl``."""
    return {"round": done.round_index, **done.seconds}
