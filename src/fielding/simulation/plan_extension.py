"""A stored comparison with what is new after what it has; variants that come to the same config are one."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from fielding._typing import Json
from fielding.engine.config import CoordinatorSection
from fielding.engine.config_reader import config_from, config_table
from fielding.engine.describing import describing_of, is_own_function
from fielding.engine.factors import parse_factor
from fielding.errors import InputError, OptionError
from fielding.records.manifest import difference
from fielding.records.plan import Plan, Variant
from fielding.simulation.variants import Table, folder_name, with_settings

ANY = ("seed", "workers", "checkpoint")
"""Keys of a base config that do not tell one comparison from another."""


def check_distinct(plan: Plan) -> None:
    """Raise if two variants of a plan would be the same runs under two names.

    Raises
    ------
    InputError
        The message names both.
    """
    found: list[tuple[Variant, dict[str, Json]]] = []
    for one in plan.variants:
        config = resolved(plan.config, one)
        for other, known in found:
            if known == config:
                raise InputError(f"{other.name} and {one.name} come to the same config; leave one out")
        if config is not None:
            found.append((one, config))


def extended(stored: Plan, new: Plan, folder: Path, taken: Collection[str] = ()) -> tuple[Plan, dict[str, str]]:
    """Return a plan with what is new in another one after what it has.

    Parameters
    ----------
    stored, new
        The two.
    folder
        Where the first is stored, for messages.
    taken
        How names of run folders begin that are in use beside those of the plan.

    Returns
    -------
    The plan, and by the name of each new variant that is there already under another name, that name.

    Raises
    ------
    InputError
        If they have other base configs, or other variants by the same name.
    """
    if differing := difference(_settled(stored.config, folder), _settled(new.config, folder), "config"):
        words = differing.removeprefix("config.")
        raise InputError(f"{folder} holds a comparison of another config ({words}); name another folder")
    variants, same = list(stored.variants), {}
    configs = {one.name: resolved(new.config, one) for one in stored.variants}
    for one in new.variants:
        config = resolved(new.config, one)
        if one.name in configs:
            old = stored.variant_named(one.name)
            differing = difference(dict(old.settings), dict(one.settings), one.name)
            if differing and (config is None or config != configs[one.name]):
                raise InputError(f"{folder} holds another {one.name} ({differing}); name another folder")
        elif equal := [name for name, known in configs.items() if config is not None and known == config]:
            same[one.name] = equal[0]
        else:
            used = {*(old.folder.casefold() for old in variants), *(text.casefold() for text in taken)}
            variants.append(replace(one, folder=folder_name(one.name, used)))
    seeds = tuple(dict.fromkeys((*stored.seeds, *new.seeds)))
    return replace(stored, config=new.config, variants=tuple(variants), seeds=seeds), same


def resolved(table: Table, variant: Variant) -> dict[str, Json] | None:
    """Return all keys that the results of a variant depend on but the seed, however they were written.

    Presets and values by default count as if they were given, and 1/2 is 0.5. None if there is no such config.

    Examples
    --------
    >>> one, other = ({"coordinator.tau": tau} for tau in ("1/2", 0.5))
    >>> one, other = (Variant(name="x", folder="x", settings=settings) for settings in (one, other))
    >>> resolved({}, one) == resolved({"preset": None, "coordinator": {"metric": "l1"}}, other)
    True
    """
    try:
        config = config_from(with_settings(table, variant.settings))
        coordinator = _resolved_coordinator(config.coordinator)
    except InputError:
        return None
    whole = {**config_table(config), "coordinator": coordinator}
    return {name: value for name, value in whole.items() if name not in (*ANY, "preset")}


def _resolved_coordinator(section: CoordinatorSection) -> dict[str, Json]:
    """Return the keys of a section that are given or follow from others."""
    describing = describing_of(section, is_own=is_own_function(section), seed=0)
    given = {name: getattr(section, name) for name in section.__dataclass_fields__ if name != "options"}
    known: dict[str, Json] = {"metric": describing.metric, "detector": describing.detector}
    return {**given, **known, "tau": _as_number(section.tau), **section.options}


def _as_number(value: float | str) -> float | str:
    try:
        return parse_factor(value) if isinstance(value, str) else value
    except OptionError:  # a word, such as "learned"
        return value


def _settled(table: Table, folder: Path) -> dict[str, Json]:
    """Return all keys of a base config that tell it from others; every variant names its method itself."""
    try:
        settled = config_table(config_from(table))
    except InputError as error:
        raise InputError(f"{folder} holds a comparison of another version: {error}; name another folder") from None
    method = settled.get("method")
    options = {name: value for name, value in method.items() if name != "name"} if isinstance(method, dict) else {}
    kept = {name: value for name, value in settled.items() if name not in ANY}
    return {"preset": None, **kept, "method": options}  # the preset first: other differences come from it
