"""Experts: ways in which a client can read its samples with the models that reached it (docs/serving.md).

Each is a function on arrays for a stack of clients. It says two things: what it makes of the samples in a client's
window *without having seen their labels* (out of fold), by which its client can judge it, and what it makes of samples
whose labels are asked for. Windows are padded with zeros to one length; what is said of padding means nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.serving.weights import Stack, likelihoods, simplex_weights, window_weights

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of the residual expert; each client weighs them by what it left out
MOST_SAMPLES = 350  # the newest samples of a window that experts look at
LEAST = 1e-4  # what the residual expert gives to a class at least
PSEUDO = 8.0  # samples that speak for the base of the residual expert, whatever the window says
N_NEIGHBOURS = 10
UNIFORM = 1e-3  # of what the neighbours say is an equal share of all classes


class Said(NamedTuple):
    """What an expert says: a share per class, which sum to 1."""

    held_out: Stack  # of the samples in the window, each as if its label were unknown, (n_clients, n_window, n_classes)
    asked: Stack  # of the samples that are asked about, (n_clients, n_asked, n_classes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """What models make of samples of some clients, client by client.

    Parameters
    ----------
    features
        Input of the last layer of the model that serves the client, shape ``(n_clients, n_samples, n_features)``.
    scores
        Of classes, before softmax, by each head at hand, shape ``(n_clients, n_heads, n_samples, n_classes)``: the
        client's own first, then the one for all clients, then the others; one alone where models share no body.
    offsets
        What shifts scores to the client's label mix, same shape, or one that can be broadcast to it; zeros where
        clients do not correct.
    """

    features: Stack
    scores: Stack
    offsets: Stack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window(Seen):
    """The windows of some clients.

    The offsets of a sample do not count its own label. ``labels``: shape ``(n_clients, n_window)``, 0 for padding;
    ``is_sample``: False for padding, same shape.
    """

    labels: Counts
    is_sample: Mask

    @property
    def one_hot(self) -> Stack:
        """1 for the label of each sample, else 0; zeros for padding, shape ``(n_clients, n_window, n_classes)``."""
        classes = np.arange(self.scores.shape[-1])
        is_label = (self.labels[..., np.newaxis] == classes) & self.is_sample[..., np.newaxis]
        return np.asarray(is_label, dtype=np.float64)

    @property
    def sizes(self) -> Vector:
        """Number of samples of each client, shape ``(n_clients,)``."""
        return np.asarray(self.is_sample.sum(axis=1), dtype=np.float64)


Expert: TypeAlias = Callable[[Window, Seen, Said], Said]
"""Reads the samples that are asked about with what the windows show; the last argument is what the best model at hand
says: the heads where there are several, else the served model, corrected where clients correct."""


def softmax(scores: Stack) -> Stack:
    """Return shares in proportion to the exponentials of scores, along the last axis; zeros for what is no number."""
    with np.errstate(invalid="ignore", over="ignore"):  # of a model that diverged
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(np.nan_to_num(odds / odds.sum(axis=-1, keepdims=True)))


def served(window: Window, asked: Seen, _base: Said | None = None) -> Said:
    """Say what the model says that serves the client, as it is."""
    return Said(softmax(window.scores[:, 0]), softmax(asked.scores[:, 0]))


def corrected(window: Window, asked: Seen, _base: Said | None = None) -> Said:
    """Say what that model says, shifted to the client's label mix."""
    return Said(
        softmax(window.scores[:, 0] + window.offsets[:, 0]),
        softmax(asked.scores[:, 0] + asked.offsets[:, 0]),
    )


def common(window: Window, asked: Seen, _base: Said | None = None) -> Said:
    """Say what the head for all clients says, as it is: what one model for everybody would say."""
    at = min(1, window.scores.shape[1] - 1)
    return Said(softmax(window.scores[:, at]), softmax(asked.scores[:, at]))


def heads(window: Window, asked: Seen, _base: Said | None = None) -> Said:
    """Say what all heads say together, weighed by how likely each makes the window.

    Pseudo-counts: 2 and an equal share for the client's own head, 1 for that for all, together 1 for the others.
    """
    held_out, said = softmax(window.scores + window.offsets), softmax(asked.scores + asked.offsets)
    n_heads = held_out.shape[1]
    prior = np.full(n_heads, 1.0 / max(n_heads - 2, 1))
    prior[:2] = (2.0 + 1.0 / max(n_heads - 1, 1), 1.0)[:n_heads]
    likely = likelihoods(held_out.swapaxes(0, 1), window.labels)
    weights = window_weights(likely, window.is_sample, np.broadcast_to(prior, (held_out.shape[0], n_heads)))
    return Said(
        np.einsum("bk,bknc->bnc", weights, held_out, optimize=True),
        np.einsum("bk,bkmc->bmc", weights, said, optimize=True),
    )


def residual(window: Window, asked: Seen, base: Said) -> Said:
    """Say what the base says, plus what a kernel ridge regression makes of its residuals in the window.

    A Gaussian kernel on features, several ridges, each client's weights over them by the Brier score of what each says
    of a sample that it left out, which has a closed form; then drawn towards the base as if ``PSEUDO`` samples had
    spoken for it.
    """
    one_hot, is_sample = window.one_hot, window.is_sample
    features, asked_features = _scaled(window.features, asked.features, is_sample)
    distances = _distances(features, features)
    width = 0.5 * _medians(distances, is_sample)[:, np.newaxis, np.newaxis]
    both = is_sample[:, :, np.newaxis] & is_sample[:, np.newaxis, :]
    kernel = np.where(both, np.exp(-distances / width), 0.0) + np.eye(is_sample.shape[1]) * ~both
    values, vectors = np.linalg.eigh(kernel)
    near = np.exp(-_distances(asked_features, features) / width) * is_sample[:, np.newaxis, :]
    residuals = (one_hot - base.held_out) * is_sample[..., np.newaxis]
    turned = vectors.swapaxes(1, 2) @ residuals
    held_out, said = [base.held_out], [base.asked]
    for ridge in RIDGES:
        shrunk = 1.0 / (values + ridge)
        dual = vectors @ (turned * shrunk[..., np.newaxis])
        diagonal = (np.square(vectors) @ shrunk[..., np.newaxis])[..., 0]
        held_out.append(_shares(one_hot - dual / diagonal[..., np.newaxis]))
        said.append(_shares(base.asked + near @ dual))
    ways = np.stack(held_out, axis=1)
    errors = (ways - one_hot[:, np.newaxis]) * is_sample[:, np.newaxis, :, np.newaxis]
    flat, n = errors.reshape(*errors.shape[:2], -1), np.maximum(window.sizes, 1.0)
    weights = simplex_weights(flat @ flat.swapaxes(1, 2) / n[:, np.newaxis, np.newaxis])
    trust = np.where(n > 1, n / (n + PSEUDO), 0.0)  # a single sample tells nothing of those it is left out of
    weights *= trust[:, np.newaxis]
    weights[:, 0] += 1.0 - trust
    return Said(
        np.einsum("bk,bknc->bnc", weights, ways, optimize=True),
        np.einsum("bk,bkmc->bmc", weights, np.stack(said, axis=1), optimize=True),
    )


def neighbours(window: Window, asked: Seen, base: Said) -> Said:
    """Say which labels the nearest samples of the window have, nearer ones counting more (kNN-Per)."""
    features, asked_features = _scaled(window.features, asked.features, window.is_sample)
    distances = _distances(features, features)
    width = _medians(distances, window.is_sample)[:, np.newaxis, np.newaxis]
    one_hot = window.one_hot
    itself = np.eye(distances.shape[1], dtype=np.bool_)
    found = []
    for apart in (np.where(itself, np.inf, distances), _distances(asked_features, features)):
        apart = np.where(window.is_sample[:, np.newaxis, :], apart, np.inf)
        n_near = min(N_NEIGHBOURS, apart.shape[2])
        nearest = np.argpartition(apart, n_near - 1, axis=2)[:, :, :n_near]
        near = np.take_along_axis(apart, nearest, axis=2)
        least = near.min(axis=2, keepdims=True)
        weights = np.exp(-(near - np.where(np.isfinite(least), least, 0.0)) / width)
        totals = weights.sum(axis=2, keepdims=True)
        weights = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
        labels = np.take_along_axis(one_hot[:, np.newaxis], nearest[..., np.newaxis], axis=2)
        shares = (weights[..., np.newaxis] * labels).sum(axis=2)
        found.append((1.0 - UNIFORM) * shares + UNIFORM / one_hot.shape[2])
    knows = (window.sizes > 1)[:, np.newaxis, np.newaxis]
    return Said(np.where(knows, found[0], base.held_out), np.where(knows, found[1], base.asked))


def _scaled(features: Stack, others: Stack, is_sample: Mask) -> tuple[Stack, Stack]:
    """Return features divided by the root mean square of those in the window."""
    squares = (np.square(features).sum(axis=2) * is_sample).sum(axis=1) / np.maximum(is_sample.sum(axis=1), 1)
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))[:, np.newaxis, np.newaxis]
    return features / scale, others / scale


def _distances(first: Stack, second: Stack) -> Stack:
    """Return squared distances between all samples of two stacks, shape ``(n_clients, n_first, n_second)``."""
    squares = np.square(first).sum(axis=2)[:, :, np.newaxis] + np.square(second).sum(axis=2)[:, np.newaxis, :]
    return np.asarray(np.maximum(squares - 2.0 * first @ second.swapaxes(1, 2), 0.0))


def _medians(distances: Stack, is_sample: Mask) -> Vector:
    """Return the median distance between two samples of each window; 1 with fewer than two, or with copies alone."""
    upper = np.triu(np.ones(distances.shape[1:], dtype=np.bool_), 1)
    found = np.ones(distances.shape[0])
    for at, there in enumerate(is_sample):
        pairs = distances[at][upper & there[:, np.newaxis] & there[np.newaxis, :]]
        middle = float(np.median(pairs)) if pairs.size else 0.0
        found[at] = middle if middle > 1e-12 else 1.0
    return found


def _shares(numbers: Stack) -> Stack:
    """Return numbers cut off below and made to sum to 1."""
    kept = np.maximum(numbers, LEAST)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))
