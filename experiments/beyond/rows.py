"""What is run: thirteen rivals, ``auto``, and ``auto`` with one part switched off at a time."""

from collections.abc import Iterable, Sequence

from experiments.beyond.scenarios import Scenario, base_table
from experiments.tables import Table, folder_name, merged
from fielding.config import presets
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.runtime.experts import expert_names

CHOOSING, SCORING, TRYING = (1,), (4, 5, 6, 7, 8), (11,)
"""Seeds by which the best rivals are chosen, by which they and ``auto`` are scored, and by which parts are tried."""
OTHER_BLOCKS = (4, 5, 9, 10, 14)
"""Seeds for scoring on natural traces, where a seed tests the fold of its remainder by 5: not those of 1 and 11 to 13,
by which rivals were chosen and ``auto`` was made."""
N_FEW = 3  # seeds for scoring of what takes minutes a run
AUTO, GLOBAL = "auto", "global"
_PAPER: Table = {
    "method": {"name": "fielding"},
    "coordinator": {"representation": "label", "metric": "l1", "detector": "any-change"},
}
_PERSONAL = "experiments.beyond.personal"
RIVALS: dict[str, Table] = {
    GLOBAL: {"method": {"name": "global"}},
    "flash": {"method": {"name": "flash"}},
    "fedavgm": {"method": {"name": "global"}, "aggregation": {"name": "fedavgm", "beta": 0.7}},
    "wiener": {"method": {"name": "global"}, "aggregation": {"name": "wiener"}},
    "averaged": {  # one model under wiener, whose average over rounds serves clients, as in auto
        "method": {"name": "fielding"},
        "coordinator": {"representation": "label", "k_max": 1},
        "aggregation": {"name": "wiener", "shared_body": True, "clip": 0.0},
    },
    "paper": _PAPER,
    "paper, flash": {**_PAPER, "aggregation": {"name": "flash"}},
    "ifca": {"method": {"name": "ifca", "reassess": "drifted", "k": 4}},
    "flexcfl": {"method": {"name": "flexcfl", "k": 5}},
    "local": {"method": {"name": "local"}},
    "knn-per": {
        "method": {"name": "global"},
        "serving": {"experts": ["corrected", "residual", "local", f"{_PERSONAL}:neighbours"]},
    },
    "ditto": {"method": {"name": f"{_PERSONAL}:Ditto"}},
    "fedrod": {
        "method": {"name": "global"},
        "training": {"balanced": True},
        "serving": {"experts": ["corrected", "residual", "local", f"{_PERSONAL}:own_head"]},
    },
}
"""Rows that may be the best rival; nothing is tuned for any of them."""
ALWAYS = (AUTO, GLOBAL, "flash")
"""``auto``, one model, and one model under the optimiser that is best most often: scored whichever rival was chosen."""
SIX = (*ALWAYS, "fedavgm", "wiener", "paper")
"""Rows that are run with networks of torch, which take long."""
_EXPERTS = expert_names("auto", is_corrected=True, has_heads=True)
_AUTO: Table = {"coordinator": {"representation": "auto"}}
PARTS: dict[str, Table] = {
    AUTO: _AUTO,
    **{
        f"auto, without {left_out}": {**_AUTO, "serving": {"experts": [name for name in _EXPERTS if name != left_out]}}
        for left_out in _EXPERTS
        if left_out != "served"  # which always comes along
    },
    "auto, averaging at the server": {**_AUTO, "aggregation": {"name": "mean"}},
    "auto, Flash at the server": {**_AUTO, "aggregation": {"name": "flash"}},
    "auto, no guard": {**_AUTO, "method": {"name": "fielding", "guard": False}},
    "auto, label histograms": {
        **presets.AUTO,
        "coordinator": {  # they need no shared model
            **{key: value for key, value in presets.AUTO["coordinator"].items() if key != "shared_model"},
            "representation": "label",
        },
        "method": {"name": "fielding", "guard": True},  # which comes along with representation = "auto" alone
    },
    "auto, shared model from a pool": {"coordinator": {"representation": "auto", "shared_model": "pool"}},
}
"""``auto`` with nothing else set, then with one part changed at a time."""
ROWS: dict[str, Table] = {**RIVALS, **PARTS}


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


def scoring_seeds(scenario: Scenario) -> tuple[int, ...]:
    """Return the seeds that a scenario is scored on."""
    seeds = OTHER_BLOCKS if scenario.trace.get("fold") == "seed" else SCORING
    return seeds[:N_FEW] if scenario.takes_long else seeds


def runs(scenarios: Iterable[Scenario], rows: Sequence[str], seeds: Sequence[int]) -> dict[str, Config]:
    """Return the runs of all rows on all seeds, by ``scenario/folder``; seed by seed, so that early stops are fair."""
    return {
        f"{scenario.name}/{run_name(row, seed)}": config_of(scenario, row, seed)
        for scenario in scenarios
        for seed in seeds
        for row in rows
    }
