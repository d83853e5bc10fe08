"""Kill a small run with -9 at chosen moments of its writing, resume it, and compare: one process per attempt.

Run as ``python -m tests.cli.kill_sites FOLDER STEP``; attempts are forked, so that nothing has to be imported again.
Prints a line per attempt that went wrong, and last how many there were.
"""

import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Start, run
from tests.simulation.run_cases import Crash, crashed_after, left_behind, small_pool, table

SITES: dict[str, tuple[object, str]] = {
    "fsync": (os, "fsync"),
    "replace": (pathlib.Path, "replace"),
    "unlink": (pathlib.Path, "unlink"),
    "truncate": (os, "truncate"),
}
RESUMED = ("truncate", "unlink")
"""Called by a run that goes on after a failure; the others by one that begins."""
CONFIG = table(rounds=6)


def small_run(folder: Path) -> None:
    run(CONFIG, folder, own=Own(samples=small_pool()), start=Start(resume=True), page=False)


def counted(site: str, at: int, act: Callable[[], None], *, before: bool) -> list[int]:
    """Let something happen at the n-th call of a function, before or after it; return the count of calls."""
    owner, name = SITES[site]
    real, calls = getattr(owner, name), [0]

    def call(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        is_now = calls[0] == at
        if is_now and before:
            act()
        answer = real(*arguments, **options)
        if is_now and not before:
            act()
        return answer

    setattr(owner, name, call)
    return calls


def in_a_process_of_its_own(work: Callable[[], None]) -> int:
    """Return how a forked process ended: 0, or minus the signal that killed it."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def n_calls(site: str, folder: Path) -> int:
    """Return how often an undisturbed run calls a function."""
    owner, name = SITES[site]
    real = getattr(owner, name)
    calls = counted(site, 0, lambda: None, before=True)
    prepare(folder, site)
    small_run(folder)
    setattr(owner, name, real)
    return calls[0]


def prepare(folder: Path, site: str) -> None:
    """Leave a run behind that failed half-way, where the function is one that goes on with it."""
    if site in RESUMED:
        with contextlib.suppress(Crash):
            run(CONFIG, folder, own=Own(samples=small_pool()), watch=crashed_after(4), page=False)


def attempt(folder: Path, site: str, at: int, *, before: bool) -> str:
    """Kill a run at a moment, kill its successor at the same, and let a third one end it; return what went wrong."""

    def doomed() -> None:
        counted(site, at, lambda: os.kill(os.getpid(), signal.SIGKILL), before=before)
        small_run(folder)

    prepare(folder, site)
    committed = -1
    for _ in range(2):
        if in_a_process_of_its_own(doomed) not in (0, -signal.SIGKILL):
            return "it failed"
        now = newest_round(folder)
        if now < committed:
            return f"round {committed} was committed, now {now} is"
        committed = now
    if in_a_process_of_its_own(lambda: small_run(folder)):
        return "it could not go on"
    return "" if left_behind(folder) == WHOLE else "it ended otherwise"


def newest_round(folder: Path) -> int:
    if not any((folder / "checkpoints").glob("*.ckpt")):
        return -1
    return load_run(newest_checkpoint(folder)).round_index


WHOLE: dict[str, bytes] = {}


def main(root: Path, step: int) -> None:
    small_run(root / "whole")
    WHOLE.update(left_behind(root / "whole"))
    n_attempts = 0
    for site in SITES:
        last = n_calls(site, root / f"count-{site}") + 1
        for at in range(1, last, step):
            for before in (True, False):
                problem = attempt(root / f"{site}-{at}-{before}", site, at, before=before)
                n_attempts += 1
                if problem:
                    sys.stdout.write(f"killed {'before' if before else 'after'} {site} {at}: {problem}\n")
    sys.stdout.write(f"{n_attempts} attempts\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
