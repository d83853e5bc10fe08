"""Stage 9: which clients train in a round.

To add a way, write a frozen dataclass with the verb of :class:`Selector` and name it in a config as ``module:Class``.
One that learns from training also has the verbs of :class:`Learner`; what it remembers is kept by :class:`Selection`.
One that comes with Fielding is named in ``fielding.config.parts``; ``tests/conformance/test_selectors.py`` then checks
it with all the others.
"""

from collections.abc import Callable, Mapping

from fielding._typing import Json
from fielding.config.parts import Family, check_members
from fielding.federation.selection.selection import Selection
from fielding.federation.selection.selector import Candidates, Feedback, Known, Learner, Selector, Tuner, Uniform

SELECTORS: Family[Callable[..., Selector]] = Family("selection")  # every selector by the name that configs use

__all__ = [
    "SELECTORS",
    "Candidates",
    "Feedback",
    "Known",
    "Learner",
    "Selection",
    "Selector",
    "Tuner",
    "Uniform",
    "selector_named",
]


def selector_named(name: str, options: Mapping[str, Json] | None = None) -> Selector:
    """Return a selector by name, or by ``module:Class`` one of the user's own."""
    made: Selector = SELECTORS.make(name, options)
    check_members(made, Selector, name)
    return made
