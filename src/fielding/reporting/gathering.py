"""Runs of one or many folders, gathered by what they are runs of: one group per method, or per variant of a config."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fielding.errors import InputError
from fielding.records.plan import PLAN, Plan, read_failure, read_plan
from fielding.records.run_folder import MANIFEST, ROUNDS
from fielding.reporting.log_reader import LogReader
from fielding.reporting.references import METHOD, Settings, first_reference, references, targets
from fielding.reporting.run_record import FAILED, FINISHED, RunRecord, read_run
from fielding.reporting.same_data import version_words, with_equal_data
from fielding.reporting.words import plain

WAITING = "waiting"
"""The state of a run that a comparison is to do and has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Runs that differ in their seeds alone.

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
    def references(self) -> dict[str, str | None]:
        """Whom each group is held against: the reference's method with the same other settings, else the reference."""
        return references(self.variants, self.reference)

    @property
    def targets(self) -> dict[str, str | None]:
        """Whose final accuracy each group is to reach: ``global`` with the same other settings, else its reference."""
        return targets(self.variants, self.reference)

    def group(self, name: str | None) -> Group | None:
        """Return the group of a name; None if there is none."""
        return next((one for one in self.groups if one.name == name), None)


def gathered(folders: Sequence[Path], reader: LogReader | None = None) -> Gathered:
    """Read all runs of some folders.

    Parameters
    ----------
    folders
        Each is the folder of a run, of a comparison, or one with such folders in it.
    reader
        One that may have read some of it before.

    Raises
    ------
    InputError
        If there is nothing to report in any of them.
    """
    found = _read(folders, reader or LogReader())
    runs = [*found.named, *_labelled(found.loose)]
    if not runs and not found.awaited:
        raise InputError("; ".join(found.problems) or "there is no folder to report on; name one")
    names = [*(name for name, _, _ in runs), *(one.group for one in found.awaited)]
    settings = {name: mine for name, _, mine in reversed(runs)} | found.settings
    reference = first_reference({name: settings.get(name, {}) for name in names}, found.references)
    held_against = {str(name) for name in references(settings, reference).values()}
    groups = _grouped(with_equal_data([(name, run) for name, run, _ in runs], held_against))
    if reference is not None and groups and reference not in [one.name for one in groups]:
        found.problems.append(f"{reference}, which others are held against, has no run: differences are not known")
    if words := version_words(run for one in groups for run in one.finished):
        found.problems.append(words)
    return Gathered(
        title=", ".join(folder.resolve().name for folder in folders),
        groups=groups,
        reference=reference,
        awaited=tuple(found.awaited),
        problems=tuple(found.problems),
        settings=settings,
    )


Named = tuple[str, RunRecord, Settings]
"""A run with the name of its group, and what tells that from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What some folders hold."""

    named: list[Named] = field(default_factory=list)
    loose: list[RunRecord] = field(default_factory=list)
    awaited: list[Awaited] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    settings: dict[str, Settings] = field(default_factory=dict)


def _read(folders: Sequence[Path], reader: LogReader) -> _Found:
    found = _Found()
    for folder in folders:
        try:
            plan = read_plan(folder)
        except InputError as error:
            plan = None
            found.problems.append(str(error))
        if plan is not None:
            _add_planned(found, folder, plan, reader)
            found.references.append(plan.reference)
        else:
            records, complaints = _loose(folder, reader)
            found.loose.extend(records)
            found.problems.extend(complaints)
    return found


def _add_planned(found: _Found, folder: Path, plan: Plan, reader: LogReader) -> None:
    """Add the runs of a comparison that are there, and those that are not."""
    base = plan.config.get("method")
    method = base.get("name") if isinstance(base, dict) else None
    for variant in plan.variants:
        settings = found.settings.setdefault(variant.name, {METHOD: method, **variant.settings})
        for seed in plan.seeds:
            at = folder / plan.folder_of(variant, seed)
            try:
                run = read_run(at, reader)
            except InputError as error:
                found.awaited.append(_awaited(at, variant.name, seed, str(error)))
                continue
            # Without a manifest a run does not know its seed; the plan does.
            known = run if run.seed is not None else replace(run, manifest={**run.manifest, "seed": seed})
            found.named.append((variant.name, known, settings))


def _awaited(folder: Path, group: str, seed: int, problem: str) -> Awaited:
    failure = read_failure(folder)
    if failure is not None:
        return Awaited(group=group, seed=seed, state=FAILED, problem=failure)
    has_begun = (folder / MANIFEST).exists()
    return Awaited(group=group, seed=seed, state=FAILED if has_begun else WAITING, problem=problem if has_begun else "")


def _loose(folder: Path, reader: LogReader) -> tuple[list[RunRecord], list[str]]:
    """Return the run of a folder, or those of the folders in it."""
    try:
        return [read_run(folder, reader)], []
    except InputError as error:
        problem = str(error)
    if not folder.is_dir():
        return [], [f"{folder} is no folder; give the folder of a run or of a comparison"]
    found: list[RunRecord] = []
    with contextlib.suppress(OSError):
        for inner in sorted(one for one in folder.iterdir() if (one / ROUNDS).exists()):
            with contextlib.suppress(InputError):
                found.append(read_run(inner, reader))
    if found:
        return found, []
    is_empty = not (folder / MANIFEST).exists()
    return [], [f"{folder} holds no run (no {MANIFEST}, no {PLAN})" if is_empty else problem]


def _labelled(runs: Sequence[RunRecord]) -> list[Named]:
    """Return runs that no plan names with the name of their method, and with what tells them from others of it."""
    tables = [run.settings for run in runs]
    methods = [str(run.setting("method", "name") or "run") for run in runs]
    found: list[Named] = []
    for run, table, method in zip(runs, tables, methods, strict=True):
        others = [other for other, same in zip(tables, methods, strict=True) if same == method]
        differing = sorted({key for other in others for key in {*table, *other} if table.get(key) != other.get(key)})
        words = ", ".join(f"{key.rpartition('.')[2]}={plain(table.get(key))}" for key in differing)
        settings: Settings = {METHOD: method, **{key: table.get(key) for key in differing}}
        found.append((f"{method} {words}".strip(), run, settings))
    return found


def _grouped(named: Sequence[tuple[str, RunRecord]]) -> tuple[Group, ...]:
    groups: dict[str, Group] = {}
    for name, run in named:
        before = groups.get(name, Group(name=name, runs=()))
        groups[name] = replace(before, runs=tuple(sorted((*before.runs, run), key=lambda one: one.seed or 0)))
    return tuple(groups.values())
