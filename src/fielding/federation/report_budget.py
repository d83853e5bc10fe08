"""Which clients are asked what is new in a round, beside its participants, where not all are: a budget of questions."""

from collections.abc import Mapping
from math import ceil
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector
from fielding.errors import CheckpointError, OptionError, echo
from fielding.rng import Hashes

ALL = "all"  # in place of a number: all that can be reached are asked, and waited for
PER_PARTICIPANT, FEWEST = 4, 20
"""A deployment that names no budget asks so many clients for each participant, and at least so many."""
HALF_LIFE = 50  # rounds after which a report counts half as much as a new one
NEVER = -1  # the round in which a client was heard that never was
_NAMES = ("report_budget.heard", "report_budget.drifts", "report_budget.losses")
_Number = TypeVar("_Number", np.int64, np.float64)


def usual_budget(participants: int) -> int:
    """Return how many clients a deployment asks in a round that names no budget.

    Examples
    --------
    >>> usual_budget(3), usual_budget(10)
    (20, 40)
    """
    return max(FEWEST, PER_PARTICIPANT * participants)


class ReportBudget:
    """Chooses the clients that are asked in a round; all numbers by client have shape ``(n_clients,)``.

    Half of a budget goes to those that were silent for longest, so that each of N clients that can be reached is heard
    within ``ceil(2 N / budget)`` rounds. The other half goes to those with the largest product of silence, one more
    than their drift reports (a report counts half after ``HALF_LIFE`` rounds), and loss relative to the median of all
    clients, from 1/2 to 2: what a client says of itself moves it no farther. Ties go to the smallest draws.

    ``budget``: how many clients are asked in a round at most. With ``by_silence`` the other half goes to those that
    were silent for longest, too: who is asked then tells nothing of anybody's data.

    Examples
    --------
    >>> budget, draws = ReportBudget(2), np.arange(4, dtype=np.uint64)
    >>> budget.grow(4)
    >>> budget.note_reports(np.array([3]))  # it drifted before
    >>> budget.choose(np.ones(4, dtype=bool), draws, round_index=0).tolist()
    [0, 3]
    >>> budget.choose(np.ones(4, dtype=bool), draws, round_index=1).tolist()
    [1, 2]
    """

    def __init__(self, budget: int, *, by_silence: bool = False) -> None:
        if type(budget) is not int or budget < 1:
            raise OptionError(f"budget is {echo(budget)}; give a whole number of at least 1")
        self.budget, self._by_silence = budget, by_silence
        self._heard: Counts = np.empty(0, dtype=np.int64)
        self._drifts: Vector = np.empty(0)
        self._losses: Vector = np.empty(0)

    def bound(self, n_clients: int) -> int:
        """Return within how many rounds each of so many clients is heard that can be reached all the time."""
        return ceil(2 * n_clients / self.budget)

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined; they were never heard."""
        n_new = n_clients - self._heard.size
        self._heard = np.pad(self._heard, (0, n_new), constant_values=NEVER)
        self._drifts = np.pad(self._drifts, (0, n_new))
        self._losses = np.pad(self._losses, (0, n_new), constant_values=np.nan)

    def note_reports(self, clients: Counts) -> None:
        """Take note of a round, and of the clients whose reports act in it."""
        self._drifts *= 0.5 ** (1.0 / HALF_LIFE)
        self._drifts[clients] += 1.0

    def note_losses(self, clients: Counts, losses: Vector) -> None:
        """Take note of how badly some clients are served: the loss of their models on their test samples."""
        self._losses[clients] = losses

    def note_heard(self, clients: Counts, round_index: int) -> None:
        """Take note of clients that are in touch in a round anyway, since they train."""
        self._heard[clients] = round_index

    def choose(self, candidates: Mask, draws: Hashes, round_index: int, *, n_busy: int = 0) -> Counts:
        """Return which of the candidates are asked in a round, rising, and take note that they are.

        ``n_busy``: how many of the clients asked before are still to answer; they use up part of the budget.
        """
        clients = np.flatnonzero(candidates)
        n_asked = max(0, self.budget - n_busy)
        if clients.size > n_asked:
            silence, draws = round_index - self._heard[clients], draws[clients]
            is_asked = _largest(silence, draws, ceil(n_asked / 2))
            left = np.flatnonzero(~is_asked)
            score = silence[left].astype(np.float64)
            if not self._by_silence:
                score *= (1.0 + self._drifts[clients[left]]) * self._relative_losses()[clients[left]]
            is_asked[left[_largest(score, draws[left], n_asked - int(is_asked.sum()))]] = True
            clients = clients[is_asked]
        self.note_heard(clients, round_index)
        return clients

    def _relative_losses(self) -> Vector:
        known = self._losses[~np.isnan(self._losses)]
        usual = float(np.median(known)) if known.size else 0.0
        if not 0.0 < usual < np.inf:
            return np.ones(self._losses.size)
        return np.clip(np.where(np.isnan(self._losses), 1.0, self._losses / usual), 0.5, 2.0)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs."""
        columns = (self._heard.astype("<i8"), self._drifts.astype("<f8"), self._losses.astype("<f8"))
        return dict(zip(_NAMES, columns, strict=True))

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave; checkpoints of older versions hold none, and it begins anew."""
        if _NAMES[0] not in arrays:
            return
        heard, drifts, losses = (arrays.get(name, np.empty((0, 0))) for name in _NAMES)
        if heard.ndim != 1 or not heard.shape == drifts.shape == losses.shape:
            raise CheckpointError(
                "the report budget of the checkpoint does not fit together; begin anew in another folder"
            )
        self._heard = heard.astype(np.int64)
        self._drifts, self._losses = drifts.astype(np.float64), losses.astype(np.float64)


def _largest(values: npt.NDArray[_Number], draws: Hashes, n_wanted: int) -> Mask:
    """Return which values are the largest; of equal ones those with the smallest draws. Linear in their number.

    Examples
    --------
    >>> _largest(np.array([3, 7, 3, 3]), np.array([5, 9, 2, 8], dtype=np.uint64), 2).tolist()
    [False, True, True, False]
    """
    if n_wanted >= values.size:
        return np.ones(values.size, dtype=np.bool_)
    if n_wanted <= 0:
        return np.zeros(values.size, dtype=np.bool_)
    least = np.partition(values, values.size - n_wanted)[values.size - n_wanted]
    is_largest = np.asarray(values > least)
    tied = np.flatnonzero(values == least)
    n_left = n_wanted - int(is_largest.sum())
    is_largest[tied[np.argpartition(draws[tied], n_left - 1)[:n_left]]] = True
    return is_largest


def sample_clients(candidates: Mask, draws: Hashes, n_wanted: int | None) -> Counts:
    """Return a random sample of so many of the candidates, rising: those with the smallest draws; None: all.

    Examples
    --------
    >>> sample_clients(np.array([True, True, False, True]), np.array([7, 3, 1, 5], dtype=np.uint64), 2).tolist()
    [1, 3]
    """
    clients = np.flatnonzero(candidates)
    if n_wanted is None or n_wanted >= clients.size:
        return clients
    return clients[_largest(np.zeros(clients.size), draws[clients], n_wanted)]
