"""Methods that ran on the same seeds, side by side: means with intervals, paired differences, who is best."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.gathering import BASELINE, Gathered, Group
from fielding.reporting.marking import best
from fielding.reporting.paired import holm, paired_p, seed_record
from fielding.reporting.run_metrics import TIMINGS, run_metrics
from fielding.reporting.run_record import FAILED, RunRecord
from fielding.reporting.speedup import speedup
from fielding.reporting.targets import dynamic_regret, times_to_target

Figures: TypeAlias = Mapping[str, Json]
"""The figures of one run."""
Seed: TypeAlias = int | None
Runs: TypeAlias = Mapping[str, Mapping[Seed, Figures]]
"""Figures by method and seed, of finished runs."""

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
    methods have.

    Returns
    -------
    ``seeds``, ``reference``
        The seeds, rising, which is the order of all ``per_seed``; the name of the method that others are held against.
    ``target_of``, ``target_accuracy``
        Whose final accuracy is the target, and that accuracy: the method ``global`` if there is one, else the
        reference. On each seed it is that of the same seed.
    ``methods``
        By name: ``n_seeds``, its finished runs, and each figure as ``mean``, ``ci95`` and ``per_seed`` (null where a
        seed has none). ``speedup`` is against ``target_of``.
    ``timings``
        Likewise those figures that depend on the machine; nothing else differs between equal comparisons.
    ``paired``
        By name and figure of ``PAIRED``: the difference to the reference, with the p-value ``p`` of the paired t-test,
        ``p_holm``, adjusted for the number of methods, and ``n_seeds``.
    ``best``
        By figure of ``PAIRED``: :func:`~fielding.reporting.marking.best`, the oracle left out.
    ``failed``, ``unfinished``
        Runs that do not count: ``method``, ``seed``, and the ``error`` or the ``state``.
    """
    seeds = _seeds(gathered)
    records = {group.name: _by_seed(group) for group in gathered.groups}
    for one in gathered.awaited:
        records.setdefault(one.group, {})
    reference = gathered.reference or _reference(list(records))
    target_of = BASELINE if records.get(BASELINE) else reference
    runs: Runs = {name: _figures(mine) for name, mine in records.items()}
    targets = {seed: _number(one.get("final_accuracy")) for seed, one in runs.get(target_of or "", {}).items()}
    runs = _with_relative_figures(records, runs, targets)
    methods, timings = _tables(runs, seeds)
    _add_speedups(methods, target_of)
    return {
        "seeds": list[Json](seeds),
        "reference": reference,
        "target_of": target_of,
        "target_accuracy": seed_record([targets.get(seed) for seed in seeds]),
        "methods": dict[str, Json](methods),
        "timings": dict[str, Json](timings),
        "paired": _paired(runs, seeds, reference),
        "best": _best(runs, seeds),
        **_left_out(gathered),
    }


def _seeds(gathered: Gathered) -> list[Seed]:
    found: set[Seed] = {run.seed for _, run in gathered.runs} | {one.seed for one in gathered.awaited}
    return sorted(found, key=lambda seed: (seed is None, seed))


def _reference(names: Sequence[str]) -> str | None:
    """Return what others are held against where nothing else is known: also if only one of them has run so far."""
    if len(names) < 2:
        return None
    return BASELINE if BASELINE in names else names[0]


def _by_seed(group: Group) -> dict[Seed, RunRecord]:
    """Return the finished runs; of two of the same seed, which are equal, the first."""
    return {run.seed: run for run in reversed(group.finished)}


def _figures(records: Mapping[Seed, RunRecord]) -> dict[Seed, Figures]:
    return {seed: run_metrics(run) for seed, run in records.items()}


def _with_relative_figures(
    records: Mapping[str, Mapping[Seed, RunRecord]], runs: Runs, targets: Mapping[Seed, float | None]
) -> Runs:
    """Return the figures of all runs with the time to the target and the regret against the oracle of their seed."""
    oracle = records.get(ORACLE, {})
    found: dict[str, dict[Seed, Figures]] = {name: {} for name in runs}
    for name, mine in runs.items():
        for seed, figures in mine.items():
            rounds = records[name][seed].rounds
            regret = dynamic_regret(rounds, oracle[seed].rounds) if seed in oracle else None
            times = times_to_target(rounds, targets.get(seed))
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


def _add_speedups(methods: dict[str, dict[str, Json]], target_of: str | None) -> None:
    times = {name: _per_seed(figures["time_to_target_s"]) for name, figures in methods.items()}
    theirs = times.get(target_of or "")
    for name, figures in methods.items():
        figures["speedup"] = speedup(theirs or [None] * len(times[name]), times[name])


def _paired(runs: Runs, seeds: Sequence[Seed], reference: str | None) -> dict[str, Json]:
    """Return the differences of all methods to the reference."""
    found: dict[str, dict[str, Json]] = {name: {} for name in runs if name != reference}
    if reference is None or reference not in runs:
        return {}
    for figure in PAIRED:
        theirs = _values(runs[reference], figure, seeds)
        gains = {name: _differences(_values(runs[name], figure, seeds), theirs) for name in found}
        if figure not in PAIRED[:2] and not any(value is not None for gain in gains.values() for value in gain):
            continue
        known = {name: [value for value in gain if value is not None] for name, gain in gains.items()}
        p_values = [paired_p(gain) for gain in known.values()]
        for name, p, p_holm in zip(gains, p_values, holm(p_values), strict=True):
            record = seed_record(gains[name])
            found[name][figure] = {**record, "p": p, "p_holm": p_holm, "n_seeds": len(known[name])}
    return dict[str, Json](found)


def _best(runs: Runs, seeds: Sequence[Seed]) -> dict[str, Json]:
    rivals = {name: mine for name, mine in runs.items() if name != ORACLE}
    found: dict[str, Json] = {}
    for figure in PAIRED:
        values = {name: _values(mine, figure, seeds) for name, mine in rivals.items()}
        known = {name: mine for name, mine in values.items() if any(one is not None for one in mine)}
        if known:
            found[figure] = best(known)
    return found


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
