"""The runs that some folders hold, and those that comparisons in them still wait for."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fielding.errors import InputError
from fielding.records.plan import PLAN, Plan, Variant, read_failure, read_plan
from fielding.records.run_folder import MANIFEST, ROUNDS
from fielding.reporting.group_names import Entry, Expected
from fielding.reporting.log_reader import LogReader
from fielding.reporting.references import METHOD, Settings
from fielding.reporting.run_record import FAILED, RunRecord, read_run

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
