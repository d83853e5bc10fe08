"""A comparison before it is run: every config checked, and what a folder holds already extended, not replaced."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.engine.config import Config
from fielding.engine.config_reader import changed, config_from, config_table, read_config
from fielding.errors import InputError, OptionError, echo, unknown_name
from fielding.records.lock import NAME as LOCK
from fielding.records.manifest import difference
from fielding.records.plan import Plan, Variant, read_plan
from fielding.simulation.variants import Settings, Table, crossed, folder_name, named_variants, variant_config

DEFAULT_REFERENCE = "global"
MOST_SEEDS = 10_000
_ANY = ("seed", "workers", "checkpoint")
"""Keys of a base config that do not tell one comparison from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison that can be run.

    Parameters
    ----------
    folder
        Where to.
    plan
        Everything that belongs to it, also what the folder held before.
    stored
        The plan that the folder held; None if it was free.
    configs
        Of every run, by the name of its folder; all variants of a seed before the next seed.
    """

    folder: Path
    plan: Plan
    stored: Plan | None
    configs: Mapping[str, Config]


def planned(
    config: Config | Mapping[str, Any] | str | Path,
    variants: Sequence[Variant] | Mapping[str, Settings] | None = None,
    *,
    seeds: int | Sequence[int],
    out: str | Path,
    reference: str | None = None,
) -> Comparison:
    """Return a comparison that can be run; nothing is written.

    Parameters
    ----------
    config
        The base config: a config, a table of the same shape, or a TOML file.
    variants
        What is compared: from :func:`~fielding.simulation.variants.crossed`, or settings by name; the method of the
        base config alone by default.
    seeds
        How many, from 1 on; or which.
    out
        A folder that is free, or holds a comparison of the same base config. To that one, what is new is added.
    reference
        The name of the variant that others are held against; by default that of the folder, else ``global``, else the
        first.

    Raises
    ------
    InputError
        If a config cannot be run, or the folder holds something else.
    """
    table, folder = base_table(config), Path(out)
    if variants is None:
        variants = crossed(table)
    own = named_variants(variants) if isinstance(variants, Mapping) else tuple(variants)
    if not own:
        raise InputError("there is nothing to compare; name a method or give settings")
    plan = Plan(config=table, variants=own, seeds=seeds_of(seeds), reference=own[0].name)
    configs_of(plan)  # what cannot be run is told before a folder is looked at
    stored = stored_plan(folder)
    if stored is not None:
        plan = extended(stored, plan, folder)
    plan = replace(plan, reference=_reference(plan, stored, reference))
    return Comparison(folder=folder, plan=plan, stored=stored, configs=configs_of(plan))


def base_table(config: Config | Mapping[str, Any] | str | Path, changes: Sequence[str] = ()) -> dict[str, Json]:
    """Return a base config as a table that JSON can hold, with only the keys that were given.

    Keys that were not given stay open, since a preset or ``auto`` may be one of the things that are compared.

    Parameters
    ----------
    config
        A config, a table, or a TOML file.
    changes
        For a file: values that count instead, as ``key=value``.
    """
    if isinstance(config, Config):
        return config_table(config)
    if isinstance(config, Mapping):
        config_from(config)
        table: Mapping[str, Any] = config
    else:
        read_config(Path(config), changes)  # which tells what is wrong with it, and where
        table = changed(tomllib.loads(Path(config).read_text(encoding="utf-8")), changes)
    return {str(name): _plain(value) for name, value in table.items()}


def _plain(value: Any) -> Json:
    """Return a value as JSON can hold it; infinity is a text in configs, too."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds: so many from 1 on, or those given.

    Examples
    --------
    >>> seeds_of(3), seeds_of([7, 5])
    ((1, 2, 3), (7, 5))
    """
    if isinstance(seeds, int):
        if not 1 <= seeds <= MOST_SEEDS:
            raise OptionError(f"the number of seeds is {seeds}; give one from 1 to {MOST_SEEDS}")
        return tuple(range(1, seeds + 1))
    found = tuple(seeds)
    if not found:
        raise OptionError("there is no seed; give at least one")
    if repeated := [seed for seed in found if found.count(seed) > 1]:
        raise OptionError(f"seed {echo(repeated[0])} is given twice; give each once")
    return found


def configs_of(plan: Plan) -> dict[str, Config]:
    """Return the config of every run of a plan, by the name of its folder; all variants of a seed before the next.

    Raises
    ------
    OptionError
        If one cannot be run.
    """
    return {
        plan.folder_of(variant, seed): variant_config(plan.config, variant, seed)
        for seed in plan.seeds
        for variant in plan.variants
    }


def stored_plan(folder: Path) -> Plan | None:
    """Return the plan of the comparison that a folder holds; None if it is free.

    Raises
    ------
    InputError
        If it holds something else.
    """
    plan = read_plan(folder)
    if plan is not None:
        return plan
    try:
        foreign = sorted(one.name for one in folder.iterdir() if one.name != LOCK and not one.name.endswith(".tmp"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}") from error
    if foreign:
        raise InputError(f"{folder} holds {echo(foreign[0])}, which is of no comparison; name another folder")
    return None


def extended(stored: Plan, new: Plan, folder: Path) -> Plan:
    """Return a plan with what is new in another one after what it has.

    Raises
    ------
    InputError
        If they have other base configs, or other settings by the same name.
    """
    if differing := difference(_settled(stored.config, folder), _settled(new.config, folder), "config"):
        words = differing.removeprefix("config.")
        raise InputError(f"{folder} holds a comparison of another config ({words}); name another folder")
    variants = list(stored.variants)
    for one in new.variants:
        same = next((old for old in variants if old.name == one.name), None)
        if same is None:
            taken = {old.folder.casefold() for old in variants}
            variants.append(replace(one, folder=folder_name(one.name, taken)))
        elif differing := difference(dict(same.settings), dict(one.settings), one.name):
            raise InputError(f"{folder} holds another {one.name} ({differing}); name another folder")
    seeds = tuple(dict.fromkeys((*stored.seeds, *new.seeds)))
    return Plan(config=new.config, variants=tuple(variants), seeds=seeds, reference=stored.reference)


def _settled(table: Table, folder: Path) -> dict[str, Json]:
    """Return all keys of a base config that tell it from others; every variant names its method itself."""
    try:
        settled = config_table(config_from(table))
    except InputError as error:
        raise InputError(f"{folder} holds a comparison of another version: {error}; name another folder") from None
    method = settled.get("method")
    options = {name: value for name, value in method.items() if name != "name"} if isinstance(method, dict) else {}
    kept = {name: value for name, value in settled.items() if name not in _ANY}
    return {"preset": None, **kept, "method": options}  # the preset first: other differences come from it


def _reference(plan: Plan, stored: Plan | None, wanted: str | None) -> str:
    names = [one.name for one in plan.variants]
    if wanted is not None:
        if wanted not in names:
            raise unknown_name("reference", wanted, names)
        return wanted
    if stored is not None:
        return stored.reference
    return DEFAULT_REFERENCE if DEFAULT_REFERENCE in names else names[0]
