"""Methods that ran on the same seeds, side by side: means, intervals, paired differences."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from fielding._typing import Json
from fielding.errors import InputError
from fielding.reporting.paired import Estimate, estimate, paired_difference
from fielding.reporting.run_summary import first_crossing, reached, run_summary
from fielding.reporting.words import digits, megabytes

Row: TypeAlias = Mapping[str, Json]
Rounds: TypeAlias = Sequence[Row]
"""The lines of one ``rounds.jsonl``."""

BASELINE = "global"
MEANS = (
    "final_accuracy", "worst_decile", "final_ari", "time_s", "bytes_down", "bytes_up", "client_seconds", "n_reports",
    "moves", "reclusterings", "n_clusters_last",
)  # fmt: skip
"""Figures of a run that are averaged over seeds."""
PAIRED = ("final_accuracy", "worst_decile")
"""Figures whose differences to the baseline are told."""
OTHERWISE = {
    "final_accuracy_corrected": "corrected to clients' label mixes",
    "worst_decile_corrected": "corrected, of the worst tenth",
    "final_accuracy_tuned": "tuned on clients' own samples",
    "worst_decile_tuned": "tuned, of the worst tenth",
}
"""Figures that runs have only if clients correct or tune their models, and what they are called."""


def comparison(runs: Mapping[str, Sequence[Rounds]], seeds: Sequence[int]) -> dict[str, Json]:
    """Return all figures of some methods; one of them is ``global``, the others are held against it.

    Parameters
    ----------
    runs
        By method: the rounds of its run on each seed.
    seeds
        The seeds, in that order.

    Returns
    -------
    ``seeds``; ``final_from_round`` and ``n_final_evaluations``, what final figures are means over; ``target_accuracy``,
    the final accuracy of the global model on each seed; ``methods``, by name, each figure with ``mean``, ``ci95`` and
    ``per_seed``, also those of ``OTHERWISE`` that all of its runs have; and ``paired``, by name, differences to the
    global model seed by seed. A target that a seed never reaches is None in ``per_seed``, and the mean is over the
    ``n_reached`` others.

    Raises
    ------
    InputError
        If a run has no evaluation.
    """
    totals = {name: [run_summary(rounds, (), gap=1) for rounds in mine] for name, mine in runs.items()}
    finals = {name: _values(mine, "final_accuracy") for name, mine in totals.items()}
    targets = finals[BASELINE]
    methods: dict[str, Json] = {
        name: {**_means(totals[name]), **_to_target(mine, targets)} for name, mine in runs.items()
    }
    paired: dict[str, Json] = {
        name: {
            figure: paired_difference(_values(mine, figure), _values(totals[BASELINE], figure)).record()
            for figure in (*PAIRED, *OTHERWISE)
            if figure in PAIRED or _have([*mine, *totals[BASELINE]], figure)
        }
        for name, mine in totals.items()
        if name != BASELINE
    }
    return {
        "seeds": list(seeds),
        **{name: totals[BASELINE][0][name] for name in ("final_from_round", "n_final_evaluations")},
        "target_accuracy": estimate(targets).record(),
        "methods": methods,
        "paired": paired,
    }


def estimate_of(record: Json) -> Estimate:
    """Return the estimate that a record of ``summary.json`` is of.

    Examples
    --------
    >>> estimate_of(estimate([0.5, 0.7]).record()).words()
    '0.600 ± 1.271'
    """
    values = record["per_seed"] if isinstance(record, dict) else None
    return estimate([float(str(one)) for one in values] if isinstance(values, list) else [])


def comparison_table(summary: Row) -> list[list[str]]:
    """Return the figures for people: a row for each, a column for each method, heads first."""
    found = summary["methods"]
    methods = {name: one for name, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}
    rows: list[tuple[str, Callable[[Row], str]]] = [
        ("final accuracy", lambda one: estimate_of(one["final_accuracy"]).words()),
        ("of the worst tenth of clients", lambda one: estimate_of(one["worst_decile"]).words()),
        *[
            (label, lambda one, name=name: estimate_of(one[name]).words() if name in one else "-")
            for name, label in OTHERWISE.items()
            if any(name in one for one in methods.values())
        ],
        (
            "rounds until it stays above the global model's final accuracy",
            lambda one: _target_words(one["rounds_to_target"], 1.0, 0),
        ),
        ("rounds until it is first above it", lambda one: _target_words(one["rounds_to_first_crossing"], 1.0, 0)),
        ("simulated hours until it stays above it", lambda one: _target_words(one["time_to_target_s"], 3600.0, 2)),
        (
            "simulated hours until it is first above it",
            lambda one: _target_words(one["time_to_first_crossing_s"], 3600.0, 2),
        ),
        ("sent to clients", lambda one: megabytes(estimate_of(one["bytes_down"]).mean)),
        ("sent by clients", lambda one: megabytes(estimate_of(one["bytes_up"]).mean)),
        ("moves one by one", lambda one: _count_words(one, "moves")),
        ("re-clusterings of all", lambda one: _count_words(one, "reclusterings")),
    ]
    return [["", *methods], *[[label, *(cell(one) for one in methods.values())] for label, cell in rows]]


def difference_words(summary: Row, method: str) -> str:
    """Return in one line how much better or worse than the global model a method is, and how sure that is."""
    paired = summary["paired"]
    figures = paired.get(method) if isinstance(paired, dict) else None
    gain = estimate_of(figures["final_accuracy"] if isinstance(figures, dict) else None)
    if gain.half_width is None:
        return f"{method} - {BASELINE}: {gain.mean:+.4f} in final accuracy (one seed: no interval)"
    low, high = gain.mean - gain.half_width, gain.mean + gain.half_width
    verdict = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
    return (
        f"{method} - {BASELINE}: {gain.mean:+.4f} in final accuracy, 95 % interval {low:+.4f} to {high:+.4f} "
        f"({len(gain.per_seed)} seeds, paired): {verdict}"
    )


def target_words(summary: Row) -> str:
    """Return in one line what the rows about a target mean."""
    target = estimate_of(summary["target_accuracy"])
    return (
        f"Above: not below the global model's final accuracy on the same seed ({target.mean:.3f} on average); means "
        "are over the seeds that got there, whose number is told unless all did."
    )


def _count_words(figures: Row, name: str) -> str:
    """Return how often something was done to clusters, a dash for a method that has none."""
    has_none = estimate_of(figures["n_clusters_last"]).mean == 1 and estimate_of(figures["n_reports"]).mean == 0
    return "-" if has_none else digits(estimate_of(figures[name]).mean, 0)


def _target_words(record: Json, unit: float, places: int) -> str:
    """Return the mean over the seeds that reached the target, and how many those are unless all did."""
    if not isinstance(record, dict) or not isinstance(mean := record["mean"], (int, float)):
        return "never"
    n_seeds = len(record["per_seed"]) if isinstance(record["per_seed"], list) else 0
    found = digits(mean / unit, places)
    return found if record["n_reached"] == n_seeds else f"{found} ({record['n_reached']} of {n_seeds})"


def _means(totals: Sequence[Row]) -> dict[str, Json]:
    return {name: estimate(_values(totals, name)).record() for name in (*MEANS, *OTHERWISE) if _have(totals, name)}


def _have(totals: Sequence[Row], name: str) -> bool:
    return all(isinstance(one.get(name), (int, float)) for one in totals)


def _to_target(runs: Sequence[Rounds], targets: Sequence[float]) -> dict[str, Json]:
    """Return after how many rounds and simulated seconds each run was at its target: to stay, and first."""
    found: dict[str, Json] = {}
    for name, crossing in (("target", reached), ("first_crossing", first_crossing)):
        rows = [crossing(rounds, target) for rounds, target in zip(runs, targets, strict=True)]
        n_rounds = [None if row is None else float(str(row["round"])) + 1 for row in rows]
        seconds = [None if row is None else float(str(row["time_s"])) for row in rows]
        found |= {f"rounds_to_{name}": _reached_record(n_rounds), f"time_to_{name}_s": _reached_record(seconds)}
    return found


def _reached_record(values: Sequence[float | None]) -> dict[str, Json]:
    known = [value for value in values if value is not None]
    found = estimate(known).record() if known else {"mean": None, "ci95": None}
    return {**found, "per_seed": list(values), "n_reached": len(known)}


def _values(totals: Sequence[Row], name: str) -> list[float]:
    values = [value for one in totals if isinstance(value := one[name], (int, float))]
    if len(values) != len(totals):
        raise InputError(f"a run has no {name}: no client was tested in it; give clients test samples")
    return [float(value) for value in values]
