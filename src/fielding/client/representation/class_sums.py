"""Sums of features by class, laid out in one row per client."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Matrix
from fielding.client.representation.representation import Seen
from fielding.client.representation.sums import client_sums, means_of, one_hot, outer_sums


def class_sums(known: Seen, inputs: Matrix) -> Matrix:
    """Return sums by class for each client, as :class:`ClassSums` reads them.

    Parameters
    ----------
    known
        Samples that all have a label.
    inputs
        What to sum up, shape ``(n_samples, n_dims)``.

    Examples
    --------
    >>> scores = np.zeros((2, 2), dtype=np.float32)
    >>> known = Seen(labels=np.array([1, 1]), features=scores, scores=scores, sizes=np.array([2]))
    >>> class_sums(known, np.array([[1.0], [3.0]])).tolist()
    [[0.0, 0.0, 2.0, 4.0, 10.0]]
    """
    rows = np.hstack([np.ones((inputs.shape[0], 1)), inputs])
    by_class = outer_sums(one_hot(known.labels, known.n_classes), rows, known.sizes)
    squares = client_sums(np.square(inputs).sum(axis=1, keepdims=True), known.sizes)
    return np.hstack([by_class.reshape(known.sizes.size, by_class.shape[1] * by_class.shape[2]), squares])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassSums:
    """What tallies by class hold.

    Parameters
    ----------
    counts
        Samples of each class, shape ``(n_clients, n_classes)``.
    sums
        Sums of their inputs, shape ``(n_clients, n_classes, n_dims)``.
    squares
        Sums of the squared lengths of all inputs, shape ``(n_clients,)``.
    """

    counts: Matrix
    sums: Matrix
    squares: Matrix

    @classmethod
    def of(cls, tallies: Matrix, n_dims: int) -> "ClassSums":
        """Return what tallies hold, shape ``(n_clients, n_classes * (1 + n_dims) + 1)``.

        Examples
        --------
        >>> sums = ClassSums.of(np.array([[0.0, 0.0, 2.0, 4.0, 10.0]]), 1)
        >>> sums.counts.tolist(), sums.class_means().tolist()
        ([[0.0, 2.0]], [[[2.0], [2.0]]])
        """
        by_class = tallies[:, :-1].reshape(tallies.shape[0], (tallies.shape[1] - 1) // (1 + n_dims), 1 + n_dims)
        return cls(counts=by_class[:, :, 0], sums=by_class[:, :, 1:], squares=tallies[:, -1])

    @property
    def n_samples(self) -> Matrix:
        """Samples of all classes, shape ``(n_clients, 1)``."""
        return np.asarray(self.counts.sum(axis=1, keepdims=True))

    @property
    def mean_square(self) -> float:
        """Mean squared length over the samples of all clients; 0 without any."""
        return float(self.squares.sum() / max(1.0, self.counts.sum()))

    def class_means(self) -> Matrix:
        """Return the mean of each class, shape ``(n_clients, n_classes, n_dims)``; the overall mean if it is absent."""
        overall = means_of(self.sums.sum(axis=1), self.n_samples)[:, np.newaxis, :]
        has = self.counts[:, :, np.newaxis] > 0
        return np.where(has, means_of(self.sums, self.counts[:, :, np.newaxis]), overall)
