"""What is run: one set of values for every knob of the theorem, and sweeps that turn one knob at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

N_CLUSTERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The knobs of the theorem.

    Parameters
    ----------
    name
        What the table calls it.
    eta_l
        The step times the smoothness, eta L: above 0, at most 1.
    spread
        The paper's Delta: groups have at most this diameter, and a cluster with a wider pair is grouped anew.
    drift
        The paper's delta: how far a representation moves per event at most.
    per_cluster
        M / K: clients sampled per round in each cluster.
    n_rounds
        R: rounds per event.
    n_events
        T.
    sigma
        Standard deviation of a stochastic gradient, for objectives of scale 1.
    scale
        All objectives are multiplied by this: other units, nothing else.
    n_clients
        N.
    curvatures
        Eigenvalues of the Hessian at scale 1, lowest first: mu, ..., L.
    start
        "optimum": x_0 minimizes the mean of all objectives; "away": it lies two units off in every coordinate.
    order
        "kept": a client that moves brings the model that it trained, as the proof has it; "moved": it takes up the
        model of the cluster that it moves to first, as the algorithm is printed.
    """

    name: str = "default"
    eta_l: float = 0.2
    spread: float = 0.2
    drift: float = 0.1
    per_cluster: int = 4
    n_rounds: int = 10
    n_events: int = 60
    sigma: float = 0.2
    scale: float = 1.0
    n_clients: int = 60
    curvatures: tuple[float, ...] = (0.2, 0.5, 1.0)
    start: str = "optimum"
    order: str = "kept"

    @property
    def smoothness(self) -> float:
        """L."""
        return self.scale * max(self.curvatures)

    @property
    def convexity(self) -> float:
        """Mu."""
        return self.scale * min(self.curvatures)

    @property
    def step(self) -> float:
        """Eta."""
        return self.eta_l / self.smoothness

    @property
    def kept_share(self) -> float:
        """What is left of a gap after the rounds of one event, (1 - eta mu)^R: the q of docs/theory.md."""
        return float((1.0 - self.step * self.convexity) ** self.n_rounds)

    @property
    def variance(self) -> float:
        """Variance of a stochastic gradient, sigma squared, at this scale."""
        return float((self.scale * self.sigma) ** 2)


SWEEPS: dict[str, Sequence[float | int | str]] = {
    "eta_l": (1.0, 0.5, 0.05, 0.01, 0.002),
    "spread": (0.02, 0.05, 0.4, 0.8),
    "drift": (0.0, 0.02, 0.05, 0.2, 0.4),
    "per_cluster": (1, 2, 16, 64),
    "n_rounds": (1, 3, 30, 100),
    "scale": (10.0, 1000.0),
    "sigma": (0.0, 1.0, 4.0),
    "start": ("away",),
    "order": ("moved",),
}
"""The other values of each knob; all else stays at its default."""

NOTATION = {
    "eta_l": "eta L",
    "spread": "Delta",
    "drift": "delta",
    "per_cluster": "M/K",
    "n_rounds": "R",
    "scale": "scale",
    "sigma": "sigma",
    "start": "start",
    "order": "order",
}

QUIET = Setting(name="quiet", sigma=0.0, spread=0.02, per_cluster=64, eta_l=0.05)
"""Hardly any noise and hardly any spread: what remains is the lag behind the drift."""


def settings() -> list[Setting]:
    """Return every setting of the full experiment."""
    turned = [
        replace(Setting(), name=f"{NOTATION[knob]} = {value}", **{knob: value})  # type: ignore[arg-type]
        for knob, values in SWEEPS.items()
        for value in values
    ]
    quiet = [
        QUIET,
        replace(QUIET, name="quiet, delta = 0.4", drift=0.4),
        replace(QUIET, name="quiet, R = 1", n_rounds=1),
        replace(QUIET, name="quiet, scale = 10", scale=10.0),
        replace(QUIET, name="quiet, scale = 10, delta = 0.4, R = 3", scale=10.0, drift=0.4, n_rounds=3),
        replace(QUIET, name="quiet, eta L = 0.002, delta = 0.4", eta_l=0.002, drift=0.4),
        replace(QUIET, name="quiet, delta = 0", drift=0.0),
        replace(QUIET, name="quiet, order = moved", order="moved"),
    ]
    return [Setting(), *turned, *quiet]


def quick_settings() -> list[Setting]:
    """Return a handful of short settings that touch both orders, both starts and a violation of the printed bound."""
    base = Setting(n_events=30)
    return [
        base,
        replace(base, name="eta L = 0.01", eta_l=0.01),
        replace(base, name="start = away", start="away"),
        replace(base, name="order = moved", order="moved"),
        replace(QUIET, name="quiet, scale = 10", n_events=60, scale=10.0),
    ]
