"""What a setting came to: the regret at its worst event beside each bound, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.theorem.bounds import corrected, printed
from experiments.theorem.clustered_sgd import Trajectory, noise, trajectory
from experiments.theorem.quadratics import ROOM, Check, checks, quadratics
from experiments.theorem.settings import Setting
from fielding._typing import Matrix, Vector
from fielding.reporting.numbers.paired import Estimate, estimate
from fielding.rng import stream

HEAD = (
    "setting",
    "moves, re-clusterings",
    "regret [95 %], event",
    "corrected bound",
    "share",
    "share in the second half",
    "regret [95 %], event",
    "printed bound",
    "share",
    "printed bound is",
    "with the true first gap",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The regret of the event that comes nearest to a bound, or exceeds it most.

    Parameters
    ----------
    event
        Which one.
    regret
        The mean over seeds with its 95 % interval.
    bound
        The bound at that event.
    holds
        Whether at every event the upper end of the interval stays within the bound.
    """

    event: int
    regret: Estimate
    bound: float
    holds: bool

    @property
    def share(self) -> float:
        """The regret as a share of the bound."""
        return self.regret.mean / max(self.bound, 1e-300)

    @property
    def verdict(self) -> str:
        """Whether the bound holds, is violated (the whole interval lies above it), or neither is clear."""
        if self.holds:
            return "kept"
        return "VIOLATED" if self.regret.mean - (self.regret.half_width or 0.0) > self.bound else "not clear"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """A setting, its assumptions, and its regret beside the bounds.

    Parameters
    ----------
    setting, checks, run
        What was run, what it assumes, and what came out.
    corrected, late
        Beside the corrected bound: all events, and the second half of them.
    printed, regapped
        Beside the printed bound, and beside the printed bound with the first gap put right.
    narrow
        Beside the corrected bound with the diameter that the clusters had in place of twice Delta.
    least_drift
        What the drift term of that bound could be multiplied by, at least, and it would still hold: far below 1, the
        experiment hardly tests its constant.
    """

    setting: Setting
    checks: list[Check]
    run: Trajectory
    corrected: Beside
    late: Beside
    printed: Beside
    regapped: Beside
    narrow: Beside
    least_drift: float


def outcome(setting: Setting, seeds: Sequence[int]) -> Outcome:
    """Run a setting and set it beside the bounds."""
    problem = quadratics(setting)
    run = trajectory(problem, setting, seeds)
    mean = mean_over_clients(run)
    bounded = mean if setting.order == "kept" else worst_cluster(run)
    bound, half = corrected(problem, setting), setting.n_events // 2
    narrow = corrected(problem, setting, width=run.widest)
    return Outcome(
        setting=setting,
        checks=[*checks(problem, setting), *noise_checks(setting), *run_checks(run, setting)],
        run=run,
        corrected=beside(bounded, bound),
        late=beside(bounded[:, half:], bound[half:]),
        printed=beside(mean, printed(problem, setting)),
        regapped=beside(mean, printed(problem, setting, with_true_gap=True)),
        narrow=beside(bounded, narrow),
        least_drift=least_factor(
            bounded, without=corrected(problem, setting, width=run.widest, drift_factor=0.0), whole=narrow
        ),
    )


def run_checks(run: Trajectory, setting: Setting) -> list[Check]:
    """Return the assumptions on what the algorithm does."""
    return [
        Check(name="iterates in W after each event", measured=run.farthest_out, allowed=1.0),
        Check(name="diameter of the clusters <= 2 Delta", measured=run.widest, allowed=2.0 * setting.spread),
    ]


def noise_checks(setting: Setting, n_draws: int = 10_000) -> list[Check]:
    """Return the assumptions on stochastic gradients, measured on draws: variance, and no bias but for chance."""
    drawn = noise(setting, n_draws, 1, stream(0, "theorem-noise"))
    variance = float((drawn**2).sum(axis=1).mean())
    bias = float((drawn.mean(axis=0) ** 2).sum())
    return [
        Check(name="variance of a gradient <= sigma^2", measured=variance, allowed=setting.variance),
        Check(name="squared bias, of 10,000 draws", measured=bias, allowed=5.0 * setting.variance / n_draws),
    ]


def mean_over_clients(run: Trajectory) -> Matrix:
    """Return the theorem's quantity, shape ``(n_seeds, n_events)``."""
    return np.asarray((run.regrets * (run.sizes / run.sizes.sum(axis=1, keepdims=True))).sum(axis=2))


def worst_cluster(run: Trajectory) -> Matrix:
    """Return the regret of the cluster that has the largest one in expectation, shape ``(n_seeds, n_events)``."""
    worst = run.regrets.mean(axis=0).argmax(axis=1)
    return np.asarray(np.take_along_axis(run.regrets, worst[None, :, None], axis=2)[:, :, 0])


def beside(regrets: Matrix, bound: Vector) -> Beside:
    """Return the event of the largest share of a bound, and whether the bound holds at all of them."""
    event = int(np.argmax(regrets.mean(axis=0) / np.maximum(bound, 1e-300)))
    holds = bool((upper_ends(regrets) <= bound * ROOM).all())
    return Beside(event=event, regret=estimate(regrets[:, event].tolist()), bound=float(bound[event]), holds=holds)


def upper_ends(regrets: Matrix) -> Vector:
    """Return the upper end of the 95 % interval of the mean over seeds at each event."""
    found = [estimate(values.tolist()) for values in regrets.T]
    return np.array([one.mean + (one.half_width or 0.0) for one in found])


def least_factor(regrets: Matrix, *, without: Vector, whole: Vector) -> float:
    """Return the least factor, 0 or more, on the drift term with which a bound holds at every event that has one.

    Parameters
    ----------
    regrets
        Shape ``(n_seeds, n_events)``.
    without, whole
        The bound without its drift term and with it, shape ``(n_events,)``.

    Examples
    --------
    >>> least_factor(np.array([[2.0, 3.0], [2.0, 3.0]]), without=np.array([1.0, 1.0]), whole=np.array([1.0, 9.0]))
    0.25
    """
    added = whole - without
    has = added > 0.0
    return float(np.max((upper_ends(regrets) - without)[has] / added[has], initial=0.0))


def row(one: Outcome) -> list[str]:
    """Return the cells of a setting."""
    return [
        one.setting.name,
        f"{one.run.n_moved}, {one.run.n_reclustered}",
        f"{interval(one.corrected.regret)}, {one.corrected.event}",
        f"{one.corrected.bound:.3g}",
        f"{one.corrected.share:.2g}",
        f"{one.late.share:.2g}",
        f"{interval(one.printed.regret)}, {one.printed.event}",
        f"{one.printed.bound:.3g}",
        f"{one.printed.share:.2g}",
        one.printed.verdict,
        f"{one.regapped.verdict} ({one.regapped.share:.2g})",
    ]


def interval(one: Estimate) -> str:
    """Return a mean and the ends of its interval.

    Examples
    --------
    >>> interval(estimate([1.0, 1.0]))
    '1 [1, 1]'
    """
    if one.half_width is None:
        return f"{one.mean:.3g}"
    return f"{one.mean:.3g} [{one.mean - one.half_width:.3g}, {one.mean + one.half_width:.3g}]"


def check_rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return for each assumption the setting that comes nearest to breaking it."""
    lines = [["assumption", "measured", "allowed", "in", ""]]
    for index, check in enumerate(outcomes[0].checks):
        nearest = max(outcomes, key=lambda one: one.checks[index].measured / (one.checks[index].allowed or 1.0))
        found = nearest.checks[index]
        met = all(one.checks[index].holds for one in outcomes)
        words = "BROKEN" if not met else "by construction" if check.by_construction else "met in all settings"
        lines.append([check.name, f"{found.measured:.4g}", f"{found.allowed:.4g}", nearest.setting.name, words])
    return lines
