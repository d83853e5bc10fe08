"""What came back of an exchange, as the engine takes it: trained models, reasons for missing ones, scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fielding._typing import Vector
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.flower.replies import EvaluateReply, TrainReply
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
    seconds = np.array([one.seconds for one in settled], dtype=np.float64)
    return Updates(
        clients=plan.clients[jobs],
        groups=plan.groups[jobs],
        start=plan.start[jobs],
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
    return ClientScores(
        clients=np.array([client for client, _ in found], dtype=np.int64),
        n_test=np.array([answer.n_test for _, answer in found], dtype=np.int64),
        correct=np.array([answer.correct for _, answer in found], dtype=np.int64),
        loss=np.array([answer.loss for _, answer in found], dtype=np.float64),
    )
