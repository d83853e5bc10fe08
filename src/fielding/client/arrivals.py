"""Samples on their way to the clients of a fleet, and the check that every entry can be counted."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts
from fielding.errors import InputError, echo


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrivals:
    """Samples that reach clients at one moment; an entry says how many of one label reach one client.

    ``clients`` and ``labels`` count from 0; ``counts`` None means one each; ``leave`` is the round at which each leaves
    its window, None where all stay as long as the fleet says. All of shape ``(n_entries,)``.
    """

    clients: Counts | Codes
    labels: Counts | Codes
    counts: Counts | None = None
    leave: Counts | None = None

    @classmethod
    def from_rows(cls, rows: Counts) -> "Arrivals":
        """Return the arrivals that a matrix of counts describes, shape ``(n_clients, n_labels)``."""
        clients, labels = np.nonzero(rows)
        return cls(clients=clients, labels=labels, counts=rows[clients, labels])


NO_ARRIVALS = Arrivals(clients=np.empty(0, dtype=np.int64), labels=np.empty(0, dtype=np.int64))
"""Nothing comes: time passes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Samples that came at step ``step`` of the fleet and leave in round ``leave``; every count is above 0."""

    step: int
    leave: int
    clients: Codes
    labels: Codes
    counts: Counts


def checked_arrivals(arrivals: Arrivals, shape: tuple[int, int]) -> tuple[Codes, Codes, Counts, Counts | None]:
    """Return copies of all columns without empty entries, or raise; ``shape``: clients and labels.

    Codes of clients and labels that cannot be written to are not copied.
    """
    clients = _own(_checked("clients of arrivals", arrivals.clients, shape[0]))
    labels = _own(_checked("labels of arrivals", arrivals.labels, shape[1]))
    counts: Counts = np.broadcast_to(np.int64(1), clients.size)  # which takes no memory
    if arrivals.counts is not None:
        counts = checked_column("counts of arrivals", arrivals.counts, 2**53)
    leave = None if arrivals.leave is None else checked_column("leave of arrivals", arrivals.leave, 2**62)
    if leave is not None and leave.size != clients.size:
        raise InputError(f"arrivals name {clients.size} clients and {leave.size} rounds to leave; give one per entry")
    if not clients.size == labels.size == counts.size:
        raise InputError(
            f"arrivals name {clients.size} clients, {labels.size} labels and {counts.size} counts; give one of "
            "each per entry"
        )
    if arrivals.counts is None:
        return clients, labels, counts, leave
    kept = counts > 0
    return clients[kept], labels[kept], counts[kept], None if leave is None else leave[kept]


def checked_column(name: str, column: npt.ArrayLike, bound: int) -> Counts:
    """Return a column as int64, or raise if it is not a flat list of whole numbers from 0 to ``bound - 1``."""
    return _checked(name, column, bound).astype(np.int64)


def _own(codes: npt.NDArray[np.generic]) -> Codes:
    return codes.astype(np.int32, copy=codes.flags.writeable)


def _checked(name: str, column: npt.ArrayLike, bound: int) -> npt.NDArray[np.generic]:
    array = np.asarray(column)
    # An empty list has no type of its own: numpy calls it float.
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"{name} are {echo(array.tolist())}; give a flat list of whole numbers")
    if array.size and (array.min() < 0 or array.max() >= bound):
        worst = array[int(np.argmax((array < 0) | (array >= bound)))]
        raise InputError(f"{name} hold {worst}; give whole numbers from 0 to {bound - 1}")
    return array
