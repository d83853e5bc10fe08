"""Samples for the tests of drift tests: clients of Gaussian classes, as an imperfect model sees them."""

from typing import Literal

import numpy as np

from fielding._typing import Counts
from fielding.client.drift.drift_test import Batch
from fielding.rng import stream

N_CLASSES, N_FEATURES = 4, 6
LOOKS = np.array([5, 0, 0, 0, 1.5, -1.5], dtype=np.float32)
"""What a new look adds to features: enough to be taken for class 0."""
Drift = Literal["none", "label", "looks", "swap"]


def simulated(drift: Drift, n_clients: int, *, n: int = 40, m: int = 80, seed: int = 0) -> tuple[Batch, Batch]:
    """Return reference samples and fresh ones, ``m`` and ``n`` per client, after this kind of drift.

    The model predicts the nearest class center; looks move all inputs to where it errs, swaps exchange labels.
    """
    rng = stream(seed, "batches", n, m, *map(ord, drift))
    mixes = rng.dirichlet(np.full(N_CLASSES, 2.0), size=n_clients)
    others = rng.dirichlet(np.full(N_CLASSES, 0.5), size=n_clients) if drift == "label" else mixes
    reference, fresh = _drawn(mixes, m, rng=rng), _drawn(others, n, rng=rng)
    if drift == "looks":
        fresh = _seen(fresh.labels, fresh.features + LOOKS, fresh.sizes)
    if drift == "swap":
        fresh = _seen(np.array([1, 0, 3, 2])[fresh.labels], fresh.features, fresh.sizes)
    return reference, fresh


def _drawn(mixes: np.ndarray, size: int, *, rng: np.random.Generator) -> Batch:
    labels = np.concatenate([rng.choice(N_CLASSES, size=size, p=mix) for mix in mixes])
    features = rng.standard_normal((labels.size, N_FEATURES)) + 3.0 * np.eye(N_CLASSES, N_FEATURES)[labels]
    return _seen(labels, features.astype(np.float32), np.full(len(mixes), size))


def _seen(labels: Counts, features: np.ndarray, sizes: Counts) -> Batch:
    predicted = features[:, :N_CLASSES].argmax(axis=1).astype(np.int64)
    return batch(labels=labels, predicted=predicted, features=features, sizes=sizes)


def batch(
    *,
    labels: Counts,
    predicted: Counts | None = None,
    features: np.ndarray | None = None,
    errors: np.ndarray | None = None,
    sizes: Counts | None = None,
) -> Batch:
    """Return a batch of one client unless ``sizes`` says otherwise; what is missing says nothing."""
    n = labels.size
    guessed = np.full(n, -1) if predicted is None else predicted
    return Batch(
        sizes=np.array([n]) if sizes is None else sizes,
        n_classes=N_CLASSES,
        labels=labels,
        predicted=guessed,
        features=np.zeros((n, 0), dtype=np.float32) if features is None else features.astype(np.float32),
        errors=(guessed != labels).astype(np.float64) if errors is None else errors,
    )
