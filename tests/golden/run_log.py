"""The log of a small run of each method, rounded so that machines agree; run as a script it renews the golden file."""

import json
from pathlib import Path

from fielding import run

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
    "evaluation": {"every": 4},
    "workers": 1,
}


def run_log() -> list[dict[str, object]]:
    """Return a line per method and round, and at the end of each method who is in which cluster."""
    log: list[dict[str, object]] = []
    for method in ("fielding", "global"):
        result = run({**CONFIG, "method": {"name": method}})
        for row in result.rounds:
            line: dict[str, object] = {"method": method, **{name: row[name] for name in (*EXACT, *COSTS)}}
            for name, digits in ROUNDED.items():
                value = row.get(name)
                if isinstance(value, float):
                    line[name] = round(value, digits)
            log.append(line)
        log.append({"method": method, "membership": result.checkpoint.membership.tolist()})
    return log


if __name__ == "__main__":
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(line) for line in run_log()) + "\n]\n")
