"""Who trains which models of FedDrift on which blocks, and what is sent for it."""

from dataclasses import replace

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.federation.clients import TrainingPlan, Updates
from fielding.methods.feddrift_state import DriftState


def training_jobs(state: DriftState, who: Mask, *, train_all: bool = False) -> tuple[Counts, Counts]:
    """Return the clients and the rows of the models that they train, by row, then by client.

    Parameters
    ----------
    state
        Models and blocks.
    who
        Who trains, shape ``(n_clients,)``; all have samples now.
    train_all
        Whether they train all models; otherwise those that serve anybody, and that own samples of theirs.
    """
    in_use = np.unique(state.rows())
    found = [np.flatnonzero(who & state.blocks.trainable(model)) for model in state.named.ids[in_use].tolist()]
    clients = np.concatenate(found).astype(np.int64)
    if train_all:
        return every_model(clients, state.named.n_models)
    return clients, np.repeat(in_use, [one.size for one in found])


def every_model(clients: Counts, n_models: int) -> tuple[Counts, Counts]:
    """Return jobs in which each of some clients trains every model, by row, then by client.

    Examples
    --------
    >>> [part.tolist() for part in every_model(np.array([4, 2, 4]), 2)]
    [[2, 4, 2, 4], [0, 0, 1, 1]]
    """
    trainers = np.unique(clients)
    return np.tile(trainers, n_models), np.repeat(np.arange(n_models), trainers.size)


def sent_once(clients: Counts, amount: Vector) -> Vector:
    """Return how many models' worth each job downloads if a client gets all that it needs with its first job.

    Parameters
    ----------
    clients
        Whose job it is, shape ``(n_jobs,)``.
    amount
        How many models each client gets, shape ``(n_clients,)``.

    Examples
    --------
    >>> sent_once(np.array([1, 0, 1]), np.array([3.0, 5.0])).tolist()
    [5.0, 3.0, 0.0]
    """
    downloads = np.zeros(clients.size)
    _, first = np.unique(clients, return_index=True)
    downloads[first] = amount[clients[first]]
    return downloads


def block_plan(state: DriftState, jobs: tuple[Counts, Counts], *, share: float = 1.0) -> TrainingPlan:
    """Return a plan with a group per model, in which each job trains on the blocks that its model owns, or else on all.

    Parameters
    ----------
    state
        Models and blocks.
    jobs
        Clients and rows, by row.
    share
        Of the answers of each group, so many are enough, rounded up.
    """
    named, (clients, rows) = state.named, jobs
    _, groups, sizes = np.unique(rows, return_inverse=True, return_counts=True)
    blocks = []
    for client, row in zip(clients.tolist(), rows.tolist(), strict=True):
        own = state.blocks.of(client, int(named.ids[row]))
        blocks.append(own if own.size else state.blocks.owned(client))
    return TrainingPlan(
        models=named.cluster_models.models,
        clients=clients,
        groups=groups.astype(np.int64),
        start=rows,
        wanted=np.ceil(sizes * share - 1e-9).astype(np.int64),
        blocks=blocks,
        rate_factors=named.cluster_models.rate_factors(rows),
    )


def as_chosen(plan: TrainingPlan, chosen: TrainingPlan) -> TrainingPlan:
    """Return a plan whose jobs do as much as was planned for their clients.

    Parameters
    ----------
    plan
        Of jobs of the same clients.
    chosen
        One job per client, of the model that it was chosen for.
    """
    order = np.argsort(chosen.clients, kind="stable")
    at = order[np.searchsorted(chosen.clients[order], plan.clients)]
    n_steps, upload_shares = chosen.n_steps, chosen.upload_shares
    return replace(
        plan,
        n_steps=n_steps[at] if isinstance(n_steps, np.ndarray) else n_steps,
        upload_shares=None if upload_shares is None else upload_shares[at],
        selected_for=chosen.start[at],
    )


def owned_answers(updates: Updates, state: DriftState) -> Updates:
    """Return only the answers whose model owns data of who trained it."""
    owning = np.array([state.blocks.owning(model) for model in state.named.ids.tolist()], dtype=np.bool_)
    kept = owning[updates.start, updates.clients] if updates.start.size else np.empty(0, dtype=np.bool_)
    if kept.all():
        return updates
    names = ("clients", "groups", "start", "models", "n_samples", "loss", "square_loss", "jobs")
    changes = {name: getattr(updates, name)[kept] for name in names}
    start_loss = None if updates.start_loss is None else updates.start_loss[kept]
    return replace(updates, **changes, start_loss=start_loss)
