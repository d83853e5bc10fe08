"""Gradients of softmax regression and of one-hidden-layer networks, for many participants at once, in NumPy.

Every participant has weights of its own: a row of one matrix, of which the tensors are views, stacked along the
first axis, so that a layer of all participants is one call of ``np.matmul``.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Features, Mask, Models
from fielding.errors import OptionError, echo
from fielding.federation.clients import Pull
from fielding.rng import stream
from fielding.training.layout import Layout
from fielding.training.trainer import Contrast, LocalWork

Array = npt.NDArray[np.float32]

HIDDEN = 64  # hidden units of an "mlp" by default


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Fully connected layers: inputs, hidden units with ReLU if there are any, scores of the classes.

    Tensors have the names, shapes and order of ``torch.nn.Linear(n_inputs, n_classes)`` or of
    ``torch.nn.Sequential(Linear(n_inputs, n_hidden), ReLU(), Linear(n_hidden, n_classes))``.

    Samples of ``n_inputs`` numbers may have more dimensions; 0 ``n_hidden`` is softmax regression.

    Examples
    --------
    >>> Dense(n_inputs=100, n_hidden=64, n_classes=10).layout.size
    7114
    """

    n_inputs: int
    n_hidden: int
    n_classes: int

    def __post_init__(self) -> None:
        for name, number, least in (
            ("n_inputs", self.n_inputs, 1),
            ("hidden", self.n_hidden, 0),
            ("n_classes", self.n_classes, 1),
        ):
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise OptionError(f"{name} is {echo(number)}; give a whole number of at least {least}")

    @property
    def layout(self) -> Layout:
        """The tensors."""
        if not self.n_hidden:
            return Layout(
                names=("weight", "bias"),
                shapes=((self.n_classes, self.n_inputs), (self.n_classes,)),
                n_parameters=2,
            )
        return Layout(
            names=("0.weight", "0.bias", "2.weight", "2.bias"),
            shapes=(
                (self.n_hidden, self.n_inputs),
                (self.n_hidden,),
                (self.n_classes, self.n_hidden),
                (self.n_classes,),
            ),
            n_parameters=4,
        )

    def initial_model(self, seed: int) -> Models:
        """Return weights and biases drawn evenly from +-1/sqrt(inputs of the layer), PyTorch's default."""
        rng = stream(seed, "initial model")
        fans = (self.n_inputs, self.n_inputs, self.n_hidden, self.n_hidden)
        parts = [
            rng.uniform(-1.0 / sqrt(fan), 1.0 / sqrt(fan), size=size)
            for fan, size in zip(fans, self.layout.sizes, strict=False)
        ]
        return np.concatenate(parts).astype(np.float32)


SHORTEST_SQUARE = 1e-16
"""Features of at most this squared length count as 0; the length is what PyTorch's cosine similarity guards with."""


def hidden_contrast(dense: Dense, work: LocalWork) -> Contrast | None:
    """Return the contrast that is asked for, None if it changes nothing; raise if the model has no hidden layer.

    Then its features are the samples themselves, which no training changes.
    """
    if work.contrast is None:
        return None
    if not dense.n_hidden:
        raise OptionError("contrast needs a hidden layer and softmax has none; use model mlp, or leave contrast out")
    return work.contrast if work.contrast.matters else None


def reference_layers(dense: Dense, work: LocalWork, contrast: Contrast) -> tuple[Array, Array]:
    """Return the hidden layers of each participant's previous model and of its start, side by side.

    Weights have shape ``(n_participants, n_inputs, 2 * n_hidden)``, biases ``(n_participants, 1, 2 * n_hidden)``. In
    place of a previous model that is not there stands the start.
    """
    size = dense.n_inputs * dense.n_hidden
    start = work.models[work.start, : size + dense.n_hidden]
    previous = np.where(contrast.has_previous[:, None], contrast.previous[:, : start.shape[1]], start)
    both = np.stack([previous, start], axis=1)
    weight = both[:, :, :size].reshape(start.shape[0], 2 * dense.n_hidden, dense.n_inputs)
    return np.ascontiguousarray(weight.transpose(0, 2, 1)), both[:, :, size:].reshape(start.shape[0], 1, -1)


class StackedContrast:
    """The contrastive term of some participants, each against two models of its own."""

    def __init__(self, dense: Dense, work: LocalWork, contrast: Contrast) -> None:
        self._weight, self._bias = reference_layers(dense, work, contrast)
        self._temperature = contrast.temperature
        strength = contrast.mu / contrast.temperature * contrast.has_previous[:, None]
        self._strength: Array = strength.astype(np.float32)

    def gradient(self, x: Features, active: Array, *, scale: Array) -> Array:
        """Return ``scale`` times the gradient of the summed terms with respect to the activations.

        ``active``: hidden activations under the weights in training. ``scale``: shape ``()`` or ``(n_participants,
        1)``.
        """
        # The direction to leave minus the direction to keep, in the shape of the activations.
        both = np.matmul(x, self._weight)
        both += self._bias
        np.maximum(both, 0.0, out=both)
        pairs = both.reshape(*both.shape[:2], 2, -1)
        pairs *= _inverse_lengths(pairs)[..., None]
        push = np.asarray(pairs[:, :, 0] - pairs[:, :, 1])
        inverse = _inverse_lengths(active)
        lean = np.einsum("nbh,nbh->nb", push, active) * inverse
        share = 1.0 / (1.0 + np.exp(lean / -self._temperature))
        push -= active * (lean * inverse)[:, :, None]
        push *= (share * inverse * (self._strength * scale))[:, :, None]
        return push


def _squares(vectors: Features) -> Array:
    """Return the squared lengths of vectors along the last axis."""
    return np.asarray(np.einsum("...h,...h->...", vectors, vectors), dtype=np.float32)


def _inverse_lengths(vectors: Array) -> Array:
    """Return 1 / length of vectors along the last axis; 0 for those that count as 0."""
    squares = np.einsum("...h,...h->...", vectors, vectors)
    inverse = 1.0 / np.sqrt(np.maximum(squares, np.float32(SHORTEST_SQUARE)))
    inverse[squares <= SHORTEST_SQUARE] = 0.0
    return np.asarray(inverse, dtype=np.float32)


def to_work_order(dense: Dense, models: Models) -> Models:
    """Return a copy of models, shape ``(n, n_numbers)``, with the weights of the hidden layer transposed.

    A hidden layer of one row per input multiplies two to three times faster than PyTorch's one row per unit; the layer
    of the scores is faster the other way round.
    """
    return _transpose_hidden(models, rows=dense.n_hidden, columns=dense.n_inputs)


def from_work_order(dense: Dense, weights: Models) -> Models:
    """Return a copy of weights in the order of the layout: what :func:`to_work_order` did, undone."""
    return _transpose_hidden(weights, rows=dense.n_inputs, columns=dense.n_hidden)


def pull_in_work_order(dense: Dense, pull: Pull) -> tuple[Models, Array]:
    """Return the anchor of each participant, shape ``(n_participants, n_numbers)``, and the strength of each number."""
    strength = to_work_order(dense, pull.strength.astype(np.float32)[None])[0]
    return to_work_order(dense, pull.anchors[pull.row]), strength


def _transpose_hidden(models: Models, *, rows: int, columns: int) -> Models:
    turned = np.array(models, dtype=np.float32, order="C")
    if rows and columns:
        size = rows * columns
        before = models[:, :size].reshape(-1, rows, columns)
        turned[:, :size].reshape(-1, columns, rows)[:] = before.transpose(0, 2, 1)
    return turned


class StackedNetwork:
    """The networks of some participants, with room for one mini-batch each; hidden weights have one row per input.

    ``weights``, shape ``(n_participants, n_numbers)``, are yet to be written; ``offsets`` are added to the scores.
    """

    def __init__(
        self,
        dense: Dense,
        *,
        n_participants: int,
        batch_size: int,
        contrast: StackedContrast | None = None,
        offsets: Array | None = None,
    ) -> None:
        self._dense, self._contrast = dense, contrast
        self._offsets = None if offsets is None else np.asarray(offsets, dtype=np.float32)[:, None]
        self.weights = np.empty((n_participants, dense.layout.size), dtype=np.float32)
        self.gradient = np.empty_like(self.weights)
        self._weights, self._gradients = self._views(self.weights), self._views(self.gradient)
        self._active = np.empty((n_participants, batch_size, dense.n_hidden), dtype=np.float32)
        self._back = np.empty_like(self._active)
        self._is_active = np.empty(self._active.shape, dtype=np.bool_)
        self._ones = np.ones((n_participants, 1, batch_size), dtype=np.float32)
        self._scores = np.empty((n_participants, batch_size, dense.n_classes), dtype=np.float32)
        self._by_class = np.empty((dense.n_classes, n_participants * batch_size), dtype=np.float32)
        self._places = np.arange(n_participants * batch_size).reshape(n_participants, batch_size)

    def backpropagate(
        self,
        x: Features,
        y: Codes,
        *,
        scale: Array,
        losses: Array,
        clip: float | None = None,
        counts: Mask | None = None,
    ) -> None:
        """Write ``scale`` times the gradient of the summed losses into ``gradient``, and the losses themselves.

        Features have shape ``(n_participants, batch_size, n_inputs)``, labels and losses ``(n_participants,
        batch_size)``, the scale ``()`` or ``(n_participants, 1)``. A contrastive term is in the gradient, not in the
        losses. ``clip``: length that the gradient of each sample is cut down to; ``counts``: which samples count then.
        """
        active, back, scores, (weight, bias) = x, self._back, self._scores, self._weights[-2:]
        if self._dense.n_hidden:
            active = self._active
            np.matmul(x, self._weights[0], out=active)
            active += self._weights[1]
            np.maximum(active, 0.0, out=active)
        np.matmul(active, weight.transpose(0, 2, 1), out=scores)
        scores += bias
        if self._offsets is not None:
            scores += self._offsets
        self._cross_entropy(y, scale=scale, losses=losses)
        if self._dense.n_hidden:
            np.matmul(scores, weight, out=back)
            if self._contrast is not None:
                back += self._contrast.gradient(x, active, scale=scale)
            np.greater(active, 0.0, out=self._is_active)
            back *= self._is_active
        if clip is not None:
            # A sample's gradient by a layer is an outer product, as long as both factors; the bias has a factor of 1.
            squares = _squares(scores) * (_squares(active) + 1.0)
            if self._dense.n_hidden:
                squares += _squares(back) * (_squares(x) + 1.0)
            factors = np.minimum(1.0, clip / np.sqrt(np.maximum(squares, np.float32(1e-30))))
            factors = np.where(np.isfinite(squares), factors, 0.0) * (1.0 if counts is None else counts)
            scores[:] = np.where(np.isfinite(scores), scores, 0.0) * factors[:, :, None]
            back[:] = np.where(np.isfinite(back), back, 0.0) * factors[:, :, None]
        np.matmul(scores.transpose(0, 2, 1), active, out=self._gradients[-2])
        # A product with ones sums over the batch four times faster than np.sum over a middle axis.
        np.matmul(self._ones, scores, out=self._gradients[-1])
        if self._dense.n_hidden:
            np.matmul(x.transpose(0, 2, 1), back, out=self._gradients[0])
            np.matmul(self._ones, back, out=self._gradients[1])

    def _cross_entropy(self, labels: Codes, *, scale: Array, losses: Array) -> None:
        """Replace the scores by their scaled gradient; one row per class, as NumPy is slow on many short rows."""
        by_class, scores = self._by_class, self._scores.reshape(self._places.size, self._scores.shape[2])
        np.copyto(by_class, scores.T)
        by_class -= by_class.max(axis=0)
        right = by_class[labels, self._places]
        np.exp(by_class, out=by_class)
        total = by_class.sum(axis=0).reshape(losses.shape)
        np.subtract(np.log(total), right, out=losses)
        by_class *= (scale / total).reshape(-1)
        by_class[labels, self._places] -= scale
        np.copyto(scores, by_class.T)

    def _views(self, rows: Array) -> list[Array]:
        """Return weights and biases of the layers within rows of numbers; biases have shape ``(n, 1, width)``."""
        dense, views = self._dense, list[Array]()
        if dense.n_hidden:
            size = dense.n_inputs * dense.n_hidden
            weight = rows[:, :size].reshape(-1, dense.n_inputs, dense.n_hidden)
            views = [weight, rows[:, None, size : size + dense.n_hidden]]
        width, end = dense.n_hidden or dense.n_inputs, rows.shape[1] - dense.n_classes
        weight = rows[:, end - dense.n_classes * width : end].reshape(-1, dense.n_classes, width)
        return [*views, weight, rows[:, None, end:]]


def summed_gradient(dense: Dense, model: Models, x: Features, y: Codes) -> Models:
    """Return the gradient of the summed losses of samples under one model, in the order of the layout."""
    network = StackedNetwork(dense, n_participants=1, batch_size=y.size)
    network.weights[:] = to_work_order(dense, model[None])
    losses = np.empty((1, y.size), dtype=np.float32)
    network.backpropagate(x[None], y[None], scale=np.ones((), dtype=np.float32), losses=losses)
    return from_work_order(dense, network.gradient).reshape(-1)
