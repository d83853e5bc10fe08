"""What every representation of a window can do: sum up samples, and make a vector of the sums."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Matrix, Vector
from fielding.distance import Kind

Effort: TypeAlias = Literal["none", "forward", "backward"]
"""What a sample costs its client: nothing, a pass through the shared model, or a pass forth and back."""


def _no_gradients() -> Matrix:
    raise NotImplementedError("nobody computes gradients here")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Samples of several clients, as the shared model sees them; those of a client stand together.

    Parameters
    ----------
    labels
        shape ``(n_samples,)``; -1 where nobody knows.
    features
        What goes into the last layer of the shared model, float32, shape ``(n_samples, n_features)``; without a shared
        model of no columns.
    scores
        Its scores of the classes, before softmax, float32, shape ``(n_samples, n_classes)``.
    sizes
        How many samples each client has, perhaps none, shape ``(n_clients,)``; they sum to ``n_samples``.
    gradients
        Computes the gradient of the summed loss of each client's samples under the shared model, by all its parameters,
        shape ``(n_clients, n_parameters)``; costs a backward pass.
    n_head
        How many of the parameters, at their end, are the last layer: weights ``(n_classes, n_features)``, then biases.
    """

    labels: Counts
    features: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    sizes: Counts
    gradients: Callable[[], Matrix] = field(default=_no_gradients)
    n_head: int = 0

    @property
    def n_classes(self) -> int:
        """Length of the class list."""
        return int(self.scores.shape[1])

    @property
    def owners(self) -> Counts:
        """The position of the client of each sample, shape ``(n_samples,)``."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)


class Representation(Protocol):
    """Turns the samples of a window into a vector, by way of sums.

    Sums of samples that come are added and of samples that leave are taken off, so that every sample is looked at once.

    Attributes
    ----------
    metric, kind
        The distance that suits it, and whether vectors are shares that sum to one.
    effort
        What a sample costs.
    needs_labels
        Whether samples without a label say nothing.
    """

    @property
    def metric(self) -> str:
        """Name of the distance."""
        ...

    @property
    def kind(self) -> Kind:
        """What vectors are."""
        ...

    @property
    def effort(self) -> Effort:
        """What a sample costs."""
        ...

    @property
    def needs_labels(self) -> bool:
        """Whether labels are looked at."""
        ...

    def tally(self, seen: Seen) -> Matrix:
        """Return sums over each client's samples, float64, shape ``(n_clients, n_sums)``; zeros without samples."""
        ...

    def vectors(self, tallies: Matrix, reference: Vector) -> Floats:
        """Return the representation of each window, float32, shape ``(n_clients, n_numbers)``.

        Parameters
        ----------
        tallies
            Sums over each window, shape ``(n_clients, n_sums)``; a row of zeros gives a vector of zeros, and no other
            row does.
        reference
            The sums over all clients at the start, shape ``(n_sums,)``: what a window is compared with, and what stands
            in for classes that it lacks.
        """
        ...
