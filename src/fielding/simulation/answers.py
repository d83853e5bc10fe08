"""What came back of a plan, sorted into answers that are models and reasons why the others are missing."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.federation.admission import finite_rows
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.simulation.clock import RoundOutcome
from fielding.training.trainer import Trained


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """Who answered a plan in time.

    Parameters
    ----------
    plan
        The plan.
    outcome
        Whose answers count, and how long it took.
    finish, compute_seconds
        When each job was done, and how long it computed, shape ``(n_jobs,)``.
    start
        The model that each job started from, same shape.
    """

    plan: TrainingPlan
    outcome: RoundOutcome
    finish: Vector
    compute_seconds: Vector
    start: Counts

    @property
    def kept(self) -> Counts:
        """The jobs whose answers count."""
        return np.flatnonzero(self.outcome.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What all answers of a round share: see :class:`~fielding.federation.clients.Updates`."""

    n_parameters: int
    learning_rate: float
    round_index: int
    interval: int


def updates_of(settled: Settled, trained: Trained, sizes: Counts, circumstances: Circumstances) -> Updates:
    """Return the answers that are models, and who is missing why.

    Parameters
    ----------
    settled
        Who answered in time.
    trained
        What they sent, a row per kept job.
    sizes
        How many samples each job of the plan had at hand.
    circumstances
        What all share.
    """
    plan, outcome, kept = settled.plan, settled.outcome, settled.kept
    is_model = finite_rows(trained.models) & np.isfinite(trained.loss)
    good, jobs = np.flatnonzero(is_model), kept[is_model]
    names: tuple[Reason, ...] = ("straggler", "offline", "refused")
    missing = {name: plan.clients[outcome.reasons == name].tolist() for name in names}
    return Updates(
        clients=plan.clients[jobs],
        groups=plan.groups[jobs],
        start=settled.start[jobs],
        models=trained.models if good.size == kept.size else trained.models[good],
        n_samples=sizes[jobs],
        loss=trained.loss[good],
        square_loss=trained.square_loss[good],
        missing={**missing, "failed": plan.clients[kept[~is_model]].tolist()},
        duration_s=outcome.duration_s,
        n_parameters=circumstances.n_parameters,
        learning_rate=circumstances.learning_rate,
        round_index=circumstances.round_index,
        interval=circumstances.interval,
        jobs=jobs,
        late=np.flatnonzero(outcome.reasons == "straggler"),
        seconds=settled.finish,
        compute_seconds=settled.compute_seconds,
    )
