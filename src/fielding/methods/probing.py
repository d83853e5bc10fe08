"""What a method asks clients beside training: how they would change a model."""

from typing import Literal

import numpy as np

from fielding._typing import Counts, Mask, Models, Vector
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.selection.selector import smallest_draws

Participation = Literal["auto", "all", "sampled"]
MOST_FOR_ALL = 200
"""Federations up to this size let everybody take part in every round, as authors do (METHODS.md 5.7 and 7)."""


def is_sampled(participation: object, n_clients: int) -> bool:
    """Return whether only the participants of the run take part, not everybody.

    Examples
    --------
    >>> is_sampled("auto", 200), is_sampled("auto", 201), is_sampled("sampled", 3)
    (False, True, True)
    """
    return participation == "sampled" or (participation == "auto" and n_clients > MOST_FOR_ALL)


_MOST = np.finfo(np.float32).max


def probe_plan(
    who: Counts, models: Models, start: Counts, *, n_steps: int | None = None, downloads: Vector | None = None
) -> TrainingPlan:
    """Return the plan in which clients train models, and their answers are only looked at; all are waited for.

    Parameters
    ----------
    who
        Whom to ask, each client once, shape ``(n_asked,)``.
    models, start
        What they start from, and the row of each, same shape as ``who``.
    n_steps
        Local steps; None for those of the run.
    downloads
        How many models' worth of bytes each receives; None for 1.
    """
    return TrainingPlan(
        models=models,
        clients=who,
        groups=np.zeros(who.size, dtype=np.int64),
        start=start,
        wanted=np.array([who.size], dtype=np.int64),
        is_probe=True,
        n_steps=n_steps,
        downloads=downloads,
    )


def drawn(clients: Clients, among: Mask, n_wanted: int | None, *, purpose: str) -> Counts:
    """Return so many random clients of some, or all if they are fewer or None are wanted, rising.

    Parameters
    ----------
    clients
        The door.
    among
        Who can be drawn, shape ``(n_clients,)``.
    n_wanted
        How many at most; None for all.
    purpose
        Of the draws.
    """
    candidates = np.flatnonzero(among)
    if n_wanted is None or candidates.size <= n_wanted:
        return candidates
    return np.sort(candidates[smallest_draws(clients.draws(purpose, candidates), n_wanted)])


def changes(updates: Updates, models: Models) -> Models:
    """Return by how much each answer changed the parameters of the model it was trained from; buffers are left out.

    Parameters
    ----------
    updates
        The answers.
    models
        The models of the plan.
    """
    size = updates.n_parameters
    return difference(updates.models[:, :size], models[updates.start, :size])


def difference(ours: Models, theirs: Models) -> Models:
    """Return ours minus theirs, all finite: two of opposite signs may lie further apart than float32 can say.

    Examples
    --------
    >>> far = np.array([3e38], dtype=np.float32)
    >>> bool(np.isfinite(difference(far, -far)).all())
    True
    """
    with np.errstate(over="ignore"):
        apart = ours - theirs
    return np.clip(apart, -_MOST, _MOST, out=apart)
