"""Local training in float64 with gradients by central differences: slow, and nothing in it is derived by hand."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fielding.training.numpy_models import Dense
from fielding.training.trainer import LocalWork

Double = npt.NDArray[np.float64]
STEP = 1e-6


def slopes(loss: Callable[[Double], float], model: Double) -> Double:
    """Return the gradient of a loss at a model."""
    return np.array([(loss(model + move) - loss(model - move)) / (2 * STEP) for move in np.eye(model.size) * STEP])


def tensors(dense: Dense, model: Double) -> list[Double]:
    parts = np.split(model, np.cumsum(dense.layout.sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, dense.layout.shapes, strict=True)]


def features(dense: Dense, model: Double, x: Double) -> Double:
    """Return what goes into the last layer: hidden activations, or the samples."""
    weight, bias, *_ = tensors(dense, model)
    return np.asarray(np.maximum(x @ weight.T + bias, 0.0)) if dense.n_hidden else x


def mean_loss(
    dense: Dense, model: Double, x: Double, y: npt.NDArray[np.int32], *, offsets: Double | float = 0.0
) -> float:
    """Return the mean cross-entropy of scores with offsets."""
    *_, weight, bias = tensors(dense, model)
    scores = features(dense, model, x) @ weight.T + bias + offsets
    chosen = scores[np.arange(y.size), y]
    return float((np.log(np.exp(scores).sum(axis=1)) - chosen).mean())


def cosines(one: Double, other: Double) -> Double:
    """Return the cosine of each pair of rows; 0 if either is all 0."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.divide((one * other).sum(axis=1), lengths, out=np.zeros(lengths.size), where=lengths > 0)


def contrastive_loss(features: tuple[Double, Double, Double], temperature: float) -> float:
    """Return the mean of the term as the paper writes it, from features in training, at the start, and previous."""
    z, start, previous = features
    near, away = (np.exp(cosines(z, other) / temperature) for other in (start, previous))
    return float(-np.log(near / (near + away)).mean())


def total_loss(dense: Dense, work: LocalWork, row: int, model: Double, batch: tuple[Double, npt.NDArray]) -> float:
    """Return all that a participant's step descends on, but for its learning rate and momentum."""
    x, y = batch
    start = work.models[work.start[row]].astype(np.float64)
    offsets = 0.0 if work.offsets is None else work.offsets[row].astype(np.float64)
    loss = mean_loss(dense, model, x, y, offsets=offsets)
    loss += work.sgd.weight_decay / 2 * np.square(model).sum() + work.sgd.prox / 2 * np.square(model - start).sum()
    if work.pull is not None:
        anchor = work.pull.anchors[work.pull.row[row]].astype(np.float64)
        loss += (work.pull.strength / 2 * np.square(model - anchor)).sum()
    contrast = work.contrast
    if contrast is not None and contrast.has_previous[row]:
        models = (model, start, contrast.previous[row].astype(np.float64))
        z, z_start, z_previous = (features(dense, one, x) for one in models)
        loss += contrast.mu * contrastive_loss((z, z_start, z_previous), contrast.temperature)
    return float(loss)


def trained_model(dense: Dense, work: LocalWork, row: int) -> Double:
    """Return what a participant learns."""
    model = work.models[work.start[row]].astype(np.float64)
    factor = 1.0 if work.rate_factors is None else work.rate_factors[row]
    velocity = np.zeros_like(model)
    for entries in work.draws[row]:
        x, y = work.gather(entries)
        batch = (x.reshape(y.size, -1).astype(np.float64), y)

        def loss(at: Double, batch: tuple[Double, npt.NDArray] = batch) -> float:
            return total_loss(dense, work, row, at, batch)

        velocity = work.sgd.momentum * velocity + slopes(loss, model)
        model = model - factor * work.sgd.learning_rate * velocity
    return model
