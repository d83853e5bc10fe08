"""Runs of one or many folders, gathered by what they are runs of: one group per method, or per variant of a config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fielding.errors import InputError
from fielding.reporting.found_runs import WAITING, Found, found_runs
from fielding.reporting.group_names import Expected, expected_name, named_runs
from fielding.reporting.like_with_like import held_alike, terms_of
from fielding.reporting.log_reader import LogReader
from fielding.reporting.references import Settings, first_reference, references, targets
from fielding.reporting.run_record import FINISHED, RunRecord
from fielding.reporting.same_data import version_words, with_equal_data

__all__ = ["WAITING", "Awaited", "Gathered", "Group", "gathered"]


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
