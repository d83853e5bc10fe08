"""What the use of clients costs: every byte and second is charged to the client that spends it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json, Vector
from fielding.client.arrivals import checked_column
from fielding.errors import CheckpointError, InputError, OptionError, echo, unknown_name


def added_clients(n_before: int, n_clients: object) -> int:
    """Return how many clients were added, or raise if that is no number or would take some away.

    Examples
    --------
    >>> added_clients(3, 5)
    2
    >>> added_clients(3, 2)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: n_clients is 2; give a whole number of at least 3
    """
    if not isinstance(n_clients, (int, np.integer)) or isinstance(n_clients, bool) or n_clients < n_before:
        raise OptionError(f"n_clients is {echo(n_clients)}; give a whole number of at least {n_before}")
    return int(n_clients) - n_before


CATEGORIES = ("model", "report", "probe")
"""What clients are used for: training on a model, telling that their data moved, answering a method's question."""

MOST = 2**53  # bytes or seconds of one task beyond this are a mistake

_Number = TypeVar("_Number", np.int64, np.float64)
_TYPES = {"down_bytes": "<i8", "up_bytes": "<i8", "seconds": "<f8"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """What tasks ask of clients; each part is one number for all tasks or an array with one per task."""

    # Bytes from the server to the client, and back.
    down_bytes: int | Counts = 0
    up_bytes: int | Counts = 0
    forward_samples: int | Counts = 0  # samples put through a model without learning from them
    train_samples: int | Counts = 0  # samples learned from, repetitions counted: local steps times batch size


class Ledger:
    """Adds up bytes and seconds by client and category.

    Examples
    --------
    >>> ledger = Ledger(3)
    >>> ledger.charge("model", [0, 2], down_bytes=100, up_bytes=np.array([100, 0]), seconds=1.5)
    >>> ledger.charge("report", [2], up_bytes=8)
    >>> ledger.client_bytes_up().tolist(), ledger.client_seconds().tolist()
    ([100, 0, 8], [1.5, 0.0, 1.5])
    >>> ledger.totals()["bytes_up"]
    {'all': 108, 'model': 100, 'report': 8, 'probe': 0}
    """

    def __init__(self, n_clients: int) -> None:
        shape = (len(CATEGORIES), added_clients(0, n_clients))
        self._down_bytes: Counts = np.zeros(shape, dtype=np.int64)
        self._up_bytes: Counts = np.zeros(shape, dtype=np.int64)
        self._seconds: Vector = np.zeros(shape, dtype=np.float64)

    @property
    def n_clients(self) -> int:
        """How many clients there are."""
        return int(self._seconds.shape[1])

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined, who were charged nothing so far; the others keep their rows.

        OptionError if there would be fewer clients than before: what one was charged is never forgotten.
        """
        n_new = added_clients(self.n_clients, n_clients)
        self._down_bytes = np.pad(self._down_bytes, ((0, 0), (0, n_new)))
        self._up_bytes = np.pad(self._up_bytes, ((0, 0), (0, n_new)))
        self._seconds = np.pad(self._seconds, ((0, 0), (0, n_new)))

    def charge(
        self,
        category: str,
        clients: npt.ArrayLike,
        *,
        down_bytes: npt.ArrayLike = 0,
        up_bytes: npt.ArrayLike = 0,
        seconds: npt.ArrayLike = 0.0,
    ) -> None:
        """Charge tasks to the clients that did them.

        ``clients``: rows, shape ``(n_tasks,)``; a client may do several tasks. ``down_bytes``, ``up_bytes``: whole
        numbers, not negative: one for all tasks or one per task. ``seconds``: not negative: one for all tasks or one
        per task. OptionError if the category is unknown; nothing is charged. InputError if a row, byte or second cannot
        be; nothing is charged.
        """
        row = _row(category)
        tasks = checked_column("clients of a charge", clients, self.n_clients)
        down = _amounts("down_bytes", down_bytes, tasks.size)
        up = _amounts("up_bytes", up_bytes, tasks.size)
        spent = _amounts("seconds", seconds, tasks.size)
        # add.at, not +=: a client that stands there twice pays twice.
        np.add.at(self._down_bytes[row], tasks, down.astype(np.int64))
        np.add.at(self._up_bytes[row], tasks, up.astype(np.int64))
        np.add.at(self._seconds[row], tasks, spent.astype(np.float64))

    def client_bytes_down(self, category: str | None = None) -> Counts:
        """Return the bytes each client received, shape ``(n_clients,)``; of all categories if none is named."""
        return _by_client(self._down_bytes, category)

    def client_bytes_up(self, category: str | None = None) -> Counts:
        """Return the bytes each client sent, shape ``(n_clients,)``; of all categories if none is named."""
        return _by_client(self._up_bytes, category)

    def client_seconds(self, category: str | None = None) -> Vector:
        """Return the seconds each client was busy, shape ``(n_clients,)``; of all categories if none is named."""
        return _by_client(self._seconds, category)

    def totals(self) -> dict[str, Json]:
        """Return ``bytes_down``, ``bytes_up`` and ``client_seconds``, each as a sum over ``all`` and by category.

        The sums of seconds are exactly rounded, so that they do not depend on the order of the clients.
        """
        return {
            "bytes_down": _sums(self._down_bytes),
            "bytes_up": _sums(self._up_bytes),
            "client_seconds": _sums(self._seconds),
        }

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return copies of all that a checkpoint needs: ``category.quantity`` to ``(n_clients,)``, <i8 or <f8."""
        columns = {"down_bytes": self._down_bytes, "up_bytes": self._up_bytes, "seconds": self._seconds}
        return {
            f"{category}.{name}": columns[name][row].astype(dtype)
            for row, category in enumerate(CATEGORIES)
            for name, dtype in _TYPES.items()
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> "Ledger":
        """Return a ledger like the one whose :meth:`arrays` these are.

        CheckpointError if an array is missing, unknown, of another type or of another length than the others.
        """
        columns = _checked(arrays)
        ledger = cls(columns[f"{CATEGORIES[0]}.seconds"].size)
        for row, category in enumerate(CATEGORIES):
            ledger._down_bytes[row] = columns[f"{category}.down_bytes"]
            ledger._up_bytes[row] = columns[f"{category}.up_bytes"]
            ledger._seconds[row] = columns[f"{category}.seconds"]
        return ledger


def _amounts(name: str, amounts: npt.ArrayLike, n_tasks: int) -> npt.NDArray[np.generic]:
    array = np.asarray(amounts)
    kinds, wanted = ("iuf", "numbers") if name == "seconds" else ("iu", "whole numbers")
    if array.shape not in ((), (n_tasks,)):
        raise InputError(f"{name} have shape {array.shape} but there are {n_tasks} tasks; give one for all or one each")
    # An empty list has no type of its own: numpy calls it float.
    is_fit = not array.size or (array.dtype.kind in kinds and bool(((array >= 0) & (array < MOST)).all()))
    if not is_fit:
        raise InputError(f"{name} are {echo(array.tolist())}; give {wanted} from 0 to 2**53")
    return np.broadcast_to(array, (n_tasks,))


def _by_client(matrix: npt.NDArray[_Number], category: str | None) -> npt.NDArray[_Number]:
    rows = range(len(CATEGORIES)) if category is None else [_row(category)]
    sums: npt.NDArray[_Number] = matrix[list(rows)].sum(axis=0)
    return sums


def _row(category: str) -> int:
    if category not in CATEGORIES:
        raise unknown_name("category of costs", category, CATEGORIES)
    return CATEGORIES.index(category)


def _sums(matrix: Counts | Vector) -> dict[str, Json]:
    add = math.fsum if matrix.dtype.kind == "f" else sum
    sums: dict[str, Json] = {"all": add(matrix.ravel().tolist())}
    for category, row in zip(CATEGORIES, matrix, strict=True):
        sums[category] = add(row.tolist())
    return sums


def _checked(arrays: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[np.generic]]:
    """Return the arrays of a checkpoint, or raise if they are no ledger."""
    wanted = {f"{category}.{name}": dtype for category in CATEGORIES for name, dtype in _TYPES.items()}
    if odd := set(arrays) ^ set(wanted):
        what = "lacks" if min(odd) in wanted else "has an unknown"
        raise CheckpointError(f"the ledger of the checkpoint {what} {echo(min(odd))}; use the release that wrote it")
    shape = (arrays[min(wanted)].size,)
    for name, dtype in wanted.items():
        if arrays[name].dtype != np.dtype(dtype) or arrays[name].shape != shape:
            raise CheckpointError(
                f"{name} in the ledger of the checkpoint is {arrays[name].dtype} of shape {arrays[name].shape}; "
                f"{np.dtype(dtype)} of shape {shape} is wanted"
            )
    return arrays
