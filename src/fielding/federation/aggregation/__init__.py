"""Stage 11: how the models of participants become one.

To add a way, write a frozen dataclass with the verb of :class:`Aggregator` and name it in ``AGGREGATORS``;
``tests/conformance/test_aggregators.py`` then checks it with all the others.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fielding._options import check_options, options_of
from fielding._typing import Json
from fielding.errors import unknown_name
from fielding.federation.aggregation.adaptive import Adaptive
from fielding.federation.aggregation.aggregator import Aggregator, Mean, Uploads
from fielding.federation.aggregation.fair import QFedAvg
from fielding.federation.aggregation.flash import Flash
from fielding.federation.aggregation.robust import Median, MultiKrum, NormClipping, TrimmedMean

AGGREGATORS: dict[str, Callable[..., Aggregator]] = {
    "mean": Mean,
    "fedadagrad": partial(Adaptive, rule="adagrad", eta=0.1, beta1=0.0),
    "fedadam": partial(Adaptive, rule="adam"),
    "fedyogi": partial(Adaptive, rule="yogi"),
    "flash": Flash,
    "q-fedavg": QFedAvg,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "norm-clipping": NormClipping,
    "multi-krum": MultiKrum,
}
"""Every aggregator by the name that configs use."""

__all__ = [
    "AGGREGATORS",
    "Adaptive",
    "Aggregator",
    "Flash",
    "Mean",
    "Median",
    "MultiKrum",
    "NormClipping",
    "QFedAvg",
    "TrimmedMean",
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
