"""Drift scenarios: ways to deal any pool of labelled samples to clients whose data differ and drift.

To add one, write a frozen dataclass with the verb of :class:`Scenario`, a default for every field, and name it in
``fielding.config.parts``; ``tests/conformance/test_scenarios.py`` then checks it with all the others.
"""

from collections.abc import Mapping

from fielding._typing import Json
from fielding.config.parts import Family
from fielding.traces.pool import Pool
from fielding.traces.scenarios.scenario import DealRequest, Scenario
from fielding.traces.schedule import Schedule

__all__ = [
    "SCENARIOS",
    "DealRequest",
    "Scenario",
    "deal",
    "scenario_named",
    "scenario_options",
]

SCENARIOS: Family[type[Scenario]] = Family("scenario")
"""Every scenario, by the name that configs use; ``natural`` is none of them, since it deals nothing."""


def scenario_options(name: str) -> dict[str, Json]:
    """Return the options of a scenario with their defaults."""
    return SCENARIOS.options(name)


def scenario_named(name: str, options: Mapping[str, Json] | None = None) -> Scenario:
    """Return the scenario of this name.

    ``options`` that are missing keep their defaults; an unknown name or option, or a value that is not allowed, raises.

    Examples
    --------
    >>> scenario_named("places", {"share": 0.1})
    Places(places=4, alpha=0.5, share=0.1, at_first=0, looks=True)
    """
    made: Scenario = SCENARIOS.make(name, options)
    return made


def deal(
    name: str, pool: Pool, request: DealRequest, *, seed: int, options: Mapping[str, Json] | None = None
) -> Schedule:
    """Return the schedule that a scenario deals; short for ``scenario_named(name, options).deal(...)``."""
    return scenario_named(name, options).deal(pool, request, seed=seed)
