"""Weights of experts by evidence: what they said of the window out of fold, or of samples before their labels came."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Matrix, Vector

Stack: TypeAlias = npt.NDArray[np.float64]  # numbers of some clients
N_STEPS = 300  # of exponentiated gradient
N_ITERATIONS = 50  # of expectation and maximisation
SHARE = 0.2  # of a client's weights that is dealt out again at every arrival, by what all clients believe
LEAST = 1e-6  # what a label counts as having been given at least
HEARD = 0.5  # how far the losses of the participants of one round move what is known of all clients
MOST_WORSE = 3.0  # by how much an expert can be worse than a client's best one
CERTAINTY = 32.0  # what a difference in the losses of all clients counts for
MOST_DOUBT = 5.0  # how far that can put an expert behind the best one, as a logarithm
UNIFORM = 0.02  # of what all clients believe is an equal share of all experts


def likelihoods(said: Stack, labels: Counts) -> Stack:
    """Return the share that was given to the label of each sample.

    ``said``: shape ``(n_experts, n_clients, n_samples, n_classes)``; shape ``(n_experts, n_clients, n_samples)``.
    """
    return np.take_along_axis(said, labels[np.newaxis, ..., np.newaxis], axis=-1)[..., 0]


def window_weights(likely: Stack, is_sample: Mask, prior: Matrix) -> Matrix:
    """Return the weights under which experts make the samples of each window most likely together.

    Expectation maximisation; ``likely`` as :func:`likelihoods` gives it, of what was said out of fold; ``prior``:
    samples that speak for each expert beforehand, shape ``(n_clients, n_experts)``, as that of the weights.

    Examples
    --------
    >>> likely = np.array([[[0.9, 0.8]], [[0.1, 0.1]]])
    >>> window_weights(likely, np.array([[True, True]]), np.ones((1, 2))).round(2).tolist()
    [[0.73, 0.27]]
    """
    weights = prior / prior.sum(axis=1, keepdims=True)
    totals = (is_sample.sum(axis=1) + prior.sum(axis=1))[:, np.newaxis]
    for _ in range(N_ITERATIONS):
        shares = weights.T[..., np.newaxis] * likely
        sums = shares.sum(axis=0)
        shares = np.divide(shares, sums, out=np.zeros_like(shares), where=(sums > 0) & is_sample)
        # A sample that no expert gives a share says nothing: it counts for the weights as they are.
        silent = (is_sample & ~(sums > 0)).sum(axis=1)[:, np.newaxis]
        weights = (shares.sum(axis=2).T + prior + silent * weights) / totals
    return np.asarray(weights)


def simplex_weights(gram: Stack) -> Matrix:
    """Return the weights on the simplex under which ``w @ gram @ w`` is least, by exponentiated gradient.

    ``gram``: shape ``(n_clients, n, n)``; weights have shape ``(n_clients, n)``.
    """
    weights = np.full(gram.shape[:2], 1.0 / gram.shape[1])
    rate = 2.0 / np.maximum(np.abs(gram).max(axis=(1, 2)), 1e-12)[:, np.newaxis]
    for _ in range(N_STEPS):
        weights = weights * np.exp(-rate * (gram @ weights[..., np.newaxis])[..., 0])
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def arrival_losses(likely: Stack, is_sample: Mask) -> Matrix:
    """Return the mean log loss of each expert on the samples that came, shape ``(n_clients, n_experts)``.

    ``likely``: as :func:`likelihoods` gives it; ``is_sample``: False for padding; each client has one sample at least.
    """
    logs = np.where(is_sample, -np.log(np.maximum(likely, LEAST)), 0.0)
    return np.asarray((logs.sum(axis=2) / is_sample.sum(axis=1)).T)


def shared_weights(posterior: Matrix, belief: Vector) -> Matrix:
    """Return the weights by which clients are served: most of their own, the rest by what all clients believe.

    ``posterior``: as :func:`posterior_weights` gives it, NaN for a client that has seen nothing; ``belief``: as
    :func:`common_belief` gives it.
    """
    return np.where(np.isnan(posterior), belief, (1.0 - SHARE) * posterior + SHARE * belief)


def posterior_weights(weights: Matrix, losses: Matrix) -> Matrix:
    """Return weights after an arrival: each is multiplied by the exponential of minus its expert's mean log loss.

    Together with :func:`shared_weights` this is fixed share (Herbster and Warmuth, 1998), an arrival a step. Summed
    over arrivals the mean log loss of the mixture is at most that of the best sequence of experts, plus
    ``-log(belief)`` of the first one, plus ``-log(SHARE * belief)`` for each switch to an expert, plus at most
    ``-log(1 - SHARE)`` for each arrival without one, whatever comes and whatever others believe (Hoelder's inequality
    takes the step from samples to means); a belief is never below ``UNIFORM / n_experts``.

    Examples
    --------
    >>> posterior_weights(np.array([[0.5, 0.5]]), -np.log([[0.9, 0.1]])).round(3).tolist()
    [[0.9, 0.1]]
    """
    moved = weights * np.exp(losses.min(axis=1, keepdims=True) - losses)
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))


def capped_losses(losses: Matrix) -> Matrix:
    """Return losses of experts, none of them worse than a client's best one by more than ``MOST_WORSE``.

    Examples
    --------
    >>> capped_losses(np.array([[0.5, 0.7], [0.1, 99.0]])).tolist()
    [[0.5, 0.7], [0.1, 3.1]]
    """
    best = np.clip(losses.min(axis=1, keepdims=True), 0.0, -np.log(LEAST))
    return np.clip(losses, best, best + MOST_WORSE)


def memories(arrived: Matrix, held_out: Matrix, *, honest: int, n_classes: int) -> Matrix:
    """Return by how much more than the honest expert others knew windows better than what came.

    Models were trained on windows, so they know them better than their labels left out would tell. ``arrived``: losses
    on samples that came, ``held_out``: on those in the window, out of fold, both of shape ``(n_clients, n_experts)``.
    Part of the difference is drift: as much as that of the ``honest`` expert, which learns from nothing but the
    client's other samples. Where that one knew no more of what came than a guess, all is drift, and nothing is found.

    Examples
    --------
    >>> memories(np.array([[1.0, 0.75], [3.0, 3.0]]), np.full((2, 2), 0.5), honest=1, n_classes=10).tolist()
    [[0.25, 0.0], [0.0, 0.0]]
    """
    gaps = capped_losses(arrived) - capped_losses(held_out)
    return np.where(arrived[:, [honest]] < np.log(n_classes), gaps - gaps[:, [honest]], 0.0)


def heard_losses(before: Vector, told: Matrix) -> Vector:
    """Return what is known of the losses of all clients after participants told theirs; NaN while nothing is.

    How much worse an expert is than a client's best one counts up to ``MOST_WORSE``, so that nobody counts for many.
    ``told``: shape ``(n_participants, n_experts)``, NaN for one that has seen nothing.

    Examples
    --------
    >>> heard_losses(np.full(2, np.nan), np.array([[0.5, 0.7], [np.nan, np.nan], [0.1, 99.0]])).round(3).tolist()
    [0.3, 1.9]
    """
    told = told[np.isfinite(told).all(axis=1)]
    if not len(told):
        return before
    mean = capped_losses(told).mean(axis=0)
    return np.asarray(np.where(np.isnan(before), mean, (1.0 - HEARD) * before + HEARD * mean))


def common_belief(losses: Vector, start: Vector) -> Vector:
    """Return what all clients believe by their losses; the start while these are NaN.

    Examples
    --------
    >>> common_belief(np.array([0.5, 0.52]), np.array([0.5, 0.5])).round(3).tolist()
    [0.652, 0.348]
    """
    odds = start if np.isnan(losses).any() else np.exp(-np.minimum(CERTAINTY * (losses - losses.min()), MOST_DOUBT))
    return np.asarray((1.0 - UNIFORM) * odds / odds.sum() + UNIFORM / odds.size)
