"""Knobs chosen on the validation trace: the same small number of runs for every method, then frozen in a file."""

import tomllib
from pathlib import Path

import tomli_w

from experiments.peers.grounds import Ground, Table, base_table, merged
from experiments.peers.rows import Chosen, Row, folder_name, rows_on, settings_of
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config
from fielding.config.reader import config_from

FOLDER = Path(__file__).parent.parent / "tuning"
"""Where choices are kept, a file per ground."""
SEED = 1_000
"""Of all runs for tuning; comparisons use seeds from 1."""


def candidates(ground: Ground, folder: Path) -> dict[str, Config]:
    """Return the runs for tuning, by the name of their folder."""
    base = merged(base_table(ground, folder, is_tuning=True), {"seed": SEED})
    return {
        candidate_name(name, at): config_from(merged(base, settings_of(row, ground), knob))
        for name, row in tuned_rows(ground).items()
        for at, knob in enumerate(row.knobs)
    }


def tuned_rows(ground: Ground) -> dict[str, Row]:
    """Return the rows that have something to choose."""
    return {name: row for name, row in rows_on(ground).items() if row.knobs}


def candidate_name(row: str, at: int) -> str:
    """Return the folder of a candidate."""
    return f"{folder_name(row)}-{at}"


def choose(ground: Ground, done: dict[str, Finished]) -> dict[str, Table]:
    """Return, for every row, the settings with the highest final accuracy (ties: the earlier), and all accuracies."""
    found: dict[str, Table] = {}
    for name, row in tuned_rows(ground).items():
        accuracies = [_accuracy(done[candidate_name(name, at)]) for at in range(len(row.knobs))]
        best = max(range(len(accuracies)), key=lambda at: (accuracies[at], -at))
        found[name] = {
            "chosen": row.knobs[best],
            "tried": [
                {**knob, "final_accuracy": accuracy} for knob, accuracy in zip(row.knobs, accuracies, strict=True)
            ],
        }
    return found


def _accuracy(one: Finished) -> float:
    """Return the final accuracy of a run, less than any for one that failed."""
    value = None if one.summary is None else one.summary["final_accuracy"]
    return round(float(value), 4) if isinstance(value, (int, float)) else -1.0


def write_choice(ground: Ground, found: dict[str, Table]) -> Path:
    """Write down what was chosen."""
    path = FOLDER / f"{ground.name}.toml"
    path.write_text(
        f"# Chosen on the validation trace by `python -m experiments.peers tune {ground.name}`; do not edit.\n"
        + tomli_w.dumps(found)
    )
    return path


def read_choice(ground: Ground) -> Chosen:
    """Return what was chosen; an error says how to choose."""
    path = FOLDER / f"{ground.name}.toml"
    if not path.exists():
        raise SystemExit(f"{path} is missing; run python -m experiments.peers tune {ground.name} first")
    table = tomllib.loads(path.read_text())
    return Chosen(by_row={name: entry["chosen"] for name, entry in table.items()})
