"""Thousands of rounds with every method, and whether memory, files, logs and time a round stay what they were.

Run as ``python -m tests.faults.soak --rounds 10000 --clients 1000 --methods fielding,global``; a process of its own for
each method, one after the other. Prints a JSON object a method: what it used at the end of every block of rounds.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.methods import METHODS
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.simulation.run_cases import small_pool

ROOT = Path(__file__).resolve().parents[2]
N_BLOCKS, FULL_ROUNDS = 20, 10_000
WARM_UP = 0.25  # share of the blocks before which nothing is compared
OPTIONS: dict[str, dict[str, Json]] = {"local": {"budget": "participants"}}
"""Of methods that train all clients otherwise."""


@dataclass(slots=True, kw_only=True)
class Soaked:
    """What a run used, at the end of every block of rounds.

    Parameters
    ----------
    rss, fds
        Bytes in memory, and open files, of the process.
    cpu_s
        Seconds of CPU that the block took.
    log_bytes
        Bytes that logs and reports grew by in the block.
    """

    method: str
    rounds: int
    clients: int
    rss: list[int] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    log_bytes: list[int] = field(default_factory=list)

    @property
    def rss_growth(self) -> float:
        """By which share memory grew after the warm-up, on the straight line through all blocks."""
        rss = np.array(self.rss[int(WARM_UP * len(self.rss)) :], dtype=np.float64)
        slope = np.polyfit(np.arange(rss.size), rss, 1)[0]
        return float(slope * (rss.size - 1) / rss[0])

    @property
    def cpu_growth(self) -> float:
        """The CPU of the last quarter of the blocks, in those of the quarter after the warm-up."""
        quarter = max(1, len(self.cpu_s) // 4)
        first = int(WARM_UP * len(self.cpu_s))
        return float(np.median(self.cpu_s[-quarter:]) / np.median(self.cpu_s[first : first + quarter]))

    @property
    def log_growth(self) -> float:
        """The bytes of logs of the last block, in those of the largest in the first half after the warm-up."""
        first, half = int(WARM_UP * len(self.log_bytes)), len(self.log_bytes) // 2
        return self.log_bytes[-1] / max(self.log_bytes[first : half + 1])

    def problems(self) -> list[str]:
        """Return what grew that must not; times are told, never judged."""
        fds = self.fds[int(WARM_UP * len(self.fds)) :]
        found = [
            (self.rss_growth > 0.01, f"memory grew by {100 * self.rss_growth:.1f} %"),
            (max(fds) > min(fds), f"open files went from {min(fds)} to {max(fds)}"),
            (self.log_growth > 1.5, f"logs of a block became {self.log_growth:.2f} times as long"),
        ]
        return [f"{self.method}: {words}" for is_so, words in found if is_so]


def summary(soaked: Sequence[Soaked]) -> tuple[str, bool]:
    """Return how runs did, in words, and whether nothing grew."""
    problems = [words for one in soaked for words in one.problems()]
    n_methods = Counter(one.rounds for one in soaked)
    tried = ", ".join(f"{n} methods x {rounds:,} rounds" for rounds, n in sorted(n_methods.items(), reverse=True))
    slowest = max(soaked, key=lambda one: one.cpu_growth)
    most = max(one.rss_growth for one in soaked)
    told = f"memory at most {100 * most:+.2f} %, CPU a round x{slowest.cpu_growth:.2f} ({slowest.method})"
    is_met = not problems and set(n_methods) == {FULL_ROUNDS} and len(soaked) == len(METHODS)
    return f"{tried}: {'; '.join(problems) or told}", is_met


def resident_bytes() -> int:
    """Return how much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def config_of(method: str, rounds: int, clients: int) -> dict[str, Json]:
    """Return many short rounds of tiny clients, some of which drift every 20 rounds."""
    return {
        "rounds": rounds,
        "workers": 1,
        "method": {"name": method, **OPTIONS.get(method, {})},
        "trace": {"clients": clients, "gap": 20, "window": 40, "samples": 4, "share": 0.05},
        "training": {"participants": 10, "local_steps": 1, "batch_size": 4, "learning_rate": 0.05},
        "model": {"hidden": 2},
        "evaluation": {"every": max(10, rounds // 100), "clients": 50},
        "checkpoint": {"every": 50},
    }


def soak(method: str, rounds: int, clients: int, folder: Path) -> Soaked:
    """Run a method in this process, and look at the process now and then."""
    soaked = Soaked(method=method, rounds=rounds, clients=clients)
    block, before = max(1, rounds // N_BLOCKS), [time.process_time(), 0.0]

    def watch(row: Mapping[str, Json]) -> bool:
        if (int(str(row["round"])) + 1) % block == 0:
            gc.collect()
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".ckpt")
            now = time.process_time()
            soaked.rss.append(resident_bytes())
            soaked.fds.append(len(list(Path("/proc/self/fd").iterdir())))
            soaked.cpu_s.append(round(now - before[0], 3))
            soaked.log_bytes.append(size - int(before[1]))
            before[:] = [now, size]
        return True

    run(config_of(method, rounds, clients), folder, own=Own(samples=small_pool()), watch=watch, page=False)
    return soaked


def soak_apart(method: str, rounds: int, clients: int) -> Soaked:
    """Run a method in a process of its own."""
    words = ["--rounds", str(rounds), "--clients", str(clients), "--methods", method, "--here"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.soak", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return Soaked(**json.loads(done.stdout.splitlines()[-1]))


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=FULL_ROUNDS)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=sorted(METHODS))
    parser.add_argument("--here", action="store_true", help="in this process")
    wanted = parser.parse_args(words)
    for method in wanted.methods:
        if wanted.here:
            with tempfile.TemporaryDirectory() as folder:
                soaked = soak(method, wanted.rounds, wanted.clients, Path(folder) / "run")
        else:
            soaked = soak_apart(method, wanted.rounds, wanted.clients)
        sys.stderr.write("".join(f"{one}\n" for one in soaked.problems()))
        sys.stdout.write(f"{json.dumps(asdict(soaked))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
