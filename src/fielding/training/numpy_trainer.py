"""Local training in NumPy: softmax regression and one-hidden-layer networks, all participants of a chunk together."""

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Features, Mask, Models, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.training.batches import check_work, mini_batches, summarize_training
from fielding.training.layout import Layout
from fielding.training.numpy_models import (
    Array,
    Dense,
    StackedContrast,
    StackedNetwork,
    from_work_order,
    hidden_contrast,
    pull_in_work_order,
    summed_gradient,
    to_work_order,
)
from fielding.training.trainer import LocalWork, Scores, Sgd, Trained, TrainingPath

_STACK_NUMBERS = 400_000  # weights of a chunk, in numbers: more of them fall out of the cache between two steps
_SMALLEST_CHUNK, _LARGEST_CHUNK = 4, 64
_LARGEST_EVAL_CHUNK = 2048
ONE = np.ones(())


def stacked_path(dense: Dense) -> TrainingPath:
    """Return how a model of this size is trained fastest; see ``docs/models.md`` for the measurements."""
    chunk = max(_SMALLEST_CHUNK, min(_LARGEST_CHUNK, _STACK_NUMBERS // dense.layout.size))
    widest = max(dense.n_inputs, dense.n_hidden, dense.n_classes)
    eval_chunk = max(64, min(_LARGEST_EVAL_CHUNK, (1 << 20) // widest))
    return TrainingPath(name="stacked", chunk=chunk, n_threads=1, eval_chunk=eval_chunk)


class NumpyTrainer:
    """Trains dense models with matrix products alone; the matrix library is held to one thread.

    Numbers that overflow are not caught here: they come out as losses that are not finite.

    Examples
    --------
    One step of softmax regression on one sample, from zero weights, moves toward the class of the sample:

    >>> trainer = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))
    >>> sample = (np.ones((1, 1), dtype=np.float32), np.array([1], dtype=np.int32))
    >>> work = LocalWork(models=np.zeros((1, 4), dtype=np.float32), start=np.array([0]), draws=np.array([[[0]]]),
    ...                  gather=lambda entries: sample, sgd=Sgd(learning_rate=1.0))
    >>> done = trainer.train(work)
    >>> done.models.tolist(), done.loss.round(3).tolist()
    ([[-0.5, 0.5, -0.5, 0.5]], [0.693])
    """

    def __init__(self, dense: Dense, path: TrainingPath | None = None) -> None:
        self._dense = dense
        self.layout: Layout = dense.layout
        self.path: TrainingPath = stacked_path(dense) if path is None else path

    def initial_model(self, seed: int) -> Models:
        """Return the model that training starts from, float32, shape ``(n_numbers,)``."""
        return self._dense.initial_model(seed)

    def train(self, work: LocalWork) -> Trained:
        """Do the local steps of some participants, all together."""
        check_work(work, layout=self.layout, n_classes=self._dense.n_classes)
        n_participants, n_steps, batch_size = work.draws.shape
        contrast = hidden_contrast(self._dense, work)
        network = StackedNetwork(
            self._dense,
            n_participants=n_participants,
            batch_size=batch_size,
            contrast=None if contrast is None else StackedContrast(self._dense, work, contrast),
            offsets=work.offsets,
        )
        network.weights[:] = to_work_order(self._dense, work.models[work.start])
        losses = np.empty((n_steps, n_participants, batch_size), dtype=np.float32)
        # The learning rate, shape (), or one per participant, shape (n_participants, 1).
        rate = np.asarray(work.sgd.learning_rate, dtype=np.float64)
        if work.rate_factors is not None:
            rate = work.sgd.learning_rate * work.rate_factors[:, None]
        pull = None if work.pull is None else pull_in_work_order(self._dense, work.pull)
        descent = _Descent(work.sgd, network.weights, rate=rate, pull=pull)
        batches = mini_batches(work, sample_size=self._dense.n_inputs)
        # The gradient comes out times the learning rate: a pass over the weights less.
        scale = _single(rate / batch_size)
        with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
            for step, ((x, y), step_losses) in enumerate(zip(batches, losses, strict=True)):
                flat = x.reshape(n_participants, batch_size, -1)
                if work.private is None:
                    network.backpropagate(flat, y, scale=scale, losses=step_losses)
                else:
                    clip, counts = work.private.clip, work.private.is_drawn[:, step]
                    network.backpropagate(flat, y, scale=_single(ONE), losses=step_losses, clip=clip, counts=counts)
                    network.gradient += work.private.draw_noise(network.gradient.shape[1])
                    network.gradient *= _single(rate / work.private.batch[:, None])
                descent.step(network.weights, network.gradient)
        return summarize_training(from_work_order(self._dense, network.weights), losses)

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the loss of each sample, shape ``(n_samples,)``, and whether its most likely class is right."""
        with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
            _, scores = self._forward(model, x)
            is_right = np.asarray(scores.argmax(axis=1) == y)
            by_class = np.ascontiguousarray(scores.T)  # NumPy is slow on many short rows
            by_class -= by_class.max(axis=0)
            right = by_class[y, np.arange(y.size)]
            losses = np.log(np.exp(by_class, out=by_class).sum(axis=0)) - right
        return losses, is_right

    def features(self, model: Models, x: Features) -> tuple[Array, Scores]:
        """Return the hidden activations, without a hidden layer the flattened samples, and the scores of classes."""
        with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
            return self._forward(model, x)

    def gradient(self, model: Models, x: Features, y: Codes) -> Models:
        """Return the gradient of the summed loss by the parameters, shape ``(n_parameters,)``."""
        with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):
            return summed_gradient(self._dense, model, x.reshape(y.size, self._dense.n_inputs), y)

    def _forward(self, model: Models, x: Features) -> tuple[Array, Scores]:
        """Return what goes into the last layer, shape ``(n_samples, width)``, and what comes out of it."""
        tensors = list(self.layout.tensors(model).values())
        active = x.reshape(x.shape[0], self._dense.n_inputs)
        if self._dense.n_hidden:
            active = active @ tensors[0].T
            active += tensors[1]
            np.maximum(active, 0.0, out=active)
        scores = active @ tensors[-2].T
        scores += tensors[-1]
        return active, scores


def _single(numbers: Vector) -> Array:
    return np.asarray(numbers, dtype=np.float32)


class _Descent:
    """Steps of :class:`~fielding.training.trainer.Sgd`, in place, on gradients that hold the learning rate already.

    All that pulls on weights comes to one product and one difference: ``rate * strength * (w - anchor)``, summed over
    weight decay (anchor 0), FedProx and the pull of the work, is ``slope * w - offset``.

    FedProx pulls toward ``weights`` as they are now. ``rate``: shape ``()`` or ``(n_participants, 1)``; ``pull``:
    anchors and the strength on each number.
    """

    def __init__(self, sgd: Sgd, weights: Models, *, rate: Vector, pull: tuple[Models, Array] | None) -> None:
        strength = np.asarray(sgd.weight_decay + sgd.prox, dtype=np.float64)
        self._offset = weights * _single(rate * sgd.prox) if sgd.prox else None
        if pull is not None:
            offset = pull[0] * _single(rate * pull[1])
            self._offset = offset if self._offset is None else self._offset + offset
            strength = strength + pull[1]
        # Strengths may cancel out (weight decay against FedScale's sign) where anchors do not.
        self._slope = _single(rate * strength) if strength.any() or self._offset is not None else None
        self._momentum = sgd.momentum
        self._velocity: Models | None = None
        self._scratch = weights if self._slope is None else np.empty_like(weights)

    def step(self, weights: Models, gradient: Models) -> None:
        """Move the weights; the gradient is used up."""
        if self._slope is not None:
            np.multiply(weights, self._slope, out=self._scratch)
            if self._offset is not None:
                self._scratch -= self._offset
            gradient += self._scratch
        if self._momentum:
            if self._velocity is None:
                self._velocity = gradient.copy()
            else:
                self._velocity *= np.float32(self._momentum)
                self._velocity += gradient
            gradient = self._velocity
        weights -= gradient
