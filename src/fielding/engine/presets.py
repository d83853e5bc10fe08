"""Sets of other defaults; what a config says itself counts more."""

from fielding._typing import Json

PRESETS: dict[str, dict[str, dict[str, Json]]] = {
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
            "metric": "l1",
            "detector": "any-change",
            "trigger": "center-shift",
            "tau": 1 / 3,
            "reference": "previous",
            "delta_step": 0.1,
            "partitioner": "kmeans",
            "k_max": 10,
            "hysteresis": 0.0,
            "warm_start": False,
            "inherit": "average",
            "reports": "before-round",
        },
        "clock": {"overcommit": 1.3},
        "selection": {"name": "uniform"},
        "aggregation": {"name": "mean"},
    },
}
"""By name: defaults per section."""
