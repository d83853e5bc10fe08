"""What Auxo keeps of every client and cohort: a score, a leaning to one half of it, and how often it counted."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Membership, Vector
from fielding.federation.cluster_models import Arrays

UNDECIDED: Final = -1
"""The side of a client that leans to neither half of its cohort."""
_FIRST = 1.0


class CohortScores:
    """Scores of clients in cohorts, which change for participants alone, and double a column when a cohort splits.

    The authors keep two half scores, ``sub = score / 2 +- leaning``; only their difference ever matters.

    Parameters
    ----------
    n_clients
        How many clients there are; the one cohort at the start holds all of them.
    """

    def __init__(self, n_clients: int) -> None:
        self.score = np.full((n_clients, 1), _FIRST)
        self._leaning = np.zeros((n_clients, 1), dtype=np.int64)
        self._times = np.zeros((n_clients, 1), dtype=np.int64)

    @property
    def n_cohorts(self) -> int:
        """How many cohorts there are."""
        return self.score.shape[1]

    def sides(self, clients: Counts, cohort: int) -> Counts:
        """Return the half that each client leans to, 0 or 1; -1 if to none, or if its score is below 0."""
        leaning = self._leaning[clients, cohort]
        is_open = (leaning == 0) | (self.score[clients, cohort] < 0.0)
        return np.where(is_open, UNDECIDED, (leaning < 0).astype(np.int64))

    def known(self, clients: Counts, cohort: int) -> Counts:
        """Return the positions of those clients that counted before and whose score is above that of a stranger."""
        return np.flatnonzero((self._times[clients, cohort] > 0) & (self.score[clients, cohort] > _FIRST))

    def lean(self, clients: Counts, cohort: int, sides: Counts | int) -> None:
        """Let clients lean a step more to a half of their cohort."""
        self._leaning[clients, cohort] += np.where(np.asarray(sides) == 0, 1, -1)
        self._times[clients, cohort] += 1

    def reward(self, clients: Counts, cohort: int, rewards: Vector) -> None:
        """Add to the scores of clients; whoever loses leans to no half any more."""
        self.score[clients, cohort] += rewards
        losers = clients[rewards < 0.0]
        self._leaning[losers, cohort] = 0
        self._times[losers, cohort] = 0
        self._times[clients, cohort] += 1

    def split(self, cohort: int) -> None:
        """Make the half 1 of a cohort a new cohort, the last one; who leans to a half gains a point there.

        Whoever leans to none has counted in neither, so that it is placed like a newcomer.
        """
        leaning, score, times = self._leaning[:, cohort], self.score[:, cohort], self._times[:, cohort]
        stays, goes = leaning > 0, leaning < 0
        self.score = np.column_stack([self.score, score + goes])
        self._times = np.column_stack([self._times, times * goes])
        self.score[:, cohort] += stays
        self._times[:, cohort] *= stays
        self._leaning = np.column_stack([self._leaning, np.zeros_like(leaning)])
        self._leaning[:, cohort] = 0

    def preferred(self, clients: Counts) -> Membership:
        """Return the cohort with each client's highest score; ties: the lower one."""
        return np.asarray(np.argmax(self.score[clients], axis=1), dtype=np.int32)

    def is_new(self, clients: Counts) -> Mask:
        """Return who never counted anywhere."""
        return np.asarray(~self._times[clients].any(axis=1))

    def arrays(self) -> Arrays:
        """Return the scores, for a checkpoint."""
        return {"score": self.score.copy(), "leaning": self._leaning.copy(), "times": self._times.copy()}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        self.score = arrays["score"].astype(np.float64)
        self._leaning = arrays["leaning"].astype(np.int64)
        self._times = arrays["times"].astype(np.int64)
