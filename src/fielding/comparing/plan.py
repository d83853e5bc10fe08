"""A comparison before it is run: every config checked, and what a folder holds already extended, not replaced."""

import contextlib
import operator
import shlex
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.comparing.variants import (
    Axis,
    Table,
    Variants,
    cross_variants,
    folder_name,
    plain_value,
    variant_config,
    variants_from,
    with_settings,
)
from fielding.config.keys import Config
from fielding.config.parts import named_parts
from fielding.config.reader import apply_changes, config_from, config_table, read_config
from fielding.config.rules import parse_factor
from fielding.engine.report_rule import is_own_function, report_rule_of
from fielding.errors import InputError, OptionError, echo, unknown_name
from fielding.ray_cluster import LOCAL
from fielding.records.lock import NAME as LOCK
from fielding.records.manifest import first_difference
from fielding.records.plan import PLAN, Plan, Variant, read_plan
from fielding.records.run_folder import read_manifest
from fielding.simulation.assembly import Own
from fielding.traces.catalog import Source

ANY = ("seed", "workers", "checkpoint")  # keys of a base config that do not tell one comparison from another
DEFAULT_REFERENCE = "global"
DEFAULT_SEEDS = 5
MOST_SEEDS = 10_000
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    """A comparison that can be run."""

    folder: Path
    plan: Plan  # everything that belongs to it, also what the folder held before
    stored: Plan | None  # the plan that the folder held; None if it was free
    # Of every run, by the name of its folder; all variants of a seed before the next seed.
    configs: Mapping[str, Config]
    # What users should know of: variants that were taken out, or are there already under another name.
    notes: tuple[str, ...] = ()
    own: Own = field(default_factory=Own)  # what the caller brings along


def plan_comparison(
    config: Config | Mapping[str, Any] | str | Path | None,
    variants: Variants | str | None = None,
    *,
    axes: Sequence[Axis] = (),
    seeds: int | Iterable[int] | None = None,
    own: Own | None = None,
    out: str | Path,
    reference: str | None = None,
    drop: Collection[str] = (),
    on: str = LOCAL,
) -> PlannedComparison:
    """Return a comparison that can be run; nothing is written.

    Parameters
    ----------
    config
        The base config: a config, a table of the same shape, or a TOML file; None for the default of every key.
    variants
        What is compared: methods (names, classes, functions), settings or methods by name, or variants from
        :func:`~fielding.comparing.variants.cross_variants`; the method of the base config alone by default.
    axes
        Values of keys that methods are crossed with.
    own
        What the caller brings along, for all runs.
    seeds
        How many, from 1 on; or which. 5 by default; with ``drop``, those that the folder has.
    out
        A folder that is free, or holds a comparison of the same base config. To that one, what is new is added. A
        variant that it holds under another name is not added again.
    reference
        The name of the variant that others are compared with; by default the one that was asked for before, else
        ``global``, else the first.
    drop
        Names of variants that are taken out; their run folders stay. If no variants are given beside it, none is added.

    Raises
    ------
    InputError
        If a config cannot be run, two variants come to the same config, or the folder holds something else.
    """
    own = own or Own()
    table, folder = with_settings(base_table(config), own.settings), Path(out)
    given: tuple[Variant, ...] = ()
    if variants is not None or axes or not drop:
        given = cross_variants(table, (), axes) if variants is None else variants_from(table, variants, axes)
        if not given:
            raise InputError("there is nothing to compare; name a method or give settings")
    new = Plan(config=table, variants=given, seeds=() if seeds is None else parse_seeds(seeds), reference="")
    checked = _without(new, drop)
    configs: dict[str, dict[str, Json] | None] = {}
    for one in checked.variants:
        config_of_one = resolve_variant(checked.config, one)
        if same_as := [name for name, known in configs.items() if known is not None and known == config_of_one]:
            raise InputError(f"{same_as[0]} and {one.name} come to the same config; leave one out")
        configs[one.name] = config_of_one
    _make_configs(checked, own.samples, on)  # what cannot be run is told before a folder is looked at
    stored = _read_stored(folder)
    known_names = [one.name for plan in (new, stored) if plan is not None for one in plan.variants]
    for name in drop:
        if not known_names:
            raise InputError(f"{folder} holds no comparison, so {echo(name)} cannot be taken out of it; check the path")
        if name not in known_names:
            raise unknown_name("variant", name, known_names)
    if seeds is None and not (drop and stored):
        checked = replace(checked, seeds=parse_seeds(DEFAULT_SEEDS))
    plan, same = checked, dict[str, str]()
    if stored is not None:
        plan, same = extend_plan(_without(stored, drop), checked, folder, taken=[one.folder for one in stored.variants])
    if not plan.variants:
        raise InputError("nothing would be left to compare; name a method, or drop less")
    plan = _choose_reference(plan, stored, None if reference is None else same.get(reference, reference))
    notes = [
        f"{one.name} is taken out; its run folders stay, as {folder / one.folder}-SEED"
        for one in (stored.variants if stored else ())
        if one.name in drop
    ]
    notes += [f"{one} comes to the config of {other}, which {folder} holds already" for one, other in same.items()]
    names = [one.name for one in plan.variants]
    # The reference is another now, though none was asked for.
    if stored and not plan.is_asked and plan.reference != stored.reference and stored.reference in names:
        back = f"--reference {shlex.quote(stored.reference)}"
        notes.append(
            f"all are compared with {plan.reference} now, not with {stored.reference}; {back} brings that back"
        )
    return PlannedComparison(
        folder=folder,
        plan=plan,
        stored=stored,
        configs=_make_configs(plan, own.samples, on),
        own=own,
        notes=tuple(notes),
    )


def base_table(config: Config | Mapping[str, Any] | str | Path | None, changes: Sequence[str] = ()) -> dict[str, Json]:
    """Return a base config as a table that JSON can hold, with only the keys that were given.

    Keys that were not given stay open, since a preset or ``auto`` may be one of the things that are compared. For a
    file, ``changes`` are values that count instead, as ``key=value``.
    """
    if isinstance(config, Config):
        return config_table(config)
    if config is None or isinstance(config, Mapping):
        table: Mapping[str, Any] = named_parts(config or {})
        config_from(table)
    else:
        read_config(Path(config), changes)  # which tells what is wrong with it, and where
        table = apply_changes(tomllib.loads(Path(config).read_text(encoding="utf-8")), changes)
    return {str(name): plain_value(value) for name, value in table.items()}


def parse_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Return the seeds: so many from 1 on, or those given; NumPy's whole numbers will do.

    OptionError if they are no whole numbers, none, too many, or one is given twice.

    Examples
    --------
    >>> parse_seeds(3), parse_seeds([7, 5]), parse_seeds(range(2))
    ((1, 2, 3), (7, 5), (0, 1))
    """
    if isinstance(seeds, Iterable):
        found = tuple(_whole(seed, "seed") for seed in seeds)
    else:
        n_seeds = _whole(seeds, "the number of seeds")
        if not 1 <= n_seeds <= MOST_SEEDS:
            raise OptionError(f"the number of seeds is {n_seeds}; give one from 1 to {MOST_SEEDS}")
        found = tuple(range(1, n_seeds + 1))
    if not found:
        raise OptionError("there is no seed; give at least one")
    if wrong := [seed for seed in found if not 0 <= seed <= LARGEST_SEED]:
        raise OptionError(f"seed is {echo(wrong[0])}; give one from 0 to {LARGEST_SEED}")
    if repeated := [seed for seed, n_times in Counter(found).items() if n_times > 1]:
        raise OptionError(f"seed {repeated[0]} is given twice; give each once")
    return found


def _whole(value: object, name: str) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError(f"{name} is {echo(value)}; give a whole number") from None


def _without(plan: Plan, names: Collection[str]) -> Plan:
    return replace(plan, variants=tuple(one for one in plan.variants if one.name not in names))


def _make_configs(plan: Plan, source: Source | None, on: str) -> dict[str, Config]:
    """Return the config of every run of a plan, by the name of its folder; all variants of a seed before the next.

    Each variant is checked once: its configs differ in the seed alone. One that cannot be run raises OptionError.
    """
    first = (*plan.seeds, 1)[0]
    checked = [
        (variant, variant_config(plan.config, variant, first, source=source, on=on)) for variant in plan.variants
    ]
    return {
        plan.folder_of(variant, seed): replace(config, seed=seed) for seed in plan.seeds for variant, config in checked
    }


def _read_stored(folder: Path) -> Plan | None:
    """Return the plan of the comparison that a folder holds; None if it is free, an error if it holds something else.

    Nor may it be inside a folder that belongs to a run or to another comparison.
    """
    plan = read_plan(folder)
    if plan is not None:
        return plan
    with contextlib.suppress(OSError):  # what may not be looked at is of no run
        for outer in folder.resolve().parents:
            if "config" in read_manifest(outer) or (outer / PLAN).is_file():
                raise InputError(f"{folder} is inside {outer}, which holds a run or a comparison; name another folder")
    try:
        foreign = sorted(one.name for one in folder.iterdir() if one.name != LOCK and not one.name.endswith(".tmp"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}") from error
    if foreign:
        raise InputError(f"{folder} holds {echo(foreign[0])}, which is of no comparison; name another folder")
    return None


def extend_plan(stored: Plan, new: Plan, folder: Path, taken: Collection[str] = ()) -> tuple[Plan, dict[str, str]]:
    """Return a plan with what is new in another one after what it has.

    ``taken`` is how names of run folders begin that are in use beside those of the plan.

    The plan, and by the name of each new variant that is there already under another name, that name. InputError if
    they have other base configs, or other variants by the same name.
    """
    if differing := first_difference(_base_keys(stored.config, folder), _base_keys(new.config, folder), "config"):
        words = differing.removeprefix("config.")
        raise InputError(f"{folder} holds a comparison of another config ({words}); name another folder")
    variants, same = list(stored.variants), {}
    configs = {one.name: resolve_variant(new.config, one) for one in stored.variants}
    for one in new.variants:
        config = resolve_variant(new.config, one)
        if one.name in configs:
            old = stored.variant_named(one.name)
            differing = first_difference(dict(old.settings), dict(one.settings), one.name)
            if differing and (config is None or config != configs[one.name]):
                raise InputError(f"{folder} holds another {one.name} ({differing}); name another folder")
        elif equal := [name for name, known in configs.items() if config is not None and known == config]:
            same[one.name] = equal[0]
        else:
            used = {*(old.folder.casefold() for old in variants), *(text.casefold() for text in taken)}
            variants.append(replace(one, folder=folder_name(one.name, used)))
    seeds = tuple(dict.fromkeys((*stored.seeds, *new.seeds)))
    return replace(stored, config=new.config, variants=tuple(variants), seeds=seeds), same


def resolve_variant(table: Table, variant: Variant) -> dict[str, Json] | None:
    """Return all keys that the results of a variant depend on but the seed, however they were written.

    Presets and values by default count as if they were given, and 1/2 is 0.5. None if there is no such config.

    Examples
    --------
    >>> one, other = ({"coordinator.tau": tau} for tau in ("1/2", 0.5))
    >>> one, other = (Variant(name="x", folder="x", settings=settings) for settings in (one, other))
    >>> resolve_variant({}, one) == resolve_variant({"preset": None, "coordinator": {"metric": "l1"}}, other)
    True
    """
    try:
        config = config_from(with_settings(table, variant.settings))
        section = config.coordinator
        report_rule = report_rule_of(section, is_own=is_own_function(section), seed=0)
    except InputError:
        return None
    given = {name: getattr(section, name) for name in section.__dataclass_fields__ if name != "options"}
    known: dict[str, Json] = {"metric": report_rule.metric, "detector": report_rule.detector}
    with contextlib.suppress(OptionError):  # a word, such as "learned", stays
        known["tau"] = parse_factor(section.tau)
    whole = {**config_table(config), "coordinator": {**given, **known, **section.options}}
    return {name: value for name, value in whole.items() if name not in (*ANY, "preset")}


def _base_keys(table: Table, folder: Path) -> dict[str, Json]:
    """Return all keys of a base config that tell it from others; every variant names its method itself."""
    try:
        whole = config_table(config_from(table))
    except InputError as error:
        raise InputError(f"{folder} holds a comparison of another version: {error}; name another folder") from None
    method = whole.get("method")
    options = {name: value for name, value in method.items() if name != "name"} if isinstance(method, dict) else {}
    kept = {name: value for name, value in whole.items() if name not in ANY}
    return {"preset": None, **kept, "method": options}  # the preset first: other differences come from it


def _choose_reference(plan: Plan, stored: Plan | None, wanted: str | None) -> Plan:
    """Return a plan with its reference: the one that is or was asked for, else the usual one."""
    names = [one.name for one in plan.variants]
    if wanted is not None:
        if wanted not in names:
            raise unknown_name("reference", wanted, names)
        return replace(plan, reference=wanted, is_asked=True)
    if stored is not None and stored.reference in names:
        is_asked = stored.is_asked or stored.reference != _usual_reference(stored)
        return replace(plan, reference=stored.reference if is_asked else _usual_reference(plan), is_asked=is_asked)
    return replace(plan, reference=_usual_reference(plan), is_asked=False)


def _usual_reference(plan: Plan) -> str:
    """Return the variant that others are compared with unless another is asked for: ``global``, else the first."""
    names = [one.name for one in plan.variants]
    baselines = (one.name for one in plan.variants if one.settings.get("method.name") == DEFAULT_REFERENCE)
    return DEFAULT_REFERENCE if DEFAULT_REFERENCE in names else next(baselines, names[0])
