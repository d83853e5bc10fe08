"""Our figures: of a variant, of a variant beside another, and over the rounds; all from the folders of runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from fielding._typing import Json, Matrix, Vector
from fielding.errors import InputError, unknown_name
from fielding.records.plan import Plan
from fielding.reporting.paired import Estimate, estimate, paired_difference
from fielding.reporting.run_lines import column
from fielding.reporting.run_metrics import run_metrics
from fielding.reporting.run_record import RunRecord, read_run
from fielding.reporting.run_summary import evaluations
from fielding.reporting.speedup import speedup
from fielding.reporting.targets import times_to_target

FIRST_SHARE = 0.1
"""Share of the rounds, at the start, that differences over the rounds leave out: models are hardly trained."""
N_PARTS = 8
"""Parts of the rounds that a course is told in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of ours, with the ends of its 95 % interval if there is one."""

    mean: float
    low: float | None = None
    high: float | None = None


def figure_of(one: Estimate, unit: float = 1.0) -> Figure:
    """Return an estimate as a figure, in other units.

    Examples
    --------
    >>> figure_of(estimate([0.5]), 100.0)
    Figure(mean=50.0, low=None, high=None)
    """
    if one.half_width is None:
        return Figure(mean=unit * one.mean)
    return Figure(mean=unit * one.mean, low=unit * (one.mean - one.half_width), high=unit * (one.mean + one.half_width))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """The runs of an experiment.

    Parameters
    ----------
    seeds
        Their seeds.
    runs
        By variant, a run for each seed.
    metrics
        By variant, the figures of each run.
    """

    seeds: Sequence[int]
    runs: Mapping[str, Sequence[RunRecord]]
    metrics: Mapping[str, Sequence[Mapping[str, Json]]]

    def values(self, variant: str, name: str) -> list[float | None]:
        """Return a figure of each run of a variant, None where it has none."""
        if variant not in self.metrics:
            raise unknown_name("variant", variant, dict.fromkeys(self.metrics))
        values = [one.get(name) for one in self.metrics[variant]]
        return [float(value) if isinstance(value, (int, float)) else None for value in values]

    def known(self, variant: str, name: str) -> list[float]:
        """Return a figure of each run of a variant, which all must have."""
        values = self.values(variant, name)
        found = [value for value in values if value is not None]
        if len(found) != len(values):
            raise InputError(f"a run of {variant} has no {name}")
        return found


def results_of(folder: Path, plan: Plan, variants: Sequence[str]) -> Results:
    """Read the runs of some variants of a comparison."""
    runs = {
        name: [read_run(folder / plan.folder_of(plan.variant_named(name), seed)) for seed in plan.seeds]
        for name in variants
    }
    return Results(
        seeds=plan.seeds, runs=runs, metrics={name: [run_metrics(one) for one in mine] for name, mine in runs.items()}
    )


def level(results: Results, of: str, _against: str, *, corrected: bool = False) -> Figure:
    """Return the final accuracy in percent."""
    return figure_of(estimate(results.known(of, _accuracy(corrected))), 100.0)


def gain(results: Results, of: str, against: str, *, corrected: bool = False) -> Figure:
    """Return the final accuracy minus another's, seed by seed, in points."""
    name = _accuracy(corrected)
    return figure_of(paired_difference(results.known(of, name), results.known(against, name)), 100.0)


def _accuracy(corrected: bool) -> str:
    return "final_accuracy_corrected" if corrected else "final_accuracy"


def faster(results: Results, of: str, against: str, *, corrected: bool = False) -> Figure | None:  # noqa: ARG001
    """Return how many times sooner one stays above the other's final accuracy; None if that is on no seed.

    The other is there when it stays there itself; if its last evaluation is below its mean, at its end.
    """
    targets = results.known(against, "final_accuracy")
    theirs = [
        _seconds_to(run, target) or float(str(run.rounds[-1]["time_s"]))
        for run, target in zip(results.runs[against], targets, strict=True)
    ]
    ours = [_seconds_to(run, target) for run, target in zip(results.runs[of], targets, strict=True)]
    found = speedup(theirs, ours)
    mean, ends = found["mean"], found["ci95"]
    if not isinstance(mean, float):
        return None
    low, high = (float(str(one)) for one in ends) if isinstance(ends, list) else (None, None)
    return Figure(mean=mean, low=low, high=high)


def n_reached(results: Results, of: str, against: str) -> int:
    """Return on how many seeds one stays above the other's final accuracy."""
    targets = results.known(against, "final_accuracy")
    return sum(_seconds_to(run, target) is not None for run, target in zip(results.runs[of], targets, strict=True))


def _seconds_to(run: RunRecord, target: float) -> float | None:
    return times_to_target(run.rounds, target)["time_to_target_s"]


def time_ratio(results: Results, of: str, against: str, *, corrected: bool = False) -> Figure:  # noqa: ARG001
    """Return how many times as long all rounds of one took as those of the other, by the simulated clock."""
    pairs = zip(results.known(of, "time_s"), results.known(against, "time_s"), strict=True)
    return figure_of(estimate([one / other for one, other in pairs]))


def heterogeneity_change(results: Results, of: str, against: str, *, corrected: bool = False) -> Figure:  # noqa: ARG001
    """Return by how many percent members of a cluster are more unlike than those of the other's, over all rounds."""
    changes = []
    for one, other in zip(results.runs[of], results.runs[against], strict=True):
        ours, theirs = (np.nanmean(column(run.rounds, "measured_heterogeneity")) for run in (one, other))
        changes.append(100.0 * (float(ours) / float(theirs) - 1.0))
    return figure_of(estimate(changes))


def differences(results: Results, of: str, against: str) -> tuple[Vector, Matrix]:
    """Return rounds in which both were evaluated and the differences of their accuracies in points, seed by round."""
    ours, theirs = (_curves(results.runs[name], "accuracy") for name in (of, against))
    rounds = np.array(sorted(set(ours[0]) & set(theirs[0])))
    rows = [[100.0 * (one[at] - other[at]) for at in rounds] for one, other in zip(ours, theirs, strict=True)]
    return rounds.astype(np.float64), np.array(rows)


def _curves(runs: Sequence[RunRecord], name: str) -> list[dict[int, float]]:
    return [
        {int(str(row["round"])): float(str(row[name])) for row in evaluations(run.rounds) if row.get(name) is not None}
        for run in runs
    ]


def _settled(results: Results, of: str, against: str) -> Matrix:
    rounds, rows = differences(results, of, against)
    return np.asarray(rows[:, rounds >= FIRST_SHARE * (rounds[-1] + 1)])


def mean_difference(results: Results, of: str, against: str, *, corrected: bool = False) -> Figure:  # noqa: ARG001
    """Return the difference of accuracies, mean over the rounds but the first tenth, in points."""
    return figure_of(estimate(_settled(results, of, against).mean(axis=1).tolist()))


def largest_difference(results: Results, of: str, against: str, *, corrected: bool = False) -> Figure:  # noqa: ARG001
    """Return the largest difference at any evaluation but the first tenth, mean over seeds, in points."""
    return figure_of(estimate(_settled(results, of, against).max(axis=1).tolist()))


FIGURES: dict[str, Callable[..., Figure | None]] = {
    "level": level,
    "gain": gain,
    "speedup": faster,
    "time ratio": time_ratio,
    "heterogeneity change": heterogeneity_change,
    "mean difference": mean_difference,
    "largest difference": largest_difference,
}
"""What the TOML files may ask for."""


def course(results: Results, variant: str, name: str) -> list[Figure | None]:
    """Return a figure of a variant in each part of the rounds, mean over seeds."""
    rows = np.array([column(run.rounds, name) for run in results.runs[variant]])
    parts = np.array_split(np.arange(rows.shape[1]), N_PARTS)
    return [_part(rows[:, part]) for part in parts]


def difference_course(results: Results, of: str, against: str) -> list[Figure | None]:
    """Return the difference of accuracies in each part of the rounds, in points."""
    rounds, rows = differences(results, of, against)
    edges = np.linspace(0.0, len(results.runs[of][0].rounds), N_PARTS + 1)
    parts = [(rounds >= low) & (rounds < high) for low, high in pairwise(edges)]
    return [_part(rows[:, part]) for part in parts]


def _part(rows: Matrix) -> Figure | None:
    """Return the mean over a part of the rounds; None where nothing was measured in it."""
    if not rows.size or np.isnan(rows).all(axis=1).any():
        return None
    return figure_of(estimate(np.nanmean(rows, axis=1).tolist()))
