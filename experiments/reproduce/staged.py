"""The paper's table on clusters by gradients of a model in training, at the same shares of the rounds."""

from collections.abc import Sequence
from pathlib import Path

from experiments.representations import stages
from experiments.representations.tasks import Table, collected
from experiments.reproduce.results import Figure, figure_of
from fielding.reporting.numbers.paired import estimate

STAGES = (10, 20, 50, 100, 150)
"""Of 200 rounds: the paper's 100, 200, 500, 1,000 and 1,500 of 2,000."""
N_ROUNDS = 200
GROUND = "zephyr"
WAYS = {"gradient": "gradient, full; given", "label": "label; given"}
"""What the paper has, and what we call it: whole gradients, as many clusters for both."""
QUICK: Table = {
    "trace": {"name": "digits", "scenario": "places", "clients": 12, "samples": 20, "gap": 50, "window": 50},
    "model": {"hidden": 4},
    "training": {"local_steps": 1, "participants": 4},
}


def measure(seeds: Sequence[int], out: Path, *, is_quick: bool, n_jobs: int) -> tuple[dict[str, Figure], list[str]]:
    """Return the figures by name; there is no more to tell."""
    ground = QUICK if is_quick else stages.GROUNDS[GROUND]
    tasks: dict[str, Table] = {f"{GROUND}-{seed}": {**ground, "seed": seed, "stages": list(STAGES)} for seed in seeds}
    found = collected(stages.work, tasks, out, n_jobs=n_jobs)
    return figures(found, seeds), []


def figures(found: dict[str, Table], seeds: Sequence[int]) -> dict[str, Figure]:
    """Return unlikeness without clusters, and by how many percent each way changes it, at every stage."""
    values: dict[str, Figure] = {}
    for figure in stages.FIGURES:
        for stage in STAGES:
            plain = [_number(found[f"{GROUND}-{seed}"], stage, figure) for seed in seeds]
            values[f"{figure}, none, {stage}"] = figure_of(estimate(plain))
            for way, row in WAYS.items():
                moved = stages.change(found, GROUND, seeds, (stage, row, figure))
                values[f"{figure}, {way}, {stage}"] = figure_of(moved)
    return values


def _number(record: Table, stage: int, figure: str) -> float:
    return float(record[str(stage)]["unclustered"][figure])  # type: ignore[arg-type, call-overload, index]
