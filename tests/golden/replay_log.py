"""The log of a replay, rounded so that other machines agree; run as a script it renews the golden file."""

import json
from pathlib import Path

from fielding import Chi2, Coordinator, Policy
from fielding.engine.replay import replay_row
from fielding.rng import stream
from fielding.traces.histograms import report_stream
from tests.golden.place_stream import place_stream

GOLDEN = Path(__file__).with_name("replay.json")
EXACT = ("step", "n_reports", "n_moved", "reclustered", "n_clusters", "n_active", "n_dormant")
ROUNDED = ("shift", "theta", "mean_client_distance", "mean_distance_unclustered")


def replay_log() -> list[dict[str, object]]:
    """Return a line per step: decisions as they are, distances to six digits, and the size of every cluster."""
    example = place_stream(stream(1, "demo"))
    coordinator = Coordinator(Policy(seed=1))
    log = []
    for step, batch in report_stream(example.trace, plan=example.plan, drift_test=Chi2()):
        row = replay_row(coordinator, coordinator.update(batch, step=step))
        line: dict[str, object] = {name: getattr(row, name) for name in EXACT}
        for name in ROUNDED:
            value = getattr(row, name)
            line[name] = None if value is None else round(value, 6)
        line["sizes"] = list(row.cluster_sizes.values())
        log.append(line)
    return log


if __name__ == "__main__":
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(line) for line in replay_log()) + "\n]\n")
