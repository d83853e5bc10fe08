"""Methods that ran on the same seeds, side by side: means with intervals, paired differences, who is best."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeAlias

from fielding._typing import Json
from fielding.federation.evaluation import TREATMENTS
from fielding.reporting.numbers.groups import (
    METHOD,
    OTHER_DATA,
    RunGroups,
    find_counterpart,
    match_terms,
    version_words,
)
from fielding.reporting.numbers.paired import SHARE, best, bounds_of, holm, paired_p, seed_record, speedup
from fielding.reporting.numbers.progress import progress
from fielding.reporting.numbers.run_metrics import TIMINGS, run_metrics
from fielding.reporting.numbers.run_record import FAILED, RunRecord
from fielding.reporting.numbers.run_summary import dynamic_regret, times_to_target

Seed: TypeAlias = int | None
Runs: TypeAlias = Mapping[str, Mapping[Seed, Mapping[str, Json]]]  # figures of finished runs, by method and seed
MOST_NAMES = 3  # groups that a sentence names
ORACLE = "oracle"
"""The method that knows the truth: regret is what others lose against it, and it never counts as the best."""
ALWAYS = (
    "final_accuracy", "final_newest_accuracy", "final_next_accuracy", "final_accuracy_corrected", "worst_decile",
    "time_to_target_s", "speedup", "dip", "bytes_up", "bytes_down", "client_seconds", "moves", "reclusterings",
    "heterogeneity",
)  # fmt: skip
"""Figures that every method has in ``summary.json``, first and in this order; null where they are not known."""
PAIRED = (
    "final_accuracy", "final_next_accuracy", "worst_decile", "final_newest_accuracy", "final_accuracy_weighted",
    *(
        f"{name}_{how}"
        for how in TREATMENTS
        for name in ("final_accuracy", "final_next_accuracy", "final_newest_accuracy", "worst_decile")
    ),
)  # fmt: skip
"""Figures whose differences to the reference are tested, and whose best methods are told."""
CLAIMED = {"difference": "final_accuracy", "next_difference": "final_next_accuracy"}
"""Who claims to be better needs both differences: that on the window and that on the next interval."""


def compare_groups(gathered: RunGroups) -> dict[str, Json]:
    """Return the content of a comparison's ``summary.json``.

    Only finished runs count. A variant may lack seeds: means are over those it has, differences over those that both
    methods have. Methods are compared only on the same data (section ``[trace]`` of the config) and over as many
    rounds.

    Returns
    -------
    ``seeds``, ``reference``
        The seeds, rising, which is the order of all ``per_seed``; the name of the method that others are compared with.
    ``target_of``, ``target_accuracy``
        Whose final accuracy is the target, and that accuracy: the method ``global`` if there is one, else the
        reference. On each seed it is that of the same seed. Where the reference is one of several with different
        settings, these are the reference's.
    ``methods``
        By name: ``n_seeds``, its finished runs, and each figure as ``mean``, ``ci95`` and ``per_seed`` (null where a
        seed has none). ``reference`` is whom it is compared with (null if others are compared with it), ``target_of``
        whose final accuracy it is to reach, ``n_targets`` on how many seeds it was tested and that accuracy is known.
        ``difference`` and ``next_difference`` are those of ``paired`` in the final accuracy on the window and on the
        next interval; null for a method that others are compared with.
    ``timings``
        Likewise those figures that depend on the machine; nothing else differs between equal comparisons.
    ``paired``
        By name and figure of ``PAIRED``: the difference to its reference, with the p-value ``p`` of the paired t-test,
        ``p_holm``, adjusted for the number of methods, and ``n_seeds``.
    ``best``
        By figure of ``PAIRED``: :func:`best`, the oracle left out. Where there are several
        references, among those with the same one: ``within`` tells of each, by its name. Methods that cannot be held
        against a reference are by themselves, those on the same data and over as many rounds together.
    ``failed``, ``unfinished``
        Runs that do not count: ``method``, ``seed``, and the ``error`` or the ``state``.
    ``notes``
        Sentences on what makes the comparison less than it seems.
    """
    references, goals, variants, terms = gathered.references, gathered.targets, gathered.variants, gathered.terms
    seeds: list[Seed] = sorted(
        {run.seed for _, run in gathered.runs} | {one.seed for one in gathered.awaited},
        key=lambda seed: (seed is None, seed),
    )
    records: dict[str, dict[Seed, RunRecord]] = {name: {} for name in variants}
    for group in gathered.groups:  # of two runs of the same seed, which are equal, the first counts
        records[group.name] = {run.seed: run for run in reversed(group.finished)}
    metrics = {name: {seed: run_metrics(run) for seed, run in mine.items()} for name, mine in records.items()}
    finals = {
        name: {seed: _number(one.get("final_accuracy")) for seed, one in mine.items()} for name, mine in metrics.items()
    }
    targets = {name: finals.get(goal or "", {}) for name, goal in goals.items()}
    oracles = match_terms(
        {name: find_counterpart(variants, name, ORACLE) or ORACLE for name in variants}, variants, terms
    )
    runs: dict[str, dict[Seed, Mapping[str, Json]]] = {name: {} for name in metrics}
    for name, mine in metrics.items():
        oracle = records.get(oracles[name] or "", {})
        for seed, figures in mine.items():
            rounds = records[name][seed].rounds
            regret = dynamic_regret(rounds, oracle[seed].rounds) if seed in oracle else None
            times = times_to_target(rounds, targets[name].get(seed), progress(records[name][seed]))
            runs[name][seed] = {**figures, **times, "dynamic_regret": regret}

    methods, paired = _tabulate_methods(runs, seeds), _compare_pairs(runs, seeds, references)
    for name, table in methods.items():
        own = _values(runs[name], "time_to_target_s", seeds)
        theirs = _values(runs.get(goals[name] or "", {}), "time_to_target_s", seeds)
        table["speedup"] = speedup(theirs, own)
        known = [1 for seed, final in finals[name].items() if None not in (final, targets[name].get(seed))]
        table["n_targets"] = len(known)
        table |= {"reference": None if references[name] == name else references[name], "target_of": goals[name]}
        table |= {key: paired.get(name, {}).get(figure) for key, figure in CLAIMED.items()}
    timings: dict[str, Json] = {
        name: {figure: seed_record(_values(mine, figure, seeds), bounds_of(figure)) for figure in TIMINGS}
        for name, mine in runs.items()
    }
    reference = gathered.reference
    return {
        "seeds": list[Json](seeds),
        "reference": reference,
        "target_of": goals.get(reference or ""),
        "target_accuracy": seed_record([targets.get(reference or "", {}).get(seed) for seed in seeds], SHARE),
        "methods": dict[str, Json](methods),
        "timings": timings,
        "paired": dict[str, Json](paired),
        "best": _find_best(gathered, runs, seeds),
        **_left_out(gathered),
        "notes": list[Json](_notes(gathered, runs)),
    }


def _tabulate_methods(runs: Runs, seeds: Sequence[Seed]) -> dict[str, dict[str, Json]]:
    """Return the figures of methods that follow from the seeds."""
    known = {
        name
        for mine in runs.values()
        for figures in mine.values()
        for name, value in figures.items()
        if value is None or isinstance(value, (int, float))
    }
    ordered = [*ALWAYS, *sorted(known - {*ALWAYS, *TIMINGS})]
    return {
        method: {
            "n_seeds": len(mine),
            **{name: seed_record(_values(mine, name, seeds), bounds_of(name)) for name in ordered},
        }
        for method, mine in runs.items()
    }


def _compare_pairs(
    runs: Runs, seeds: Sequence[Seed], references: Mapping[str, str | None]
) -> dict[str, dict[str, Json]]:
    """Return the differences of all methods to their references; p-values are adjusted for all of them at once."""
    compared_with = {name: other for name, other in references.items() if other in runs and other != name}
    found: dict[str, dict[str, Json]] = {name: {} for name in compared_with}
    for figure in PAIRED:
        values = {name: _values(mine, figure, seeds) for name, mine in runs.items()}
        gains = {
            name: [
                None if own is None or their is None else own - their
                for own, their in zip(values[name], values[str(other)], strict=True)
            ]
            for name, other in compared_with.items()
        }
        known = {name: [value for value in gain if value is not None] for name, gain in gains.items()}
        if figure not in PAIRED[:3] and not any(known.values()):
            continue
        p_values = [paired_p(gain) for gain in known.values()]
        for name, p, p_holm in zip(gains, p_values, holm(p_values), strict=True):
            record = seed_record(gains[name])
            found[name][figure] = {**record, "p": p, "p_holm": p_holm, "n_seeds": len(known[name])}
    return found


def _find_best(gathered: RunGroups, runs: Runs, seeds: Sequence[Seed]) -> dict[str, Json]:
    """Return by figure who is best, each among the methods compared with the same, or on the same terms without one."""
    firsts: dict[str | None, str] = {}
    terms, variants = gathered.terms, gathered.variants
    fields = {
        name: firsts.setdefault(terms.get(name), name) if other is None else other
        for name, other in gathered.references.items()
    }
    found: dict[str, Json] = {}
    for figure in PAIRED:
        rivals: dict[str, dict[str, list[float | None]]] = {}
        for name, mine in runs.items():
            values = _values(mine, figure, seeds)
            if variants[name].get(METHOD, name) != ORACLE and any(one is not None for one in values):
                rivals.setdefault(fields[name], {})[name] = values
        records = {field: best(mine) for field, mine in rivals.items()}
        if len(set(fields.values())) > 1 and records:
            joint: dict[str, Json] = {
                key: [one for record in records.values() if isinstance(names := record[key], list) for one in names]
                for key in ("marked", "worse")
            }
            found[figure] = {**joint, "winner": None, "within": dict[str, Json](records)}
        elif records:
            found[figure] = records.popitem()[1]
    return found


def _left_out(gathered: RunGroups) -> dict[str, Json]:
    """Return the runs that do not count: those that failed, and those that are not done."""
    lacking = [
        (group.name, run.seed, run.state, "; ".join(run.problems[:1]))
        for group, run in gathered.runs
        if run not in group.finished
    ]
    lacking += [(one.group, one.seed, one.state, one.problem) for one in gathered.awaited]
    return {
        "failed": [
            {"method": name, "seed": seed, "error": problem}
            for name, seed, state, problem in lacking
            if state == FAILED
        ],
        "unfinished": [
            {"method": name, "seed": seed, "state": state} for name, seed, state, _ in lacking if state != FAILED
        ],
    }


def _notes(gathered: RunGroups, runs: Runs) -> list[str]:
    """Return what to know before believing a comparison."""
    others = {*gathered.references.values(), *gathered.targets.values()}
    notes = [
        f"{name} has no finished run: what is compared with it is not known."
        for name, mine in runs.items()
        if name in others and not mine
    ]
    alone = [name for name, other in gathered.references.items() if other is None]
    if gathered.reference is not None and alone:
        notes.append(
            f"No difference, test, target or speed-up for {list_names(alone)}: no run of {gathered.reference} or its "
            "like is on the same data (section [trace] of the config) and over as many rounds."
        )
    counts = {}
    for name, mine in runs.items():
        failed, trained = (
            sum(int(value) for one in mine.values() if isinstance(value := one.get(key), (int, float)))
            for key in ("n_failed", "n_trained")
        )
        counts[name] = failed, trained
    if words := diverged_words(counts):
        notes.append(f"Training diverged, no finite model came of it: {words}; lower training.learning_rate.")
    n_foreign = sum(any(one.startswith(OTHER_DATA) for one in run.problems) for _, run in gathered.runs)
    if n_foreign:
        notes.append(f"Runs that do not count since they were {OTHER_DATA} the others: {n_foreign}.")
    versions = version_words(run for group in gathered.groups for run in group.finished)
    return [*notes, versions] if versions else notes


def diverged_words(counts: Mapping[str, tuple[int, int]]) -> str:
    """Return how many trainings of which groups gave no finite model, of how many; nothing if all did.

    Examples
    --------
    >>> diverged_words({"ifca": (0, 9), "global": (200, 200)})
    'global (200 of 200)'
    """
    return list_names([f"{name} ({failed:,} of {whole:,})" for name, (failed, whole) in counts.items() if failed])


def list_names(names: Sequence[str]) -> str:
    """Return some names, of many the first few.

    Examples
    --------
    >>> list_names(["a", "b"]), list_names(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _values(mine: Mapping[Seed, Mapping[str, Json]], name: str, seeds: Sequence[Seed]) -> list[float | None]:
    return [_number(mine[seed].get(name)) if seed in mine else None for seed in seeds]


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) else None
