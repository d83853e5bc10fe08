"""The tables of an experiment: its variants, their course over the rounds, and the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from experiments.reproduce.claims import HEAD, compared_row, measured_row
from experiments.reproduce.courses import N_PARTS, course, difference_course
from experiments.reproduce.figures import CORRECTED, NEXT, PLAIN, gain, level
from experiments.reproduce.reading import Experiment
from experiments.reproduce.results import Figure, Results, figure_of
from fielding.reporting.numbers.paired import estimate

Cells = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table of variants: its head, and the cell of a variant beside another."""

    head: str
    cell: Callable[[Results, str, str], str]


def _mean(name: str, unit: float, places: int) -> Callable[[Results, str, str], str]:
    def cell(results: Results, of: str, _against: str) -> str:
        values = [value for value in results.values(of, name) if value is not None]
        return f"{sum(values) / len(values) / unit:.{places}f}" if values else "-"

    return cell


def _accuracy(name: str) -> Callable[[Results, str, str], str]:
    """Return the column of an accuracy, mean over seeds; a dash where a run lacks it."""

    def cell(results: Results, of: str, against: str) -> str:
        return "-" if None in results.values(of, name) else plus_minus(level(results, of, against, name=name))

    return cell


def _gain(name: str) -> Callable[[Results, str, str], str]:
    """Return the column of an accuracy minus that of the reference of a row, seed by seed."""

    def cell(results: Results, of: str, against: str) -> str:
        if None in results.values(of, name) + results.values(against, name):
            return "-"
        return "reference" if of == against else plus_minus(gain(results, of, against, name=name), sign="+")

    return cell


def _corrected(results: Results, of: str, against: str) -> str:
    """Return the accuracies of corrected models on the window and, where there is one, on the next interval."""
    known = [name for name in (CORRECTED, f"{NEXT}_corrected") if None not in results.values(of, name)]
    return " / ".join(f"{level(results, of, against, name=name).mean:.1f}" for name in known) or "-"


def _heterogeneity(results: Results, of: str, _against: str) -> str:
    values = results.values(of, "measured_heterogeneity")
    known = [value for value in values if value is not None]
    return plus_minus(figure_of(estimate(known)), places=2) if known else "-"


COLUMNS: dict[str, Column] = {
    "accuracy": Column(head="window", cell=_accuracy(PLAIN)),
    "gain": Column(head="gain", cell=_gain(PLAIN)),
    "next": Column(head="next interval", cell=_accuracy(NEXT)),
    "next gain": Column(head="next gain", cell=_gain(NEXT)),
    "corrected": Column(head="corrected: window / next", cell=_corrected),
    "hours": Column(head="hours", cell=_mean("time_s", 3600.0, 1)),
    "down": Column(head="MB down", cell=_mean("bytes_down", 1e6, 0)),
    "up": Column(head="MB up", cell=_mean("bytes_up", 1e6, 0)),
    "moves": Column(head="moves", cell=_mean("moves", 1.0, 0)),
    "reclusterings": Column(head="re-clusterings", cell=_mean("reclusterings", 1.0, 1)),
    "clusters": Column(head="K at the end", cell=_mean("n_clusters_last", 1.0, 1)),
    "heterogeneity": Column(head="within-cluster L1", cell=_heterogeneity),
}
"""What a table of variants may have, in the usual order; accuracies in percent, differences in points."""
USUAL = ("accuracy", "gain", "next", "next gain", "corrected", "hours", "down", "clusters")
"""Columns of an experiment that asks for no others: what clients are served, and what it costs."""


def plus_minus(one: Figure, *, sign: str = "", places: int = 1) -> str:
    """Return a figure with the half width of its interval, or with its ends where it is cut off at a bound.

    Examples
    --------
    >>> plus_minus(Figure(mean=1.0, low=0.5, high=1.5), sign="+")
    '+1.0 ± 0.5'
    """
    mean = f"{one.mean:{sign}.{places}f}"
    if one.low is None or one.high is None:
        return mean
    if abs(one.high + one.low - 2.0 * one.mean) > 1e-9 * max(1.0, abs(one.mean)):  # cut off at a bound
        return f"{mean} [{one.low:{sign}.{places}f}, {one.high:{sign}.{places}f}]"
    return f"{mean} ± {(one.high - one.low) / 2:.{places}f}"


def variant_table(experiment: Experiment, results: Results) -> Cells:
    """Return the table of variants, heads first: accuracies and costs, or the columns asked for."""
    columns = [COLUMNS[name] for name in experiment.columns or USUAL]
    return [
        ["", *(column.head for column in columns)],
        *(
            [name, *(column.cell(results, name, experiment.held_against(name)) for column in columns)]
            for name in results.runs
        ),
    ]


def course_table(experiment: Experiment, results: Results) -> Cells:
    """Return the courses over the rounds that an experiment asks for, heads first; nothing if it asks for none.

    Differences have intervals, others are means: the figure has the bands.
    """
    n_rounds = len(next(iter(results.runs.values()))[0].rounds)
    edges = [round(n_rounds * part / N_PARTS) for part in range(N_PARTS + 1)]
    head = ["rounds", *(f"{low + 1} to {high}" for low, high in pairwise(edges))]
    rows = [
        [f"{of} minus {against}, points", *_cells(difference_course(results, of, against), sign="+")]
        for of, against in experiment.curves
    ]
    if experiment.course is not None:
        courses = {name: course(results, name, experiment.course) for name in results.runs}
        rows += [
            [name, *("-" if one is None else f"{one.mean:.2f}" for one in parts)] for name, parts in courses.items()
        ]
    return [head, *rows] if rows else []


def _cells(parts: Sequence[Figure | None], *, sign: str = "") -> list[str]:
    return ["-" if one is None else plus_minus(one, sign=sign) for one in parts]


def claim_table(experiment: Experiment, results: Results) -> Cells:
    """Return the paper's numbers beside ours, heads first."""
    return [list(HEAD), *(compared_row(claim, experiment, results) for claim in experiment.claims)]


def measured_table(experiment: Experiment, found: Mapping[str, Figure]) -> Cells:
    """Return the paper's numbers beside what was measured, heads first."""
    return [list(HEAD), *(measured_row(claim, found) for claim in experiment.claims)]
