"""Every representation by name, and the names of combinations."""

import inspect
from collections.abc import Mapping

from fielding._typing import Json
from fielding.client.representation.combination import Combination, Part
from fielding.client.representation.representation import Representation
from fielding.config.options import check_options, options_of
from fielding.config.parts import Family
from fielding.errors import OptionError, echo, unknown_name

REPRESENTATIONS: Family[type[Representation]] = Family("representation")
"""Every representation, by the name that configs and commands use."""


def representation_named(text: str, options: Mapping[str, Json] | None = None) -> Representation:
    """Return a representation by name, or a combination of several; raise if a name or an option is unknown.

    Of a combination, names joined by ``+`` and each perhaps with a weight, every part takes the options that it has.

    Examples
    --------
    >>> representation_named("confusion", {"shrink": 1.0})
    Confusion(shrink=1.0)
    >>> [part.weight for part in representation_named("embedding + 2*confusion").parts]
    [1.0, 2.0]
    """
    terms, values = _parse_terms(text), dict(options or {})
    check_options(f"representation {text!r}", values, representation_options(text))
    made = []
    for name, weight in terms:
        family = REPRESENTATIONS[name]
        own = {option: value for option, value in values.items() if option in options_of(family)}
        made.append(Part(representation=family(**own), weight=weight))
    parts = tuple(made)
    # Alone, a weight would change every distance alike and no comparison of two.
    return parts[0].representation if len(parts) == 1 else Combination(parts=parts)


def representation_options(text: str) -> dict[str, Json]:
    """Return the options of a representation with their defaults; those of a combination are its parts'."""
    known: dict[str, Json] = {}
    for name, _ in _parse_terms(text):
        # The first part's default stands: the value matters only where it is printed.
        known = options_of(REPRESENTATIONS[name]) | known
    return known


def representation_summary(name: str) -> str:
    """Return one line that says what a representation is."""
    if name not in REPRESENTATIONS:
        raise unknown_name("representation", name, REPRESENTATIONS)
    return (inspect.getdoc(REPRESENTATIONS[name]) or "").partition("\n")[0]


def _parse_terms(text: object) -> list[tuple[str, float]]:
    """Return names and weights of a text such as ``embedding+2*confusion``."""
    if not isinstance(text, str):
        raise unknown_name("representation", text, REPRESENTATIONS)
    terms = []
    for term in text.split("+"):
        weight, star, name = (part.strip() for part in term.rpartition("*"))
        if name not in REPRESENTATIONS:
            raise unknown_name("representation", name, REPRESENTATIONS)
        try:
            terms.append((name, float(weight) if star else 1.0))
        except ValueError:
            raise OptionError(f"weight of {name!r} is {echo(weight)}; write for example 2*{name}") from None
    names = [name for name, _ in terms]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"representation {echo(text)} names {name!r} twice; give it once, with a weight")
    return terms
