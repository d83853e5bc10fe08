"""Uploads of clients that attack training: the models that they were to train, spoiled."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Models
from fielding.errors import unknown_name

SPOILS = ("none", "sign-flip", "scale", "nan")
"""What attackers may do to the models that they upload."""
SCALE = 10.0
"""Factor on the update of a client that scales it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spoiling:
    """Who spoils its uploads, and how.

    Parameters
    ----------
    attackers
        A yes or no per client, shape ``(n_clients,)``.
    kind
        One of :data:`SPOILS`.

    Raises
    ------
    OptionError
        If there is no such kind.
    """

    attackers: Mask
    kind: str = "none"

    def __post_init__(self) -> None:
        check_spoil(self.kind)

    def applied(self, models: Models, clients: Counts, *, offered: Models, start: Counts) -> Models:
        """Return the models as they are uploaded; the argument itself if none is spoiled, and never changed.

        Parameters
        ----------
        models, clients
            What was trained, one row per job, and by whom.
        offered, start
            The models that training started from, and which of them each job did.

        Examples
        --------
        >>> spoiling = Spoiling(attackers=np.array([False, True]), kind="sign-flip")
        >>> offered, trained = np.array([[1.0]], dtype=np.float32), np.array([[2.0], [3.0]], dtype=np.float32)
        >>> spoiling.applied(trained, np.array([0, 1]), offered=offered, start=np.array([0, 0])).tolist()
        [[2.0], [-1.0]]
        """
        jobs = np.flatnonzero(self.attackers[clients])
        if self.kind == "none" or not jobs.size:
            return models
        uploads = models.copy()
        uploads[jobs] = spoiled(models[jobs], offered[start[jobs]], kind=self.kind)
        return uploads


def spoiled(models: Models, start: Models, *, kind: str) -> Models:
    """Return what attackers upload instead of the models that they trained.

    Parameters
    ----------
    models, start
        Their models after and before training, float32, one row per attacker, shape ``(n_attackers, n_numbers)``.
    kind
        ``"none"``: the models themselves; ``"sign-flip"``: the update turned round; ``"scale"``: ten times the update;
        ``"nan"``: the first number is none.

    Raises
    ------
    OptionError
        If there is no such kind.

    Examples
    --------
    >>> trained, before = np.array([[3.0, 1.0]], dtype=np.float32), np.array([[2.0, 1.5]], dtype=np.float32)
    >>> [spoiled(trained, before, kind=kind).tolist() for kind in ("sign-flip", "scale", "nan")]
    [[[1.0, 2.0]], [[12.0, -3.5]], [[nan, 1.0]]]
    """
    check_spoil(kind)
    if kind == "none":
        return models
    if kind == "nan":
        broken = models.copy()
        broken[:, :1] = np.nan
        return broken
    factor = np.float32(SCALE if kind == "scale" else -1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # too large an upload is for the server to refuse
        return start + factor * (models - start)


def check_spoil(kind: str) -> None:
    """Raise :class:`OptionError` unless uploads can be spoiled so."""
    if kind not in SPOILS:
        raise unknown_name("spoil", kind, SPOILS)
