"""What is run: ``auto``, its ten rivals, a row for reference, and ``auto`` with one part switched off at a time."""

from collections.abc import Iterable, Sequence

from experiments.beyond.scenarios import Scenario, base_table
from experiments.tables import Table, folder_name, merged
from fielding._typing import Json
from fielding.config.keys import Config
from fielding.config.reader import config_from

CHOOSING, SCORING, TRYING = (1, 2, 3), (4, 5, 6, 7, 8), (11, 12)
"""Seeds by which the best rival is chosen, by which it and ``auto`` are scored, and by which parts are tried."""


def _coordinator(**keys: Json) -> Table:
    return {"method": {"name": "fielding"}, "coordinator": keys}


RIVALS: dict[str, Table] = {
    "global": {"method": {"name": "global"}},
    "fielding": _coordinator(representation="label", metric="l1", detector="any-change"),
    "fielding hellinger": _coordinator(representation="label", metric="hellinger", detector="chi2"),
    "embedding": _coordinator(representation="embedding"),
    "gradient": _coordinator(representation="gradient"),
    "confusion": _coordinator(representation="confusion"),
    "class-means": _coordinator(representation="class-means"),
    "flexcfl": {"method": {"name": "flexcfl", "k": 5}},
    "ifca": {"method": {"name": "ifca", "reassess": "drifted", "k": 4}},
    "flash": {"method": {"name": "flash"}},
}
"""Whoever may be the best rival, raw or corrected; nothing is tuned for anybody."""
AUTO, GLOBAL, LOCAL = "auto", "global", "local"
REFERENCES: dict[str, Table] = {LOCAL: {"method": {"name": "local"}}}
"""Shown, never chosen: who trains alone is no federation."""
PARTS: dict[str, Table] = {
    AUTO: {"coordinator": {"representation": "auto"}},
    "auto, heads and bodies per cluster": {
        "coordinator": {"representation": "auto"},
        "aggregation": {"shared_body": False},
    },
    "auto, no guard": {"coordinator": {"representation": "auto"}, "method": {"name": "fielding", "guard": False}},
    "auto, shared model from the global one": {"coordinator": {"representation": "auto", "shared_model": "global"}},
    "auto, Flash at the server": {"coordinator": {"representation": "auto"}, "aggregation": {"name": "flash"}},
    "auto, every change is reported": {"coordinator": {"representation": "auto", "detector": "any-change"}},
}
"""``auto`` with nothing else set, then with one part changed at a time; the raw accuracy is without correction."""
ROWS: dict[str, Table] = {**RIVALS, **REFERENCES, **PARTS}


def run_name(row: str, seed: int) -> str:
    """Return the folder of a run.

    Examples
    --------
    >>> run_name("auto, no guard", 4)
    'auto--no-guard-4'
    """
    return f"{folder_name(row)}-{seed}"


def config_of(scenario: Scenario, row: str, seed: int) -> Config:
    """Return the config of a run."""
    return config_from(merged(base_table(scenario), {"seed": seed}, ROWS[row]))


def runs(scenarios: Iterable[Scenario], rows: Sequence[str], seeds: Sequence[int]) -> dict[str, Config]:
    """Return the runs of all rows on all seeds, by ``scenario/folder``; seed by seed, so that early stops are fair."""
    return {
        f"{scenario.name}/{run_name(row, seed)}": config_of(scenario, row, seed)
        for scenario in scenarios
        for seed in seeds
        for row in rows
    }
