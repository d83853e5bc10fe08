"""Whom each variant of a comparison is held against: the reference method with the same other settings."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from fielding._typing import Json

Settings: TypeAlias = Mapping[str, Json]
"""What tells a variant from others, by dotted key of the config."""
METHOD = "method.name"
BASELINE = "global"
"""The method whose final accuracy is the target, and that others are held against, if there is one of that name."""


def references(variants: Mapping[str, Settings], reference: str | None) -> dict[str, str | None]:
    """Return by name whom each variant is held against; one that others are held against has its own name.

    A variant is held against the variant of the reference's method that agrees with it in all other settings: with two
    drift scenarios, each against the reference method on the same scenario. Settings that the reference method does not
    have do not matter. Without such a variant, it is the reference itself.

    Parameters
    ----------
    variants
        What each is set to; nothing if that is not known.
    reference
        The name of the reference; None if there is nothing to be held against.

    Examples
    --------
    >>> names = {f"{method} {data}": {METHOD: method, "trace.scenario": data}
    ...          for method in ("global", "ifca") for data in ("places", "static")}
    >>> references(names, "global places")["ifca static"]
    'global static'
    """
    method = variants.get(reference or "", {}).get(METHOD)
    if reference is None or method is None:
        return dict.fromkeys(variants, reference)
    others = {
        name: counterpart(variants, name, str(method)) or reference
        for name, settings in variants.items()
        if settings.get(METHOD) != method
    }
    own = {*others.values(), reference}
    # A variant of the reference's method that nobody is held against is one more value of what is varied.
    return {name: others.get(name, name if name in own else reference) for name in variants}


def targets(variants: Mapping[str, Settings], reference: str | None) -> dict[str, str | None]:
    """Return by name whose final accuracy each variant is to reach.

    That of ``global`` with the same other settings; where there is no such method, that of whom it is held against.

    Examples
    --------
    >>> targets({"ifca": {}, "global": {}}, "ifca")
    {'ifca': 'global', 'global': 'global'}
    """
    baselines = _baselines(variants)
    if reference is None or not baselines or reference in baselines:
        return references(variants, reference)
    return references(variants, baselines[0])


def counterpart(variants: Mapping[str, Settings], name: str, method: str) -> str | None:
    """Return the variant of a method whose settings are all those of a variant too; of several the one with most.

    None if there is none.
    """
    own = _besides_method(variants.get(name, {}))
    fitting = {
        other: len(theirs)
        for other, settings in variants.items()
        if settings.get(METHOD) == method and (theirs := _besides_method(settings)).items() <= own.items()
    }
    return max(fitting, key=lambda other: fitting[other]) if fitting else None


def first_reference(variants: Mapping[str, Settings], wanted: Iterable[str]) -> str | None:
    """Return who others are held against: one of those wanted, else ``global`` or a variant of it, else the first.

    None for fewer than two.

    Examples
    --------
    >>> first_reference({"ifca": {}, "global": {}}, []), first_reference({"ifca": {}}, ["ifca"])
    ('global', None)
    """
    if len(variants) < 2:
        return None
    return next((one for one in (*wanted, *_baselines(variants)) if one in variants), next(iter(variants)))


def _baselines(variants: Mapping[str, Settings]) -> list[str]:
    """Return the variants of ``global``, the one of that name first."""
    found = [name for name, settings in variants.items() if settings.get(METHOD) == BASELINE]
    return [BASELINE, *found] if BASELINE in variants else found


def _besides_method(settings: Settings) -> dict[str, Json]:
    return {key: value for key, value in settings.items() if key != METHOD and value is not None}
