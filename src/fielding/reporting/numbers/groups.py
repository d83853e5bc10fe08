"""Runs of one or many folders, gathered by what they are runs of: one group per method, or per variant of a config."""

import contextlib
import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TypeAlias

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.plan import PLAN, read_failure, read_plan
from fielding.records.run_folder import MANIFEST, ROUNDS
from fielding.reporting.formatting import plain
from fielding.reporting.numbers.run_record import FAILED, FINISHED, LogReader, RunRecord, read_run

Settings: TypeAlias = Mapping[str, Json]  # what tells a variant from others, by dotted key of the config
Terms: TypeAlias = Mapping[str, str]
"""By group, the section ``[trace]`` of its config and its number of rounds, in one text; groups without a config have
none."""

METHOD = "method.name"
BASELINE = "global"
"""The method whose final accuracy is the target, and that others are compared with, if there is one of that name."""
REFERENCE_STYLE = 6  # gray: its place among the colours of figures
WAITING = "waiting"  # the state of a run that a comparison is to do and has not begun
OTHER_DATA = "made on other data than"  # how the problem of a run begins that cannot be compared with others
MOST_KEYS = 2
"""Settings that a name tells; if groups of one name differ in more, it tells their folder instead.

Where comparisons differ in more than one, their folders are told: those are fewer than their groups.
"""
FIRST = ("preset", "trace.name", "trace.file", "trace.scenario", "rounds")  # settings that are told before others


# ---------------------------------------------------------------- whom each variant is compared with


def choose_reference(variants: Mapping[str, Settings], wanted: Iterable[str]) -> str | None:
    """Return the reference: one of those wanted, else ``global`` or a variant of it, else the first variant.

    None for fewer than two.

    Examples
    --------
    >>> choose_reference({"ifca": {}, "global": {}}, []), choose_reference({"ifca": {}}, ["ifca"])
    ('global', None)
    """
    if len(variants) < 2:
        return None
    return next((one for one in (*wanted, *_baselines(variants)) if one in variants), next(iter(variants)))


def choose_references(variants: Mapping[str, Settings], reference: str | None) -> dict[str, str | None]:
    """Return by name whom each variant is compared with; one that others are compared with has its own name.

    A variant is compared with the variant of the reference's method that agrees with it in all other settings: with two
    drift scenarios, each against the reference method on the same scenario. Settings that the reference method does not
    have do not matter. Without such a variant, it is the reference itself.

    ``variants``: what each is set to; nothing if that is not known. ``reference``: the name of the reference; None if
    there is nothing to be compared with.

    Examples
    --------
    >>> names = {f"{method} {data}": {METHOD: method, "trace.scenario": data}
    ...          for method in ("global", "ifca") for data in ("places", "static")}
    >>> choose_references(names, "global places")["ifca static"]
    'global static'
    """
    method = variants.get(reference or "", {}).get(METHOD)
    if reference is None or method is None:
        return dict.fromkeys(variants, reference)
    others = {
        name: find_counterpart(variants, name, str(method)) or reference
        for name, settings in variants.items()
        if settings.get(METHOD) != method
    }
    own = {*others.values(), reference}
    # A variant of the reference's method that no other is compared with is one more value of what is varied.
    return {name: others.get(name, name if name in own else reference) for name in variants}


def choose_targets(variants: Mapping[str, Settings], reference: str | None) -> dict[str, str | None]:
    """Return by name whose final accuracy each variant is to reach.

    That of ``global`` with the same other settings; where there is no such method, that of its reference.

    Examples
    --------
    >>> choose_targets({"ifca": {}, "global": {}}, "ifca")
    {'ifca': 'global', 'global': 'global'}
    """
    baselines = _baselines(variants)
    if reference is None or not baselines or reference in baselines:
        return choose_references(variants, reference)
    return choose_references(variants, baselines[0])


def find_counterpart(variants: Mapping[str, Settings], name: str, method: str) -> str | None:
    """Return the variant of a method whose settings are all those of a variant too; of several the one with most.

    None if there is none.
    """

    def besides_method(settings: Settings) -> dict[str, Json]:
        return {key: value for key, value in settings.items() if key != METHOD and value is not None}

    own = besides_method(variants.get(name, {}))
    fitting = {
        other: len(theirs)
        for other, settings in variants.items()
        if settings.get(METHOD) == method and (theirs := besides_method(settings)).items() <= own.items()
    }
    return max(fitting, key=lambda other: fitting[other]) if fitting else None


def _baselines(variants: Mapping[str, Settings]) -> list[str]:
    """Return the variants of ``global``, the one of that name first."""
    found = [name for name, settings in variants.items() if settings.get(METHOD) == BASELINE]
    return [BASELINE, *found] if BASELINE in variants else found


def are_alike(terms: Terms, name: str, other: str) -> bool:
    """Return whether two groups may be compared with each other; those whose terms are not known may."""
    mine, theirs = terms.get(name), terms.get(other)
    return mine is None or theirs is None or mine == theirs


def match_terms(
    chosen: Mapping[str, str | None], variants: Mapping[str, Settings], terms: Terms
) -> dict[str, str | None]:
    """Return by name whom each group is compared with, if that is alike; else one of the same method that is, or None.

    ``chosen``: whom each is to be compared with; its own name if others are compared with it.

    Examples
    --------
    >>> variants = {name: {METHOD: name.split()[0]} for name in ("ifca 9", "global 5", "global 9", "oracle 7")}
    >>> match_terms(dict.fromkeys(variants, "global 5"), variants, {name: name[-1] for name in variants})
    {'ifca 9': 'global 9', 'global 5': 'global 5', 'global 9': 'global 9', 'oracle 7': None}
    """
    found: dict[str, str | None] = {}
    for name, other in chosen.items():
        if other is not None and not are_alike(terms, name, other):
            method = variants.get(other, {}).get(METHOD)
            fitting = [
                one
                for one, mine in variants.items()
                if terms.get(one) == terms.get(name) and mine.get(METHOD) == method
            ]
            other = fitting[0] if fitting and method is not None else None
        found[name] = other
    # One that no other is compared with is no reference, though it is like itself.
    others = {other for name, other in found.items() if other != name}
    changed = [name for name, other in found.items() if other == name != chosen[name] and name not in others]
    return {**found, **dict.fromkeys(changed)}


# ---------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Runs that differ in their seeds alone, one for each, by rising seed."""

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
class AwaitedRun:
    """A run that a comparison is to do and that has no folder that can be read."""

    group: str
    seed: int
    state: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunGroups:
    """What is to be reported."""

    title: str  # where it is from, in a word
    groups: tuple[Group, ...]  # the groups that have a run, in the order of the plan or of the folders
    # The name of the group that others are compared with, be there a run of it or not; None for a single group.
    reference: str | None
    awaited: tuple[AwaitedRun, ...] = ()  # runs of a plan that are not there
    problems: tuple[str, ...] = ()  # what cannot be read, and what else to know before reading on
    # By group, what tells it from others; nothing where that is not known.
    settings: Mapping[str, Settings] = field(default_factory=dict)

    @property
    def runs(self) -> list[tuple[Group, RunRecord]]:
        """Every run with its group."""
        return [(group, run) for group in self.groups for run in group.runs]

    @property
    def styles(self) -> dict[str, int]:
        """Colour and dash of each group by number, the same in all figures; the reference is gray."""
        others = (style for style in count() if style != REFERENCE_STYLE)
        return {one.name: REFERENCE_STYLE if one.name == self.reference else next(others) for one in self.groups}

    @property
    def variants(self) -> dict[str, Settings]:
        """What each group is set to, those without a run last."""
        names = [*(one.name for one in self.groups), *(one.group for one in self.awaited)]
        return {name: self.settings.get(name, {}) for name in names}

    @property
    def terms(self) -> dict[str, str]:
        """On what data and over how many rounds each group was made, in a text; those that do not tell are left out."""
        found: dict[str, str] = {}
        for group, run in self.runs:
            if run.config and group.name not in found:
                found[group.name] = json.dumps([run.config.get("trace"), run.n_expected], sort_keys=True)
        return found

    @property
    def references(self) -> dict[str, str | None]:
        """Whom each group is compared with: the reference's method with the same other settings, else the reference.

        None for a group that neither has the data and the number of rounds of.
        """
        return match_terms(choose_references(self.variants, self.reference), self.variants, self.terms)

    @property
    def targets(self) -> dict[str, str | None]:
        """Whose final accuracy each group is to reach: ``global`` with the same other settings, else its reference.

        None as for ``references``.
        """
        return match_terms(choose_targets(self.variants, self.reference), self.variants, self.terms)

    def group(self, name: str | None) -> Group | None:
        """Return the group of a name; None if there is none."""
        return next((one for one in self.groups if one.name == name), None)


def gather_runs(folders: Sequence[Path], reader: LogReader | None = None) -> RunGroups:
    """Read all runs of some folders; InputError if there is nothing to report in any of them.

    Each is the folder of a run, of a comparison, or one with such folders in it; a run that is in several counts once.
    ``reader`` is one that may have read some of it before.
    """
    found = find_runs(folders, reader or LogReader())
    runs = name_groups(found.entries)
    if not runs and not found.expected:
        raise InputError("; ".join(found.problems) or "there is no folder to report on; name one")
    names = [name for name, _, _ in runs]
    awaited, settings = [], {}
    for one in found.expected:
        group = _expected_name(one, found.entries, names)
        awaited.append(AwaitedRun(group=group, seed=one.seed, state=one.state, problem=one.problem))
        # Where its folder tells it from others, it is like none of them.
        settings[group] = one.settings if group == one.base else {**one.settings, "folder": str(one.home)}
    settings |= {name: mine for name, _, mine in reversed(runs)}
    homes = [(one.home, one.base, name) for one, name in zip(found.entries, names, strict=True)]
    homes += [(one.home, one.base, other.group) for one, other in zip(found.expected, awaited, strict=True)]
    wanted = [name for reference in found.references for home, base, name in homes if (home, base) == reference]
    every = dict.fromkeys([*names, *(one.group for one in awaited)])
    reference = choose_reference({name: settings[name] for name in every}, wanted)
    compared_with = {str(name) for name in choose_references(settings, reference).values()}
    groups, problems = _group_seeds(fail_other_data([(name, run) for name, run, _ in runs], compared_with))
    problems = [*found.problems, *problems]
    is_to_come = any(one.group == reference and one.state == WAITING for one in awaited)
    if reference is not None and groups and not is_to_come and reference not in [one.name for one in groups]:
        problems.append(f"{reference}, which others are compared with, has no run: differences are not known")
    if words := version_words(run for one in groups for run in one.finished):
        problems.append(words)
    return RunGroups(
        title=", ".join(folder.resolve().name for folder in folders),
        groups=groups,
        reference=reference,
        awaited=tuple(awaited),
        problems=tuple(problems),
        settings=settings,
    )


def _group_seeds(named: Sequence[tuple[str, RunRecord]]) -> tuple[tuple[Group, ...], list[str]]:
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


def fail_other_data(named: Sequence[tuple[str, RunRecord]], references: Container[str]) -> list[tuple[str, RunRecord]]:
    """Return runs with the names of their groups; those that ended on other data than the reference have failed.

    Data must be equal where the seed, the section ``[trace]`` of the config and the number of rounds are. Where none of
    the ``references``, the names of groups that others are compared with, has ended, the first run that has counts
    instead. A run that does not tell its data is left as it is.
    """

    def deal(run: RunRecord) -> str:
        return json.dumps([run.seed, run.n_expected, run.config.get("trace")], sort_keys=True)

    anchors: dict[str, tuple[str, Json]] = {}
    for name, run in sorted(named, key=lambda one: one[0] not in references):
        if run.state == FINISHED and run.manifest.get("data_blake2b") is not None:
            anchors.setdefault(deal(run), (name, run.manifest["data_blake2b"]))
    found = []
    for name, run in named:
        anchor, wanted = anchors.get(deal(run), (name, None))
        digest = run.manifest.get("data_blake2b")
        if run.state == FINISHED and None not in (wanted, digest) and digest != wanted:
            problem = (
                f"{OTHER_DATA} {anchor} on seed {run.seed} (digests {str(digest)[:8]} and {str(wanted)[:8]}), so it "
                "does not count; delete the folder of the run on the wrong data and run it again"
            )
            run = replace(run, state=FAILED, problems=(problem, *run.problems))
        found.append((name, run))
    return found


def version_words(runs: Iterable[RunRecord]) -> str:
    """Return a sentence if runs are of several versions of Fielding, else nothing."""
    found = sorted({str(version) for run in runs if (version := run.manifest.get("fielding")) is not None})
    if len(found) < 2:
        return ""
    return f"Runs are of several versions of Fielding ({', '.join(found)}): differences may come from that."


# ---------------------------------------------------------------- runs in folders


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundRun:
    """A run that is to be put into a group."""

    run: RunRecord
    base: str  # what it is a run of: the variant that its comparison names, else its method
    settings: Settings  # what tells that from others, by dotted key of the config
    home: Path  # the folder that may tell it from runs of the same name elsewhere: the comparison's, else its own
    origin: str = ""  # base config and settings of its variant, in one text; nothing for a run that no comparison names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpectedRun:
    """A run that a comparison is to do and that has no folder that can be read; fields as those of a found run."""

    base: str
    settings: Settings
    home: Path
    origin: str
    seed: int
    state: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRuns:
    """What some folders hold: runs, each once, runs of comparisons that are not there, and what cannot be read.

    ``references`` are, of each comparison, its folder and the variant that it names as reference.
    """

    entries: list[FoundRun] = field(default_factory=list)
    expected: list[ExpectedRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    references: list[tuple[Path, str]] = field(default_factory=list)


def find_runs(folders: Sequence[Path], reader: LogReader) -> FoundRuns:
    """Return the runs of some folders, of comparisons in them, and of folders of either."""
    found = FoundRuns()
    for folder in dict.fromkeys(folders):
        if _add_comparison(found, folder, reader):
            continue
        try:
            _add_loose(found, folder, reader)
        except InputError as error:
            if not folder.is_dir():
                found.problems.append(f"{folder} is no folder; give the folder of a run or of a comparison")
            elif not _add_inner(found, folder, reader):
                is_empty = not (folder / MANIFEST).exists()
                found.problems.append(f"{folder} holds no run (no {MANIFEST}, no {PLAN})" if is_empty else str(error))
    once = {one.run.folder.resolve(): one for one in reversed(found.entries)}
    return replace(found, entries=[one for one in found.entries if once[one.run.folder.resolve()] is one])


def _add_loose(found: FoundRuns, folder: Path, reader: LogReader) -> None:
    """Add a run that no plan names, as one of its method."""
    run = read_run(folder, reader)
    method = str(run.setting("method", "name") or "run")
    found.entries.append(FoundRun(run=run, base=method, settings={METHOD: method}, home=folder))


def _add_inner(found: FoundRuns, folder: Path, reader: LogReader) -> bool:
    """Add the runs and comparisons in a folder; return whether there are any."""
    n_before = len(found.entries) + len(found.expected)
    with contextlib.suppress(OSError):
        for inner in sorted(one for one in folder.iterdir() if one.is_dir()):
            if (inner / PLAN).exists() and not _add_comparison(found, inner, reader):
                _add_inner(found, inner, reader)
            elif (inner / ROUNDS).exists():
                with contextlib.suppress(InputError):
                    _add_loose(found, inner, reader)
    return len(found.entries) + len(found.expected) > n_before


def _add_comparison(found: FoundRuns, folder: Path, reader: LogReader) -> bool:
    """Add the runs of a comparison; return whether the folder is that of one whose plan can be read."""
    try:
        plan = read_plan(folder)
    except InputError as error:
        found.problems.append(str(error))
        return False
    if plan is None:
        return False
    base = plan.config.get("method")
    method = base.get("name") if isinstance(base, dict) else None
    config = {key: value for key, value in plan.config.items() if key != "seed"}
    for variant in plan.variants:
        origin = json.dumps([config, variant.settings], sort_keys=True, default=str)
        settings: Settings = {METHOD: method, **variant.settings}
        for seed in plan.seeds:
            path = folder / plan.folder_of(variant, seed)
            try:
                run = read_run(path, reader)
            except InputError as error:
                failure = read_failure(path)
                if failure is None and (path / MANIFEST).exists():
                    failure = str(error)
                found.expected.append(
                    ExpectedRun(
                        base=variant.name,
                        settings=settings,
                        home=folder,
                        origin=origin,
                        seed=seed,
                        state=WAITING if failure is None else FAILED,
                        problem=failure or "",
                    )
                )
                continue
            # Without a manifest a run does not know its seed; the plan does.
            known = run if run.seed is not None else replace(run, manifest={**run.manifest, "seed": seed})
            found.entries.append(FoundRun(run=known, base=variant.name, settings=settings, home=folder, origin=origin))
    found.references.append((folder, plan.reference))
    return True


# ---------------------------------------------------------------- names of groups


@dataclass(slots=True, kw_only=True, eq=False)
class _Kind:
    """Runs of one name and one config."""

    table: dict[str, Json]
    homes: list[Path] = field(default_factory=list)
    is_planned: bool = False


def name_groups(entries: Sequence[FoundRun]) -> list[tuple[str, RunRecord, Settings]]:
    """Return runs with the names of their groups and what tells these from others, in the order given.

    Runs are of one group only if their configs agree in all but the seed. Where a name stands for several configs, one
    or two keys that differ become part of it; of more, the folder does. Runs of one comparison are of one group if its
    plan says so: where one is of another config, the comparison knows and has written it down as a failure.
    """
    kinds: dict[str, list[_Kind]] = {}
    placed: dict[int, _Kind] = {}
    # Those that failed or do not tell their config join those that tell what the group is.
    for at in sorted(
        range(len(entries)), key=lambda at: not entries[at].run.settings or entries[at].run.state == FAILED
    ):
        entry, table = entries[at], entries[at].run.settings
        mine = kinds.setdefault(entry.base, [])
        at_home = [one for one in mine if entry.origin and entry.home in one.homes]
        found = next((one for one in (*at_home, *mine) if one in at_home or one.table == table), None)
        if found is None:
            found = _Kind(table=table)
            mine.append(found)
        found.is_planned |= bool(entry.origin)
        if entry.home not in found.homes:
            found.homes.append(entry.home)
        placed[at] = found
    names: dict[int, str] = {}
    for base, mine in kinds.items():
        names |= {id(kind): name for kind, name in zip(mine, _names(base, mine), strict=True)}
    keys = {base: _differing_keys(mine) for base, mine in kinds.items()}
    return [
        (
            names[id(placed[at])],
            entry.run,
            {**{key: placed[at].table.get(key) for key in keys[entry.base]}, **entry.settings},
        )
        for at, entry in enumerate(entries)
    ]


def _expected_name(one: ExpectedRun, entries: Sequence[FoundRun], names: Sequence[str]) -> str:
    """Return the name of the group of a run that is not there, beside those that are."""
    same = [(entry, name) for entry, name in zip(entries, names, strict=True) if entry.base == one.base]
    alike = [name for entry, name in same if entry.home == one.home or entry.origin == one.origin]
    return alike[0] if alike else one.base if not same else f"{one.base} ({one.home.resolve().name})"


def _differing_keys(kinds: Sequence[_Kind]) -> list[str]:
    """Return the keys in which configs differ, those that matter to most readers first."""
    keys = dict.fromkeys(key for one in kinds for key in one.table)
    found = [key for key in keys if any(one.table.get(key) != kinds[0].table.get(key) for one in kinds)]
    return sorted(found, key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key))


def _names(base: str, kinds: Sequence[_Kind]) -> list[str]:
    """Return a name for each kind: the base, with settings or folders that tell kinds apart."""
    if len(kinds) == 1:
        return [base]
    keys = _differing_keys(kinds)
    most = 1 if any(one.is_planned for one in kinds) else MOST_KEYS
    if len(keys) <= most and all(one.table for one in kinds):
        words = [", ".join(f"{key.rpartition('.')[2]}={plain(one.table.get(key))}" for key in keys) for one in kinds]
        if len(set(words)) == len(words):  # a long number may be cut to the same digits
            return [f"{base} {one}" for one in words]
    homes = [[path.resolve() for path in one.homes] for one in kinds]
    more = [f" and {len(paths) - 1} more" if len(paths) > 1 else "" for paths in homes]
    first_names = [f"{paths[0].name}{rest}" for paths, rest in zip(homes, more, strict=True)]
    with_parents = [f"{paths[0].parent.name}/{name}" for paths, name in zip(homes, first_names, strict=True)]
    # Of several folders whose names differ in the numbers at their ends alone: the names without the numbers.
    stems = []
    for paths, name in zip(homes, first_names, strict=True):
        without = {re.sub(r"[-_. ]?[0-9]+$", "", path.name) for path in paths}
        stems.append(without.pop() if len(paths) > 1 and len(without) == 1 and "" not in without else name)
    for found in (stems, first_names, with_parents):
        if len(set(found)) == len(found):
            return [f"{base} ({one})" for one in found]
    return [f"{base} ({one} {at + 1})" for at, one in enumerate(with_parents)]
