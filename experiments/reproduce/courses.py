"""Figures over the rounds: differences at every evaluation, sudden drops, and means over parts of the rounds."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from experiments.reproduce.results import Figure, Results, figure_of
from fielding._typing import Matrix, Vector
from fielding.reporting.numbers.paired import estimate, paired_difference
from fielding.reporting.numbers.run_record import RunRecord, column
from fielding.reporting.numbers.run_summary import evaluations

FIRST_SHARE = 0.1
"""Share of the rounds, at the start, that differences over the rounds leave out: models are hardly trained."""
LATE_SHARE = 0.75
"""Share of the rounds after which differences count as late: the paper's final 100 of 400."""
N_PARTS = 8
"""Parts of the rounds that a course is told in."""


def differences(results: Results, of: str, against: str) -> tuple[Vector, Matrix]:
    """Return rounds in which both were evaluated and the differences of their accuracies in points, seed by round."""
    ours, theirs = (_curves(results.runs[name]) for name in (of, against))
    rounds = np.array(sorted(set(ours[0]) & set(theirs[0])))
    rows = [[100.0 * (one[at] - other[at]) for at in rounds] for one, other in zip(ours, theirs, strict=True)]
    return rounds.astype(np.float64), np.array(rows)


def _curves(runs: Sequence[RunRecord]) -> list[dict[int, float]]:
    return [{int(str(row["round"])): float(str(row["accuracy"])) for row in evaluations(run.rounds)} for run in runs]


def _after(results: Results, of: str, against: str, *, share: float = FIRST_SHARE) -> Matrix:
    rounds, rows = differences(results, of, against)
    return np.asarray(rows[:, rounds >= share * len(results.runs[of][0].rounds)])


def mean_difference(results: Results, of: str, against: str) -> Figure:
    """Return the difference of accuracies, mean over the rounds but the first tenth, in points."""
    return figure_of(estimate(_after(results, of, against).mean(axis=1).tolist()))


def late_difference(results: Results, of: str, against: str) -> Figure:
    """Return the difference of accuracies, mean over the last quarter of the rounds, in points."""
    return figure_of(estimate(_after(results, of, against, share=LATE_SHARE).mean(axis=1).tolist()))


def largest_difference(results: Results, of: str, against: str) -> Figure:
    """Return the largest difference at any evaluation but the first tenth, mean over seeds, in points."""
    return figure_of(estimate(_after(results, of, against).max(axis=1).tolist()))


def share_above(results: Results, of: str, against: str) -> Figure:
    """Return at how many percent of the evaluations, but the first tenth, one is above the other."""
    return figure_of(estimate((100.0 * (_after(results, of, against) > 0).mean(axis=1)).tolist()))


def deeper_drop(results: Results, of: str, against: str) -> Figure:
    """Return how much deeper the largest fall from one evaluation to the next is than the other's, in points."""
    return figure_of(
        paired_difference([_drop(run) for run in results.runs[of]], [_drop(run) for run in results.runs[against]]),
        100.0,
    )


def _drop(run: RunRecord) -> float:
    """Return the largest fall of accuracy from one evaluation to the next, the first tenth of the rounds left out."""
    settled = [row for row in evaluations(run.rounds) if int(str(row["round"])) >= FIRST_SHARE * len(run.rounds)]
    return float((-np.diff(column(settled, "accuracy"))).max(initial=0.0))


def late_change(results: Results, of: str, _against: str) -> Figure:
    """Return the final accuracy minus the mean over the third quarter of the rounds, in points."""
    before = [_third_quarter(run) for run in results.runs[of]]
    return figure_of(paired_difference(results.known(of, "final_accuracy"), before), 100.0)


def _third_quarter(run: RunRecord) -> float:
    n_rounds = len(run.rounds)
    rows = [row for row in evaluations(run.rounds) if 0.5 <= int(str(row["round"])) / n_rounds < LATE_SHARE]
    return float(np.mean(column(rows, "accuracy")))


def heterogeneity_change(results: Results, of: str, against: str) -> Figure:
    """Return by how many percent members of a cluster are more unlike than those of the other's, over all rounds."""
    return _heterogeneity(results, of, against, share=0.0)


def late_heterogeneity_change(results: Results, of: str, against: str) -> Figure:
    """Return the same over the second half of the rounds."""
    return _heterogeneity(results, of, against, share=0.5)


def _heterogeneity(results: Results, of: str, against: str, *, share: float) -> Figure:
    changes = []
    for one, other in zip(results.runs[of], results.runs[against], strict=True):
        ours, theirs = (_unlike(run, share) for run in (one, other))
        changes.append(100.0 * (ours / theirs - 1.0))
    return figure_of(estimate(changes))


def _unlike(run: RunRecord, share: float) -> float:
    values = column(run.rounds, "measured_heterogeneity")
    return float(np.nanmean(values[int(share * values.size) :]))


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
