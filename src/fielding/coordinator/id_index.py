"""From a client's id to its row, in constant time; compact where ids are small whole numbers."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import ClientId, Counts
from fielding.coordinator.column import Column

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
        self._table = Column(np.zeros(0, dtype=np.int32), fill=UNKNOWN)
        self._row_of: dict[ClientId, int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, client_id: ClientId) -> int:
        """Return the row of one client, :data:`UNKNOWN` if it was never added.

        Examples
        --------
        >>> index = IdIndex()
        >>> index.add_all([3, 1])
        >>> index.row(1), index.row(2), index.row("1")
        (1, -1, -1)
        """
        if self._row_of is not None:
            return self._row_of.get(client_id, UNKNOWN)
        is_place = isinstance(client_id, int) and 0 <= client_id < self._table.values.size
        return int(self._table.values[client_id]) if is_place else UNKNOWN  # type: ignore[index]

    def rows(self, client_ids: Sequence[ClientId]) -> Counts:
        """Return the row of each id, :data:`UNKNOWN` for those never added, shape ``(n_ids,)``."""
        if self._row_of is None and client_ids and isinstance(client_ids[0], int):
            places = np.array(client_ids, dtype=np.int64)
            inside = (places >= 0) & (places < self._table.values.size)
            found = np.full(places.size, UNKNOWN, dtype=np.int64)
            found[inside] = self._table.values[places[inside]]
            return found
        return np.fromiter(map(self.row, client_ids), dtype=np.int64, count=len(client_ids))

    def add_all(self, client_ids: Sequence[ClientId]) -> None:
        """Give new clients the next rows, in the order given; none of them may be known."""
        first = len(self.ids)
        self.ids.extend(client_ids)
        if self._row_of is None and not self._fill_table(client_ids, first):
            self._row_of = {client_id: row for row, client_id in enumerate(self.ids)}
            self._table = Column(np.zeros(0, dtype=np.int32), fill=UNKNOWN)
        elif self._row_of is not None:
            self._row_of.update(zip(client_ids, range(first, len(self.ids)), strict=True))

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
        if highest >= self._table.values.size:
            self._table.grow(max(highest + 1, min(2 * self._table.values.size, _SPARSEST * len(self.ids))))
        self._table.values[places] = np.arange(first, len(self.ids), dtype=np.int32)
        return True
