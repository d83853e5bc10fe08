"""What is compared: grounds, triggers, and the runs that they make."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.tables import Table, merged
from fielding.config.keys import Config
from fielding.config.reader import config_from

LOCAL: Table = {"participants": 20, "local_steps": 10, "batch_size": 20, "learning_rate": 0.05, "momentum": 0.9}
FASHION: Table = {"name": "fashion_mnist", "samples": 50, "clients": 100, "held_out": 0, "gap": 8, "window": 16}
"""Data arrive every 8 rounds instead of every 20: with 8 events there is nothing to learn from."""
MLP_32: Table = {"name": "mlp", "hidden": 32}
MLP_64: Table = {"name": "mlp", "hidden": 64}

GROUNDS: dict[str, Table] = {
    "extrasensory": {
        "rounds": 200,
        "trace": {"name": "extrasensory", "interval": "6h", "gap": 10, "window": 40, "align": "client"},
        "model": MLP_64,
        "training": {**LOCAL, "participants": 12},
    },
    "zephyr": {
        "rounds": 240,
        "trace": {"name": "zephyr", "interval": "7d", "gap": 2, "window": 52, "last": "1050d", "clients": 302},
        "model": MLP_32,
        "training": {**LOCAL, "participants": 40, "learning_rate": 0.4},
    },
    "fashion-dirichlet": {
        "rounds": 160,
        "trace": {**FASHION, "scenario": "dirichlet"},
        "model": MLP_64,
        "training": LOCAL,
    },
    "fashion-places": {
        "rounds": 160,
        "trace": {**FASHION, "scenario": "places"},
        "model": MLP_64,
        "training": LOCAL,
    },
}
"""What all rows of a ground share, cheapest ground first."""

FIXED: dict[str, Table] = {
    f"tau {words}": {"tau": tau}
    for words, tau in (("0", 0.0), ("1/6", 1 / 6), ("1/3", 1 / 3), ("1/2", 1 / 2), ("2/3", 2 / 3))
}
LEARNED, PAIRWISE = "learned tau", "pairwise, k-center"
ROWS: dict[str, Table] = {
    **FIXED,
    LEARNED: {"tau": "learned"},
    PAIRWISE: {"trigger": "pairwise", "partitioner": "k-center"},
}
"""What rows differ by, in the coordinator; pairwise knows no noise floor."""
DETECTORS = ("any-change", "chi2")
FLOORS: dict[str, bool] = {"off": False, "on": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of run, whatever the seed."""

    ground: str
    detector: str
    floor: str
    row: str

    def run_name(self, seed: int) -> str:
        """Return the folder of a run."""
        row = "".join(letter if letter.isalnum() else "-" for letter in self.row)
        return f"{self.ground}/{self.detector}-floor-{self.floor}/{row}-{seed}"

    def config(self, seed: int) -> Config:
        """Return the config of a run."""
        floor: Table = {"noise_floor": True} if FLOORS[self.floor] else {}
        common: Table = {"representation": "label", "metric": "l1", "detector": self.detector}
        start: Table = {"preset": "paper", "seed": seed, "coordinator": common}
        return config_from(merged(GROUNDS[self.ground], start, {"coordinator": {**ROWS[self.row], **floor}}))


def cases(grounds: Sequence[str], detectors: Sequence[str], floors: Sequence[str]) -> list[Case]:
    """Return everything to run."""
    return [
        Case(ground=ground, detector=detector, floor=floor, row=row)
        for ground in grounds
        for detector in detectors
        for floor in floors
        for row in ROWS
        if not (row == PAIRWISE and FLOORS[floor])
    ]
