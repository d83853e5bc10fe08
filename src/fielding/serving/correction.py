"""A model served as if it had been trained on the client's own label mix: scores shifted by logarithms of mixes."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Vector
from fielding.errors import InputError, OptionError, echo

Scores: TypeAlias = npt.NDArray[np.float32]  # a number per row and class, shape (n, n_classes)
CALIBRATED = "calibrated"  # smoothing that every client settles by itself, on its own window
TINY = 1e-12  # what a share counts as at least where a logarithm is taken
LEAST_SHARE = 0.01
"""Part of an equal share that every class has at least in what a model is taken to have been trained on."""
PREDICTED_LEAST_SHARE = 0.3
"""The same where labels are unknown: models are too ready to say a label that they have hardly seen, and nothing would
contradict them."""
PREDICTED_SMOOTHING = 50.0
"""Samples that the model's mix counts for where labels are unknown, unless a number is asked for."""
N_ITERATIONS = 50  # rounds of expectation and maximisation
SMOOTHINGS = (*np.geomspace(0.1, 1000.0, 13).tolist(), np.inf)
"""What a calibrated smoothing is chosen from, rising; the last one is the model's mix alone."""


def label_offsets(own_mix: Matrix, model_mix: Matrix) -> Scores:
    """Return what the scores of each class are shifted by to serve another label mix: ``log(own) - log(model's)``.

    By the rule of Bayes this is exact if the scores are log posteriors (up to a constant) under the model's mix, and
    if inputs of the same label look alike in both.

    ``own_mix``, ``model_mix``: label mixes, shape ``(..., n_classes)``: of the clients that are served, and of what the
    model was trained on.

    Examples
    --------
    A model in doubt, trained on equal shares, believes a client that sees nine times as much of the first label:

    >>> odds = np.exp(label_offsets(np.array([0.9, 0.1]), np.array([0.5, 0.5])))
    >>> (odds / odds.sum()).round(3).tolist()
    [0.8999999761581421, 0.10000000149011612]
    """
    own, model = np.maximum(own_mix, TINY), np.maximum(model_mix, TINY)
    return np.asarray(np.log(own) - np.log(model), dtype=np.float32)


def balancing_offsets(mixes: Matrix, sizes: Counts) -> Scores:
    """Return what is added to scores inside a loss so that a model learns what does not depend on the label mix.

    The logarithm of the participant's own mix, to which an equal share of each class is added that counts for one
    sample in all (Zhang et al., ICML 2022, call it calibrated logits: FedLC).

    ``mixes``: share of each label among each participant's samples, shape ``(n_participants, n_classes)``. ``sizes``:
    how many samples each has, at least 1, shape ``(n_participants,)``.

    Examples
    --------
    >>> np.exp(balancing_offsets(np.array([[1.0, 0.0]]), np.array([3]))).round(3).tolist()
    [[0.875, 0.125]]
    """
    counts = mixes * sizes[:, np.newaxis] + 1.0 / mixes.shape[1]
    return np.asarray(np.log(counts / (sizes[:, np.newaxis] + 1.0)), dtype=np.float32)


def floor_mixes(mix: Matrix, least: float = LEAST_SHARE) -> Matrix:
    """Return mixes in which every class has at least some part of an equal share, shape ``(..., n_classes)``.

    What a model has hardly seen it can tell nothing of: without a floor its scores would be shifted without bounds.

    Examples
    --------
    >>> floor_mixes(np.array([1.0, 0.0])).round(4).tolist()
    [0.995, 0.005]
    """
    lifted = np.maximum(np.asarray(mix, dtype=np.float64), least / mix.shape[-1])
    return np.asarray(lifted / lifted.sum(axis=-1, keepdims=True))


def trust_mixes(carried: Matrix, correction: str) -> Matrix:
    """Return what models count as trained on, given the mixes that they carry, shape ``(..., n_classes)``.

    ``carried``: shares that sum to 1. ``correction``: one of ``CORRECTIONS``.
    """
    return floor_mixes(carried, PREDICTED_LEAST_SHARE if correction == "predicted" else LEAST_SHARE)


def check_smoothing(smoothing: float | str) -> None:
    """Raise unless a smoothing is ``"calibrated"`` or a number of samples that is not negative."""
    is_number = isinstance(smoothing, (int, float)) and not isinstance(smoothing, bool)
    if smoothing != CALIBRATED and not (is_number and 0.0 <= float(smoothing) < np.inf):
        raise OptionError(f"smoothing is {echo(smoothing)}; give calibrated, or a number of samples, for example 5")


def smooth_mixes(counts: Matrix, model_mixes: Matrix, smoothing: float | str) -> Matrix:
    """Return the label mix of clients, drawn toward the mix of the model that serves each.

    ``(counts + a * model_mix) / (n + a)``: the model's mix counts like ``a`` samples.

    Same shape, rows sum to 1. A client without samples has the model's mix; with ``"calibrated"`` one with a single
    sample, too. ``counts``: labels in each client's window, shape ``(n_clients, n_classes)``. ``model_mixes``: what the
    model of each was trained on, same shape. ``smoothing``: the number ``a``, or ``"calibrated"``: each client takes
    the one of ``SMOOTHINGS`` under which each of its labels is best predicted by the others (several: the largest).

    Examples
    --------
    >>> even = np.full((2, 2), 0.5)
    >>> smooth_mixes(np.array([[3.0, 0.0], [0.0, 0.0]]), even, 1.0).tolist()
    [[0.875, 0.125], [0.5, 0.5]]
    >>> smooth_mixes(np.array([[60.0, 0.0], [1.0, 0.0]]), even, "calibrated").round(3).tolist()
    [[0.999, 0.001], [0.5, 0.5]]
    """
    totals = counts.sum(axis=1)
    amounts = smoothing_amounts(counts, model_mixes, smoothing)
    # The weight of the client's own shares, n / (n + a), also where a is infinite or nothing is known at all.
    weight = np.divide(totals, totals + amounts, out=np.zeros(len(counts)), where=totals > 0)
    shares = counts / np.maximum(totals, 1.0)[:, np.newaxis]
    mixed = weight[:, np.newaxis] * shares + (1.0 - weight)[:, np.newaxis] * model_mixes
    return np.asarray(np.where(weight[:, np.newaxis] > 0.0, mixed, model_mixes))


def smoothing_amounts(counts: Matrix, model_mixes: Matrix, smoothing: float | str) -> Vector:
    """Return for how many samples the model's mix counts at each client; infinite where it counts alone.

    Arguments as in :func:`smooth_mixes`; shape ``(n_clients,)``.
    """
    if counts.ndim != 2 or counts.shape != model_mixes.shape:
        raise InputError(f"counts have shape {counts.shape}, mixes {model_mixes.shape}; give a row of each per client")
    check_smoothing(smoothing)
    totals = counts.sum(axis=1)
    if not isinstance(smoothing, str):
        return np.full(len(counts), float(smoothing))
    # The log likelihood of each client's labels, each predicted from the client's others and the model's mix.
    likely = np.empty((len(counts), len(SMOOTHINGS)))
    for at, amount in enumerate(SMOOTHINGS):
        predicted = model_mixes
        if amount < np.inf:
            others = np.maximum(totals[:, np.newaxis] - 1.0, 0.0)
            predicted = (np.maximum(counts - 1.0, 0.0) + amount * model_mixes) / (others + amount)
        likely[:, at] = (counts * np.log(np.maximum(predicted, TINY))).sum(axis=1)
    best = likely.max(axis=1, keepdims=True)
    is_best = likely >= best - 1e-9 * (1.0 + np.abs(best))
    largest = len(SMOOTHINGS) - 1 - np.argmax(is_best[:, ::-1], axis=1)
    return np.where(totals > 1, np.array(SMOOTHINGS)[largest], np.inf)


def estimate_mixes(probabilities: Matrix, sizes: Counts, model_mixes: Matrix, *, smoothing: float) -> Matrix:
    """Return the label mix of clients whose labels are unknown, from what a model says of their samples.

    Expectation maximisation (Saerens, Latinne and Decaestecker, Neural Computation 2002): probabilities are corrected
    to the mix found so far, their mean is the next mix; ``N_ITERATIONS`` times, from the model's mix, which counts like
    some samples all along.

    Shape ``(n_clients, n_classes)``, rows sum to 1; the model's mix for a client without samples. ``probabilities``: of
    each class, under the model, shape ``(n_samples, n_classes)``; client after client. ``sizes``: how many of the
    samples each client has, shape ``(n_clients,)``. ``model_mixes``: what the model of each was trained on, shape
    ``(n_clients, n_classes)``. ``smoothing``: for how many samples the model's mix counts, at least 0.

    Examples
    --------
    Three samples of which the model is sure, and one that it knows nothing of:

    >>> sure = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> estimate_mixes(sure, np.array([4]), np.array([[0.5, 0.5]]), smoothing=0.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    if probabilities.shape != (int(sizes.sum()), model_mixes.shape[1]) or sizes.shape != model_mixes.shape[:1]:
        raise InputError(
            f"{probabilities.shape} probabilities do not fit {sizes.size} clients with {int(sizes.sum())} samples and "
            f"mixes of shape {model_mixes.shape}; give a row per sample, and a mix per client"
        )
    found = np.array(model_mixes, dtype=np.float64)
    known = np.flatnonzero(sizes > 0)
    if not known.size:
        return found
    n_samples, model_mixes = sizes[known], found[known]
    owner, starts = np.repeat(np.arange(known.size), n_samples), np.cumsum(n_samples) - n_samples
    likelihoods = probabilities / np.maximum(model_mixes, TINY)[owner]
    mixes, prior = model_mixes, smoothing * model_mixes
    for _ in range(N_ITERATIONS):
        posterior = likelihoods * mixes[owner]
        posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), TINY)
        mixes = np.add.reduceat(posterior, starts, axis=0) + prior
        mixes /= np.maximum(mixes.sum(axis=1, keepdims=True), TINY)
    found[known] = mixes
    return found


def predict_mixes(scores: Scores, sizes: Counts, model_mixes: Matrix, *, smoothing: float | str) -> Matrix:
    """Return the label mixes that models make out in the samples of clients, whose labels are not looked at.

    ``scores``: of classes, before softmax, shape ``(n_samples, n_classes)``; client after client. ``sizes``,
    ``model_mixes``: as in :func:`estimate_mixes`. ``smoothing``: as there; ``"calibrated"``, which needs labels, stands
    for ``PREDICTED_SMOOTHING``.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # of a model that diverged
        odds = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
        shares = np.nan_to_num(odds / odds.sum(axis=1, keepdims=True))
    amount = PREDICTED_SMOOTHING if isinstance(smoothing, str) else smoothing
    return estimate_mixes(shares, sizes, model_mixes, smoothing=amount)
