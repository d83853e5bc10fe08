"""Kill a run with -9 at random moments, again and again, until it has ended, and compare it with one never disturbed.

Run as ``python -m tests.faults.kills --kills 1000 --seed 0``. Every attempt is forked, so that nothing is imported
again and most kills hit a run at work. Prints a JSON object: kills, runs that ended, and what went wrong.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.cli.in_process import CONFIG
from tests.faults.injector import newest_round, type_in
from tests.simulation.run_cases import left_behind

RUN = ("run", "small.toml", "--no-page", "--quiet", "--out", "out", "--resume")
N_KILLS, ROUNDS = 1000, 60
LONGEST_S = 0.4  # of CPU, after which a run is killed at the latest: on a busy machine it gets as far
SYNC_S = 0.002  # that every sync takes longer, so that kills come while a checkpoint is being written


def forked(work: Callable[[], int], kill_after_s: float | None = None) -> int:
    """Return how a process ended, perhaps killed after so much CPU: its exit code, or minus the signal."""
    child = os.fork()
    if not child:
        code = 99
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = work()
        finally:
            os._exit(code)
    if kill_after_s is not None:
        used = Path(f"/proc/{child}/schedstat")
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if int(used.read_text().split()[0]) >= 1e9 * kill_after_s:
                break
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_slowly(folder: Path) -> int:
    """Return the exit code of a run whose disk takes its time."""
    sync = os.fsync

    def slow(fd: Any) -> None:
        time.sleep(SYNC_S)
        sync(fd)

    os.fsync = slow
    return type_in(folder, RUN)


def look(folder: Path, committed: int) -> tuple[int, str]:
    """Return the last committed round, and what is wrong with what a kill left, or nothing."""
    now = newest_round(folder)
    if now < committed:
        return now, f"round {committed} was committed, now {now} is"
    log = folder / "out" / "rounds.jsonl"
    n_lines = log.read_bytes().count(b"\n") if log.exists() else 0
    if n_lines > now + 2:
        return now, f"{n_lines} rounds are in the log, {now + 1} committed: more than one has to be done again"
    return now, ""


def kill_runs(root: Path, n_kills: int, seed: int, minutes: float) -> dict[str, object]:
    """Kill runs so many times in all, or as often as time allows; one that ends is compared, and another one begun."""
    draw, problems, n_done, n_ended = random.Random(seed), list[str](), 0, 0
    whole, cut = root / "whole", root / "cut"
    for folder in (whole, cut):
        folder.mkdir(parents=True)
        (folder / "small.toml").write_text(CONFIG.replace("rounds = 6", f"rounds = {ROUNDS}"))
    if type_in(whole, RUN):  # in this process: what is forked has imported all
        raise SystemExit("a small run fails undisturbed")
    wanted, committed, end = left_behind(whole / "out"), -1, time.monotonic() + 60 * minutes
    while (goes_on := n_done < n_kills and time.monotonic() < end) or committed >= 0:
        wait_s = draw.uniform(0.0, LONGEST_S) if goes_on else None
        code = forked(partial(run_slowly, cut), wait_s)
        n_done += code == -signal.SIGKILL
        committed, problem = look(cut, committed)
        if code not in (0, -signal.SIGKILL):
            problem = f"exit {code}"
        if code == 0 and not problem:
            n_ended += 1
            problem = "" if left_behind(cut / "out") == wanted else "it ended otherwise"
        if problem:
            problems.append(f"kill {n_done}: {problem}")
        if code != -signal.SIGKILL or problem:
            shutil.rmtree(cut / "out")
            committed = -1
    return {"kills": n_done, "ended": n_ended, "problems": problems}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=N_KILLS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="no kill after so many")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = kill_runs(Path(folder), wanted.kills, wanted.seed, wanted.minutes)
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.exit(bool(found["problems"]))


if __name__ == "__main__":
    main()
