"""Whether groups can be held against each other: only on the same data, and over as many rounds."""

import json
from collections.abc import Iterable, Mapping

from fielding.reporting.references import METHOD, Settings
from fielding.reporting.run_record import RunRecord

Terms = Mapping[str, str]
"""By group, the section ``[trace]`` of its config and its number of rounds, in one text; groups without a config have
none."""


def terms_of(runs: Iterable[RunRecord]) -> str | None:
    """Return on what terms some runs of a group were made; None if no config is known."""
    return next(
        (json.dumps([run.config.get("trace"), run.n_expected], sort_keys=True) for run in runs if run.config), None
    )


def are_alike(terms: Terms, name: str, other: str) -> bool:
    """Return whether two groups may be held against each other; those whose terms are not known may."""
    mine, theirs = terms.get(name), terms.get(other)
    return mine is None or theirs is None or mine == theirs


def held_alike(
    chosen: Mapping[str, str | None], variants: Mapping[str, Settings], terms: Terms
) -> dict[str, str | None]:
    """Return by name whom each group is held against, if that is alike; else one of the same method that is, or None.

    Parameters
    ----------
    chosen
        Whom each is to be held against; its own name if others are held against it.
    variants
        What each is set to.
    terms
        On what terms each was made.

    Examples
    --------
    >>> variants = {name: {METHOD: name.split()[0]} for name in ("ifca 9", "global 5", "global 9", "oracle 7")}
    >>> held_alike(dict.fromkeys(variants, "global 5"), variants, {name: name[-1] for name in variants})
    {'ifca 9': 'global 9', 'global 5': 'global 5', 'global 9': 'global 9', 'oracle 7': None}
    """
    found = {
        name: other if other is None or are_alike(terms, name, other) else _like(name, other, variants, terms)
        for name, other in chosen.items()
    }
    # One that nobody is held against is no reference, though it is like itself.
    others = {other for name, other in found.items() if other != name}
    changed = [name for name, other in found.items() if other == name != chosen[name] and name not in others]
    return {**found, **dict.fromkeys(changed)}


def _like(name: str, other: str, variants: Mapping[str, Settings], terms: Terms) -> str | None:
    method = variants.get(other, {}).get(METHOD)
    fitting = [
        one for one, mine in variants.items() if terms.get(one) == terms.get(name) and mine.get(METHOD) == method
    ]
    return fitting[0] if fitting and method is not None else None
