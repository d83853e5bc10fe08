"""Methods that ran on the same seeds, side by side: means with intervals, paired differences, who is best."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.numbers.groups import OTHER_DATA, Gathered, Group, held_alike, version_words
from fielding.reporting.numbers.paired import best, holm, paired_p, seed_record, speedup
from fielding.reporting.numbers.run_metrics import TIMINGS, run_metrics
from fielding.reporting.numbers.run_record import FAILED, RunRecord
from fielding.reporting.numbers.targets import METHOD, counterpart, dynamic_regret, times_to_target

MOST_NAMES = 3
"""Groups that a sentence names."""


def comparison_notes(gathered: Gathered, runs: Mapping[str, Mapping[int | None, Mapping[str, Json]]]) -> list[str]:
    """Return what to know before believing a comparison.

    Parameters
    ----------
    gathered
        The runs.
    runs
        Figures of finished runs, by group and seed.
    """
    others = {*gathered.references.values(), *gathered.targets.values()}
    lacking = [name for name, mine in runs.items() if name in others and not mine]
    foreign = [run for _, run in gathered.runs if any(one.startswith(OTHER_DATA) for one in run.problems)]
    return [
        *[f"{name} has no finished run: what is held against it is not known." for name in lacking],
        *_unlike(gathered),
        *_diverged(runs),
        *([f"Runs that do not count since they were {OTHER_DATA} the others: {len(foreign)}."] if foreign else ()),
        *filter(None, [version_words(run for group in gathered.groups for run in group.finished)]),
    ]


def diverged_words(counts: Mapping[str, tuple[int, int]]) -> str:
    """Return how many trainings of which groups gave no finite model; nothing if all did.

    Parameters
    ----------
    counts
        By group, how many gave none, and how many there were.

    Examples
    --------
    >>> diverged_words({"ifca": (0, 9), "global": (200, 200)})
    'global (200 of 200)'
    """
    return named([f"{name} ({failed:,} of {whole:,})" for name, (failed, whole) in counts.items() if failed])


def named(names: Sequence[str]) -> str:
    """Return some names, of many the first few.

    Examples
    --------
    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _unlike(gathered: Gathered) -> list[str]:
    """Return which groups are not held against the reference, though there is one, and why."""
    alone = [name for name, other in gathered.references.items() if other is None]
    if gathered.reference is None or not alone:
        return []
    return [
        f"No difference, test, target or speed-up for {named(alone)}: no run of {gathered.reference} or its like is on "
        "the same data (section [trace] of the config) and over as many rounds."
    ]


def _diverged(runs: Mapping[str, Mapping[int | None, Mapping[str, Json]]]) -> list[str]:
    counts = {name: (_total(mine, "n_failed"), _total(mine, "n_trained")) for name, mine in runs.items()}
    words = diverged_words(counts)
    return [f"Training diverged, no finite model came of it: {words}; lower training.learning_rate."] if words else []


def _total(mine: Mapping[int | None, Mapping[str, Json]], name: str) -> int:
    values = [figures.get(name) for figures in mine.values()]
    return sum(int(value) for value in values if isinstance(value, (int, float)))


Figures: TypeAlias = Mapping[str, Json]
"""The figures of one run."""
Seed: TypeAlias = int | None
Runs: TypeAlias = Mapping[str, Mapping[Seed, Figures]]
"""Figures by method and seed, of finished runs."""
Targets: TypeAlias = Mapping[str, Mapping[Seed, float | None]]
"""By method and seed, the accuracy to reach."""

ORACLE = "oracle"
"""The method that knows the truth: regret is what others lose against it, and it never counts as the best."""
ALWAYS = (
    "final_accuracy", "final_accuracy_corrected", "worst_decile", "time_to_target_s", "speedup", "dip", "bytes_up",
    "bytes_down", "client_seconds", "moves", "reclusterings", "heterogeneity",
)  # fmt: skip
"""Figures that every method has in ``summary.json``, first and in this order; null where they are not known."""
PAIRED = (
    "final_accuracy", "worst_decile", "final_accuracy_corrected", "worst_decile_corrected", "final_accuracy_tuned",
    "worst_decile_tuned", "final_accuracy_weighted", "final_newest_accuracy", "final_prequential_accuracy",
)  # fmt: skip
"""Figures whose differences to the reference are tested, and whose best methods are told."""


def comparison(gathered: Gathered) -> dict[str, Json]:
    """Return the content of a comparison's ``summary.json``.

    Only finished runs count. A variant may lack seeds: means are over those it has, differences over those that both
    methods have. Methods are held against each other only on the same data (section ``[trace]`` of the config) and over
    as many rounds.

    Returns
    -------
    ``seeds``, ``reference``
        The seeds, rising, which is the order of all ``per_seed``; the name of the method that others are held against.
    ``target_of``, ``target_accuracy``
        Whose final accuracy is the target, and that accuracy: the method ``global`` if there is one, else the
        reference. On each seed it is that of the same seed. Where the reference is one of several with different
        settings, these are the reference's.
    ``methods``
        By name: ``n_seeds``, its finished runs, and each figure as ``mean``, ``ci95`` and ``per_seed`` (null where a
        seed has none). ``reference`` is whom it is held against (null if others are held against it), ``target_of``
        whose final accuracy it is to reach, ``n_targets`` on how many seeds it was tested and that accuracy is known.
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
    seeds, references, goals = _seeds(gathered), gathered.references, gathered.targets
    records: dict[str, dict[Seed, RunRecord]] = {name: {} for name in gathered.variants}
    records |= {group.name: _by_seed(group) for group in gathered.groups}
    runs: Runs = {name: _figures(mine) for name, mine in records.items()}
    finals = {
        name: {seed: _number(one.get("final_accuracy")) for seed, one in mine.items()} for name, mine in runs.items()
    }
    targets: Targets = {name: finals.get(goal or "", {}) for name, goal in goals.items()}
    runs = _with_relative_figures(records, runs, targets, _oracles(gathered))
    methods, timings = _tables(runs, seeds)
    _add_speedups(methods, goals)
    for name, figures in methods.items():
        figures["n_targets"] = len(
            [1 for seed, own in finals[name].items() if None not in (own, targets[name].get(seed))]
        )
        figures |= {"reference": None if references[name] == name else references[name], "target_of": goals[name]}
    reference = gathered.reference
    return {
        "seeds": list[Json](seeds),
        "reference": reference,
        "target_of": goals.get(reference or ""),
        "target_accuracy": seed_record([targets.get(reference or "", {}).get(seed) for seed in seeds]),
        "methods": dict[str, Json](methods),
        "timings": dict[str, Json](timings),
        "paired": _paired(runs, seeds, references),
        "best": _best(_rivals(gathered, runs), seeds, _fields(gathered)),
        **_left_out(gathered),
        "notes": list[Json](comparison_notes(gathered, runs)),
    }


def _seeds(gathered: Gathered) -> list[Seed]:
    found: set[Seed] = {run.seed for _, run in gathered.runs} | {one.seed for one in gathered.awaited}
    return sorted(found, key=lambda seed: (seed is None, seed))


def _by_seed(group: Group) -> dict[Seed, RunRecord]:
    """Return the finished runs; of two of the same seed, which are equal, the first."""
    return {run.seed: run for run in reversed(group.finished)}


def _figures(records: Mapping[Seed, RunRecord]) -> dict[Seed, Figures]:
    return {seed: run_metrics(run) for seed, run in records.items()}


def _oracles(gathered: Gathered) -> dict[str, str | None]:
    """Return by method the name of the oracle with the same other settings, on the same data."""
    variants = gathered.variants
    found: dict[str, str | None] = {name: counterpart(variants, name, ORACLE) or ORACLE for name in variants}
    return held_alike(found, variants, gathered.terms)


def _with_relative_figures(
    records: Mapping[str, Mapping[Seed, RunRecord]], runs: Runs, targets: Targets, oracles: Mapping[str, str | None]
) -> Runs:
    """Return the figures of all runs with the time to the target and the regret against the oracle of their seed."""
    found: dict[str, dict[Seed, Figures]] = {name: {} for name in runs}
    for name, mine in runs.items():
        oracle = records.get(oracles[name] or "", {})
        for seed, figures in mine.items():
            rounds = records[name][seed].rounds
            regret = dynamic_regret(rounds, oracle[seed].rounds) if seed in oracle else None
            times = times_to_target(rounds, targets[name].get(seed))
            found[name][seed] = {**figures, **times, "dynamic_regret": regret}
    return found


def _tables(runs: Runs, seeds: Sequence[Seed]) -> tuple[dict[str, dict[str, Json]], dict[str, dict[str, Json]]]:
    """Return figures of methods over seeds: those that follow from the seeds, and those of the machine."""
    known = {name for mine in runs.values() for figures in mine.values() for name in _numeric(figures)}
    ordered = [*ALWAYS, *sorted(known - {*ALWAYS, *TIMINGS})]
    methods: dict[str, dict[str, Json]] = {
        method: {"n_seeds": len(mine), **{name: seed_record(_values(mine, name, seeds)) for name in ordered}}
        for method, mine in runs.items()
    }
    timings: dict[str, dict[str, Json]] = {
        method: {name: seed_record(_values(mine, name, seeds)) for name in TIMINGS} for method, mine in runs.items()
    }
    return methods, timings


def _add_speedups(methods: dict[str, dict[str, Json]], goals: Mapping[str, str | None]) -> None:
    times = {name: _per_seed(figures["time_to_target_s"]) for name, figures in methods.items()}
    for name, figures in methods.items():
        theirs = times.get(goals[name] or "", [None] * len(times[name]))
        figures["speedup"] = speedup(theirs, times[name])


def _paired(runs: Runs, seeds: Sequence[Seed], references: Mapping[str, str | None]) -> dict[str, Json]:
    """Return the differences of all methods to their references; p-values are adjusted for all of them at once."""
    held_against = {name: other for name, other in references.items() if other in runs and other != name}
    found: dict[str, dict[str, Json]] = {name: {} for name in held_against}
    for figure in PAIRED:
        values = {name: _values(mine, figure, seeds) for name, mine in runs.items()}
        gains = {name: _differences(values[name], values[str(other)]) for name, other in held_against.items()}
        if figure not in PAIRED[:2] and not any(value is not None for gain in gains.values() for value in gain):
            continue
        known = {name: [value for value in gain if value is not None] for name, gain in gains.items()}
        p_values = [paired_p(gain) for gain in known.values()]
        for name, p, p_holm in zip(gains, p_values, holm(p_values), strict=True):
            record = seed_record(gains[name])
            found[name][figure] = {**record, "p": p, "p_holm": p_holm, "n_seeds": len(known[name])}
    return dict[str, Json](found)


def _rivals(gathered: Gathered, runs: Runs) -> Runs:
    """Return the figures of all methods but the oracle."""
    methods = {name: settings.get(METHOD, name) for name, settings in gathered.variants.items()}
    return {name: mine for name, mine in runs.items() if methods[name] != ORACLE}


def _fields(gathered: Gathered) -> dict[str, str]:
    """Return by method among whom its like is sought: those held against the same; without such, those on its terms."""
    firsts: dict[str | None, str] = {}
    references, terms = gathered.references, gathered.terms
    loners = {name: firsts.setdefault(terms.get(name), name) for name, other in references.items() if other is None}
    return {name: loners[name] if other is None else other for name, other in references.items()}


def _best(runs: Runs, seeds: Sequence[Seed], fields: Mapping[str, str]) -> dict[str, Json]:
    """Return by figure who is best, each within its field."""
    found: dict[str, Json] = {}
    for figure in PAIRED:
        rivals: dict[str, dict[str, list[float | None]]] = {}
        for name, mine in runs.items():
            values = _values(mine, figure, seeds)
            if any(one is not None for one in values):
                rivals.setdefault(fields[name], {})[name] = values
        records = {field: best(mine) for field, mine in rivals.items()}
        if len(set(fields.values())) > 1 and records:
            joint: dict[str, Json] = {name: _joined(records, name) for name in ("marked", "worse")}
            found[figure] = {**joint, "winner": None, "within": dict[str, Json](records)}
        elif records:
            found[figure] = records.popitem()[1]
    return found


def _joined(records: Mapping[str, Mapping[str, Json]], name: str) -> list[Json]:
    return [one for record in records.values() if isinstance(names := record[name], list) for one in names]


def _left_out(gathered: Gathered) -> dict[str, Json]:
    """Return the runs that do not count: those that failed, and those that are not done."""
    failed: list[Json] = []
    unfinished: list[Json] = []
    for group, run in gathered.runs:
        if run in group.finished:
            continue
        if run.state == FAILED:
            failed.append({"method": group.name, "seed": run.seed, "error": "; ".join(run.problems[:1])})
        else:
            unfinished.append({"method": group.name, "seed": run.seed, "state": run.state})
    for one in gathered.awaited:
        if one.state == FAILED:
            failed.append({"method": one.group, "seed": one.seed, "error": one.problem})
        else:
            unfinished.append({"method": one.group, "seed": one.seed, "state": one.state})
    return {"failed": failed, "unfinished": unfinished}


def _differences(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float | None]:
    pairs = zip(ours, theirs, strict=True)
    return [None if one is None or other is None else one - other for one, other in pairs]


def _values(mine: Mapping[Seed, Figures], name: str, seeds: Sequence[Seed]) -> list[float | None]:
    return [_number(mine[seed].get(name)) if seed in mine else None for seed in seeds]


def _per_seed(record: Json) -> list[float | None]:
    values = record.get("per_seed") if isinstance(record, dict) else None
    return [_number(value) for value in values] if isinstance(values, list) else []


def _numeric(figures: Figures) -> list[str]:
    return [name for name, value in figures.items() if value is None or isinstance(value, (int, float))]


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) else None
