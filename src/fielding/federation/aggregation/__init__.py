"""Stage 11: how the models of participants become one."""

from collections.abc import Callable

from fielding.errors import unknown_name
from fielding.federation.aggregation.aggregator import Aggregator
from fielding.federation.aggregation.mean import Mean

AGGREGATORS: dict[str, Callable[[], Aggregator]] = {"mean": Mean}
"""Every aggregator by the name that configs use."""

__all__ = ["AGGREGATORS", "Aggregator", "Mean", "aggregator_named"]


def aggregator_named(name: str) -> Aggregator:
    """Return an aggregator by name."""
    if name not in AGGREGATORS:
        raise unknown_name("aggregation", name, AGGREGATORS)
    return AGGREGATORS[name]()
