"""Compare learned tau with fixed ones: it should come as far as the best of them, which nobody knows before.

    python -m experiments.threshold [GROUND ...] [--detectors any-change,chi2] [--floors off,on] [--seeds 5] [--jobs 2]

Label histograms, L1 and k-means as in the paper; every row is run on the same seeds. Of a detector and a noise floor,
the fixed tau with the highest mean accuracy is the best one. It is chosen by the very figures that it is then compared
by, which favors it: learned tau holds up if the paired 95 % interval of its difference to it reaches 0. Data come from
FIELDING_DATA. The command goes on where it was stopped; runs are kept in --out. Prints a table for each ground and
detector, and one of verdicts.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.threshold.cases import DETECTORS, FLOORS, GROUNDS, cases
from experiments.threshold.running import run_all
from experiments.threshold.verdicts import tell


def listed(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a reader of values separated by commas."""

    def read(text: str) -> list[str]:
        values = text.split(",")
        if unknown := [value for value in values if value not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(allowed)}")
        return values

    return read


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.threshold", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("grounds", nargs="*", metavar="GROUND", help=f"of {', '.join(GROUNDS)}; all by default")
    parser.add_argument("--detectors", type=listed(DETECTORS), default=["any-change"], help="(any-change)")
    parser.add_argument("--floors", type=listed(tuple(FLOORS)), default=["off"], help="noise floor: off, on (off)")
    parser.add_argument("--seeds", type=int, default=5, help="how many (5)")
    parser.add_argument("--first-seed", type=int, default=1, help="(1); from 11 on for trials")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--out", type=Path, default=Path("runs/threshold"), help="folder for all runs (runs/threshold)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.grounds if name not in GROUNDS]:
        parser.error(f"unknown ground {unknown[0]!r}; known: {', '.join(GROUNDS)}")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    chosen = cases(options.grounds or list(GROUNDS), options.detectors, options.floors)
    tell(run_all(chosen, seeds, options.out, options.jobs), chosen, seeds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
