"""Sets of other defaults; what a config says itself counts more."""

from collections.abc import Mapping

from fielding._typing import Json

AUTO: dict[str, dict[str, Json]] = {
    "serving": {"correction": "prior", "experts": "auto"},
    "aggregation": {"name": "wiener", "shared_body": True, "clip": 0.0},
    "coordinator": {
        "representation": "auto",
        "shared_model": "global",
        "detector": None,
        "metric": None,
        "k_choice": "finest",
        "participants_per_cluster": 1,
    },
}
"""What goes with ``coordinator.representation = "auto"``: label mixes are left to the correction, clusters may be many
since they share the body of their models, and clients weigh what serves them by evidence (docs/auto.md)."""
PRESETS: dict[str, dict[str, dict[str, Json]]] = {
    "auto": AUTO,
    # The published method: METHODS.md section 13 (C1 to C3) with FedScale's optimiser (section 12).
    "paper": {
        "training": {
            "lr_decay": 0.98,
            "lr_every": 10,
            "lr_floor": 5e-5,
            "momentum": 0.9,
            "weight_decay": 5e-4,
            "prox": 0.1,
            "weighted": False,
            "strict_budget": False,
        },
        "coordinator": {
            "representation": "label",
            "shared_model": "pool",
            "shared_epochs": 300,  # 200 images of each class, 300 epochs: the paper's appendix on representations
            "metric": "l1",
            "detector": "any-change",
            "trigger": "center-shift",
            "tau": 1 / 3,
            "reference": "previous",
            "noise_floor": False,
            "delta_step": 0.1,
            "delta_rule": "max",
            "partitioner": "kmeans",
            "k_max": 10,
            "k_choice": "silhouette",
            "participants_per_cluster": 4,
            "hysteresis": 0.0,
            "warm_start": False,
            "robust": False,
            "inherit": "average",
            "reports": "before-round",
        },
        "clock": {"overcommit": 1.3, "barrier": "event"},
        "selection": {"name": "uniform"},
        "aggregation": {"name": "mean", "clip": 0.0},
    },
}
"""By name: defaults per section."""


def defaults_of(table: Mapping[str, object]) -> dict[str, dict[str, Json]]:
    """Return what keys that a table lacks default to, per section, where that is not Fielding's own default.

    Examples
    --------
    >>> defaults_of({"coordinator": {"representation": "auto"}})["serving"]
    {'correction': 'prior', 'experts': 'auto'}
    """
    preset, section = table.get("preset"), table.get("coordinator")
    found = {name: dict(keys) for name, keys in PRESETS.get(preset, {}).items()} if isinstance(preset, str) else {}
    serving = table.get("serving")
    if isinstance(serving, Mapping) and serving.get("experts", "none") != "none":
        found["serving"] = {**found.get("serving", {}), "correction": "prior"}
    if isinstance(section, Mapping) and section.get("representation") == "auto":
        for name, keys in AUTO.items():
            found[name] = {**found.get(name, {}), **keys}
    return found
