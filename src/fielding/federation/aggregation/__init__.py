"""Stage 11: how the models of participants become one.

To add a way, write a frozen dataclass with the verb of :class:`Aggregator` and name it in a config as ``module:Class``.
One that comes with Fielding is named in ``fielding.config.parts``; ``tests/conformance/test_aggregators.py`` then
checks it with all the others.
"""

from collections.abc import Callable, Mapping

from fielding._typing import Json
from fielding.config.parts import Family, check_members
from fielding.federation.aggregation.aggregator import Aggregator, Mean, Uploads

AGGREGATORS: Family[Callable[..., Aggregator]] = Family("aggregation")  # every aggregator by the name that configs use

__all__ = ["AGGREGATORS", "Aggregator", "Mean", "Uploads", "aggregator_named"]


def aggregator_named(name: str, options: Mapping[str, Json] | None = None) -> Aggregator:
    """Return an aggregator by name, or by ``module:Class`` one of the user's own."""
    made: Aggregator = AGGREGATORS.make(name, options)
    check_members(made, Aggregator, name)
    return made
