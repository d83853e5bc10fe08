"""Plans and what comes of them, put together by hand."""

from collections.abc import Sequence

import numpy as np
from fielding.simulation.answers import Settled

from fielding._typing import Counts, Models
from fielding.federation.clients import TrainingPlan
from fielding.simulation.clock import RoundOutcome


def counts(values: Sequence[int]) -> Counts:
    return np.array(values, dtype=np.int64)


def plan_of(
    clients: Sequence[int], *, models: Models, start: Sequence[int] | None = None, wanted: int | None = None
) -> TrainingPlan:
    """Return a plan of one group; all answers are wanted, and all jobs start from the first model by default."""
    return TrainingPlan(
        models=models,
        clients=counts(clients),
        groups=np.zeros(len(clients), dtype=np.int64),
        start=counts(start or [0] * len(clients)),
        wanted=counts([len(clients) if wanted is None else wanted]),
    )


def settled_as(plan: TrainingPlan, reasons: Sequence[str], *, duration_s: float = 1.0) -> Settled:
    """Return a plan of which the jobs without a reason to be missing are kept; job j is done after j + 1 seconds."""
    why = np.array(reasons, dtype="<U9")
    finish = np.arange(1.0, why.size + 1.0)
    outcome = RoundOutcome(kept=why == "", reasons=why, durations_s=np.array([duration_s]), duration_s=duration_s)
    return Settled(plan=plan, outcome=outcome, finish=finish, compute_seconds=finish / 2, start=plan.start)
