"""What bounds the regret: the corrected theorem (docs/theory.md), the printed one, and a wrong one for tests."""

import numpy as np

from experiments.theorem.clustered_sgd import events
from experiments.theorem.quadratics import Quadratics
from experiments.theorem.settings import N_CLUSTERS, Setting
from fielding._typing import Vector


def corrected(
    problem: Quadratics, setting: Setting, *, width: float | None = None, drift_factor: float = 1.0
) -> Vector:
    """Return the corrected bound after each event, shape ``(n_events,)``.

    For the order "kept" it bounds the mean over clients (theorem 1), for "moved" the worst cluster (theorem 2).

    Parameters
    ----------
    problem, setting
        What is run.
    width
        D, the diameter of the clusters; twice Delta unless given, which is what farthest-first traversal ensures.
    drift_factor
        What an event adds is multiplied by this: a bound that may be wrong below 1, for showing what the experiment
        can tell.
    """
    width = 2.0 * setting.spread if width is None else width
    gap = first_gap(problem, setting)
    return corrected_bound(setting, theta=problem.theta, gap=gap, width=width, drift_factor=drift_factor)


def corrected_bound(setting: Setting, *, theta: float, gap: float, width: float, drift_factor: float = 1.0) -> Vector:
    """Return the corrected bound for a theta, a first gap and a diameter of the clusters."""
    left = setting.kept_share
    per_event = 2.0 * width + 2.0 * setting.drift if setting.order == "kept" else 6.0 * width + 2.0 * setting.drift
    rounds_done = left ** np.arange(1, setting.n_events + 1)
    events_done = _geometric(left, setting.n_events)
    noise = setting.smoothness * setting.step / (2.0 * setting.convexity) * _variance(theta, setting, width)
    return np.asarray(rounds_done * gap + drift_factor * theta * per_event * events_done + noise * (1.0 - rounds_done))


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
    gap = float(problem.gaps(problem.start, problem.minimizers[0].mean(axis=0)))
    if with_true_gap:
        gap = max(gap, first_gap(problem, setting))
    return printed_bound(setting, theta=problem.theta, gap=gap)


def printed_bound(setting: Setting, *, theta: float, gap: float) -> Vector:
    """Return the printed bound for a theta and a first gap."""
    left = setting.kept_share
    factor = setting.smoothness * setting.step / (2.0 * setting.convexity)
    added = 3.0 * theta * (setting.spread + setting.drift) * left
    return np.asarray(
        left ** np.arange(setting.n_events) * gap + factor * (_variance(theta, setting, setting.spread) + added)
    )


def _variance(theta: float, setting: Setting, width: float) -> float:
    """Return the variance of the mean of the sampled gradients in clusters of this diameter."""
    return (setting.variance + 8.0 * setting.smoothness * theta * width) / setting.per_cluster


def _geometric(left: float, n_events: int) -> Vector:
    """Return q + q^2 + ... + q^t for t = 0, 1, ...: what is left of the events so far.

    Examples
    --------
    >>> _geometric(0.5, 3).tolist()
    [0.0, 0.5, 0.75]
    """
    return np.concatenate([[0.0], np.cumsum(left ** np.arange(1, n_events))])
