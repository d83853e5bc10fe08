"""Run folders written by hand, for pages that must cope with any run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fielding._typing import Json

DRAWN = ".js-plotly-plot:has(.scatterlayer .trace, .barlayer .trace, .heatmaplayer .hm)"
"""Figures in a browser that show something; waiting by script is what the page's policy forbids."""
CONFIG: dict[str, Json] = {
    "seed": 3,
    "trace": {"name": "digits", "scenario": "places", "gap": 2, "window": 4},
    "method": {"name": "fielding"},
}


def round_line(at: int, **more: Json) -> dict[str, Json]:
    """Return the line of a round without an evaluation."""
    return {
        "round": at, "time_s": 60.0 * (at + 1), "n_reports": 0, "n_moved": 0, "reclustered": False, "n_clusters": 2,
        "n_asked": 2, "n_participants": 2, "train_loss": 0.5, "bytes_down": 1000, "bytes_up": 1000,
        "client_seconds": 9.0, **more,
    }  # fmt: skip


def evaluated(accuracy: float | None) -> dict[str, Json]:
    """Return what an evaluation adds to a line."""
    return {"accuracy": accuracy, "worst_decile": accuracy, "test_loss": None, "n_tested": 2, "ari": 0.5}


def write_run(folder: Path, rounds: Sequence[Mapping[str, Json]], **logs: Sequence[Mapping[str, Json]]) -> Path:
    """Write the folder of a run; logs by their name, those that are not given are empty."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = {"rounds": rounds, **{name: logs.get(name, ()) for name in ("events", "memberships", "clients")}}
    for name, lines in everything.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "manifest.json").write_text(json.dumps({"fielding": "0", "seed": 3, "config": CONFIG}))
    return folder
