"""When all clients are asked for a report: more of them drifted at once than chance explains."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask
from fielding.client.drift.pearson import expected_l1
from fielding.client.representation.label import shares_of
from fielding.errors import CheckpointError

LEVEL = 0.001  # share of rounds in which clients are asked although none drifted
SLACK, SURE = 3.0, 0.05
"""Drift tests make up to ``SLACK`` times the false alarms that they are asked for: of many clients so many more report
by chance, and what they report must be rarer than ``SURE`` even then."""
VISIBLE = 2.0
"""A shift of so many times what noise makes is seen by clients themselves: those that are silent have not drifted."""
GROWTH = 2  # a report of so many times the samples of the last one tells of a window that fills up, not of drift
_NAMES = ("roll_call.n_samples", "roll_call.is_asked", "roll_call.last", "roll_call.shares")


def roll_call_with(alpha: float | None, *, span: int) -> "RollCall | None":
    """Return the roll call for a drift test of a level, and windows that span so many rounds; None without a level."""
    return None if alpha is None else RollCall(alpha=alpha, pause=max(1, span // 4))


class RollCall:
    """Asks all clients for a report when more of them report drift in a round than chance explains.

    A client with few samples cannot tell a small drift from noise; many of them together can. Where some of them
    notice, the others have probably drifted, too (docs/decisions, 36). Not so where the shifts that are reported are
    large: whoever drifted by as much has noticed it.

    Parameters
    ----------
    alpha
        Share of clients that the drift test lets report by chance when data arrive; in truth it may be ``SLACK`` times
        as many.
    pause
        Rounds between two roll calls at least.

    Attributes
    ----------
    is_asked
        Which clients have been asked and have not answered, shape ``(n_clients,)``.

    Examples
    --------
    >>> roll_call, everyone, half = RollCall(alpha=0.005, pause=10), np.arange(6), np.full((6, 2), 0.5)
    >>> roll_call.hear(everyone, half, np.full(6, 40), round_index=0)  # first data are no drift
    >>> roll_call.hear(np.array([1, 4, 5]), half[:3] + [0.1, -0.1], np.full(3, 40), round_index=2)
    >>> np.flatnonzero(roll_call.is_asked).tolist()
    [0, 2, 3]
    """

    def __init__(self, *, alpha: float, pause: int) -> None:
        self._alpha, self._pause = alpha, pause
        self._n_samples: Counts = np.empty(0, dtype=np.int64)
        self._shares: npt.NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        self.is_asked: Mask = np.empty(0, dtype=np.bool_)
        self._last: int | None = None

    def hear(self, clients: Counts, shares: npt.NDArray[Any], n_samples: Counts, *, round_index: int) -> None:
        """Take note of the reports of a round, label shares of so many samples each; perhaps ask all others."""
        n_new = max(int(clients.max(initial=-1)) + 1 - self.is_asked.size, 0)
        n_wider = max(shares.shape[1] - self._shares.shape[1], 0) if clients.size else 0
        self._n_samples = np.pad(self._n_samples, (0, n_new))
        self._shares = np.pad(self._shares, ((0, n_new), (0, n_wider)))
        self.is_asked = np.pad(self.is_asked, (0, n_new))
        if not clients.size:
            return
        shares = np.pad(shares, ((0, 0), (0, self._shares.shape[1] - shares.shape[1])))  # of a shorter class list
        before = self._n_samples[clients]
        is_drift = (before > 0) & (n_samples > 0) & (n_samples < GROWTH * before) & ~self.is_asked[clients]
        n_drifted, n_active = int(is_drift.sum()), int((self._n_samples > 0).sum())
        then, now = (
            np.rint(rows[is_drift] * sizes[is_drift, np.newaxis]).astype(np.int64)
            for rows, sizes in ((self._shares[clients].astype(np.float64), before), (shares, n_samples))
        )
        self._n_samples[clients], self._shares[clients] = n_samples, shares
        self.is_asked[clients] = False
        if not n_drifted or (self._last is not None and round_index < self._last + self._pause):
            return
        distances = np.abs(shares_of(now) - shares_of(then)).sum(axis=1)
        if np.median(distances / np.maximum(expected_l1(then, now), 1e-9)) > VISIBLE:
            return
        # Here and not above: scipy costs more than all of Fielding to import.
        from scipy.special import bdtrc

        by_chance, by_inflation = (
            bdtrc(n_drifted - 1, n_active, min(1.0, factor * self._alpha)) for factor in (1.0, SLACK)
        )
        if by_chance < LEVEL and by_inflation < SURE:
            self.is_asked = self._n_samples > 0
            self.is_asked[clients] = False
            self._last = round_index

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs."""
        last = [] if self._last is None else [self._last]
        columns = (self._n_samples.astype("<i8"), self.is_asked, np.array(last, dtype="<i8"), self._shares)
        return dict(zip(_NAMES, columns, strict=True))

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave; checkpoints of older versions hold none, and it begins anew."""
        if _NAMES[0] not in arrays:
            return
        n_samples, is_asked, last, shares = (arrays.get(name, np.empty((0, 0))) for name in _NAMES)
        is_column = n_samples.shape == is_asked.shape == shares.shape[:1] and n_samples.ndim == 1
        if not is_column or shares.ndim != 2 or last.shape not in ((0,), (1,)):
            raise CheckpointError("the roll call of the checkpoint does not fit together; begin anew in another folder")
        self._n_samples, self.is_asked = n_samples.astype(np.int64), is_asked.astype(np.bool_)
        self._shares = shares.astype(np.float32)
        self._last = int(last.astype(np.int64)[0]) if last.size else None
