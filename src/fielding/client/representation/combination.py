"""Several representations side by side, each brought to the same scale and given a weight."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from fielding._typing import Floats, Matrix, Vector
from fielding.client.representation.representation import LARGEST_WEIGHT, Effort, Representation, Seen, as_reported
from fielding.config.options import check_number
from fielding.distance import Kind
from fielding.errors import OptionError

EFFORTS: tuple[Effort, ...] = ("none", "forward", "backward")  # from cheap to dear


@runtime_checkable
class Scaled(Protocol):
    """A representation whose distances have a unit that must go before they can be added to others."""

    def scale(self, reference: Vector) -> float:
        """Return what to divide by, above zero; distances between very different clients are then about 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A representation within a combination.

    ``weight``, above zero, is what its distances are multiplied by.
    """

    representation: Representation
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_number("weight", self.weight, low=1e-6, high=LARGEST_WEIGHT)

    def vectors(self, tallies: Matrix, reference: Vector) -> Matrix:
        """Return the vectors, in a space where the Euclidean distance suits them, scaled and weighted.

        Shares become their roots, with a largest distance of 1 (Hellinger's); vectors are divided by their own scale,
        which is 1 if they have none. A client without samples for this part is taken to be like the reference.
        """
        rows = np.vstack([tallies, reference]).astype(np.float64)
        found = self.representation.vectors(rows, reference).astype(np.float64)
        found = np.where(found.any(axis=1, keepdims=True), found, found[-1])[:-1]
        if self.representation.kind == "histogram":
            return self.weight * np.sqrt(found / 2.0)
        scale = self.representation.scale(reference) if isinstance(self.representation, Scaled) else 1.0
        return self.weight / scale * found


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Several representations in one vector, each scaled to distances of about 1 and weighted.

    Examples
    --------
    >>> from fielding.client.representation.label import LabelShares
    >>> from fielding.client.representation.confusion import Predictions
    >>> both = Combination(parts=(Part(representation=LabelShares()), Part(representation=Predictions(), weight=2.0)))
    >>> scores = np.array([[1.0, 0.0]], dtype=np.float32)
    >>> seen = Seen(labels=np.array([1]), features=scores, scores=scores, sizes=np.array([1]))
    >>> tallies = both.tally(seen)
    >>> (both.vectors(tallies, tallies[0]) * np.sqrt(2)).round(3).tolist()[0][:4]
    [0.0, 1.0, 2.0, 0.0]
    """

    metric: ClassVar[str] = "l2"
    kind: ClassVar[Kind] = "vector"

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise OptionError("a combination has no parts; give at least one")

    @property
    def effort(self) -> Effort:
        """That of the dearest part: a pass serves all."""
        return max((part.representation.effort for part in self.parts), key=EFFORTS.index)

    @property
    def needs_labels(self) -> bool:
        """Whether all parts do."""
        return all(part.representation.needs_labels for part in self.parts)

    def tally(self, seen: Seen) -> Matrix:
        """Return the number of samples that say something, that times the width of each part, and the parts' sums."""
        sums = [part.representation.tally(seen) for part in self.parts]
        counted = (
            np.bincount(seen.owners[seen.labels >= 0], minlength=seen.sizes.size) if self.needs_labels else seen.sizes
        )
        # How wide the parts are depends on the shared model, but follows from the sums alone: times the number of
        # samples it is a sum itself.
        widths = np.array([1] + [part.shape[1] for part in sums])
        return np.hstack([counted[:, np.newaxis] * widths.astype(np.float64), *sums])

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the vectors of the parts, one after the other, and a 1; a single 0 if no client ever had a sample."""
        rows = np.vstack([reference, tallies])
        fullest = rows[int(np.argmax(rows[:, 0]))]
        if fullest[0] <= 0:
            return np.zeros((tallies.shape[0], 1), dtype=np.float32)
        widths = [int(width) for width in np.rint(fullest[1 : 1 + len(self.parts)] / fullest[0])]
        ends = 1 + len(widths) + np.cumsum(widths)
        vectors = [
            part.vectors(tallies[:, end - width : end], reference[end - width : end])
            for part, end, width in zip(self.parts, ends.tolist(), widths, strict=True)
        ]
        return as_reported(np.hstack(vectors), tallies[:, 0] > 0)
