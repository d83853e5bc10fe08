"""Compare Fielding with its peers.

    python -m experiments.peers tune GROUND        choose everybody's knobs on the validation trace (frozen in tuning/)
    python -m experiments.peers compare GROUND     all methods, all seeds; prints a Markdown table
    python -m experiments.peers partners GROUND    global model and Fielding with every optimisation they combine with

Data come from FIELDING_DATA. Every command goes on where it was stopped; runs are kept in --out.
"""

import argparse
import sys
from pathlib import Path

from experiments.peers.comparing import comparison_runs, markdown, partner_runs, table
from experiments.peers.grounds import GROUNDS, Ground
from experiments.peers.rows import PARTNERS, rows_on
from experiments.peers.tuning import candidates, choose, read_choice, write_choice
from experiments.sweeping import swept


def main() -> None:
    options = _options()
    ground = GROUNDS[options.ground]
    out = Path(options.out) / f"{options.command}-{ground.name}"
    seeds = list(range(1, options.seeds + 1))
    if options.command == "tune":
        done = swept(candidates(ground, Path(options.out)), out, options.jobs)
        print(f"wrote {write_choice(ground, choose(ground, done))}")
        return
    chosen = read_choice(ground)
    if options.command == "compare":
        rows = [
            name for name in rows_on(ground) if options.rows is None or name in ("global", *options.rows.split(";"))
        ]
        done = swept(comparison_runs(ground, Path(options.out), chosen, seeds, rows), out, options.jobs)
        _tell(ground, markdown(table(rows, seeds, done, out)))
    else:
        done = swept(partner_runs(ground, Path(options.out), chosen, seeds), out, options.jobs)
        for method in ("global", "fielding"):
            rows = [f"{method} + {partner}" for partner in PARTNERS]
            _tell(ground, markdown(table(rows, seeds, done, out, baselines=[f"global + {one}" for one in PARTNERS])))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("tune", "compare", "partners"))
    parser.add_argument("ground", choices=tuple(GROUNDS))
    parser.add_argument("--out", default="runs/peers", help="folder for all runs (runs/peers)")
    parser.add_argument("--rows", help="compare: only these rows beside global, separated by ;")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 1 (5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    return parser.parse_args()


def _tell(ground: Ground, text: str) -> None:
    print(f"\n### {ground.title}\n\n{text}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
