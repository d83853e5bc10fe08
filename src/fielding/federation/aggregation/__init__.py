"""Stage 11: how the models of participants become one.

To add a way, write a frozen dataclass with the verb of :class:`Aggregator` and name it in ``fielding.config.parts``;
``tests/conformance/test_aggregators.py`` then checks it with all the others.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fielding._typing import Json
from fielding.config.options import check_options, options_of
from fielding.config.parts import Family
from fielding.errors import unknown_name
from fielding.federation.aggregation.aggregator import Aggregator, Mean, Uploads

AGGREGATORS: Family[Callable[..., Aggregator]] = Family("aggregation")
"""Every aggregator by the name that configs use."""

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Mean",
    "Uploads",
    "aggregator_named",
    "aggregator_options",
]


def aggregator_options(name: str) -> dict[str, Json]:
    """Return the options of an aggregator with their defaults.

    Examples
    --------
    >>> aggregator_options("trimmed-mean")
    {'share': 0.2}
    """
    if name not in AGGREGATORS:
        raise unknown_name("aggregation", name, AGGREGATORS)
    return options_of(AGGREGATORS[name], hidden=["rule"])


def aggregator_named(name: str, options: Mapping[str, Json] | None = None) -> Aggregator:
    """Return an aggregator by name.

    Examples
    --------
    >>> aggregator_named("q-fedavg", {"q": 2.0})
    QFedAvg(q=2.0)
    """
    values: dict[str, Any] = dict(options or {})
    check_options(f"aggregation {name!r}", values, aggregator_options(name))
    return AGGREGATORS[name](**values)
