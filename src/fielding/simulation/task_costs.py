"""What the jobs of a plan cost the clients that do them."""

from dataclasses import replace

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.federation.clients import TrainingPlan
from fielding.federation.ledger import Costs

BYTES_PER_NUMBER = 4
"""Models and reports travel as float32."""


def job_costs(
    plan: TrainingPlan, *, n_steps: Counts, batch_size: int, sizes: Counts, more_passes: int | Counts = 0
) -> Costs:
    """Return what each job of a plan asks for.

    Parameters
    ----------
    plan
        The plan.
    n_steps
        Local steps of each job, shape ``(n_jobs,)``.
    batch_size
        Samples of a step.
    sizes
        How many samples each job has at hand, same shape.
    more_passes
        Samples that each job puts through a model beside what the plan asks for: one number or one per job.
    """
    model_bytes, n_models = BYTES_PER_NUMBER * plan.models.shape[1], plan.models.shape[0]
    costs = Costs(
        down_bytes=_bytes(plan.downloads, model_bytes * (n_models if plan.chooses else 1), model_bytes),
        up_bytes=_bytes(plan.uploads if plan.upload_shares is None else plan.upload_shares, model_bytes, model_bytes),
        train_samples=n_steps * batch_size,
    )
    # Which model it was comes back with it; so does the loss before training.
    n_said = int(_is_choice(plan)) + int(plan.with_start_loss)
    if n_said:
        costs = replace(costs, up_bytes=costs.up_bytes + n_said * BYTES_PER_NUMBER)
    return replace(costs, forward_samples=sizes * window_passes(plan) + more_passes)


def window_passes(plan: TrainingPlan) -> int:
    """Return how many models each job of a plan puts all samples of its window through before it trains."""
    # The loss before training is known from the choice, where there was one.
    return plan.models.shape[0] if _is_choice(plan) else int(plan.with_start_loss)


def _is_choice(plan: TrainingPlan) -> bool:
    return plan.chooses and plan.models.shape[0] > 1


def _bytes(share: Vector | None, usual: int, model_bytes: int) -> int | Counts:
    """Return bytes: as many as usual, or so many models' worth."""
    return usual if share is None else np.round(np.asarray(share) * model_bytes).astype(np.int64)


def without(costs: Costs, spared: Mask) -> Costs:
    """Return what tasks cost if some of them are not begun.

    Examples
    --------
    >>> without(Costs(down_bytes=8, train_samples=np.array([2, 3])), np.array([True, False])).train_samples.tolist()
    [0, 3]
    """
    if not spared.any():
        return costs
    return Costs(
        down_bytes=np.where(spared, 0, costs.down_bytes),
        up_bytes=np.where(spared, 0, costs.up_bytes),
        forward_samples=np.where(spared, 0, costs.forward_samples),
        train_samples=np.where(spared, 0, costs.train_samples),
    )


def finish_times(clients: Counts, seconds: Vector) -> Vector:
    """Return when each job is done; a client does its jobs one after the other, in their order.

    Examples
    --------
    >>> finish_times(np.array([3, 5, 3]), np.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 2.0, 5.0]
    """
    order = np.argsort(clients, kind="stable")
    _, first = np.unique(clients[order], return_index=True)
    if first.size == clients.size:
        return seconds
    sums = np.cumsum(seconds[order])
    before = np.repeat(sums[first] - seconds[order][first], np.diff([*first.tolist(), clients.size]))
    finish = np.empty_like(seconds)
    finish[order] = sums - before
    return finish


def is_first(clients: Counts) -> Counts:
    """Return 1 where a client is named for the first time and 0 where again: it downloads the same thing once.

    Examples
    --------
    >>> is_first(np.array([3, 5, 3])).tolist()
    [1, 1, 0]
    """
    first = np.zeros(clients.size, dtype=np.int64)
    first[np.unique(clients, return_index=True)[1]] = 1
    return first
