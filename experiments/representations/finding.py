"""Which representations find the true groups: adjusted Rand index at the start, before anything has drifted."""

from collections.abc import Mapping, Sequence
from functools import cache

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
from fielding._typing import Codes, Membership, Models
from fielding.client.representation.registry import REPRESENTATIONS
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.coordinator.clustering import Clusterer
from fielding.federation.evaluation import adjusted_rand_index
from fielding.reporting.numbers.paired import estimate
from fielding.simulation.assembly import HELD_OUT, MOMENTUM, Own, Simulation, assemble, pool_model
from fielding.traces.catalog import Opening, Source, open_source
from fielding.traces.sources import deal_samples, hold_out
from fielding.training.trainer import Sgd

REPRESENTED = (*REPRESENTATIONS, "gradient, full", "soft-confusion+class-means")
K_MAX = 5
SOURCES = {"pool": "trained on 200 held-out samples of each class", "global": "the global model after 5 rounds"}
GLOBAL_ROUNDS = 5
_SWAP: Table = {"scenario": "concept-swap", "concepts": 4, "swaps": 2}
SCENES: dict[str, Table] = {
    "meanings": {**_SWAP, "alpha": 0.0},
    "meanings, label skew": {**_SWAP, "alpha": 0.3},
    "looks (covariate)": {"scenario": "covariate"},
    "places": {"scenario": "places"},
    "mixed": {"scenario": "mixed"},
}
"""Scenarios by what tables call them; all have four concepts."""
RULES = {"silhouette": f"K by silhouette, at most {K_MAX}", "given": "K given"}


def tasks(seeds: Sequence[int], *, clients: int = 100, samples: int = 50) -> dict[str, Table]:
    """Return what is asked for: a task per scenario, source of the shared model, and seed."""
    window: Table = {"clients": clients, "samples": samples, "gap": 20, "window": 40, "held_out": HELD_OUT}
    return {
        f"{scene['scenario']}-{at}-{source}-{seed}": {
            "trace": {"name": "fashion_mnist", **window, **scene},
            "source": source,
            "seed": seed,
            "represented": list(REPRESENTED),
        }
        for seed in seeds
        for source in SOURCES
        for at, scene in enumerate(SCENES.values())
    }


def work(task: Table) -> Table:
    """Return the index of each representation: by silhouette, and with K given."""
    config = config_from(
        {
            "seed": task["seed"],
            "rounds": GLOBAL_ROUNDS,
            "trace": task["trace"],
            "method": {"name": "global"},
            "training": {"local_steps": 10, "momentum": MOMENTUM},
            "evaluation": {"every": 1000},
        }
    )
    simulation = assemble(config, Own(samples=_source(config.trace.name)), n_workers=1)
    try:
        is_pool = task["source"] == "pool"
        model = (
            shared_model(config, simulation) if is_pool else trained_models(simulation, [GLOBAL_ROUNDS])[GLOBAL_ROUNDS]
        )
        windows = simulation.clients.windows
        view, truth = view_of(windows, simulation.trainer, model), windows.concepts(0)
    finally:
        simulation.clients.close()
    if truth is None:
        raise TypeError(f"nobody knows the truth of {task['trace']}")
    names = [str(name) for name in task["represented"]]  # type: ignore[union-attr]
    return {name: dict(indices(view, truth, name, seed=config.seed)) for name in names}


def indices(view: View, truth: Codes, name: str, *, seed: int) -> Mapping[str, float]:
    """Return how well the groups of a representation agree with the truth, by both rules, and how many it finds."""
    representation = representation_called(name, seed=seed)
    vectors, true = vectors_of(view, representation), truth[view.clients]

    def grouped(clusterer: Clusterer) -> Membership:
        return groups_of(vectors, representation, clusterer, seed=seed)

    by_silhouette, k = grouped(Clusterer(k_max=K_MAX)), int(np.unique(true).size)
    return {
        "silhouette": adjusted_rand_index(by_silhouette, true),
        "k": float(np.unique(by_silhouette).size),
        "given": adjusted_rand_index(grouped(Clusterer(k_min=k, k_max=k)), true),
    }


def shared_model(config: Config, simulation: Simulation) -> Models:
    """Return the model that the server trains on samples of its own, as a run would."""
    section, training = config.coordinator, config.training
    whole = deal_samples(config.trace, rounds=config.rounds, seed=config.seed, source=_source(config.trace.name))
    _, held = hold_out(whole, config.trace.held_out or HELD_OUT, seed=config.seed)
    return pool_model(
        simulation.trainer,
        whole.pool,
        held,
        sgd=Sgd(learning_rate=training.learning_rate, momentum=MOMENTUM),
        n_steps=-(-section.shared_epochs * held.samples.size // training.batch_size),
        batch_size=training.batch_size,
        seed=config.seed,
    )


def tables(found: Mapping[str, Table], seeds: Sequence[int]) -> dict[str, list[list[str]]]:
    """Return a table of cells per source and rule, by its title: representations down, scenarios across."""
    return {
        f"Shared model: {words}; {rule_words}": [
            ["representation", *SCENES],
            *(
                [name, *(_cell(found, seeds, (at, source, name, rule)) for at in range(len(SCENES)))]
                for name in _names(found)
            ),
        ]
        for source, words in SOURCES.items()
        for rule, rule_words in RULES.items()
    }


def _names(found: Mapping[str, Table]) -> list[str]:
    return list(next(iter(found.values())))


def _cell(found: Mapping[str, Table], seeds: Sequence[int], where: tuple[int, str, str, str]) -> str:
    at, source, name, rule = where
    scenario = list(SCENES.values())[at]["scenario"]
    rows = [found[f"{scenario}-{at}-{source}-{seed}"][name] for seed in seeds]
    return estimate([float(row[rule]) for row in rows]).words(2)  # type: ignore[arg-type, call-overload, index]


@cache
def _source(name: str) -> Source:
    return open_source(name, None, Opening())
