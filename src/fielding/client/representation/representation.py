"""What every representation of a window can do: sum up samples, and make a vector of the sums."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Mask, Matrix, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.distance import Kind

MOST_DIMS = 4096  # a projection to more numbers would cost more than it saves

MOST_SEED = 2**31

LARGEST_WEIGHT = 1e6  # samples that a reference may stand for; beyond, the data of a client would never show


Effort: TypeAlias = Literal["none", "forward", "backward"]
"""What a sample costs its client: nothing, a pass through the shared model, or a pass forth and back."""


def _no_gradients() -> Matrix:
    raise NotImplementedError("no gradients are computed here")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Samples of several clients, as the shared model sees them; those of a client stand together.

    Parameters
    ----------
    labels
        Shape ``(n_samples,)``; -1 where it is not known.
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

    ``needs_labels``: whether samples without a label say nothing.
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


BLOCK_NUMBERS = 2**22  # how many float64 are worked on at a time, 32 MiB: memory beside the result stays bounded

LARGEST = float(np.finfo(np.float32).max)


def labelled(seen: Seen) -> Seen:
    """Return the samples that have a label, without the means to compute gradients; clients without any stay."""
    known = seen.labels >= 0
    if known.all():
        return seen
    return Seen(
        labels=seen.labels[known],
        features=seen.features[known],
        scores=seen.scores[known],
        sizes=np.bincount(seen.owners[known], minlength=seen.sizes.size),
    )


def pair_counts(seen: Seen, values: Counts, n_values: int) -> Matrix:
    """Return how often each client has each of the values 0 to ``n_values - 1``, shape ``(n_clients, n_values)``."""
    n_clients = seen.sizes.size
    counts = np.bincount(seen.owners * n_values + values, minlength=n_clients * n_values)
    return counts.astype(np.float64).reshape(n_clients, n_values)


def one_hot(labels: Counts, n_classes: int) -> Matrix:
    """Return a row per label with a 1 at its place, shape ``(n_samples, n_classes)``."""
    rows = np.zeros((labels.size, n_classes))
    rows[np.arange(labels.size), labels] = 1.0
    return rows


def softmax(scores: npt.NDArray[np.float32]) -> Matrix:
    """Return the probabilities of the classes, float64, shape ``(n_samples, n_classes)``."""
    wide = scores.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def outer_sums(left: npt.NDArray[np.floating], right: npt.NDArray[np.floating], sizes: Counts) -> Matrix:
    """Return the sum over each client's samples of the outer product of two rows.

    With ones on the left these are sums by client, with one-hot labels sums by client and class.

    Left and right have a row per sample, ``sizes`` tells how many each client has. Shape ``(n_clients, n_left,
    n_right)``; that of a client does not depend on the other clients.

    Examples
    --------
    >>> left, right = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([[1.0], [2.0], [3.0]])
    >>> outer_sums(left, right, np.array([1, 0, 2])).tolist()
    [[[1.0], [0.0]], [[0.0], [0.0]], [[0.0], [5.0]]]
    """
    sums = np.zeros((sizes.size, left.shape[1], right.shape[1]))
    for clients, products in outer_blocks(left, right, sizes):
        sums[clients] = products
    return sums


def outer_blocks(
    left: npt.NDArray[np.floating], right: npt.NDArray[np.floating], sizes: Counts
) -> Iterator[tuple[Counts, Matrix]]:
    """Yield clients that have samples with the sums of :func:`outer_sums` for them, a block of clients at a time."""
    starts = np.cumsum(sizes) - sizes
    # A client's samples are padded to the next power of two and multiplied as one matrix: clients of like size go
    # together at the speed of BLAS, and the width depends on a client's own size alone, so does its rounding.
    widths = np.where(sizes > 0, 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), 0)
    n_numbers = left.shape[1] + right.shape[1]
    for width in np.unique(widths[widths > 0]).tolist():
        members = np.flatnonzero(widths == width)
        step = max(1, BLOCK_NUMBERS // max(1, width * n_numbers + left.shape[1] * right.shape[1]))
        for at in range(0, members.size, step):
            clients = members[at : at + step]
            is_there = np.arange(width) < sizes[clients, np.newaxis]
            rows = np.where(is_there, starts[clients, np.newaxis] + np.arange(width), 0)
            ours = left[rows].astype(np.float64) * is_there[:, :, np.newaxis]
            with ONE_BLAS_THREAD:
                products = np.matmul(ours.transpose(0, 2, 1), right[rows].astype(np.float64))
            yield clients, products


def client_sums(values: npt.NDArray[np.floating], sizes: Counts) -> Matrix:
    """Return the sum of each column over each client's samples, shape ``(n_clients, n_columns)``."""
    return outer_sums(np.ones((values.shape[0], 1)), values, sizes)[:, 0, :]


def means_of(sums: Matrix, counts: Matrix | Vector) -> Matrix:
    """Return sums divided by counts that broadcast with them; zero where nothing is counted.

    The count decides: sums from which all samples were taken off again may keep an error of rounding.

    Examples
    --------
    >>> means_of(np.array([4.0, 1e-17]), np.array([2.0, 0.0])).tolist()
    [2.0, 0.0]
    """
    counts = np.broadcast_to(counts, sums.shape)
    return np.divide(sums, counts, out=np.zeros(sums.shape), where=counts > 0)


def spread_of(mean_square: float, square_of_means: float) -> float:
    """Return the root mean square deviation; 1 where nothing varies, since it is there to divide by."""
    variance = mean_square - square_of_means
    # A difference of equal numbers is zero up to rounding, and no scale.
    return float(np.sqrt(variance)) if variance > 1e-12 * mean_square else 1.0


def as_reported(vectors: Matrix, speaks: Mask, *, constant: bool = True) -> Floats:
    """Return vectors as they are sent, float32 and zero for clients without samples.

    ``constant`` appends a coordinate of 1: a row of zeros tells the coordinator that a client went silent, and numbers
    that may all be zero by themselves must not. It is the same for all that speak, so no distance changes.

    Examples
    --------
    >>> as_reported(np.array([[0.0], [7.0]]), np.array([True, False])).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    if constant:
        vectors = np.hstack([vectors, np.ones((vectors.shape[0], 1))])
    sent = np.clip(vectors, -LARGEST, LARGEST).astype(np.float32)
    sent[~speaks] = 0.0
    return sent
