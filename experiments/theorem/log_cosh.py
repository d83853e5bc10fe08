"""Two runs that meet the paper's assumptions for all x, have no chance in them, and exceed its printed bound.

f_a(x) = mu/2 x^2 + b log cosh(x - a) on a line; a client is represented by its a, and every client is a cluster of its
own: Delta and sigma are 0. docs/theory.md has the proof that the assumptions are met; here is what the runs come to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.theorem.bounds import corrected_bound, printed_bound
from experiments.theorem.quadratics import ROOM
from experiments.theorem.settings import Setting
from fielding._typing import Matrix, Vector

EXAMPLE_HEAD = (
    "example",
    "event",
    "regret",
    "printed bound",
    "regret / printed bound",
    "corrected bound",
    "largest share of it at any event",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCosh:
    """The objectives f_a(x) = mu/2 x^2 + b log cosh(x - a).

    The second derivative mu + b / cosh(x - a)^2 lies between mu and mu + b = L, and since log cosh has slopes between
    -1 and 1, |f_a(x) - f_s(x)| <= b |a - s| for every x: theta is b.

    Parameters
    ----------
    convexity
        mu.
    pull
        b.
    """

    convexity: float
    pull: float

    def values(self, models: Vector, places: Vector) -> Vector:
        """Return f_a(x) for every pair; log cosh z is log((e^z + e^-z) / 2), without overflow.

        Examples
        --------
        >>> LogCosh(convexity=0.2, pull=0.8).values(np.array([0.0, 2.0]), np.array([0.0, 2.0])).round(12).tolist()
        [0.0, 0.4]
        """
        apart = models - places
        return np.asarray(0.5 * self.convexity * models**2 + self.pull * (np.logaddexp(apart, -apart) - np.log(2.0)))

    def slopes(self, models: Vector, places: Vector) -> Vector:
        """Return the derivative of f_a at x for every pair."""
        return np.asarray(self.convexity * models + self.pull * np.tanh(models - places))

    def minimizers(self, places: Vector) -> Vector:
        """Return the minimizer of every f_a, which lies between 0 and a, by halving that interval until it is a point.

        Examples
        --------
        >>> LogCosh(convexity=0.2, pull=0.8).minimizers(np.array([-1.0, 0.0, 1.0])).round(4).tolist()
        [-0.7978, 0.0, 0.7978]
        """
        near, far = np.zeros_like(places), places.copy()
        for _ in range(80):
            middle = (near + far) / 2.0
            beyond = self.slopes(middle, places) * np.sign(places) > 0.0
            near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
        return near


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Example:
    """A run and what bounds it.

    Parameters
    ----------
    setting
        The knobs; its curvatures are mu and L, its spread and sigma 0.
    regrets
        The mean over clients after each event, shape ``(n_events,)``.
    printed, corrected
        The bounds on it, same shape.
    """

    setting: Setting
    regrets: Vector
    printed: Vector
    corrected: Vector

    @property
    def worst(self) -> int:
        """The event at which the printed bound is exceeded most."""
        return int(np.argmax(self.regrets - self.printed))

    @property
    def holds(self) -> bool:
        """Whether the corrected bound holds at every event, up to rounding."""
        return bool((self.regrets <= self.corrected * ROOM + 1e-12).all())


def example(setting: Setting, places: Matrix) -> Example:
    """Run clients that are clusters of their own, all from x_0 = 0, by plain gradient descent.

    Parameters
    ----------
    setting
        The knobs.
    places
        a of each client at each event, shape ``(n_events, n_clients)``. At event 0 they must be symmetric about 0, so
        that x_0 = 0 is the best single model.
    """
    objective = LogCosh(convexity=setting.convexity, pull=setting.smoothness - setting.convexity)
    models, regrets = np.zeros(places.shape[1]), []
    for at in places:
        for _ in range(setting.n_rounds):
            models = models - setting.step * objective.slopes(models, at)
        regrets.append(_gap(objective, models, at))
    first = _gap(objective, np.zeros(places.shape[1]), places[0])
    return Example(
        setting=setting,
        regrets=np.array(regrets),
        printed=printed_bound(setting, theta=objective.pull, gap=0.0),
        corrected=corrected_bound(setting, theta=objective.pull, gap=first, width=0.0),
    )


def _gap(objective: LogCosh, models: Vector, places: Vector) -> float:
    """Return how far the models are from the best ones of their clusters, in the mean over clients."""
    best = objective.minimizers(places)
    return float((objective.values(models, places) - objective.values(best, places)).mean())


def examples() -> list[Example]:
    """Return the first gap (two clients at 1 and -1 that stay there) and the drift (one client, 0.1 per event)."""
    still = Setting(
        name="first gap, eta L = 0.05", eta_l=0.05, spread=0.0, drift=0.0, per_cluster=1, sigma=0.0, curvatures=(0.2, 1)
    )
    moving = replace(still, name="drift, eta L = 0.01", eta_l=0.01, drift=0.1)
    drifting = [
        moving,
        replace(moving, name="drift, eta L = 0.002", eta_l=0.002),
        replace(moving, name="drift, eta L = 0.2", eta_l=0.2),
        replace(moving, name="drift, eta L = 0.2, losses times 1000", eta_l=0.2, scale=1000.0),
    ]
    apart = np.tile([1.0, -1.0], (still.n_events, 1))
    return [example(still, apart), *(example(one, along(one)) for one in drifting)]


def along(setting: Setting) -> Matrix:
    """Return the places of one client that starts at 0 and moves by delta at each event."""
    return np.asarray(setting.drift * np.arange(setting.n_events, dtype=np.float64)[:, None])


def example_rows(found: Sequence[Example]) -> list[list[str]]:
    """Return the head and a row for each example."""
    return [list(EXAMPLE_HEAD), *map(_row, found)]


def _row(one: Example) -> list[str]:
    event = one.worst
    regret, bound = one.regrets[event], one.printed[event]
    positive = (
        one.corrected > 0.0
    )  # where it is 0, at the first event of a client that starts at its best, so is regret
    return [
        one.setting.name,
        str(event),
        f"{regret:.3g}",
        f"{bound:.3g}",
        f"{regret / bound:.3g}" if bound else "infinite",
        f"{one.corrected[event]:.3g}",
        f"{(one.regrets[positive] / one.corrected[positive]).max():.2g}",
    ]
