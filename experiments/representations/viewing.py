"""The clients of a simulation as a model sees their windows, and the groups that representations make of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fielding._typing import Counts, Floats, Json, Membership, Models
from fielding.client.representation.registry import representation_named, representation_options
from fielding.client.representation.representation import Representation, Seen
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.points import Points
from fielding.distance import METRICS
from fielding.engine.round import run_round
from fielding.rng import stream
from fielding.runtime.observe import Sight
from fielding.runtime.workers import Workers
from fielding.simulation.assembly import Simulation
from fielding.simulation.experiment import federation_of
from fielding.traces.sliding import SlidingWindows
from fielding.training.trainer import Trainer

Options = Mapping[str, Json]
NAMES: dict[str, tuple[str, Options]] = {
    "gradient, full": ("gradient", {"layer": "full"}),
    "gradient, full, with its length": ("gradient", {"layer": "full", "normalize": False}),
    "gradient, full, not projected": ("gradient", {"layer": "full", "dims": 0}),
}
"""Representations with options, by what tables call them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """What a model sees in the training windows of a round.

    Parameters
    ----------
    clients
        Those that have samples, rising, shape ``(n_clients,)``.
    seen
        Their samples; gradients are computed once, when somebody asks.
    """

    clients: Counts
    seen: Seen


def representation_called(name: str, *, seed: int) -> Representation:
    """Return a representation by what tables call it; projections are drawn by the seed."""
    text, options = NAMES.get(name, (name, {}))
    return representation_named(text, {**options, "seed": seed} if "seed" in representation_options(text) else options)


def view_of(windows: SlidingWindows, trainer: Trainer, model: Models, round_index: int = 0) -> View:
    """Look at what all clients can train on in a round."""
    ranges = windows.training(round_index)
    clients = np.flatnonzero(ranges.sizes)
    rows, sizes = ranges.of(clients)
    sight = Sight(windows, Workers(trainer))
    sight.model = model
    sight.show(np.sort(rows))
    seen = sight.of(rows, sizes)
    return View(clients=clients, seen=replace(seen, gradients=cache(seen.gradients)))


def vectors_of(view: View, representation: Representation) -> Floats:
    """Return what clients would report, relative to all of them together, shape ``(n_clients, n_numbers)``."""
    tallies = representation.tally(view.seen)
    return representation.vectors(tallies, tallies.sum(axis=0)).astype(np.float32)


def groups_of(vectors: Floats, representation: Representation, clusterer: Clusterer, *, seed: int) -> Membership:
    """Return the cluster of each client, by the distance that suits the representation."""
    found = clusterer.cluster(Points(vectors), metric=METRICS[representation.metric], rng=stream(seed, "groups"))
    return found.labels


def trained_models(simulation: Simulation, stages: list[int]) -> dict[int, Models]:
    """Return the mean of all models after some numbers of rounds, from 1; uses the simulation up."""
    method = simulation.method(simulation.trainer.initial_model(simulation.config.seed))
    federation = federation_of(simulation, method, simulation.clients)
    found: dict[int, Models] = {}
    for round_index in range(max(stages)):
        run_round(federation, round_index)
        if round_index + 1 in stages:
            found[round_index + 1] = method.models.mean(axis=0, dtype=np.float64).astype(np.float32)
    return found
