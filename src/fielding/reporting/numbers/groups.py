"""Runs of one or many folders, gathered by what they are runs of: one group per method, or per variant of a config."""

import contextlib
import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.plan import PLAN, Plan, Variant, read_failure, read_plan
from fielding.records.run_folder import MANIFEST, ROUNDS
from fielding.reporting.numbers.run_record import FAILED, FINISHED, LogReader, RunRecord, read_run
from fielding.reporting.numbers.targets import METHOD, Settings, first_reference, references, targets
from fielding.reporting.words import plain

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


OTHER_DATA = "made on other data than"
"""How the problem of a run begins that cannot be held against others."""


def with_equal_data(named: Sequence[tuple[str, RunRecord]], references: Container[str]) -> list[tuple[str, RunRecord]]:
    """Return runs with their names; those that ended on other data than the reference on the same seed have failed.

    Data must be equal where the seed, the section ``[trace]`` of the config and the number of rounds are. Where no
    reference has ended, the first run that has counts instead. A run that does not tell its data is left as it is.

    Parameters
    ----------
    named
        Each run with the name of its group.
    references
        Names of the groups that others are held against.
    """
    anchors: dict[str, tuple[str, Json]] = {}
    for name, run in sorted(named, key=lambda one: one[0] not in references):
        if run.state == FINISHED and run.manifest.get("data_blake2b") is not None:
            anchors.setdefault(_deal(run), (name, run.manifest["data_blake2b"]))
    return [(name, _checked(run, *anchors.get(_deal(run), (name, None)))) for name, run in named]


def _deal(run: RunRecord) -> str:
    """Return what data follow from."""
    return json.dumps([run.seed, run.n_expected, run.config.get("trace")], sort_keys=True)


def _checked(run: RunRecord, anchor: str, wanted: Json) -> RunRecord:
    digest = run.manifest.get("data_blake2b")
    if run.state != FINISHED or wanted is None or digest is None or digest == wanted:
        return run
    problem = (
        f"{OTHER_DATA} {anchor} on seed {run.seed} (digests {str(digest)[:8]} and {str(wanted)[:8]}), so it does not "
        "count; delete the folder of the run on the wrong data and run it again"
    )
    return replace(run, state=FAILED, problems=(problem, *run.problems))


def version_words(runs: Iterable[RunRecord]) -> str:
    """Return a sentence if runs are of several versions of Fielding, else nothing."""
    found = sorted({str(version) for run in runs if (version := run.manifest.get("fielding")) is not None})
    if len(found) < 2:
        return ""
    return f"Runs are of several versions of Fielding ({', '.join(found)}): differences may come from that."


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


WAITING = "waiting"
"""The state of a run that a comparison is to do and has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What some folders hold.

    Parameters
    ----------
    entries
        Runs, each once.
    expected
        Runs of comparisons that are not there.
    problems
        What cannot be read.
    references
        Of each comparison, its folder and the variant that it names as reference.
    """

    entries: list[Entry] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    references: list[tuple[Path, str]] = field(default_factory=list)


def found_runs(folders: Sequence[Path], reader: LogReader) -> Found:
    """Return the runs of some folders, of comparisons in them, and of folders of either."""
    found = Found()
    for folder in dict.fromkeys(folders):
        _add(found, folder, reader)
    once = {one.run.folder.resolve(): one for one in reversed(found.entries)}
    entries = [one for one in found.entries if once[one.run.folder.resolve()] is one]
    return replace(found, entries=entries)


def _add(found: Found, folder: Path, reader: LogReader) -> None:
    if _add_comparison(found, folder, reader):
        return
    try:
        found.entries.append(_loose(read_run(folder, reader)))
        return
    except InputError as error:
        problem = str(error)
    if not folder.is_dir():
        found.problems.append(f"{folder} is no folder; give the folder of a run or of a comparison")
    elif not _add_inner(found, folder, reader):
        is_empty = not (folder / MANIFEST).exists()
        found.problems.append(f"{folder} holds no run (no {MANIFEST}, no {PLAN})" if is_empty else problem)


def _add_inner(found: Found, folder: Path, reader: LogReader) -> bool:
    """Add the runs and comparisons in a folder; return whether there are any."""
    n_before = len(found.entries) + len(found.expected)
    with contextlib.suppress(OSError):
        for inner in sorted(one for one in folder.iterdir() if one.is_dir()):
            if (inner / PLAN).exists() and not _add_comparison(found, inner, reader):
                _add_inner(found, inner, reader)
            elif (inner / ROUNDS).exists():
                with contextlib.suppress(InputError):
                    found.entries.append(_loose(read_run(inner, reader)))
    return len(found.entries) + len(found.expected) > n_before


def _add_comparison(found: Found, folder: Path, reader: LogReader) -> bool:
    """Add the runs of a comparison; return whether the folder is that of one whose plan can be read."""
    try:
        plan = read_plan(folder)
    except InputError as error:
        found.problems.append(str(error))
        return False
    if plan is None:
        return False
    for variant in plan.variants:
        for seed in plan.seeds:
            _add_planned(found, folder / plan.folder_of(variant, seed), _planned(folder, plan, variant), (seed, reader))
    found.references.append((folder, plan.reference))
    return True


def _planned(folder: Path, plan: Plan, variant: Variant) -> tuple[str, Settings, Path, str]:
    """Return base, settings, home and origin of the runs of a variant."""
    base = plan.config.get("method")
    method = base.get("name") if isinstance(base, dict) else None
    config = {key: value for key, value in plan.config.items() if key != "seed"}
    origin = json.dumps([config, variant.settings], sort_keys=True, default=str)
    return variant.name, {METHOD: method, **variant.settings}, folder, origin


def _add_planned(
    found: Found, folder: Path, planned: tuple[str, Settings, Path, str], reading: tuple[int, LogReader]
) -> None:
    base, settings, home, origin = planned
    seed, reader = reading
    try:
        run = read_run(folder, reader)
    except InputError as error:
        state, problem = _what_became(folder, str(error))
        found.expected.append(
            Expected(base=base, settings=settings, home=home, origin=origin, seed=seed, state=state, problem=problem)
        )
        return
    # Without a manifest a run does not know its seed; the plan does.
    known = run if run.seed is not None else replace(run, manifest={**run.manifest, "seed": seed})
    found.entries.append(Entry(run=known, base=base, settings=settings, home=home, origin=origin))


def _what_became(folder: Path, problem: str) -> tuple[str, str]:
    """Return the state of a run without a folder that can be read, and what is wrong with it."""
    failure = read_failure(folder)
    if failure is not None:
        return FAILED, failure
    return (FAILED, problem) if (folder / MANIFEST).exists() else (WAITING, "")


def _loose(run: RunRecord) -> Entry:
    """Return a run that no plan names, as one of its method."""
    method = str(run.setting("method", "name") or "run")
    return Entry(run=run, base=method, settings={METHOD: method}, home=run.folder)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Runs that differ in their seeds alone, one for each.

    Parameters
    ----------
    name
        What they are runs of: a method, with what tells it from the same method in other groups.
    runs
        The runs, by rising seed.
    """

    name: str
    runs: tuple[RunRecord, ...]

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        """The runs that are complete."""
        return tuple(one for one in self.runs if one.state == FINISHED)

    @property
    def is_clustered(self) -> bool:
        """Whether clients were grouped in any of them."""
        return any(one.is_clustered for one in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A run that a comparison is to do and that has no folder that can be read."""

    group: str
    seed: int
    state: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathered:
    """What is to be reported.

    Parameters
    ----------
    title
        Where it is from, in a word.
    groups
        The groups that have a run, in the order of the plan or of the folders.
    reference
        The name of the group that others are held against, be there a run of it or not; None for a single group.
    awaited
        Runs of a plan that are not there.
    problems
        What cannot be read, and what else to know before reading on.
    settings
        By group, what tells it from others; nothing where that is not known.
    """

    title: str
    groups: tuple[Group, ...]
    reference: str | None
    awaited: tuple[Awaited, ...] = ()
    problems: tuple[str, ...] = ()
    settings: Mapping[str, Settings] = field(default_factory=dict)

    @property
    def runs(self) -> list[tuple[Group, RunRecord]]:
        """Every run with its group."""
        return [(group, run) for group in self.groups for run in group.runs]

    @property
    def styles(self) -> dict[str, int]:
        """Colour and dash of each group by number, the same in all figures."""
        return {group.name: at for at, group in enumerate(self.groups)}

    @property
    def variants(self) -> dict[str, Settings]:
        """What each group is set to, those without a run last."""
        names = [*(one.name for one in self.groups), *(one.group for one in self.awaited)]
        return {name: self.settings.get(name, {}) for name in names}

    @property
    def terms(self) -> dict[str, str]:
        """On what data and over how many rounds each group was made, in a text; those that do not tell are left out."""
        found = {group.name: terms_of(group.runs) for group in self.groups}
        return {name: terms for name, terms in found.items() if terms is not None}

    @property
    def references(self) -> dict[str, str | None]:
        """Whom each group is held against: the reference's method with the same other settings, else the reference.

        None for a group that neither has the data and the number of rounds of.
        """
        return held_alike(references(self.variants, self.reference), self.variants, self.terms)

    @property
    def targets(self) -> dict[str, str | None]:
        """Whose final accuracy each group is to reach: ``global`` with the same other settings, else its reference.

        None as for ``references``.
        """
        return held_alike(targets(self.variants, self.reference), self.variants, self.terms)

    def group(self, name: str | None) -> Group | None:
        """Return the group of a name; None if there is none."""
        return next((one for one in self.groups if one.name == name), None)


def gathered(folders: Sequence[Path], reader: LogReader | None = None) -> Gathered:
    """Read all runs of some folders.

    Parameters
    ----------
    folders
        Each is the folder of a run, of a comparison, or one with such folders in it. A run that is in several counts
        once.
    reader
        One that may have read some of it before.

    Raises
    ------
    InputError
        If there is nothing to report in any of them.
    """
    found = found_runs(folders, reader or LogReader())
    runs = named_runs(found.entries)
    if not runs and not found.expected:
        raise InputError("; ".join(found.problems) or "there is no folder to report on; name one")
    called = [name for name, _, _ in runs]
    awaited = [_awaited(one, expected_name(one, found.entries, called)) for one in found.expected]
    settings = {name.group: _expected(one, name.group) for name, one in zip(awaited, found.expected, strict=True)}
    settings |= {name: mine for name, _, mine in reversed(runs)}
    names = list(dict.fromkeys([*called, *(one.group for one in awaited)]))
    reference = first_reference({name: settings[name] for name in names}, _wanted(found, called, awaited))
    held_against = {str(name) for name in references(settings, reference).values()}
    groups, doubled = _grouped(with_equal_data([(name, run) for name, run, _ in runs], held_against))
    problems = [*found.problems, *doubled, *_lacking(reference, groups, awaited)]
    if words := version_words(run for one in groups for run in one.finished):
        problems.append(words)
    return Gathered(
        title=", ".join(folder.resolve().name for folder in folders),
        groups=groups,
        reference=reference,
        awaited=tuple(awaited),
        problems=tuple(problems),
        settings=settings,
    )


def _awaited(one: Expected, group: str) -> Awaited:
    return Awaited(group=group, seed=one.seed, state=one.state, problem=one.problem)


def _expected(one: Expected, group: str) -> Settings:
    """Return what a run that is not there is set to; where its folder tells it from others, it is like none of them."""
    return one.settings if group == one.base else {**one.settings, "folder": str(one.home)}


def _wanted(found: Found, called: Sequence[str], awaited: Sequence[Awaited]) -> list[str]:
    """Return what the variants are called that comparisons name as reference."""
    runs = [(one.home, one.base, name) for one, name in zip(found.entries, called, strict=True)]
    others = [(one.home, one.base, name.group) for one, name in zip(found.expected, awaited, strict=True)]
    return [name for wanted in found.references for home, base, name in (*runs, *others) if (home, base) == wanted]


def _lacking(reference: str | None, groups: Sequence[Group], awaited: Sequence[Awaited]) -> list[str]:
    """Return that the reference has no run and none is to come, if that is so."""
    is_to_come = any(one.group == reference and one.state == WAITING for one in awaited)
    if reference is None or not groups or is_to_come or reference in [one.name for one in groups]:
        return []
    return [f"{reference}, which others are held against, has no run: differences are not known"]


def _grouped(named: Sequence[tuple[str, RunRecord]]) -> tuple[tuple[Group, ...], list[str]]:
    """Return the groups, and which runs were left out because another one is of the same config and seed.

    Of such runs the first counts that is finished; if none is, the first.
    """
    groups: dict[str, dict[object, RunRecord]] = {}
    doubled: list[str] = []
    for name, run in named:
        mine = groups.setdefault(name, {})
        key = run.folder if run.seed is None else run.seed  # a run that does not tell its seed may be of any
        before = mine.setdefault(key, run)
        if before is run:
            continue
        kept, other = (run, before) if run.state == FINISHED != before.state else (before, run)
        mine[key] = kept
        doubled.append(
            f"{name}, seed {run.seed}: {other.folder} is left out; {kept.folder} has the same config and seed"
        )
    found = [
        Group(name=name, runs=tuple(sorted(mine.values(), key=lambda one: one.seed or 0)))
        for name, mine in groups.items()
    ]
    return tuple(found), doubled
