"""Stage 2: the label histogram of a window: as a representation, and kept up to date sample by sample."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Matrix, Vector
from fielding.client.representation.representation import (
    LARGEST_WEIGHT,
    Effort,
    Seen,
    as_reported,
    labelled,
    means_of,
    pair_counts,
)
from fielding.client.window import checked_labels
from fielding.config.options import check_number
from fielding.distance import Kind
from fielding.errors import InputError, OptionError, echo


class _LabelCounts:
    """A representation on the label counts of windows."""

    kind: ClassVar[Kind] = "histogram"
    effort: ClassVar[Effort] = "none"
    needs_labels: ClassVar[bool] = True
    __slots__ = ()

    def tally(self, seen: Seen) -> Matrix:
        """Return label counts."""
        known = labelled(seen)
        return pair_counts(known, known.labels, seen.n_classes)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return shares."""
        sizes = np.asarray(tallies.sum(axis=1, keepdims=True))
        return as_reported(means_of(tallies, sizes), sizes[:, 0] > 0, constant=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShares(_LabelCounts):
    """Share of each label in the window (the paper's)."""

    metric: ClassVar[str] = "l1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLabelShares(_LabelCounts):
    """Share of each label, compared by square roots: rare labels count for more, loud reports for less."""

    metric: ClassVar[str] = "hellinger"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothedLabelShares(_LabelCounts):
    """Share of each label as if a few more samples were there, spread evenly over the labels.

    Two small windows without a label in common then lie less than the whole diameter apart (METHODS.md B14).

    ``pseudo`` is how many samples more; each label gets its part of them.

    Examples
    --------
    >>> SmoothedLabelShares(pseudo=2.0).vectors(np.array([[2.0, 0.0], [0.0, 0.0]]), np.zeros(2)).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """

    metric: ClassVar[str] = "l1"

    pseudo: float = 1.0

    def __post_init__(self) -> None:
        check_number("pseudo", self.pseudo, low=0.0, high=LARGEST_WEIGHT)

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:  # noqa: ARG002
        """Return smoothed shares."""
        sizes = tallies.sum(axis=1, keepdims=True)
        smoothed = (tallies + self.pseudo / tallies.shape[1]) / (sizes + self.pseudo).clip(min=1e-300)
        return as_reported(smoothed, sizes[:, 0] > 0, constant=False)


def shares_of(counts: Counts) -> Matrix:
    """Return each row of counts, shape ``(n_clients, n_labels)``, divided by its sum; a row of zeros stays zero.

    Examples
    --------
    >>> shares_of(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    sums = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / np.maximum(sums, 1))


def checked_n_labels(n_labels: object, *, at_least: int = 1) -> int:
    """Return the length of a class list, or raise if it is not a whole number of at least ``at_least``."""
    if not isinstance(n_labels, (int, np.integer)) or isinstance(n_labels, bool) or n_labels < at_least:
        raise OptionError(f"n_labels is {echo(n_labels)}; give a whole number of at least {at_least}")
    return int(n_labels)


class LabelHistogram:
    """How many samples there are of each label.

    Labels are 0 to ``n_labels - 1``.

    Examples
    --------
    >>> histogram = LabelHistogram(3)
    >>> histogram.add([0, 0, 2, 2])
    >>> histogram.remove([0])
    >>> histogram.counts.tolist()
    [1, 0, 2]
    """

    def __init__(self, n_labels: int) -> None:
        self._counts: Counts = np.zeros(checked_n_labels(n_labels), dtype=np.int64)
        self._n_samples = 0

    @property
    def n_labels(self) -> int:
        """Length of the class list."""
        return int(self._counts.size)

    @property
    def n_samples(self) -> int:
        """How many samples are counted."""
        return self._n_samples

    @property
    def counts(self) -> Counts:
        """A copy of the counts, shape ``(n_labels,)``."""
        return self._counts.copy()

    def shares(self) -> Vector:
        """Return the counts divided by their sum, shape ``(n_labels,)``; zeros when nothing is counted."""
        return np.asarray(shares_of(self._counts[np.newaxis])[0])

    def tally(self, labels: npt.ArrayLike) -> Counts:
        """Return the counts of these labels alone, or raise if one is not in the class list."""
        checked = checked_labels(labels)
        outside = (checked < 0) | (checked >= self.n_labels)
        if outside.any():
            label = int(checked[int(np.argmax(outside))])
            raise InputError(
                f"label {label} is not in the class list of {self.n_labels}; use 0 to {self.n_labels - 1}, or "
                "grow the class list first"
            )
        return np.bincount(checked, minlength=self.n_labels).astype(np.int64, copy=False)

    def add(self, labels: npt.ArrayLike) -> None:
        """Count samples in; on an error nothing changes."""
        arriving = self.tally(labels)
        self._counts += arriving
        self._n_samples += int(arriving.sum())

    def remove(self, labels: npt.ArrayLike) -> None:
        """Count samples out; on an error nothing changes."""
        leaving = self.tally(labels)
        if (leaving > self._counts).any():
            label = int(np.argmax(leaving > self._counts))
            raise InputError(
                f"{leaving[label]} samples of label {label} are to be removed but {self._counts[label]} are "
                "counted; remove only what was added"
            )
        self._counts -= leaving
        self._n_samples -= int(leaving.sum())

    def clear(self) -> None:
        """Forget every sample."""
        self._counts[:] = 0
        self._n_samples = 0

    def grow(self, n_labels: int) -> None:
        """Lengthen the class list; the new labels have no samples yet."""
        longer = checked_n_labels(n_labels, at_least=self.n_labels)
        self._counts = np.pad(self._counts, (0, longer - self.n_labels))
