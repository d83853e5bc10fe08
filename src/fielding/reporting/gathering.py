"""Runs of one or many folders, gathered by what they are runs of: one group per method, or per variant of a config."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.plan import PLAN, Plan, read_failure, read_plan
from fielding.records.run_folder import MANIFEST, ROUNDS
from fielding.reporting.log_reader import LogReader
from fielding.reporting.run_record import FAILED, FINISHED, RunRecord, read_run
from fielding.reporting.words import plain

BASELINE = "global"
"""The group that others are held against, if there is one of that name."""
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
        The name of the group that others are held against; None for a single group.
    awaited
        Runs of a plan that are not there.
    problems
        What cannot be read.
    """

    title: str
    groups: tuple[Group, ...]
    reference: str | None
    awaited: tuple[Awaited, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def runs(self) -> list[tuple[Group, RunRecord]]:
        """Every run with its group."""
        return [(group, run) for group in self.groups for run in group.runs]

    @property
    def styles(self) -> dict[str, int]:
        """Colour and dash of each group by number, the same in all figures."""
        return {group.name: at for at, group in enumerate(self.groups)}

    def group(self, name: str) -> Group | None:
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
    reader = reader or LogReader()
    named: list[tuple[str, RunRecord]] = []
    loose: list[RunRecord] = []
    awaited: list[Awaited] = []
    problems: list[str] = []
    references: list[str] = []
    for folder in folders:
        try:
            plan = read_plan(folder)
        except InputError as error:
            plan = None
            problems.append(str(error))
        if plan is not None:
            found, missing = _planned(folder, plan, reader)
            named += found
            awaited += missing
            references.append(plan.reference)
        else:
            records, complaints = _loose(folder, reader)
            loose += records
            problems += complaints
    groups = _grouped([*named, *_labelled(loose)])
    if not groups and not awaited:
        raise InputError("; ".join(problems) or "there is no folder to report on; name one")
    reference = _reference([one.name for one in groups], references)
    if reference is not None and references and references[0] != reference:
        problems.append(f"{references[0]}, the reference, has no run yet; others are held against {reference}")
    return Gathered(
        title=", ".join(folder.resolve().name for folder in folders),
        groups=groups,
        reference=reference,
        awaited=tuple(awaited),
        problems=tuple(problems),
    )


def _planned(folder: Path, plan: Plan, reader: LogReader) -> tuple[list[tuple[str, RunRecord]], list[Awaited]]:
    """Return the runs of a comparison that are there, and those that are not."""
    found: list[tuple[str, RunRecord]] = []
    missing: list[Awaited] = []
    for variant in plan.variants:
        for seed in plan.seeds:
            at = folder / plan.folder_of(variant, seed)
            try:
                found.append((variant.name, read_run(at, reader)))
            except InputError as error:
                missing.append(_awaited(at, variant.name, seed, str(error)))
    return found, missing


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


def _labelled(runs: Sequence[RunRecord]) -> list[tuple[str, RunRecord]]:
    """Return runs that no plan names with the name of their method, and with what tells them from others of it."""
    tables = [_flat({key: value for key, value in run.config.items() if key != "seed"}) for run in runs]
    methods = [str(run.setting("method", "name") or "run") for run in runs]
    found = []
    for run, table, method in zip(runs, tables, methods, strict=True):
        others = [other for other, same in zip(tables, methods, strict=True) if same == method]
        differing = sorted({key for other in others for key in {*table, *other} if table.get(key) != other.get(key)})
        words = ", ".join(f"{key.rpartition('.')[2]}={plain(table.get(key))}" for key in differing)
        found.append((f"{method} {words}".strip(), run))
    return found


def _grouped(named: Sequence[tuple[str, RunRecord]]) -> tuple[Group, ...]:
    groups: dict[str, Group] = {}
    for name, run in named:
        before = groups.get(name, Group(name=name, runs=()))
        groups[name] = replace(before, runs=tuple(sorted((*before.runs, run), key=lambda one: one.seed or 0)))
    return tuple(groups.values())


def _reference(names: Sequence[str], planned: Sequence[str]) -> str | None:
    if len(names) < 2:
        return None
    return next((one for one in (*planned, BASELINE) if one in names), names[0])


def _flat(table: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Return a table of tables as one table of dotted keys.

    Examples
    --------
    >>> _flat({"rounds": 9, "trace": {"gap": 3}})
    {'rounds': 9, 'trace.gap': 3}
    """
    found: dict[str, Json] = {}
    for key, value in table.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
