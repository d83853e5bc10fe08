"""Stage 9: which clients train in a round.

To add a way, write a frozen dataclass with the verb of :class:`Selector` and name it in ``SELECTORS``;
``tests/conformance/test_selectors.py`` then checks it with all the others. One that learns from training also has the
verbs of :class:`Learner`; what it remembers is kept by :class:`Selection`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fielding._options import check_options, options_of
from fielding._typing import Json
from fielding.errors import unknown_name
from fielding.federation.selection.nearest import Nearest
from fielding.federation.selection.oort import Oort
from fielding.federation.selection.pyramidfl import PyramidFL
from fielding.federation.selection.selection import Selection
from fielding.federation.selection.selector import Candidates, Feedback, Known, Learner, Selector, Tuner, Uniform

SELECTORS: dict[str, Callable[..., Selector]] = {
    "uniform": Uniform,
    "oort": Oort,
    "nearest": Nearest,
    "pyramidfl": PyramidFL,
}
"""Every selector by the name that configs use."""

__all__ = [
    "SELECTORS",
    "Candidates",
    "Feedback",
    "Known",
    "Learner",
    "Nearest",
    "Oort",
    "PyramidFL",
    "Selection",
    "Selector",
    "Tuner",
    "Uniform",
    "selector_named",
    "selector_options",
]


def selector_options(name: str) -> dict[str, Json]:
    """Return the options of a selector with their defaults; those of a selector that it builds on stand among them.

    Examples
    --------
    >>> selector_options("nearest")
    {'pool': 2.0}
    """
    if name not in SELECTORS:
        raise unknown_name("selection", name, SELECTORS)
    known: dict[str, Json] = {}
    for option, default in options_of(SELECTORS[name]).items():
        known |= selector_options("oort") if isinstance(default, Oort) else {option: default}
    return known


def selector_named(name: str, options: Mapping[str, Json] | None = None) -> Selector:
    """Return a selector by name.

    Examples
    --------
    >>> selector_named("nearest", {"pool": 3.0})
    Nearest(pool=3.0)
    """
    values: dict[str, Any] = dict(options or {})
    check_options(f"selection {name!r}", values, selector_options(name))
    for option, default in options_of(SELECTORS[name]).items():
        if isinstance(default, Oort):
            inner = {one: values.pop(one) for one in selector_options("oort") if one in values}
            values[option] = Oort(**inner)
    return SELECTORS[name](**values)
