"""The problem: quadratics of one shape whose minimizers drift in groups, and a numerical check of every assumption.

f_i^t(w) = 1/2 (w - a_i^t)' H (w - a_i^t) with diagonal H. A client is represented by its minimizer; distances are L1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.theorem.settings import Setting
from fielding._typing import Codes, Matrix, Vector
from fielding.rng import stream

Tensor = npt.NDArray[np.float64]
"""Three or more axes."""

ROOM = 1.0 + 1e-9
"""What rounding may add to a ratio that must not exceed 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quadratics:
    """Objectives of all clients at all events.

    Parameters
    ----------
    hessian
        The diagonal of H, shape ``(n_features,)``.
    minimizers
        a_i^t, also the representations, shape ``(n_events, n_clients, n_features)``.
    groups
        The group that each client belongs to, shape ``(n_events, n_clients)``: A5 of docs/theory.md.
    start
        x_0, shape ``(n_features,)``.
    low, high
        The box W that neither minimizers nor iterates ever leave, shape ``(n_features,)``.
    theta
        No difference of two objectives in W exceeds this times the distance of their representations.
    """

    hessian: Vector
    minimizers: Tensor
    groups: Codes
    start: Vector
    low: Vector
    high: Vector
    theta: float

    def gaps(self, models: Tensor, targets: Tensor) -> Tensor:
        """Return 1/2 (w - a)' H (w - a) over the last axis."""
        return np.asarray(0.5 * ((models - targets) ** 2) @ self.hessian)


def quadratics(setting: Setting) -> Quadratics:
    """Return the objectives of a setting.

    Clients belong to four teams. Teams 0 and 1 part and meet again while 2 and 3 are together, then the other way
    round: there are never more than three places, but which teams share one changes. Teams that are together
    exchange clients. Within its team a client strolls about.
    """
    groups = np.empty((setting.n_events, setting.n_clients), dtype=np.int32)
    minimizers = np.empty((setting.n_events, setting.n_clients, 3))
    team, offsets = np.arange(setting.n_clients, dtype=np.int32) % 4, _in_ball(setting, 0)
    for event in range(setting.n_events):
        first_pair, second_pair = _openings(0.5 + 0.8 * setting.drift * event)
        team = _exchanged(team, event, ((first_pair == 0.0, 0), (second_pair == 0.0, 2)))
        places = np.array(
            [[first_pair, 0, 0], [-first_pair, 0, 0], [0, 1.5, second_pair], [0, 1.5, -second_pair]], dtype=np.float64
        )
        if event:
            offsets = _toward(offsets, _in_ball(setting, event), 0.2 * setting.drift)
        groups[event] = np.array([0, 1, 2, 2] if second_pair == 0.0 else [0, 0, 1, 2], dtype=np.int32)[team]
        minimizers[event] = places[team] + offsets
    return _boxed(setting, groups, minimizers)


def _openings(path: float) -> tuple[float, float]:
    """Return how far the teams of each pair are from their common place after a path of this length.

    Examples
    --------
    >>> _openings(0.5), _openings(1.5), _openings(3.0)
    ((0.5, 0.0), (0.5, 0.0), (0.0, 1.0))
    """
    along = path % 4.0
    opened = 1.0 - abs(along % 2.0 - 1.0)
    return (opened, 0.0) if along < 2.0 else (0.0, opened)


def _exchanged(team: Codes, event: int, pairs: tuple[tuple[bool, int], ...]) -> Codes:
    """Return the teams after some clients of pairs that are together changed sides."""
    chosen = stream(0, "theorem-drift", event).random(team.size) < 0.05
    for together, low in pairs:
        changes = chosen & together & ((team == low) | (team == low + 1))
        team = np.where(changes, 2 * low + 1 - team, team).astype(np.int32)
    return team


def _in_ball(setting: Setting, event: int) -> Matrix:
    """Return a point for each client whose L1 norm is at most half the spread."""
    rng = stream(0, "theorem-offsets", event)
    raw = rng.uniform(-1.0, 1.0, (setting.n_clients, 3))
    norms = np.abs(raw).sum(axis=1, keepdims=True)
    return np.asarray(raw / norms * rng.random((setting.n_clients, 1)) * setting.spread / 2.0)


def _toward(offsets: Matrix, targets: Matrix, most: float) -> Matrix:
    """Return the offsets after a walk toward the targets of at most this L1 length: the ball is convex."""
    ways = np.abs(targets - offsets).sum(axis=1, keepdims=True)
    return np.asarray(offsets + np.minimum(1.0, most / np.maximum(ways, 1e-300)) * (targets - offsets))


def _boxed(setting: Setting, groups: Codes, minimizers: Tensor) -> Quadratics:
    """Return the problem with its box and theta."""
    hessian = setting.scale * np.array(setting.curvatures)
    start = minimizers[0].mean(axis=0) + (2.0 if setting.start == "away" else 0.0)
    lowest, highest = minimizers.min(axis=(0, 1)), minimizers.max(axis=(0, 1))
    # A round takes w to (1 - eta h) w + eta h a + eta noise: the noise cannot carry it farther out than noise / h.
    noise = setting.scale * setting.sigma / np.sqrt(hessian.size) / hessian
    low, high = np.minimum(lowest - noise, start), np.maximum(highest + noise, start)
    # f_i(w) - f_j(w) = sum of h (a_i - a_j) ((a_i + a_j)/2 - w), and the second factor is at most that of a corner.
    theta = float((hessian * np.maximum(high - lowest, highest - low)).max())
    return Quadratics(
        hessian=hessian, minimizers=minimizers, groups=groups, start=start, low=low, high=high, theta=theta
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One assumption.

    Parameters
    ----------
    name
        What the table calls it.
    measured, allowed
        What was found, and what it may be at most.
    by_construction
        Whether both come from the same numbers of the setting, so that little is tested.
    """

    name: str
    measured: float
    allowed: float
    by_construction: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is met, up to rounding."""
        return self.measured <= self.allowed * ROOM + 1e-12


def checks(problem: Quadratics, setting: Setting) -> list[Check]:
    """Return every assumption on objectives and representations, measured on all clients and events."""
    at = problem.minimizers
    drift = float(np.abs(np.diff(at, axis=0)).sum(axis=2).max(initial=0.0))
    same = problem.groups[:, :, None] == problem.groups[:, None, :]
    apart = np.abs(at[:, :, None] - at[:, None, :]).sum(axis=3)
    return [
        *_given(problem, setting),
        Check(name="drift <= delta", measured=drift, allowed=setting.drift),
        Check(name="diameter of the K groups <= Delta", measured=float((apart * same).max()), allowed=setting.spread),
        Check(name="objectives: difference / distance <= theta", measured=_steepest(problem), allowed=problem.theta),
        Check(
            name="gradients: squared difference / distance <= 8 L theta",
            measured=_unlike(problem),
            allowed=_gradient(problem),
        ),
    ]


def _given(problem: Quadratics, setting: Setting) -> list[Check]:
    """Return the assumptions that the setting meets by construction."""
    highest, lowest = float(problem.hessian.max()), float(problem.hessian.min())
    found = (
        ("largest eigenvalue <= L", highest, setting.smoothness),
        ("mu <= smallest eigenvalue", setting.convexity, lowest),
        ("step <= 1/L", setting.step, 1.0 / setting.smoothness),
    )
    return [Check(name=name, measured=one, allowed=most, by_construction=True) for name, one, most in found]


def _pairs(problem: Quadratics) -> list[tuple[Tensor, Tensor]]:
    """Return pairs of representations: all of an event, a client and itself one event later, clients of two events."""
    at = problem.minimizers
    return [(at[:, :, None], at[:, None, :]), (at[1:], at[:-1]), (at[: len(at) // 2], at[-(len(at) // 2) :, ::-1])]


def _steepest(problem: Quadratics) -> float:
    """Return the largest difference of two objectives anywhere in W, per distance of their representations."""
    largest = 0.0
    for left, right in _pairs(problem):
        middle, apart = (left + right) / 2.0, np.abs(left - right)
        corner = np.maximum(problem.high - middle, middle - problem.low)
        differences = (apart * corner) @ problem.hessian
        distances = apart.sum(axis=-1)
        largest = max(largest, _ratio(differences, distances))
    return largest


def _unlike(problem: Quadratics) -> float:
    """Return the largest squared difference of two gradients, which is the same everywhere, per distance."""
    return max(
        _ratio((((left - right) * problem.hessian) ** 2).sum(axis=-1), np.abs(left - right).sum(axis=-1))
        for left, right in _pairs(problem)
    )


def _gradient(problem: Quadratics) -> float:
    return 8.0 * float(problem.hessian.max()) * problem.theta


def _ratio(values: Tensor, distances: Tensor) -> float:
    apart = distances > 1e-12
    return float((values[apart] / distances[apart]).max(initial=0.0))
