"""What a run of the simulator costs as clients become many: set-up, memory, rounds, checkpoint, resume."""

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fielding import Start, run
from fielding._typing import Json

SAMPLES, GAP, WINDOW, DRIFTING = 20, 4, 8, 0.01
"""Samples of a client in an interval, rounds between two, those that a window shows, and the share that drifts."""
ROUNDS, STOPPED_AFTER = 12, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """A run of so many clients, stopped in the middle and resumed."""

    n_clients: int
    setup_s: float  # until the first round begins
    start_s: float  # the first round: all clients report and are grouped
    arrival_s: float  # a round in which samples come to all clients, and some drift; beside its training
    round_s: float  # the median of the others, beside training
    page_s: float
    checkpoint_mb: float
    checkpoint_s: float  # from the last round to the end of a run that is stopped: writing all that is needed to go on
    resume_s: float  # until the first round that is new is done
    peak_gb: float
    bytes_a_client: float  # of the peak, beside what a run of 1,000 clients takes


def table_of(n_clients: int) -> dict[str, Json]:
    """Return the config of a run."""
    trace: dict[str, Json] = {"name": "digits", "scenario": "places", "clients": n_clients, "samples": SAMPLES}
    return {
        "rounds": ROUNDS,
        "trace": {**trace, "gap": GAP, "window": WINDOW, "share": DRIFTING},
        "training": {"participants": 100},
        "evaluation": {"every": 6},
        "checkpoint": {"every": ROUNDS},
    }


def measure_run(n_clients: int, folder: Path) -> dict[str, float]:
    """Run, stop, resume and return the figures; the memory is that of this process."""
    seen: list[float] = []

    def stop_early(row: Mapping[str, Json]) -> bool:
        seen.append(time.perf_counter())
        return row["round"] != STOPPED_AFTER

    begun = time.perf_counter()
    run(table_of(n_clients), folder, watch=stop_early, page=False)
    written = time.perf_counter() - seen[-1]
    (checkpoint,) = (folder / "checkpoints").glob("*")
    size = sum(one.stat().st_size for one in checkpoint.rglob("*")) or checkpoint.stat().st_size
    resumed, before = time.perf_counter(), len(seen)
    run(table_of(n_clients), folder, start=Start(resume=True), watch=stop_early, page=False)
    rows = [json.loads(line) for line in (folder / "timings.jsonl").read_text().splitlines()]
    beside = [row["whole"] - row["train"] for row in rows]
    others = sorted(beside[at] for at in range(1, ROUNDS) if at % GAP)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    from fielding.reporting.report_page import report_page

    drawn = time.perf_counter()
    report_page([folder])
    return {
        "setup_s": seen[0] - begun - rows[0]["whole"],
        "start_s": rows[0]["whole"],
        "arrival_s": max(beside[at] for at in range(1, ROUNDS) if at % GAP == 0),
        "round_s": others[len(others) // 2],
        "page_s": time.perf_counter() - drawn,
        "checkpoint_mb": size / 1e6,
        "checkpoint_s": written,
        "resume_s": seen[before] - resumed,
        "peak_bytes": peak,
    }


def measure_populations(sizes: Sequence[int]) -> list[Population]:
    """Measure runs of some sizes, each in a process of its own."""
    found = {size: _measure_apart(size) for size in (1000, *sizes)}
    least = found[1000]["peak_bytes"]
    return [
        Population(
            n_clients=size,
            **{name: value for name, value in found[size].items() if name != "peak_bytes"},
            peak_gb=found[size]["peak_bytes"] / 1e9,
            bytes_a_client=(found[size]["peak_bytes"] - least) / size,
        )
        for size in sizes
    ]


def exponents(rows: Sequence[Population]) -> dict[str, float]:
    """Return the power of the number of clients with which figures grow from the second-largest size to the largest."""
    if len(rows) < 2:
        return {}
    small, large = (asdict(row) for row in rows[-2:])
    times = math.log(large["n_clients"] / small["n_clients"])
    names = ("setup_s", "arrival_s", "checkpoint_s", "resume_s", "peak_gb")
    return {name: math.log(large[name] / small[name]) / times for name in names if small[name] > 0 < large[name]}


def _measure_apart(n_clients: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.population", str(n_clients)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(json.dumps(measure_run(int(sys.argv[1]), Path(scratch) / "run")) + "\n")
