"""How fast the clients of a cluster train, decided at the server from what training did before.

To add a pace, write a frozen dataclass with the verbs of :class:`Pace` and name it in ``fielding.config.parts``;
``tests/conformance/test_paces.py`` then checks it with all the others.
"""

from collections.abc import Callable, Mapping

from fielding._typing import Json
from fielding.config.parts import Family
from fielding.federation.pace.pace import LEAST_FACTOR, Memory, Pace, PaceStep, Steady, mix_memory

PACES: Family[Callable[..., Pace]] = Family("pace")  # every pace by the name that configs use

__all__ = ["LEAST_FACTOR", "PACES", "Memory", "Pace", "PaceStep", "Steady", "mix_memory", "pace_named"]


def pace_named(name: str, options: Mapping[str, Json] | None = None, *, seed: int = 0) -> Pace:
    """Return a pace by name; the seed of the run is for paces that draw lots."""
    made: Pace = PACES.make(name, options, seed=seed)
    return made
