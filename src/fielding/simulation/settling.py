"""Who of those that a plan asks answers in time."""

from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Mask, Vector
from fielding.federation.clients import TrainingPlan
from fielding.federation.ledger import Costs
from fielding.simulation.answers import Settled
from fielding.simulation.clock import seconds_of, settle_round
from fielding.simulation.settings import Hardware
from fielding.simulation.task_costs import finish_times


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tasks:
    """What the jobs of a plan come to.

    Parameters
    ----------
    costs, seconds
        What each job asks for, and how long it takes, shape ``(n_jobs,)``.
    refused
        Which jobs are not begun, because there are no samples for them, same shape.
    """

    costs: Costs
    seconds: Vector
    refused: Mask


def settled_plan(plan: TrainingPlan, tasks: Tasks, *, hardware: Hardware, now_s: float) -> Settled:
    """Return who answers a plan in time; all jobs start from the models that the plan names.

    Parameters
    ----------
    plan
        The plan.
    tasks
        What its jobs come to.
    hardware
        What clients run on.
    now_s
        When they are asked, in simulated seconds.
    """
    costs, refused = tasks.costs, tasks.refused
    finish = finish_times(plan.clients, tasks.seconds)
    finishes_online = hardware.availability.available(plan.clients, np.asarray(now_s + finish)) & ~refused
    outcome = settle_round(plan.groups, finish, wanted=plan.wanted, finishes_online=finishes_online)
    if refused.any():
        outcome = replace(outcome, reasons=np.where(refused, "refused", outcome.reasons))
    computing = Costs(forward_samples=costs.forward_samples, train_samples=costs.train_samples)
    return Settled(
        plan=plan,
        outcome=outcome,
        finish=finish,
        compute_seconds=seconds_of(hardware.devices, plan.clients, computing),
        start=plan.start,
    )
