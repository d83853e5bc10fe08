"""Build the injector, run it, and write what it found into ``docs/reliability.md``: ``make reliability``.

``ARGS="700 150 250"`` tries so many faults, kills and power cuts, drawn at random, in place of all.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.injector import ERRORS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- make reliability: begin -->\n", "<!-- make reliability: end -->\n"
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


def table(figures: dict[str, dict[str, int]], problems: list[str], *, date: str, commit: str) -> str:
    """Return the lines of the page, by the numbers of the goals."""
    tried = figures["attempts"]
    failed = {kind: sum(f", {kind} at call" in one for one in problems) for kind in tried}
    faults = [kind for kind in tried if kind in ERRORS]
    rows = [
        ("R2", "kill -9 before every call", "every call, nothing lost", ["kill"]),
        (
            "R3",
            "power cut before every call: what was not synced is lost",
            "every call, nothing committed lost",
            ["cut"],
        ),
        ("R4", f"every call fails with {', '.join(faults)}", "200: goes on, or one line and exit 1", faults),
    ]
    lines = [
        "| goal | what | aimed at | reached, of those tried | there are | date | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for goal, what, aim, kinds in rows:
        n_tried = sum(tried[kind] for kind in kinds)
        n_failed = sum(failed[kind] for kind in kinds)
        n_sites = sum(figures["calls"].values()) * len(kinds)
        reached = f"{n_tried - n_failed:,} of {n_tried:,} | {n_sites:,}"
        lines.append(f"| {goal} | {what} | {aim} | {reached} | {date} | {commit} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if COMPILER is None:
        raise SystemExit("no C compiler here; install one (Debian: apt-get install gcc libc6-dev)")
    with tempfile.TemporaryDirectory() as folder:
        n_faults, n_kills, n_cuts = map(int, sys.argv[1:4] or (0, 0, 0))
        figures, problems = inject(Path(folder), 0, n_faults, n_kills, n_cuts)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    text = PAGE.read_text()
    found = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    PAGE.write_text(
        found.sub(lambda _: BEGIN + table(figures, problems, date=date, commit=commit.stdout.strip()) + END, text)
    )
    sys.stdout.write(f"{json.dumps(figures)}\n" + "".join(f"{one}\n" for one in problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
