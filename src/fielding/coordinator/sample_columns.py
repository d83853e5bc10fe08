"""How many samples stand behind each client's representation, now and at the last global clustering."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Mask, Membership
from fielding.coordinator.column import Column
from fielding.coordinator.movement import Resampled

SAMPLE_COLUMNS = ("n_samples", "n_global", "origin", "heard")
"""The columns, as checkpoints name them; those of earlier versions lack them: then no number is known."""
MOST_SAMPLES = 2**31 - 1
"""Larger numbers of samples are kept as this one: their noise is nothing."""
NOWHERE = -1


class Told:
    """Who told what in one event, by rows of the registry.

    Parameters
    ----------
    rows
        Whoever reported.
    speaks
        Who of them was not silent, same shape.
    was_active, n_before
        Who of them was active before, and how many samples stood behind what they had told before, same shape.
    """

    __slots__ = ("_n_before", "_was_active", "silent", "speaking")

    def __init__(self, rows: Counts, speaks: Mask, *, was_active: Mask, n_before: Codes) -> None:
        order = np.flatnonzero(speaks)[np.argsort(rows[speaks], kind="stable")]
        self.speaking: Counts = rows[order]
        self.silent: Counts = rows[~speaks]
        self._was_active, self._n_before = was_active[order], n_before[order]

    def of_those(self, stayed: Mask) -> tuple[Counts, Codes]:
        """Return who of the speaking told anew, given who kept its cluster, and the samples behind what it had told."""
        again = stayed & self._was_active
        return self.speaking[again], self._n_before[again]


class SampleColumns:
    """One row per client, for telling noise from shift; 17 bytes each.

    Parameters
    ----------
    n_rows
        How many clients there are.
    """

    def __init__(self, n_rows: int) -> None:
        self._n_samples = Column(np.zeros(n_rows, dtype=np.int32))
        self._n_global = Column(np.zeros(n_rows, dtype=np.int32))
        self._origin = Column(np.full(n_rows, NOWHERE, dtype=np.int32), fill=NOWHERE)
        self._heard = Column(np.zeros(n_rows, dtype=np.bool_))

    @classmethod
    def restored(cls, columns: Mapping[str, npt.NDArray[np.generic]], n_rows: int) -> "SampleColumns":
        """Return the columns that a checkpoint holds; blank ones where it has none."""
        samples = cls(n_rows)
        if "n_samples" not in columns:
            return samples
        if {columns[name].shape for name in SAMPLE_COLUMNS} != {(n_rows,)}:
            raise ValueError("the numbers of samples in the registry differ in length")
        samples._n_samples = Column(columns["n_samples"].astype(np.int32, copy=False))
        samples._n_global = Column(columns["n_global"].astype(np.int32, copy=False))
        samples._origin = Column(columns["origin"].astype(np.int32, copy=False), fill=NOWHERE)
        samples._heard = Column(columns["heard"].astype(np.bool_, copy=False))
        return samples

    def arrays(self, n_rows: int) -> dict[str, npt.NDArray[np.generic]]:
        """Return the first rows of all columns, for a checkpoint."""
        every = (self._n_samples.values, self._n_global.values, self._origin.values, self._heard.values)
        return {name: values[:n_rows] for name, values in zip(SAMPLE_COLUMNS, every, strict=True)}

    def of(self, rows: Counts) -> Codes:
        """Return how many samples stand behind the representations of these rows; 0 is unknown."""
        return np.asarray(self._n_samples.values[rows])

    def grow(self, n_rows: int) -> None:
        """Make room for so many clients."""
        for column in (self._n_samples, self._n_global, self._origin, self._heard):
            column.grow(n_rows)

    def record(self, rows: Counts, n_samples: Counts | int) -> None:
        """Write down how many samples stand behind what clients just told."""
        self._n_samples.values[rows] = np.minimum(n_samples, MOST_SAMPLES)
        self._heard.values[rows] = True

    def settle(self, active: Counts, membership: Membership) -> None:
        """Note where everyone stands right after a global clustering; ``membership`` of all, active rows rising."""
        here = slice(membership.size)
        self._heard.values[here] = False
        self._origin.values[here] = NOWHERE
        self._origin.values[active] = membership[active]
        self._n_global.values[here] = self._n_samples.values[here]

    def since_global(self, active: Counts, membership: Membership) -> Resampled:
        """Return who of the active told anew since the last global clustering, in the cluster it was given there."""
        stayed: Mask = self._heard.values[active] & (self._origin.values[active] == membership[active])
        return Resampled(stayed=stayed, n_before=self._n_global.values[active], n_after=self._n_samples.values[active])

    def since_previous(self, active: Counts, told: Counts, n_before: Codes) -> Resampled:
        """Return what is noise in an event.

        Parameters
        ----------
        active
            All active clients, rising.
        told
            Those that told anew and stayed where they were, rising.
        n_before
            How many samples stood behind what they had told before.
        """
        before, stayed = np.zeros(active.size, dtype=np.int32), np.zeros(active.size, dtype=np.bool_)
        at = np.searchsorted(active, told)
        before[at], stayed[at] = n_before, True
        return Resampled(stayed=stayed, n_before=before, n_after=self._n_samples.values[active])
