"""What the coordinator knows of its clients: one row each, found by id, growing in place."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Floats, Mask, Membership
from fielding.client.report import checked_id, row_chunks, silent_rows
from fielding.coordinator.column import Column
from fielding.coordinator.id_index import UNKNOWN, IdIndex
from fielding.coordinator.points import Points
from fielding.coordinator.sample_columns import SampleColumns
from fielding.errors import ReportError, echo

UNASSIGNED = -1
"""The cluster of a client that never had data."""
COLUMNS = ("representations", "membership", "active", "last_step")
"""The columns that every checkpoint holds."""
_GROWTH = 1.25
_FIRST_CAPACITY = 64


class Registry:
    """One row per client: representation, cluster, whether it is active, when it last reported.

    Looking up, adding or updating one client costs the same for ten clients and for a million. Rows are given in
    the order of ids within a batch, so the order in which reports came does not show.
    """

    def __init__(self) -> None:
        self._index = IdIndex()
        self._widths: list[int] = []
        self._representations = Column(np.zeros((0, 0), dtype=np.float32))
        self._membership = Column(np.zeros(0, dtype=np.int32), fill=UNASSIGNED)
        self._active = Column(np.zeros(0, dtype=np.bool_))
        self._last_step = Column(np.zeros(0, dtype=np.int64), fill=-1)
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
        registry._representations = Column(columns["representations"].astype(np.float32, copy=False))
        registry._membership = Column(columns["membership"].astype(np.int32, copy=False), fill=UNASSIGNED)
        registry._active = Column(columns["active"].astype(np.bool_, copy=False))
        registry._last_step = Column(columns["last_step"].astype(np.int64, copy=False), fill=-1)
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
        """How many samples stand behind representations, for whoever asks what in them is noise."""
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
        """Return the length of a representation of this version; None while nobody reported."""
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
            self._widths.append(n_features)
            self._representations = Column(np.zeros((self._membership.values.size, n_features), np.float32))

    def grow_labels(self, n_labels: int) -> int:
        """Begin a new version of the class list and pad all representations with zeros; return the version."""
        width = self._widths[-1] if self._widths else 0
        if type(n_labels) is not int or n_labels <= width:
            raise ReportError(f"the class list has {width} labels and can only grow to more; got {echo(n_labels)}")
        wider = np.zeros((self._membership.values.size, n_labels), dtype=np.float32)
        wider[:, :width] = self._representations.values[:, :width]
        self._representations = Column(wider)
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
            self._reserve(len(self) + unknown.size)
            self._index.add_all(sorted(client_ids[int(at)] for at in unknown))
            rows = self._index.rows(client_ids)
        return rows

    def record(self, rows: Counts, representations: Floats, *, step: int, n_samples: Counts | None = None) -> Mask:
        """Write down what the clients in these rows reported; return which of them spoke (were not silent).

        A silent client keeps its last representation and its cluster, but is no longer active. Without ``n_samples``
        nobody knows how many samples stand behind a representation.
        """
        self.fix_width(int(representations.shape[1]))
        speaks = ~silent_rows(representations)
        width = representations.shape[1]
        for part in row_chunks(rows.size):
            heard = rows[part][speaks[part]]
            self.representations[heard, :width] = representations[part][speaks[part]]
            self.representations[heard, width:] = 0.0
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
        if n_rows <= self._membership.values.size:
            return
        capacity = max(_FIRST_CAPACITY, int(n_rows * _GROWTH) if len(self) else n_rows)
        for column in (self._representations, self._membership, self._active, self._last_step):
            column.grow(capacity)
        self._samples.grow(capacity)
