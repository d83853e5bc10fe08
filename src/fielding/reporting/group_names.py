"""What groups of runs are called: a variant or a method, with what tells it from others of that name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.references import Settings
from fielding.reporting.run_record import FAILED, RunRecord
from fielding.reporting.words import plain

MOST_KEYS = 2
"""Settings that a name tells; if groups of one name differ in more, it tells their folder instead.

Where comparisons differ in more than one, their folders are told: those are fewer than their groups.
"""
FIRST = ("preset", "trace.name", "trace.file", "trace.scenario", "rounds")
"""Settings that are told before others."""

Named: TypeAlias = tuple[str, RunRecord, Settings]
"""A run with the name of its group, and what tells that from others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """A run that is to be put into a group.

    Parameters
    ----------
    run
        The run.
    base
        What it is a run of: the variant that its comparison names, else its method.
    settings
        What tells that from others, by dotted key of the config.
    home
        The folder that may tell it from runs of the same name elsewhere: the comparison's, else its own.
    origin
        Base config and settings of its variant, in one text; nothing for a run that no comparison names.
    """

    run: RunRecord
    base: str
    settings: Settings
    home: Path
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """A run that a comparison is to do and that has no folder that can be read; fields as those of an entry."""

    base: str
    settings: Settings
    home: Path
    origin: str
    seed: int
    state: str
    problem: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class _Kind:
    """Runs of one name and one config."""

    table: dict[str, Json]
    homes: list[Path] = field(default_factory=list)
    is_planned: bool = False


def named_runs(entries: Sequence[Entry]) -> list[Named]:
    """Return runs with the names of their groups, in the order given.

    Runs are of one group only if their configs agree in all but the seed. Where a name stands for several configs, one
    or two keys that differ become part of it; of more, the folder does. Runs of one comparison are of one group if its
    plan says so: where one is of another config, the comparison knows and has written it down as a failure.
    """
    kinds: dict[str, list[_Kind]] = {}
    # Those that failed or do not tell their config join those that tell what the group is.
    order = sorted(range(len(entries)), key=lambda at: not _is_sure(entries[at].run))
    placed: dict[int, _Kind] = {}
    for at in order:
        placed[at] = _kind_of(entries[at], kinds.setdefault(entries[at].base, []))
    names: dict[int, str] = {}
    for base, mine in kinds.items():
        names |= {id(kind): name for kind, name in zip(mine, _names(base, mine), strict=True)}
    return [
        (names[id(placed[at])], entry.run, {**_told(placed[at], kinds[entry.base]), **entry.settings})
        for at, entry in enumerate(entries)
    ]


def expected_name(one: Expected, entries: Sequence[Entry], names: Sequence[str]) -> str:
    """Return the name of the group of a run that is not there, beside those that are.

    Parameters
    ----------
    one
        The run.
    entries, names
        All runs that are there, each with the name of its group.
    """
    same = [(entry, name) for entry, name in zip(entries, names, strict=True) if entry.base == one.base]
    alike = [name for entry, name in same if entry.home == one.home or entry.origin == one.origin]
    return alike[0] if alike else one.base if not same else f"{one.base} ({one.home.resolve().name})"


def _is_sure(run: RunRecord) -> bool:
    return bool(run.settings) and run.state != FAILED


def _kind_of(entry: Entry, kinds: list[_Kind]) -> _Kind:
    table = entry.run.settings
    at_home = [one for one in kinds if entry.origin and entry.home in one.homes]
    found = next((one for one in (*at_home, *kinds) if one in at_home or one.table == table), None)
    if found is None:
        found = _Kind(table=table)
        kinds.append(found)
    found.is_planned |= bool(entry.origin)
    if entry.home not in found.homes:
        found.homes.append(entry.home)
    return found


def _differing(kinds: Sequence[_Kind]) -> list[str]:
    """Return the keys in which configs differ, those that matter to most readers first."""
    keys = dict.fromkeys(key for one in kinds for key in one.table)
    found = [key for key in keys if any(one.table.get(key) != kinds[0].table.get(key) for one in kinds)]
    return sorted(found, key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key))


def _told(kind: _Kind, kinds: Sequence[_Kind]) -> dict[str, Json]:
    return {key: kind.table.get(key) for key in _differing(kinds)}


def _names(base: str, kinds: Sequence[_Kind]) -> list[str]:
    if len(kinds) == 1:
        return [base]
    keys = _differing(kinds)
    most = 1 if any(one.is_planned for one in kinds) else MOST_KEYS
    if len(keys) <= most and all(one.table for one in kinds):
        words = [", ".join(f"{key.rpartition('.')[2]}={plain(one.table.get(key))}" for key in keys) for one in kinds]
        if len(set(words)) == len(words):  # a long number may be cut to the same digits
            return [f"{base} {one}" for one in words]
    return [f"{base} ({one})" for one in _homes_words([one.homes for one in kinds])]


def _homes_words(homes: Sequence[Sequence[Path]]) -> list[str]:
    """Return what tells folders apart: their names, without numbers if those alone differ, or names with parents."""
    paths = [[one.resolve() for one in mine] for mine in homes]
    for tell in (_stem, _first_name, _first_path):
        found = [tell(mine) for mine in paths]
        if len(set(found)) == len(found):
            return found
    return [f"{_first_path(mine)} {at + 1}" for at, mine in enumerate(paths)]


def _stem(paths: Sequence[Path]) -> str:
    """Return the name of a folder; of several, their names without the numbers at their ends, if those are the same.

    Examples
    --------
    >>> _stem([Path("runs/slow-1"), Path("runs/slow-2")]), _stem([Path("slow-1"), Path("fast-1")])
    ('slow', 'slow-1 and 1 more')
    """
    stems = {re.sub(r"[-_. ]?[0-9]+$", "", one.name) for one in paths}
    return stems.pop() if len(paths) > 1 and len(stems) == 1 and "" not in stems else _first_name(paths)


def _first_name(paths: Sequence[Path]) -> str:
    return f"{paths[0].name}{_more(paths)}"


def _first_path(paths: Sequence[Path]) -> str:
    return f"{paths[0].parent.name}/{paths[0].name}{_more(paths)}"


def _more(paths: Sequence[Path]) -> str:
    return f" and {len(paths) - 1} more" if len(paths) > 1 else ""
