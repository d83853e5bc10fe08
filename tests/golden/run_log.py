"""The log of a small run of each method, rounded so that machines agree; run as a script it renews the golden file."""

import json
from pathlib import Path

import pytest

from fielding import Result, run

GOLDEN = Path(__file__).with_name("run.json")
EXACT = ("round", "n_reports", "n_moved", "reclustered", "n_clusters", "n_asked", "n_participants", "n_straggler")
COSTS = ("bytes_down", "bytes_up")
ROUNDED = {
    "time_s": 6,
    "client_seconds": 6,
    "train_loss": 4,
    "accuracy": 2,
    "worst_decile": 2,
    "test_loss": 3,
    "ari": 6,
}
"""Figures and their digits: sums of products differ in the last bits between processors, and accuracy with them."""
CONFIG = {
    "preset": "paper",
    "seed": 3,
    "rounds": 24,
    "trace": {"clients": 24, "samples": 40, "gap": 6, "window": 12, "share": 0.5},
    "training": {"participants": 12},
    "clock": {"barrier": "round"},  # the clock of earlier versions
    "evaluation": {"every": 4},
    "workers": 1,
}


def logged(result: Result, name: str) -> list[dict[str, object]]:
    """Return a line per round, and at the end who is in which cluster."""
    log: list[dict[str, object]] = []
    for row in result.rounds:
        line: dict[str, object] = {"method": name, **{figure: row[figure] for figure in (*EXACT, *COSTS)}}
        for figure, digits in ROUNDED.items():
            value = row.get(figure)
            if isinstance(value, float):
                line[figure] = round(value, digits)
        log.append(line)
    return [*log, {"method": name, "membership": result.checkpoint.membership.tolist()}]


def run_log() -> list[dict[str, object]]:
    """Return the lines of each method."""
    methods = ("fielding", "global")
    return [line for name in methods for line in logged(run({**CONFIG, "method": {"name": name}}), name)]


def check_alike(log: list[dict[str, object]], stored: list[dict[str, object]]) -> None:
    """Fail if a log is another one than the stored one, in more than a last digit."""
    assert [line.keys() for line in log] == [line.keys() for line in stored]
    for line, before in zip(log, stored, strict=True):
        for name in line.keys() - ROUNDED.keys():
            assert line[name] == before[name], (line["method"], line.get("round"), name)
        for name in line.keys() & ROUNDED.keys():
            # A digit may flip where a value lies between two roundings.
            assert line[name] == pytest.approx(before[name], abs=1.5 * 10.0 ** -ROUNDED[name]), (line["round"], name)


def write_golden(log: list[dict[str, object]], path: Path) -> None:
    """Renew a golden file."""
    path.write_text("[\n" + ",\n".join(json.dumps(line) for line in log) + "\n]\n")


if __name__ == "__main__":
    write_golden(run_log(), GOLDEN)
