"""The runs of an experiment as they are read, and a number of ours with its interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fielding._typing import Json
from fielding.errors import InputError, unknown_name
from fielding.records.plan import Plan
from fielding.reporting.numbers.paired import Estimate
from fielding.reporting.numbers.run_metrics import run_metrics
from fielding.reporting.numbers.run_record import RunRecord, read_run


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
    >>> from fielding.reporting.numbers.paired import estimate
    >>> figure_of(estimate([0.5]), 100.0)
    Figure(mean=50.0, low=None, high=None)
    """
    ends = one.ends
    if ends is None:
        return Figure(mean=unit * one.mean)
    return Figure(mean=unit * one.mean, low=unit * ends[0], high=unit * ends[1])


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


SCORES = ("final_accuracy", "final_next_accuracy", "final_newest_accuracy", "worst_decile")
"""Scores that runs also have of models that clients corrected or tuned."""


def as_served(metrics: Mapping[str, Json], served: str) -> dict[str, Json]:
    """Return the figures of a run with the scores of corrected or tuned models in the place of the plain ones."""
    return {**metrics, **{name: metrics.get(f"{name}_{served}") for name in SCORES}}


def results_of(folder: Path, plan: Plan, variants: Sequence[str], served: Mapping[str, str] | None = None) -> Results:
    """Read the runs of some variants of a comparison.

    ``served``: variants of which the scores of corrected or tuned models count, and which of the two.
    """
    runs = {
        name: [read_run(folder / plan.folder_of(plan.variant_named(name), seed)) for seed in plan.seeds]
        for name in variants
    }
    metrics = {name: [run_metrics(one) for one in mine] for name, mine in runs.items()}
    for name, how in (served or {}).items():
        metrics[name] = [as_served(one, how) for one in metrics[name]]
    return Results(seeds=plan.seeds, runs=runs, metrics=metrics)
