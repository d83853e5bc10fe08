"""Stage 9: who trains in a round."""

from collections.abc import Callable

from fielding.errors import unknown_name
from fielding.federation.selection.selector import Candidates, Selector
from fielding.federation.selection.uniform import Uniform

SELECTORS: dict[str, Callable[[], Selector]] = {"uniform": Uniform}
"""Every selector by the name that configs use."""

__all__ = ["SELECTORS", "Candidates", "Selector", "Uniform", "selector_named"]


def selector_named(name: str) -> Selector:
    """Return a selector by name."""
    if name not in SELECTORS:
        raise unknown_name("selection", name, SELECTORS)
    return SELECTORS[name]()
