"""Experts: ways in which a client can read its samples with the models that reached it (docs/serving.md).

Each is a function on arrays for a stack of clients. It says two things: what it makes of the samples in a client's
window *without having seen their labels* (out of fold), by which its client can judge it, and what it makes of samples
whose labels are asked for. A fold is a stretch of the window, since samples that came one after the other resemble each
other. Windows are padded with zeros to one length; what is said of padding means nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from fielding._typing import Counts, Features, Mask, Vector
from fielding.rng import stream
from fielding.serving.weights import Stack, likelihoods, simplex_weights, window_weights

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of the residual expert; each client weighs them by what it left out
PAST, LOCAL_RIDGE = 0.3, 0.3  # of the local expert: what a sample counts that left the window, beside one in it
N_FOLDS = 20  # stretches of a window, each left out as a whole
N_WAVES = 128  # directions in which the local expert looks at inputs
DOUBT = 0.05  # of what the local expert says is an equal share of all classes
MOST_SAMPLES = 350  # the newest samples of a window that experts look at
LEAST = 1e-4  # what a regression gives to a class at least
PSEUDO = 8.0  # samples that speak for the base of the residual expert, whatever the window says


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
    waves
        The inputs as :func:`waves` shows them, shape ``(n_clients, n_samples, 2 * N_WAVES)``; whatever the model.
    """

    features: Stack
    scores: Stack
    offsets: Stack
    waves: Stack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window(Seen):
    """The windows of some clients.

    The offsets of a sample do not count labels of its fold. ``labels``: shape ``(n_clients, n_window)``, 0 for padding;
    ``is_sample``: False for padding, same shape. ``past``: the sums over all samples that left the window of products
    of their waves, then of their waves and labels, shape ``(n_clients, 2 * N_WAVES, 2 * N_WAVES + n_classes)``.
    """

    labels: Counts
    is_sample: Mask
    past: Stack

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

    @property
    def folds(self) -> Counts:
        """The fold of each sample, shape ``(n_clients, n_window)``; ``N_FOLDS`` for padding."""
        return folds_of(self.is_sample)


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

    A Gaussian kernel on features and several ridges.
    """
    is_sample = window.is_sample
    features, asked_features = _scaled(window.features, asked.features, is_sample)
    distances = _distances(features, features)
    width = 0.5 * _medians(distances, is_sample)[:, np.newaxis, np.newaxis]
    both = is_sample[:, :, np.newaxis] & is_sample[:, np.newaxis, :]
    kernel = np.where(both, np.exp(-distances / width), 0.0) + np.eye(is_sample.shape[1]) * ~both
    values, vectors = np.linalg.eigh(kernel)
    near = np.exp(-_distances(asked_features, features) / width) * is_sample[:, np.newaxis, :]
    residuals = (window.one_hot - base.held_out) * is_sample[..., np.newaxis]
    turned, places = vectors.swapaxes(1, 2) @ residuals, _places(window)
    of_fold = _picked(vectors, places)
    ways = list[Said]()
    for ridge in RIDGES:
        shrunk = 1.0 / (values + ridge)
        dual = vectors @ (turned * shrunk[..., np.newaxis])
        inverse = (of_fold * shrunk[:, np.newaxis, np.newaxis]) @ of_fold.swapaxes(2, 3)
        errors = _left_out(inverse, dual, places)
        ways.append(Said(_shares(window.one_hot - errors), _shares(base.asked + near @ dual)))
    return _weighed(window, base, ways)


def local(window: Window, asked: Seen, base: Said) -> Said:
    """Say what the client's own samples say by themselves, those of the past among them: its own training.

    Ridge regression of labels on waves of inputs. Of samples that left the window sums are kept.
    """
    waves = window.waves * window.is_sample[..., np.newaxis]
    places, n_waves = _places(window), waves.shape[2]
    sums = waves.swapaxes(1, 2) @ np.concatenate([waves, window.one_hot], axis=2) + PAST * window.past
    ridged = sums[..., :n_waves] + LOCAL_RIDGE * np.eye(n_waves)
    solved = np.linalg.solve(ridged, np.concatenate([sums[..., n_waves:], waves.swapaxes(1, 2)], axis=2))
    head, smoothing = solved[..., : window.one_hot.shape[2]], solved[..., window.one_hot.shape[2] :]
    hat = _picked(waves, places) @ _picked(smoothing.swapaxes(1, 2), places).swapaxes(2, 3)
    errors = _left_out(np.eye(hat.shape[2]) - hat, window.one_hot - waves @ head, places)
    knows = (window.sizes > 1)[:, np.newaxis, np.newaxis]
    # A regression is surer of what it says than it is right: its weight suffers, were it believed to the letter.
    held_out, said = (
        (1.0 - DOUBT) * _shares(one) + DOUBT / one.shape[2] for one in (window.one_hot - errors, asked.waves @ head)
    )
    return Said(np.where(knows, held_out, base.held_out), np.where(knows, said, base.asked))


def projected(inputs: Features) -> Stack:
    """Return inputs along random directions, the same ones anywhere and at any time.

    Shape ``(n_samples, N_WAVES)``, scaled so that distances are about those between inputs. ``inputs``: a row or an
    array of any shape per sample.
    """
    flat = inputs.reshape(len(inputs), math.prod(inputs.shape[1:]))
    return np.asarray(flat.astype(np.float64) @ _directions(flat.shape[1]))


@lru_cache(maxsize=4)
def _directions(n_inputs: int) -> Stack:
    drawn = stream(0, "waves").normal(size=(n_inputs, N_WAVES))  # the same for every run
    return np.asarray(drawn / np.sqrt(N_WAVES))


def waves(projections: Stack, widths: Vector) -> Stack:
    """Return cosines and sines of projections, whose products are about what a Gaussian kernel on inputs is.

    Random features of Rahimi and Recht (NeurIPS 2007). ``widths``: the squared distance at which the kernel of each
    client has fallen to 1/e, shape ``(n_clients,)``.
    """
    angles = projections * np.sqrt(2.0 * N_WAVES / widths)[:, np.newaxis, np.newaxis]
    return np.asarray(np.concatenate([np.cos(angles), np.sin(angles)], axis=2) / np.sqrt(N_WAVES))


def wave_widths(projections: Stack, is_sample: Mask) -> Vector:
    """Return widths for :func:`waves` that suit windows: six times the median squared distance of samples."""
    return 6.0 * _medians(_distances(projections, projections), is_sample)


def folds_of(is_sample: Mask) -> Counts:
    """Return the fold of each sample in windows: ``N_FOLDS`` stretches of about one length; ``N_FOLDS`` for padding.

    Examples
    --------
    >>> folds_of(np.array([[True] * 40, [True] * 5 + [False] * 35]))[:, :6].tolist()
    [[0, 0, 1, 1, 2, 2], [0, 4, 8, 12, 16, 20]]
    """
    sizes = np.maximum(is_sample.sum(axis=1), 1)[:, np.newaxis]
    return np.where(is_sample, np.arange(is_sample.shape[1]) * N_FOLDS // sizes, N_FOLDS)


def _places(window: Window) -> Counts:
    """Return where the samples of each fold stand, shape ``(n_clients, N_FOLDS, most)``; n_window for none."""
    folds, n = window.folds, window.is_sample.shape[1]
    most = max(-(-n // N_FOLDS), 1)
    found = np.full((folds.shape[0], N_FOLDS, most), n)
    client, place = np.nonzero(window.is_sample)
    fold = folds[client, place]
    first = np.full((folds.shape[0], N_FOLDS), n)
    np.minimum.at(first, (client, fold), place)
    found[client, fold, place - first[client, fold]] = place
    return found


def _picked(rows: Stack, places: Counts) -> Stack:
    """Return the rows of samples by fold, shape ``(n_clients, N_FOLDS, most, n_numbers)``; zeros for none."""
    padded = np.concatenate([rows, np.zeros_like(rows[:, :1])], axis=1)
    return np.asarray(padded[np.arange(len(rows))[:, np.newaxis, np.newaxis], places])


def _left_out(inverse: Stack, errors: Stack, places: Counts) -> Stack:
    """Return the errors of a linear smoother on samples whose whole fold is left out, in closed form.

    ``inverse``: of the smoother H, ``I - H`` up to a factor, its part within each fold, shape ``(n_clients, N_FOLDS,
    most, most)``; ``errors``: ``I - H`` times labels, up to the same factor.
    """
    n = errors.shape[1]
    there = places < n
    both = there[..., :, np.newaxis] & there[..., np.newaxis, :]
    found = np.linalg.solve(np.where(both, inverse, np.eye(places.shape[2])), _picked(errors, places))
    back = np.zeros((len(errors), n + 1, errors.shape[2]))
    back[np.arange(len(errors))[:, np.newaxis, np.newaxis], places] = found
    return back[:, :n]


def _weighed(window: Window, base: Said, ways: list[Said]) -> Said:
    """Return a mixture of the base and some ways, by each client's Brier score of what was said out of fold.

    Drawn towards the base as if ``PSEUDO`` samples had spoken for it.
    """
    held_out = np.stack([base.held_out, *(one.held_out for one in ways)], axis=1)
    said = np.stack([base.asked, *(one.asked for one in ways)], axis=1)
    errors = (held_out - window.one_hot[:, np.newaxis]) * window.is_sample[:, np.newaxis, :, np.newaxis]
    flat, n = errors.reshape(*errors.shape[:2], -1), np.maximum(window.sizes, 1.0)
    weights = simplex_weights(flat @ flat.swapaxes(1, 2) / n[:, np.newaxis, np.newaxis])
    trust = np.where(n > 1, n / (n + PSEUDO), 0.0)  # a single sample tells nothing of those it is left out of
    weights *= trust[:, np.newaxis]
    weights[:, 0] += 1.0 - trust
    return Said(
        np.einsum("bk,bknc->bnc", weights, held_out, optimize=True),
        np.einsum("bk,bkmc->bmc", weights, said, optimize=True),
    )


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
