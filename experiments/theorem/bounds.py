"""What bounds the regret: the corrected theorem (docs/theory.md), the printed one, and a wrong one for tests."""

import numpy as np

from experiments.theorem.clustered_sgd import events
from experiments.theorem.quadratics import Quadratics
from experiments.theorem.settings import N_CLUSTERS, Setting
from fielding._typing import Vector


def corrected(problem: Quadratics, setting: Setting, *, with_drift: bool = True) -> Vector:
    """Return the corrected bound after each event, shape ``(n_events,)``.

    For the order "kept" it bounds the mean over clients (theorem 1), for "moved" the worst cluster (theorem 2).
    Clusters come from farthest-first traversal, so that their diameter is twice Delta.

    Parameters
    ----------
    problem, setting
        What is run.
    with_drift
        False leaves out what an event adds: a bound that is wrong, for showing that the experiment can tell.
    """
    width, left = 2.0 * setting.spread, setting.kept_share
    per_event = 2.0 * width + 2.0 * setting.drift if setting.order == "kept" else 6.0 * width + 2.0 * setting.drift
    added = problem.theta * per_event if with_drift else 0.0
    rounds_done = left ** np.arange(1, setting.n_events + 1)
    events_done = _geometric(left, setting.n_events)
    noise = setting.smoothness * setting.step / (2.0 * setting.convexity) * _variance(problem, setting, width)
    return np.asarray(rounds_done * first_gap(problem, setting) + added * events_done + noise * (1.0 - rounds_done))


def first_gap(problem: Quadratics, setting: Setting) -> float:
    """Return how far x_0 is from the best model of each first cluster: on average, or of the worst cluster."""
    membership = events(problem, setting)[0].membership
    at = problem.minimizers[0]
    best = np.stack([at[membership == cluster].mean(axis=0) for cluster in range(N_CLUSTERS)])
    gaps = problem.gaps(problem.start[None], best)
    return float(gaps[membership].mean() if setting.order == "kept" else gaps.max())


def printed(problem: Quadratics, setting: Setting, *, with_true_gap: bool = False) -> Vector:
    """Return the bound as the body of the paper prints it (exponent tR, which is larger than the appendix's TR).

    Parameters
    ----------
    problem, setting
        What is run.
    with_true_gap
        Measure the first gap from the best models of the clusters, not from the best single model: what remains wrong
        is how drift accumulates.
    """
    left = setting.kept_share
    gap = float(problem.gaps(problem.start, problem.minimizers[0].mean(axis=0)))
    if with_true_gap:
        gap = max(gap, first_gap(problem, setting))
    factor = setting.smoothness * setting.step / (2.0 * setting.convexity)
    added = 3.0 * problem.theta * (setting.spread + setting.drift) * left
    return np.asarray(
        left ** np.arange(setting.n_events) * gap + factor * (_variance(problem, setting, setting.spread) + added)
    )


def _variance(problem: Quadratics, setting: Setting, width: float) -> float:
    """Return the variance of the mean of the sampled gradients in clusters of this diameter."""
    return (setting.variance + 8.0 * setting.smoothness * problem.theta * width) / setting.per_cluster


def _geometric(left: float, n_events: int) -> Vector:
    """Return q + q^2 + ... + q^t for t = 0, 1, ...: what is left of the events so far.

    Examples
    --------
    >>> _geometric(0.5, 3).tolist()
    [0.0, 0.5, 0.75]
    """
    return np.concatenate([[0.0], np.cumsum(left ** np.arange(1, n_events))])
