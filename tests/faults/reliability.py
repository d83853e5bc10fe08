"""Try all that is in :mod:`tests.faults.goals`, and write what was reached into docs/reliability.md.

This is ``make reliability``; ``ARGS="R1 R16"`` tries some, ``ARGS="R2 R3 R4 --faults 700 150 250"`` so many faults,
kills and power cuts at random. What another command found is kept with ``ARGS="R10 --record '19 of 20 cells'"``, and
``--short`` if that is not all.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.goals import GOALS, Result, table
from tests.faults.injector import ERRORS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- make reliability: begin -->\n", "<!-- make reliability: end -->\n"
INJECTED = ("R2", "R3", "R4")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def inject(
    folder: Path, seed: int, n_faults: int, n_kills: int, n_cuts: int
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Return how many calls each command makes and how many attempts there were by kind, and what went wrong."""
    library = folder / "inject.so"
    source = Path(__file__).with_name("inject.c")
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.injector", folder / "work", *map(str, (seed, n_faults, n_kills, n_cuts))],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures, problems = map(json.loads, done.stdout.splitlines()[-2:])
    return figures, problems


def injected(figures: dict[str, dict[str, int]], problems: list[str]) -> dict[str, tuple[str, bool]]:
    """Return what was reached of the goals that the injector tries, and whether that is all."""
    tried, n_calls = figures["attempts"], sum(figures["calls"].values())
    faults = [kind for kind in tried if kind in ERRORS]
    reached = {}
    for number, kinds in (("R2", ["kill"]), ("R3", ["cut"]), ("R4", faults)):
        n_tried = sum(tried.get(kind, 0) for kind in kinds)
        n_failed = sum(f", {kind} at call" in one for one in problems for kind in kinds)
        words = f"{n_tried - n_failed:,} of {n_tried:,}, there are {n_calls * len(kinds):,}"
        is_met = not n_failed and n_tried >= (n_calls if number != "R4" else 700)
        reached[number] = (f"{words} ({', '.join(kinds)})" if kinds == faults else words, is_met)
    return reached


def write_page() -> None:
    """Write the table into its page."""
    found = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    PAGE.write_text(found.sub(lambda _: BEGIN + table(GOALS) + END, PAGE.read_text()))


def keep(number: str, reached: str, *, is_met: bool) -> None:
    """Keep what was reached of a goal, and write it into the page."""
    (goal,) = (one for one in GOALS if one.number == number)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    goal.keep(Result(reached=reached, is_met=is_met, date=date, commit=commit.stdout.strip()))
    write_page()
    sys.stdout.write(f"{number}: {reached}{'' if is_met else ' (short)'}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("goals", nargs="*", metavar="R1", help="which goals; all that can be measured by default")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--record", metavar="TEXT", help="keep what another command reached of the one goal named")
    parser.add_argument("--short", action="store_true", help="with --record: the goal is not reached")
    parser.add_argument(
        "--faults", nargs=3, type=int, default=(0, 0, 0), help="so many faults, kills, power cuts at random; 0: all"
    )
    wanted = parser.parse_args()
    if unknown := set(wanted.goals) - {goal.number for goal in GOALS}:
        parser.error(f"no goals {', '.join(sorted(unknown))}; there are R1 to R{len(GOALS)}")
    if wanted.page:
        return write_page()
    if wanted.record:
        (number,) = wanted.goals
        return keep(number, wanted.record, is_met=not wanted.short)
    is_met = True
    if (numbers := [one for one in INJECTED if not wanted.goals or one in wanted.goals]) and COMPILER is None:
        raise SystemExit("no C compiler here; install one (Debian: apt-get install gcc libc6-dev)")
    if numbers:
        with tempfile.TemporaryDirectory() as folder:
            figures, problems = inject(Path(folder), 0, *wanted.faults)
        sys.stdout.write("".join(f"{one}\n" for one in problems))
        for number, (reached, is_reached) in injected(figures, problems).items():
            if number in numbers:
                keep(number, reached, is_met=is_reached)
                is_met &= is_reached
    for goal in GOALS:
        if goal.measure is not None and (not wanted.goals or goal.number in wanted.goals):
            reached, is_reached = goal.measure()
            keep(goal.number, reached, is_met=is_reached)
            is_met &= is_reached
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
