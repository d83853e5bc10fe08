"""Points for the tests of clustering: planted groups, grids full of ties, and a plain k-means to compare with."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding.distance import Metric

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int32]

NAMES = ("l1", "l2", "hellinger", "js", "cosine")


def histograms(most_rows: int = 30, least_rows: int = 1) -> st.SearchStrategy[Array]:
    """Draw label shares of few samples: duplicates, zeros and constant columns abound."""
    shapes = st.tuples(st.integers(least_rows, most_rows), st.integers(1, 6))
    counts = shapes.flatmap(lambda shape: hnp.arrays(np.int64, shape, elements=st.integers(0, 4)))
    return counts.map(_shares)


def _shares(counts: npt.NDArray[np.int64]) -> Array:
    filled = counts.copy()
    filled[filled.sum(axis=1) == 0, 0] = 1
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))


def planted(n_points: int, n_features: int, *, n_groups: int = 5, samples: float = 60.0, seed: int = 0) -> Array:
    """Return noisy histograms around a few label mixes."""
    rng = np.random.default_rng(seed)
    mixes = rng.dirichlet(np.full(n_features, 0.3), size=n_groups)
    draws = rng.standard_gamma(mixes[rng.integers(n_groups, size=n_points)] * samples + 1e-3)
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))


def dirichlet(n_points: int, n_features: int, *, alpha: float, seed: int = 0) -> Array:
    """Return histograms without groups."""
    return np.asarray(np.random.default_rng(seed).dirichlet(np.full(n_features, alpha), size=n_points))


def some_labels(n_points: int, n_clusters: int, seed: int = 0) -> Labels:
    """Return labels in which every cluster has a point."""
    labels = np.arange(n_points) % n_clusters
    return np.random.default_rng(seed).permutation(labels).astype(np.int32)


def means_of(points: Array, labels: Labels) -> Array:
    return np.stack([points[labels == index].mean(axis=0) for index in np.unique(labels)])


def objective(points: Array, labels: Labels, metric: Metric) -> float:
    """Return the sum of distances to the mean of the own cluster, to the metric's power."""
    total = 0.0
    for index in np.unique(labels):
        members = points[labels == index]
        total += float(np.sum(metric.between(members, members.mean(axis=0, keepdims=True)) ** metric.power))
    return total


def plain_kmeans(points: Array, k: int, metric: Metric, rng: np.random.Generator) -> float:
    """Return the objective of one textbook run: k-means++, then passes until nothing moves or 100 are done."""
    centers = points[[int(rng.integers(len(points)))]]
    while len(centers) < k:
        squares = metric.between(points, centers).min(axis=1) ** 2
        centers = np.vstack([centers, points[rng.choice(len(points), p=squares / squares.sum())]])
    best, before = np.inf, np.empty(0, dtype=np.int32)
    for _ in range(100):
        labels = metric.between(points, centers).argmin(axis=1).astype(np.int32)
        if np.array_equal(labels, before):
            break
        best, before = min(best, objective(points, labels, metric)), labels
        centers = means_of(points, labels)
    return best
