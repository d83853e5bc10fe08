"""A small frozen model through which the samples of a trace are looked at: short features, predictions, groups."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Matrix, Membership, Models
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.coordinator.clustering.kmeans import KMeans
from fielding.coordinator.clustering.labels import nearest_center
from fielding.distance import metric_named
from fielding.rng import stream
from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer
from fielding.training.trainer import LocalWork, Sgd

Raw = npt.NDArray[np.generic]  # features as a trace holds them, shape (n_samples, ...)
N_COMPONENTS, N_HIDDEN = 48, 64
LARGEST = 5.0  # spreads beyond which a feature counts no further: rare words and broken sensors would rule all else
MOST_EPOCHS, LEAST_STEPS, MOST_STEPS, BATCH = 30, 300, 4000, 32
RULE = Sgd(learning_rate=0.03, momentum=0.9, weight_decay=1e-3)
MOST_GROUPED, MOST_GROUPS = 2000, 64  # samples that groups are found on, and groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compression:
    """Features in their own spreads, and then along their strongest directions.

    ``directions``: orthonormal columns, shape ``(n_features, n_components)``, none if all samples are alike;
    ``strength``: the spread of the samples along each.
    """

    center: Features
    scale: Features
    directions: Features
    strength: Features

    def apply(self, x: Raw) -> Features:
        """Return the components of samples, each of spread 1, shape ``(n_samples, n_components)``."""
        return np.asarray((scaled(x, self.center, self.scale) @ self.directions) / self.strength, dtype=np.float32)


def scaled(x: Raw, center: Features, scale: Features) -> Features:
    """Return each feature in its spread, within bounds; what is no number counts as the mean."""
    flat = x.reshape(x.shape[0], -1).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        units = np.nan_to_num((flat - center) / scale, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
    return np.asarray(np.clip(units, -LARGEST, LARGEST), dtype=np.float32)


def fit_compression(x: Raw) -> Compression:
    """Return the compression that keeps most of the spread of some samples."""
    flat = x.reshape(x.shape[0], -1).astype(np.float64)
    known = np.where(np.isfinite(flat), flat, np.nan)
    seen = np.maximum(np.isfinite(known).sum(axis=0), 1)
    center = np.nansum(known, axis=0) / seen
    spread = np.sqrt(np.nansum((known - center) ** 2, axis=0) / seen)
    center, scale = center.astype(np.float32), np.where(spread > 0.0, spread, 1.0).astype(np.float32)
    units = scaled(x, center, scale).astype(np.float64)
    # The directions of largest spread by power iteration from random ones, strongest first.
    centered = units - units.mean(axis=0)
    n_wanted = min(N_COMPONENTS, *centered.shape)
    start = stream(0, "probe directions").normal(size=(centered.shape[1], min(n_wanted + 8, centered.shape[1])))
    basis = np.linalg.qr(start)[0]
    for _ in range(2):
        basis = np.linalg.qr(centered.T @ (centered @ basis))[0]
    within = centered @ basis
    _, turned = np.linalg.eigh(within.T @ within)
    directions = basis @ turned[:, ::-1][:, :n_wanted]
    strength = (units @ directions).std(axis=0)
    kept = strength > 1e-6 * max(1e-6, float(strength.max(initial=0.0)))
    return Compression(
        center=center,
        scale=scale,
        directions=directions[:, kept].astype(np.float32),
        strength=strength[kept].astype(np.float32),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeModel:
    """A trained network, and groups that were found without any label.

    ``centers``: of the groups, in components of the spread ``strength``, shape ``(n_groups, n_components)``.
    """

    trainer: NumpyTrainer
    model: Models
    strength: Features
    centers: Matrix

    def predict(self, components: Features) -> Counts:
        """Return the most likely class of each sample, shape ``(n_samples,)``."""
        return np.asarray(self.trainer.features(self.model, components)[1].argmax(axis=1), dtype=np.int64)

    def group(self, components: Features) -> Membership:
        """Return the nearest group of each sample, shape ``(n_samples,)``."""
        return nearest_center(metric_named("l2").between(_as_strong(components, self.strength), self.centers))


def train_probe(components: Features, y: Codes, *, n_classes: int, strength: Features) -> ProbeModel:
    """Return a model of one hidden layer, trained on some samples, and as many groups as there are classes.

    ``components`` are compressed features of at least one sample, ``strength`` the spread along each.
    """
    trainer = NumpyTrainer(Dense(n_inputs=components.shape[1], n_hidden=N_HIDDEN, n_classes=n_classes))
    n_steps = min(MOST_STEPS, max(LEAST_STEPS, MOST_EPOCHS * y.size // BATCH))

    def gather(entries: Counts) -> tuple[Features, Codes]:
        return components[entries], y[entries]

    work = LocalWork(
        models=trainer.initial_model(0)[np.newaxis],
        start=np.zeros(1, dtype=np.int64),
        draws=stream(0, "probe batches").integers(y.size, size=(1, n_steps, BATCH)),
        gather=gather,
        sgd=RULE,
    )
    points, n_groups = _as_strong(components[:MOST_GROUPED], strength), min(n_classes, MOST_GROUPS)
    centers = np.unique(points, axis=0)
    if centers.shape[0] > n_groups:  # else each distinct sample is a group
        metric, rng = metric_named("l2"), stream(0, "probe groups")
        with ONE_BLAS_THREAD:
            found = KMeans(n_init=2).partitions(points, [n_groups], metric=metric, rng=rng)[n_groups]
            centers = np.stack([points[found == group].mean(axis=0) for group in np.unique(found).tolist()])
    return ProbeModel(trainer=trainer, model=trainer.train(work).models[0], strength=strength, centers=centers)


def _as_strong(components: Features, strength: Features) -> Matrix:
    return (components * strength).astype(np.float64)
