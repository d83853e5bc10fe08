"""The contrastive part of the loss of one-hidden-layer networks, for many participants at once, in NumPy.

MOON (Li et al., CVPR 2021) on hidden activations ``z``. With ``push = previous / |previous| - start / |start|``, where
these are the activations under the other two models, and ``lean = push . z / |z|``, the loss of a sample is ``mu *
log(1 + exp(lean / T))``; its gradient is ``mu / T * sigmoid(lean / T) / |z| * (push - lean * z / |z|)``.
"""

import numpy as np
import numpy.typing as npt

from fielding._typing import Features
from fielding.errors import OptionError
from fielding.training.dense import Dense
from fielding.training.trainer import Contrast, LocalWork

Array = npt.NDArray[np.float32]

SHORTEST_SQUARE = 1e-16
"""Features of at most this squared length count as 0; the length is what PyTorch's cosine similarity guards with."""


def hidden_contrast(dense: Dense, work: LocalWork) -> Contrast | None:
    """Return the contrast that is asked for, or None if it changes nothing.

    Raises
    ------
    OptionError
        If it is asked for and the model has no hidden layer: then its features are the samples themselves, which no
        training changes.
    """
    if work.contrast is None:
        return None
    if not dense.n_hidden:
        raise OptionError("contrast needs a hidden layer and softmax has none; use model mlp, or leave contrast out")
    return work.contrast if work.contrast.matters else None


def reference_layers(dense: Dense, work: LocalWork, contrast: Contrast) -> tuple[Array, Array]:
    """Return the hidden layers of each participant's previous model and of its start, side by side.

    Returns
    -------
    Weights, shape ``(n_participants, n_inputs, 2 * n_hidden)``, and biases, shape ``(n_participants, 1, 2 *
    n_hidden)``. In place of a previous model that is not there stands the start.
    """
    size = dense.n_inputs * dense.n_hidden
    start = work.models[work.start, : size + dense.n_hidden]
    previous = np.where(contrast.has_previous[:, None], contrast.previous[:, : start.shape[1]], start)
    both = np.stack([previous, start], axis=1)
    weight = both[:, :, :size].reshape(start.shape[0], 2 * dense.n_hidden, dense.n_inputs)
    return np.ascontiguousarray(weight.transpose(0, 2, 1)), both[:, :, size:].reshape(start.shape[0], 1, -1)


class StackedContrast:
    """The contrastive term of some participants, each against two models of its own.

    Parameters
    ----------
    dense
        The model; it has hidden units.
    work
        Says what the participants start from.
    contrast
        What is asked for.
    """

    def __init__(self, dense: Dense, work: LocalWork, contrast: Contrast) -> None:
        self._weight, self._bias = reference_layers(dense, work, contrast)
        self._temperature = contrast.temperature
        strength = contrast.mu / contrast.temperature * contrast.has_previous[:, None]
        self._strength: Array = strength.astype(np.float32)

    def gradient(self, x: Features, active: Array, *, scale: Array) -> Array:
        """Return ``scale`` times the gradient of the summed terms with respect to the activations.

        Parameters
        ----------
        x
            Shape ``(n_participants, batch_size, n_inputs)``.
        active
            Hidden activations under the weights in training, shape ``(n_participants, batch_size, n_hidden)``.
        scale
            Shape ``()`` or ``(n_participants, 1)``.
        """
        push = self._push(x)
        inverse = _inverse_lengths(active)
        lean = np.einsum("nbh,nbh->nb", push, active) * inverse
        share = 1.0 / (1.0 + np.exp(lean / -self._temperature))
        push -= active * (lean * inverse)[:, :, None]
        push *= (share * inverse * (self._strength * scale))[:, :, None]
        return push

    def _push(self, x: Features) -> Array:
        """Return the direction to leave minus the direction to keep, in the shape of the activations."""
        both = np.matmul(x, self._weight)
        both += self._bias
        np.maximum(both, 0.0, out=both)
        pairs = both.reshape(*both.shape[:2], 2, -1)
        pairs *= _inverse_lengths(pairs)[..., None]
        return np.asarray(pairs[:, :, 0] - pairs[:, :, 1])


def _inverse_lengths(vectors: Array) -> Array:
    """Return 1 / length of vectors along the last axis; 0 for those that count as 0."""
    squares = np.einsum("...h,...h->...", vectors, vectors)
    inverse = 1.0 / np.sqrt(np.maximum(squares, np.float32(SHORTEST_SQUARE)))
    inverse[squares <= SHORTEST_SQUARE] = 0.0
    return np.asarray(inverse, dtype=np.float32)
