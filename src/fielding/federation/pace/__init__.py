"""How fast the clients of a cluster train, decided at the server from what training did before.

To add a pace, write a frozen dataclass with the verbs of :class:`Pace` and name it in ``PACES``;
``tests/conformance/test_paces.py`` then checks it with all the others.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fielding._options import check_options, options_of
from fielding._typing import Json
from fielding.errors import unknown_name
from fielding.federation.pace.adaptive_rate import AdaptiveRate
from fielding.federation.pace.pace import LEAST_FACTOR, Memory, Pace, PaceStep, Steady, mix_memory
from fielding.federation.pace.restarts import Restarts

PACES: dict[str, Callable[..., Pace]] = {"steady": Steady, "adaptive": AdaptiveRate, "master-fl": Restarts}
"""Every pace by the name that configs use."""

__all__ = [
    "LEAST_FACTOR",
    "PACES",
    "AdaptiveRate",
    "Memory",
    "Pace",
    "PaceStep",
    "Restarts",
    "Steady",
    "mix_memory",
    "pace_named",
    "pace_options",
]


def pace_options(name: str) -> dict[str, Json]:
    """Return the options of a pace with their defaults; the seed is that of the run and no option.

    Examples
    --------
    >>> pace_options("master-fl")
    {'longest': 64, 'errors': 2.0, 'reset_model': False}
    """
    if name not in PACES:
        raise unknown_name("pace", name, PACES)
    return options_of(PACES[name], hidden=["seed"])


def pace_named(name: str, options: Mapping[str, Json] | None = None, *, seed: int = 0) -> Pace:
    """Return a pace by name.

    Parameters
    ----------
    name
        One of ``PACES``.
    options
        What differs from :func:`pace_options`.
    seed
        Of the run, for paces that draw lots.

    Examples
    --------
    >>> pace_named("master-fl", {"longest": 32}, seed=7)
    Restarts(longest=32, errors=2.0, reset_model=False, seed=7)
    """
    values: dict[str, Any] = dict(options or {})
    check_options(f"pace {name!r}", values, pace_options(name))
    if "seed" in options_of(PACES[name]):
        values["seed"] = seed
    return PACES[name](**values)
