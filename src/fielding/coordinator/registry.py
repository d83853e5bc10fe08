"""What the coordinator knows of its clients: one row each, found by id, growing in place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Floats, Mask, Membership
from fielding.client.report import checked_id, row_chunks, silent_rows
from fielding.coordinator.movement import Resampled
from fielding.coordinator.points import Points
from fielding.errors import ReportError, echo

Scalar = TypeVar("Scalar", bound=np.generic)


class GrowingColumn(Generic[Scalar]):
    """Rows that are added at the end; the operating system moves the pages where it can."""

    __slots__ = ("blank", "values")

    def __init__(self, values: npt.NDArray[Scalar], blank: int = 0) -> None:
        self.values = values
        self.blank = blank  # what a new row holds

    def grow(self, n_rows: int) -> None:
        """Make room for so many rows, if there is less; rows that stand keep their values, views of them stay valid.

        New rows are blank only once :meth:`clear` says so: a growth may break off.
        """
        before = self.values.shape[0]
        if n_rows <= before:
            return
        shape = (n_rows, *self.values.shape[1:])
        try:
            # Not a copy: a matrix of a million clients never stands in memory twice.
            self.values.resize(shape)
        except ValueError:  # a view of the old rows is held elsewhere
            wider = np.zeros(shape, dtype=self.values.dtype)
            wider[:before] = self.values
            self.values = wider

    def clear(self, first: int, last: int) -> None:
        """Make rows blank."""
        self.values[first:last] = self.blank


Column: TypeAlias = (
    GrowingColumn[np.float32] | GrowingColumn[np.int32] | GrowingColumn[np.int64] | GrowingColumn[np.bool_]
)
UNKNOWN = -1
_SPARSEST = 4
"""Ids are kept in a table as long as it has at most so many places per client: 16 bytes against a dictionary's 100."""
_LEAST_PLACES = 1024


class IdIndex:
    """The row of every client, in the order in which clients were added.

    Whole numbers from 0 without large gaps, as simulations use them, are looked up in a table; all other ids in a
    dictionary. The change-over happens by itself, once at most.
    """

    def __init__(self) -> None:
        self.ids: list[ClientId] = []
        self._table: Codes = np.zeros(0, dtype=np.int32)
        self._row_of: dict[ClientId, int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, client_id: ClientId) -> int:
        """Return the row of one client, :data:`UNKNOWN` if it was never added."""
        if self._row_of is not None:
            return self._row_of.get(client_id, UNKNOWN)
        is_place = isinstance(client_id, int) and 0 <= client_id < self._table.size
        return int(self._table[client_id]) if is_place else UNKNOWN  # type: ignore[index]

    def rows(self, client_ids: Sequence[ClientId]) -> Counts:
        """Return the row of each id, :data:`UNKNOWN` for those never added, shape ``(n_ids,)``."""
        if self._row_of is None and client_ids and isinstance(client_ids[0], int):
            places = np.array(client_ids, dtype=np.int64)
            inside = (places >= 0) & (places < self._table.size)
            found = np.full(places.size, UNKNOWN, dtype=np.int64)
            found[inside] = self._table[places[inside]]
            return found
        return np.fromiter(map(self.row, client_ids), dtype=np.int64, count=len(client_ids))

    def add_all(self, client_ids: Sequence[ClientId]) -> None:
        """Give new clients the next rows, in the order given; none of them may be known."""
        first = len(self.ids)
        self.ids.extend(client_ids)
        if self._row_of is None and not self._fill_table(client_ids, first):
            self._row_of = {client_id: row for row, client_id in enumerate(self.ids)}
            self._table = np.zeros(0, dtype=np.int32)
        elif self._row_of is not None:
            self._row_of.update(zip(client_ids, range(first, len(self.ids)), strict=True))

    def forget_after(self, n_ids: int) -> None:
        """Take back the clients that were added last, also where adding them broke off; the first so many stay."""
        added = self.ids[n_ids:]
        if self._row_of is not None:
            for client_id in added:
                self._row_of.pop(client_id, None)
        elif added and isinstance(added[0], int):
            places = np.array(added, dtype=np.int64)
            self._table[places[(places >= 0) & (places < self._table.size)]] = UNKNOWN
        del self.ids[n_ids:]

    def _fill_table(self, client_ids: Sequence[ClientId], first: int) -> bool:
        """Write the ids into the table, or return False if they do not fit."""
        if not client_ids:
            return True
        if not isinstance(client_ids[0], int):
            return False
        places = np.array(client_ids, dtype=np.int64)
        highest = int(places.max())
        if places.min() < 0 or highest >= max(_LEAST_PLACES, _SPARSEST * len(self.ids)):
            return False
        if highest >= self._table.size:
            size = max(highest + 1, min(2 * self._table.size, _SPARSEST * len(self.ids)))
            self._table = np.concatenate([self._table, np.full(size - self._table.size, UNKNOWN, dtype=np.int32)])
        self._table[places] = np.arange(first, len(self.ids), dtype=np.int32)
        return True


SAMPLE_COLUMNS = ("n_samples", "n_global", "origin", "heard")
"""The columns, as checkpoints name them; those of earlier versions lack them: then no number is known."""
MOST_SAMPLES = 2**31 - 1  # larger numbers of samples are kept as this one: their noise is nothing
NOWHERE = -1


class ReportedRows:
    """The clients that reported in one event, by rows of the registry.

    ``speaks``: which were not silent; ``n_before``: how many samples stood behind their reports before.
    """

    __slots__ = ("_n_before", "_was_active", "silent", "speaking")

    def __init__(self, rows: Counts, speaks: Mask, *, was_active: Mask, n_before: Codes) -> None:
        order = np.flatnonzero(speaks)[np.argsort(rows[speaks], kind="stable")]
        self.speaking: Counts = rows[order]
        self.silent: Counts = rows[~speaks]
        self._was_active, self._n_before = was_active[order], n_before[order]

    def of_those(self, stayed: Mask) -> tuple[Counts, Codes]:
        """Return the speaking clients that were active and stayed, and the samples behind what they said before."""
        again = stayed & self._was_active
        return self.speaking[again], self._n_before[again]


class SampleColumns:
    """One row per client, for telling noise from shift; 17 bytes each."""

    def __init__(self, n_rows: int) -> None:
        self._n_samples = GrowingColumn(np.zeros(n_rows, dtype=np.int32))
        self._n_global = GrowingColumn(np.zeros(n_rows, dtype=np.int32))
        self._origin = GrowingColumn(np.full(n_rows, NOWHERE, dtype=np.int32), blank=NOWHERE)
        self._heard = GrowingColumn(np.zeros(n_rows, dtype=np.bool_))

    @classmethod
    def restored(cls, columns: Mapping[str, npt.NDArray[np.generic]], n_rows: int) -> "SampleColumns":
        """Return the columns that a checkpoint holds; blank ones where it has none."""
        samples = cls(n_rows)
        if "n_samples" not in columns:
            return samples
        if {columns[name].shape for name in SAMPLE_COLUMNS} != {(n_rows,)}:
            raise ValueError("the numbers of samples in the registry differ in length")
        samples._n_samples = GrowingColumn(columns["n_samples"].astype(np.int32, copy=False))
        samples._n_global = GrowingColumn(columns["n_global"].astype(np.int32, copy=False))
        samples._origin = GrowingColumn(columns["origin"].astype(np.int32, copy=False), blank=NOWHERE)
        samples._heard = GrowingColumn(columns["heard"].astype(np.bool_, copy=False))
        return samples

    @property
    def _columns(self) -> tuple[Column, ...]:
        return (self._n_samples, self._n_global, self._origin, self._heard)

    def arrays(self, n_rows: int) -> dict[str, npt.NDArray[np.generic]]:
        """Return the first rows of all columns, for a checkpoint."""
        return {name: one.values[:n_rows] for name, one in zip(SAMPLE_COLUMNS, self._columns, strict=True)}

    def of(self, rows: Counts) -> Codes:
        """Return how many samples stand behind the representations of these rows; 0 is unknown."""
        return np.asarray(self._n_samples.values[rows])

    @property
    def capacity(self) -> int:
        """For how many clients there is room."""
        return min(column.values.size for column in self._columns)

    def grow(self, n_rows: int) -> None:
        """Make room for so many clients."""
        for column in self._columns:
            column.grow(n_rows)

    def clear(self, first: int, last: int) -> None:
        """Make the rows of new clients blank."""
        for column in self._columns:
            column.clear(first, last)

    def saved(self, n_rows: int) -> list[npt.NDArray[np.generic]]:
        """Return copies of the first rows, for :meth:`restore`."""
        return [column.values[:n_rows].copy() for column in self._columns]

    def restore(self, saved: Sequence[npt.NDArray[np.generic]]) -> None:
        """Write back what :meth:`saved` gave."""
        for column, before in zip(self._columns, saved, strict=True):
            column.values[: len(before)] = before

    def record(self, rows: Counts, n_samples: Counts | int) -> None:
        """Write down how many samples stand behind what clients just reported."""
        self._n_samples.values[rows] = np.minimum(n_samples, MOST_SAMPLES)
        self._heard.values[rows] = True

    def settle(self, active: Counts, membership: Membership) -> None:
        """Note where all clients stand right after a global clustering; ``membership`` of all, active rows rising."""
        here = slice(membership.size)
        self._heard.values[here] = False
        self._origin.values[here] = NOWHERE
        self._origin.values[active] = membership[active]
        self._n_global.values[here] = self._n_samples.values[here]

    def since_global(self, active: Counts, membership: Membership) -> Resampled:
        """Return which active clients reported anew since the last global clustering, in the cluster it gave them."""
        stayed: Mask = self._heard.values[active] & (self._origin.values[active] == membership[active])
        return Resampled(stayed=stayed, n_before=self._n_global.values[active], n_after=self._n_samples.values[active])

    def since_previous(self, active: Counts, again: Counts, n_before: Codes) -> Resampled:
        """Return what is noise in an event.

        ``active`` clients rise; so do those that reported ``again`` and stayed where they were.
        """
        before, stayed = np.zeros(active.size, dtype=np.int32), np.zeros(active.size, dtype=np.bool_)
        at = np.searchsorted(active, again)
        before[at], stayed[at] = n_before, True
        return Resampled(stayed=stayed, n_before=before, n_after=self._n_samples.values[active])


UNASSIGNED = -1  # the cluster of a client that never had data
COLUMNS = ("representations", "membership", "active", "last_step")  # the columns that every checkpoint holds
_GROWTH = 1.25
_FIRST_CAPACITY = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedRows:
    """What a registry held: of representations the rows that may change, of all else everything."""

    n_rows: int
    widths: tuple[int, ...]
    representations: GrowingColumn[np.float32]
    rows: Counts
    reported: Floats
    columns: list[npt.NDArray[np.generic]]
    samples: list[npt.NDArray[np.generic]]


class Registry:
    """One row per client: representation, cluster, whether it is active, when it last reported.

    Looking up, adding or updating one client costs the same for ten clients and for a million. Rows are given in
    the order of ids within a batch, so the order in which reports came does not show.
    """

    def __init__(self) -> None:
        self._index = IdIndex()
        self._widths: list[int] = []
        self._representations = GrowingColumn(np.zeros((0, 0), dtype=np.float32))
        self._membership = GrowingColumn(np.zeros(0, dtype=np.int32), blank=UNASSIGNED)
        self._active = GrowingColumn(np.zeros(0, dtype=np.bool_))
        self._last_step = GrowingColumn(np.zeros(0, dtype=np.int64), blank=-1)
        self._samples = SampleColumns(0)

    @classmethod
    def from_columns(
        cls,
        client_ids: Sequence[ClientId],
        *,
        widths: Sequence[int],
        columns: Mapping[str, npt.NDArray[np.generic]],
    ) -> "Registry":
        """Return a registry with these rows, as a checkpoint holds them; the arrays are owned by it from now on."""
        if {columns[name].shape[0] for name in COLUMNS} != {len(client_ids)}:
            raise ValueError("the columns of the registry differ in length")
        registry = cls()
        registry._index.add_all(client_ids)
        registry._widths = list(widths)
        registry._representations = GrowingColumn(columns["representations"].astype(np.float32, copy=False))
        registry._membership = GrowingColumn(columns["membership"].astype(np.int32, copy=False), blank=UNASSIGNED)
        registry._active = GrowingColumn(columns["active"].astype(np.bool_, copy=False))
        registry._last_step = GrowingColumn(columns["last_step"].astype(np.int64, copy=False), blank=-1)
        registry._samples = SampleColumns.restored(columns, len(client_ids))
        return registry

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, client_id: ClientId) -> bool:
        return self._index.row(checked_id(client_id)) != UNKNOWN

    @property
    def client_ids(self) -> Sequence[ClientId]:
        """The ids in the order of rows."""
        return self._index.ids

    @property
    def representations(self) -> Floats:
        """The last representation of every client, shape ``(n_clients, n_features)``."""
        return self._representations.values[: len(self)]

    @property
    def membership(self) -> Membership:
        """The cluster position of every client, :data:`UNASSIGNED` for one that never had data."""
        return self._membership.values[: len(self)]

    @property
    def active(self) -> Mask:
        """Whether each client has data in its window."""
        return self._active.values[: len(self)]

    @property
    def last_step(self) -> Counts:
        """The step of every client's last report."""
        return self._last_step.values[: len(self)]

    @property
    def samples(self) -> SampleColumns:
        """How many samples stand behind representations, for telling noise from shift."""
        return self._samples

    @property
    def label_widths(self) -> tuple[int, ...]:
        """The length of a representation in each version of the class list, newest last."""
        return tuple(self._widths)

    def row_of(self, client_id: ClientId) -> int:
        """Return the row of one client, or raise :class:`ReportError` if it never reported."""
        row = self._index.row(checked_id(client_id))
        if row == UNKNOWN:
            raise ReportError(f"client {echo(client_id)} is not known; it must report before it is looked up")
        return row

    def expected_width(self, label_version: int | None) -> int | None:
        """Return the length of a representation of this version; None before the first report."""
        if not self._widths and label_version in (None, 0):
            return None
        if label_version is None:
            return self._widths[-1]
        if type(label_version) is not int or not 0 <= label_version < len(self._widths):
            newest = max(0, len(self._widths) - 1)
            raise ReportError(f"label version {echo(label_version)} is not known; known versions: 0 to {newest}")
        return self._widths[label_version]

    def fix_width(self, n_features: int) -> None:
        """Let the first report of all decide how long a representation is; later ones have no say."""
        if not self._widths:
            self._representations = GrowingColumn(np.zeros((self._membership.values.size, n_features), np.float32))
            self._widths.append(n_features)

    def grow_labels(self, n_labels: int) -> int:
        """Begin a new version of the class list and pad all representations with zeros; return the version."""
        width = self._widths[-1] if self._widths else 0
        if type(n_labels) is not int or n_labels <= width:
            raise ReportError(f"the class list has {width} labels and can only grow to more; got {echo(n_labels)}")
        wider = np.zeros((self._membership.values.size, n_labels), dtype=np.float32)
        wider[:, :width] = self._representations.values[:, :width]
        self._representations = GrowingColumn(wider)
        self._widths.append(n_labels)
        return len(self._widths) - 1

    def check_id_type(self, client_ids: Sequence[ClientId]) -> None:
        """Raise if the ids are of another type than those on record."""
        known = self._index.ids
        if known and client_ids and type(client_ids[0]) is not type(known[0]):
            raise ReportError(
                f"client id {echo(client_ids[0])} is of type {type(client_ids[0]).__name__}, but clients so far have "
                f"ids of type {type(known[0]).__name__}; use one type for all clients"
            )

    def rows_for(self, client_ids: Sequence[ClientId]) -> Counts:
        """Return the row of each id, with new rows for the new ones in the order of their ids."""
        self.check_id_type(client_ids)
        rows = self._index.rows(client_ids)
        unknown = np.flatnonzero(rows == UNKNOWN)
        if unknown.size:
            n_before, n_now = len(self), len(self) + unknown.size
            self._reserve(n_now)
            for column in self._columns:
                column.clear(n_before, n_now)
            self._samples.clear(n_before, n_now)
            self._index.add_all(sorted(client_ids[int(at)] for at in unknown))
            rows = self._index.rows(client_ids)
        return rows

    def saved(self, client_ids: Sequence[ClientId]) -> "SavedRows":
        """Return all that reports of these clients can change, for :meth:`restore`."""
        n_rows, rows = len(self), self._index.rows(client_ids)
        known = rows[rows != UNKNOWN]
        return SavedRows(
            n_rows=n_rows,
            widths=self.label_widths,
            representations=self._representations,
            rows=known,
            reported=self.representations[known],
            columns=[column.values[:n_rows].copy() for column in self._columns[1:]],
            samples=self._samples.saved(n_rows),
        )

    def restore(self, saved: "SavedRows") -> None:
        """Write back what :meth:`saved` gave; clients that came since are not known any more."""
        self._index.forget_after(saved.n_rows)
        self._widths, self._representations = list(saved.widths), saved.representations
        if saved.rows.size:
            self._representations.values[saved.rows] = saved.reported
        for column, before in zip(self._columns[1:], saved.columns, strict=True):
            column.values[: saved.n_rows] = before
        self._samples.restore(saved.samples)

    @property
    def _columns(self) -> tuple[Column, ...]:
        return (self._representations, self._membership, self._active, self._last_step)

    def record(self, rows: Counts, representations: Floats, *, step: int, n_samples: Counts | None = None) -> Mask:
        """Write down what the clients in these rows reported; return which of them spoke (were not silent).

        A silent client keeps its last representation and its cluster, but is no longer active. Without ``n_samples``
        it is unknown how many samples stand behind a representation.
        """
        self.fix_width(int(representations.shape[1]))
        speaks = ~silent_rows(representations)
        width = representations.shape[1]
        for part in row_chunks(rows.size):
            spoke = rows[part][speaks[part]]
            self.representations[spoke, :width] = representations[part][speaks[part]]
            self.representations[spoke, width:] = 0.0
        self.active[rows] = speaks
        self.last_step[rows] = step
        self._samples.record(rows[speaks], 0 if n_samples is None else n_samples[speaks])
        return speaks

    def active_rows(self) -> Counts:
        """Return the rows of all active clients, rising."""
        return np.flatnonzero(self.active)

    def active_points(self) -> Points:
        """Return the representations of all active clients, without a copy."""
        rows = self.active_rows()
        return Points(self.representations, None if rows.size == len(self) else rows)

    def members(self, cluster: int) -> Counts:
        """Return the rows of the active clients in one cluster position, rising."""
        return np.flatnonzero((self.membership == cluster) & self.active)

    def _reserve(self, n_rows: int) -> None:
        """Make room for ``n_rows`` clients, a quarter more than asked so that growing stays cheap."""
        # The smallest of all: a growth may have broken off between two columns.
        if n_rows <= min(self._samples.capacity, *(column.values.shape[0] for column in self._columns)):
            return
        capacity = max(_FIRST_CAPACITY, int(n_rows * _GROWTH) if len(self) else n_rows)
        for column in self._columns:
            column.grow(capacity)
        self._samples.grow(capacity)
