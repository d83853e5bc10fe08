"""The paper's table: how unlike clients of a cluster are, by gradients of a model in training or by labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from experiments.representations.tasks import Table
from experiments.representations.viewing import (
    View,
    groups_of,
    representation_called,
    trained_models,
    vectors_of,
    view_of,
)
from fielding._typing import Floats, Matrix, Membership
from fielding.client.representation.embedding import Embedding
from fielding.client.representation.label import LabelShares
from fielding.config.reader import config_from
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.points import Points
from fielding.distance import METRICS, Metric
from fielding.reporting.numbers.paired import Estimate, estimate
from fielding.rng import stream
from fielding.simulation.assembly import Own, assemble

STAGES = (1, 10, 50, 100, 200)
WAYS = ("gradient, full", "gradient, full, with its length", "gradient", "label")
"""What clients are clustered by; gradients are those of the model of the stage."""
K_MAX, K_GIVEN = 10, 5
RULES = {"silhouette": f"K by silhouette, at most {K_MAX}", "given": f"K = {K_GIVEN}"}
FIGURES = {"labels": "L1 distance of label shares", "embeddings": "squared Euclidean distance of embeddings"}
_LOCAL: Table = {"local_steps": 10, "momentum": 0.9, "participants": 20}
GROUNDS: dict[str, Table] = {
    "zephyr": {
        "trace": {"name": "zephyr", "interval": "7d", "gap": 2, "window": 52, "last": "1050d", "clients": 302},
        "model": {"hidden": 32},
        "training": {**_LOCAL, "participants": 40},
    },
    "fashion-places": {
        "trace": {
            "name": "fashion_mnist",
            "scenario": "places",
            "clients": 100,
            "samples": 50,
            "gap": 20,
            "window": 40,
        },
        "training": _LOCAL,
    },
}


def _squared(rows: Floats, centers: Floats) -> Matrix:
    return np.square(METRICS["l2"].between(rows, centers))


SQUARED: Metric = replace(
    METRICS["l2"], name="squared-l2", summary="squared Euclidean", between=_squared, has_triangle=False, is_norm=False
)
"""The paper's distance between embeddings."""


def tasks(seeds: Sequence[int], stages: Sequence[int] = STAGES) -> dict[str, Table]:
    """Return what is asked for: a task per ground and seed."""
    return {
        f"{name}-{seed}": {**ground, "seed": seed, "stages": list(stages)}
        for seed in seeds
        for name, ground in GROUNDS.items()
    }


def work(task: Table) -> Table:
    """Return heterogeneity at each stage, unclustered and by each way and rule."""
    stages = [int(str(stage)) for stage in task["stages"]]  # type: ignore[union-attr]
    own = {name: value for name, value in task.items() if name != "stages"}
    config = config_from({**own, "rounds": max(stages), "method": {"name": "global"}, "evaluation": {"every": 1000}})
    simulation = assemble(config, Own(), n_workers=1)
    try:
        models = trained_models(simulation, stages)
        windows, trainer = simulation.clients.windows, simulation.trainer
        found: Table = {}
        for stage in stages:
            view = view_of(windows, trainer, models[stage], stage - 1)
            # One ruler for all stages: features under the model of the last one.
            ruler = view_of(windows, trainer, models[stages[-1]], stage - 1)
            found[str(stage)] = stage_figures(view, ruler, seed=config.seed)
    finally:
        simulation.clients.close()
    return found


def stage_figures(view: View, ruler: View, *, seed: int) -> Table:
    """Return the figures of a stage, by way and rule.

    Parameters
    ----------
    view
        What the model of the stage sees: whose gradients clients are clustered by.
    ruler
        What the model that embeddings are measured with sees, in the same windows.
    seed
        Of clusterings and projections.
    """
    labels = vectors_of(ruler, LabelShares())
    embeddings = vectors_of(ruler, Embedding())
    everybody = np.zeros(len(labels), dtype=np.int32)
    found: Table = {"unclustered": unlikeness(labels, embeddings, everybody)}
    clusterers = {"silhouette": Clusterer(k_max=K_MAX), "given": Clusterer(k_min=K_GIVEN, k_max=K_GIVEN)}
    for way in WAYS:
        representation = representation_called(way, seed=seed)
        vectors = vectors_of(view, representation)
        for rule, clusterer in clusterers.items():
            groups = groups_of(vectors, representation, clusterer, seed=seed)
            found[f"{way}; {rule}"] = unlikeness(labels, embeddings, groups)
    return found


def unlikeness(labels: Floats, embeddings: Floats, groups: Membership) -> Table:
    """Return the mean distance of a client to others of its cluster, by labels (L1) and embeddings (squared L2).

    Also how many clusters there are, the share of clients in the largest, and how many clients are alone in theirs:
    the means leave these out.
    """
    sizes = np.bincount(groups)
    by_labels = mean_client_distance(Points(labels), groups, metric=METRICS["l1"], rng=stream(0, "measure"))
    by_embeddings = mean_client_distance(Points(embeddings), groups, metric=SQUARED, rng=stream(0, "measure"))
    return {
        "labels": by_labels.mean,
        "embeddings": by_embeddings.mean,
        "k": int((sizes > 0).sum()),
        "largest": float(sizes.max() / groups.size),
        "alone": by_labels.n_singletons,
    }


def change(found: Mapping[str, Table], ground: str, seeds: Sequence[int], where: tuple[int, str, str]) -> Estimate:
    """Return by how many percent a clustering changes a figure; ``where``: stage, row, figure."""
    stage, row, figure = where
    pairs = [
        (
            _number(found, f"{ground}-{seed}", stage, row, figure),
            _number(found, f"{ground}-{seed}", stage, "unclustered", figure),
        )
        for seed in seeds
    ]
    return estimate([100.0 * (after / before - 1.0) for after, before in pairs])


def verdict(one: Estimate) -> str:
    """Return whether a change in percent is for the better (less unlike), for the worse, or neither for sure.

    A single seed tells neither.
    """
    if one.half_width is None or abs(one.mean) <= one.half_width:
        return "level"
    return "better" if one.mean < 0.0 else "worse"


def paper_finding(found: Mapping[str, Table], ground: str, seeds: Sequence[int], stages: Sequence[int] = STAGES) -> str:
    """Return in a line whether clusters by gradients are no better than none early in training, as the paper finds."""
    row = f"{WAYS[0]}; given"
    useless = [stage for stage in stages if verdict(change(found, ground, seeds, (stage, row, "labels"))) != "better"]
    if useless:
        rounds = ", ".join(map(str, useless))
        return (
            f"{ground}: the paper's finding shows; by gradients, clusters are no better than none after round {rounds}."
        )
    return (
        f"{ground}: the paper's finding does not show; by gradients, too, clusters are better than none at every stage."
    )


def tables(
    found: Mapping[str, Table],
    seeds: Sequence[int],
    stages: Sequence[int] = STAGES,
    grounds: Sequence[str] | None = None,
) -> dict[str, list[list[str]]]:
    """Return a table of cells per ground (all by default), rule and figure, by its title: stages down, ways across."""
    return {
        f"{ground}, {words}, {measured}": [
            ["after round", "unclustered", *WAYS],
            *(_line(found, ground, seeds, (stage, rule, figure)) for stage in stages),
        ]
        for ground in (GROUNDS if grounds is None else grounds)
        for rule, words in RULES.items()
        for figure, measured in FIGURES.items()
    }


def _line(found: Mapping[str, Table], ground: str, seeds: Sequence[int], where: tuple[int, str, str]) -> list[str]:
    stage, rule, figure = where

    def mean(row: str, name: str) -> float:
        return float(np.mean([_number(found, f"{ground}-{seed}", stage, row, name) for seed in seeds]))

    cells = [str(stage), f"{mean('unclustered', figure):.3f}"]
    for row in (f"{way}; {rule}" for way in WAYS):
        moved = change(found, ground, seeds, (stage, row, figure))
        cells.append(f"{moved.words(1, sign='+')} % {verdict(moved)} (K {mean(row, 'k'):.1f})")
    return cells


def _number(found: Mapping[str, Table], name: str, stage: int, row: str, figure: str) -> float:
    return float(found[name][str(stage)][row][figure])  # type: ignore[arg-type, call-overload, index]
