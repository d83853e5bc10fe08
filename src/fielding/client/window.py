"""Stage 1: the newest samples of a client, bounded by their number and by their age."""

from collections import deque
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts
from fielding.errors import CheckpointError, InputError, OptionError, echo


class Window:
    """The newest samples, kept as blocks of labels in the order of arrival.

    Adding costs time in proportion to what comes and what leaves, not to what stays.

    Parameters
    ----------
    max_samples
        How many samples are kept, the newest; None for any number.
    max_rounds
        How many rounds a sample stays visible, that of its arrival included; None for ever. Rounds may be any whole
        numbers that tell the time.

    Examples
    --------
    >>> window = Window(max_samples=3, max_rounds=10)
    >>> window.add([7, 7], round_index=0).tolist()
    []
    >>> window.add([8, 9], round_index=1).tolist()  # the oldest sample makes room
    [7]
    >>> window.advance(10).tolist()  # what came in round 0 has been seen in ten rounds
    [7]
    >>> window.labels().tolist()
    [8, 9]
    """

    def __init__(self, max_samples: int | None = None, max_rounds: int | None = None) -> None:
        self.max_samples = checked_bound("max_samples", max_samples)
        self.max_rounds = checked_bound("max_rounds", max_rounds)
        self._blocks: deque[tuple[Counts, Counts]] = deque()  # when samples came, and their labels
        self._newest_round: int | None = None
        self._n_samples = 0
        self._n_arrived = 0

    def __len__(self) -> int:
        return self._n_samples

    @property
    def n_arrived(self) -> int:
        """How many samples ever arrived: the name of this moment for :meth:`since`."""
        return self._n_arrived

    @property
    def n_evicted(self) -> int:
        """How many samples ever left."""
        return self._n_arrived - self._n_samples

    @property
    def newest_round(self) -> int | None:
        """The latest round of a call; None before the first."""
        return self._newest_round

    def add(self, labels: npt.ArrayLike, round_index: int, *, came: Counts | None = None) -> Counts:
        """Take in the samples of a round and return the labels that left, oldest first.

        Of more samples than the window can hold the last ones stay; the others count as come and gone. ``came``: from
        when each is, up to the round, rising, and from no earlier than those before; None: all from this round.
        """
        arriving = checked_labels(labels)
        if came is not None and not self._may_come(came, arriving.size, round_index):
            raise InputError(f"samples of round {round_index} do not come in the order of time; sort them")
        self._newest_round = checked_round(round_index, self._newest_round)
        if arriving.size:
            self._blocks.append((np.full(arriving.size, int(round_index)) if came is None else came, arriving))
        self._n_arrived += arriving.size
        self._n_samples += arriving.size
        too_old = self.advance(round_index)
        too_many = 0 if self.max_samples is None else max(0, self._n_samples - self.max_samples)
        return np.concatenate([too_old, self._take_oldest(too_many)])

    def _may_come(self, came: Counts, n_samples: int, round_index: int) -> bool:
        """Return whether samples may be from such moments."""
        newest = self._blocks[-1][0][-1:] if self._blocks else came[:0]
        order = np.concatenate([newest, came, [round_index]])
        return came.shape == (n_samples,) and bool((np.diff(order) >= 0).all())

    def advance(self, round_index: int) -> Counts:
        """Let time pass and return the labels that grew too old, oldest first."""
        now = checked_round(round_index, self._newest_round)
        self._newest_round = now
        if self.max_rounds is None:
            return np.empty(0, dtype=np.int64)
        n_old = 0
        for came, block in self._blocks:
            n_gone = int(np.searchsorted(came, now - self.max_rounds, side="right"))
            n_old += n_gone
            if n_gone < block.size:
                break
        return self._take_oldest(n_old)

    def since(self, moment: int) -> Counts:
        """Return the labels that arrived after a moment and are still here, oldest first.

        ``moment``: :attr:`n_arrived` as it was then.
        """
        wanted = min(self._n_arrived - moment, self._n_samples)
        newest: list[Counts] = []
        for _, block in reversed(self._blocks):
            if wanted <= 0:
                break
            newest.append(block[-wanted:])
            wanted -= block.size
        return np.concatenate([np.empty(0, dtype=np.int64), *reversed(newest)])

    def labels(self) -> Counts:
        """Return every label in the window, oldest first."""
        return self.since(0)

    def arrays(self) -> dict[str, Counts]:
        """Return what the window holds, for :meth:`restore`: a device that stops must not forget it."""
        rounds = [came for came, _ in self._blocks]
        newest = [] if self._newest_round is None else [self._newest_round]
        return {
            "window.labels": self.labels(),
            "window.rounds": np.concatenate([np.empty(0, dtype=np.int64), *rounds]),
            "window.moment": np.array([self._n_arrived, *newest], dtype=np.int64),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` of another window gave, but not its bounds; raise and stay as before if bad."""
        labels, rounds, moment = (saved_column(arrays, f"window.{name}") for name in ("labels", "rounds", "moment"))
        newest = int(moment[1]) if moment.size == 2 else None
        fits = labels.size == rounds.size and 1 <= moment.size <= 2 and moment[0] >= labels.size
        if not fits or (np.diff(rounds) < 0).any() or (rounds.size and (newest is None or newest < rounds[-1])):
            raise CheckpointError("what was saved describes no window; start anew")
        self._blocks = deque([(rounds, labels)] if rounds.size else [])
        self._newest_round, self._n_samples, self._n_arrived = newest, labels.size, int(moment[0])

    def _take_oldest(self, n_samples: int) -> Counts:
        """Remove the oldest samples and return their labels."""
        self._n_samples -= n_samples
        taken = [np.empty(0, dtype=np.int64)]
        while n_samples > 0:
            came, block = self._blocks.popleft()
            taken.append(block[:n_samples])
            if block.size > n_samples:
                self._blocks.appendleft((came[n_samples:], block[n_samples:]))
            n_samples -= taken[-1].size
        return np.concatenate(taken)


def checked_round(round_index: object, newest: int | None) -> int:
    """Return the round as a plain ``int``, or raise if it is none or lies before ``newest``."""
    if not isinstance(round_index, (int, np.integer)) or isinstance(round_index, bool):
        raise InputError(f"round {echo(round_index)} is not a whole number; count rounds with whole numbers")
    if not -(2**62) < round_index < 2**62:
        raise InputError(f"round {echo(round_index)} is out of range; count rounds from 0")
    if newest is not None and round_index < newest:
        raise InputError(f"round {echo(round_index)} comes after round {newest}; give rounds in rising order")
    return int(round_index)


def checked_labels(labels: npt.ArrayLike) -> Counts:
    """Return a copy of the labels, shape ``(n_samples,)``, or raise if they are not a list of whole numbers."""
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"labels are not a list of whole numbers ({error}); give one label per sample") from None
    if array.ndim != 1:
        raise InputError(f"labels have shape {array.shape}; give a flat list with one label per sample")
    # An empty list has no type of its own: numpy calls it float.
    if array.size and (array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int64).max):
        raise InputError(f"labels such as {echo(array[:1].tolist())} are no class numbers; use whole numbers from 0")
    return array.astype(np.int64)


def checked_bound(name: str, bound: int | None) -> int | None:
    """Return a bound of a window, or raise if it is neither None nor a whole number of at least 1."""
    if bound is None:
        return None
    if not isinstance(bound, (int, np.integer)) or isinstance(bound, bool) or bound < 1:
        raise OptionError(f"{name} is {echo(bound)}; give a whole number of at least 1, or None for no bound")
    return int(bound)


def saved_column(arrays: Mapping[str, npt.NDArray[np.generic]], name: str) -> Counts:
    """Return a saved column of whole numbers, or raise :class:`CheckpointError` if it is missing or none."""
    column = arrays.get(name)
    if column is None or column.ndim != 1 or column.dtype != np.int64:
        got = "missing" if column is None else f"{column.dtype} of shape {column.shape}"
        raise CheckpointError(f"{name} is {got}; a column of whole numbers is wanted")
    return column.astype(np.int64)
