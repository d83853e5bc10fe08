"""What came back of an exchange, as the engine takes it: trained models, reasons for missing ones, scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Vector
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.flower.replies import ALSO, EvaluateReply, Score, TrainReply
from fielding.flower.tasks import Settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What all answers of a round share: see :class:`~fielding.federation.clients.Updates`."""

    n_parameters: int
    learning_rate: float
    round_index: int
    interval: int
    duration_s: float


def updates_of(plan: TrainingPlan, settled: Sequence[Settled], circumstances: Circumstances) -> Updates:
    """Return the models that came in time, and who is missing why; in the order of the plan.

    Parameters
    ----------
    plan
        Who was asked what.
    settled
        What became of each job.
    circumstances
        What all share.
    """
    counted = [(at, one.answer) for at, one in enumerate(settled) if one.reason is None]
    good = [(at, answer) for at, answer in counted if isinstance(answer, TrainReply)]
    jobs = np.array([at for at, _ in good], dtype=np.int64)
    models = np.array([answer.model for _, answer in good], dtype=np.float32)
    start = [int(plan.start[at]) if answer.start is None else answer.start for at, answer in good]
    seconds = np.array([one.seconds for one in settled], dtype=np.float64)
    return Updates(
        clients=plan.clients[jobs],
        groups=plan.groups[jobs],
        start=np.array(start, dtype=np.int64),
        models=models.reshape(len(good), plan.models.shape[1]),
        n_samples=np.array([answer.n_samples for _, answer in good], dtype=np.int64),
        loss=np.array([answer.loss for _, answer in good], dtype=np.float64),
        square_loss=np.array([answer.square_loss for _, answer in good], dtype=np.float64),
        missing=_missing(plan, settled),
        duration_s=circumstances.duration_s,
        n_parameters=circumstances.n_parameters,
        learning_rate=circumstances.learning_rate,
        start_loss=_start_loss(good) if plan.with_start_loss else None,
        round_index=circumstances.round_index,
        interval=circumstances.interval,
        jobs=jobs,
        late=np.array([at for at, one in enumerate(settled) if one.reason == "straggler"], dtype=np.int64),
        seconds=seconds,
        compute_seconds=seconds,  # nobody knows which part of them the network took
    )


def _missing(plan: TrainingPlan, settled: Sequence[Settled]) -> dict[Reason, list[int]]:
    names: tuple[Reason, ...] = ("straggler", "offline", "refused", "failed")
    return {name: [int(plan.clients[at]) for at, one in enumerate(settled) if one.reason == name] for name in names}


def _start_loss(good: Sequence[tuple[int, TrainReply]]) -> Vector:
    return np.array([np.nan if one.start_loss is None else one.start_loss for _, one in good], dtype=np.float64)


def scores_of(clients: Sequence[int], settled: Sequence[Settled]) -> ClientScores:
    """Return how well those who answered, and have test samples, are served; clients rise."""
    found = [
        (client, one.answer)
        for client, one in zip(clients, settled, strict=True)
        if one.reason is None and isinstance(one.answer, EvaluateReply) and one.answer.n_test
    ]
    clients_found, answers = [client for client, _ in found], [answer for _, answer in found]
    plain = _scores(clients_found, answers, answers)
    # Of clients that did no more than test, nobody knows how they would fare: then nothing is told of the others.
    names = [name for name in ALSO if answers and all(name in answer.also for answer in answers)]
    return replace(
        plain, also={name: _scores(clients_found, answers, [one.also[name] for one in answers]) for name in names}
    )


def _scores(
    clients: Sequence[int], answers: Sequence[EvaluateReply], scores: Sequence[EvaluateReply | Score]
) -> ClientScores:
    return ClientScores(
        clients=np.array(clients, dtype=np.int64),
        n_test=np.array([answer.n_test for answer in answers], dtype=np.int64),
        correct=np.array([score.correct for score in scores], dtype=np.int64),
        loss=np.array([score.loss for score in scores], dtype=np.float64),
    )
