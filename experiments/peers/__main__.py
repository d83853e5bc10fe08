"""Compare Fielding with its peers.

    python -m experiments.peers tune BENCHMARK        choose everybody's knobs on the validation trace
    python -m experiments.peers compare BENCHMARK     all methods, all seeds; writes docs/results/BENCHMARK.md
    python -m experiments.peers partners BENCHMARK    global model and Fielding with what they combine with
    python -m experiments.peers all                   tune and compare everywhere, most important first

Data come from FIELDING_DATA. Every command goes on where it was stopped; runs are kept in --out.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from experiments.peers.benchmarks import BENCHMARKS, Benchmark
from experiments.peers.comparing import (
    accuracy_table,
    compare,
    cost_table,
    partner_variants,
    tuning_table,
    variants,
    with_served,
)
from experiments.peers.rows import rows_on
from experiments.peers.tuning import read_choices, tune, untuned, write_choices
from experiments.tables import markdown, write_measured

BEGIN = "<!-- measured by experiments.peers -->"
PAGES = Path("docs/results")


def main() -> None:
    options = _options()
    if options.command == "all":
        for benchmark in BENCHMARKS.values():
            if missing := untuned(benchmark):
                write_choices(benchmark, tune(benchmark, options.out, n_jobs=options.jobs, names=missing))
            _compare(benchmark, options)
        return
    if options.benchmark is None:
        raise SystemExit(f"{options.command} needs a benchmark: {', '.join(BENCHMARKS)}")
    benchmark = BENCHMARKS[options.benchmark]
    {"tune": _tune, "compare": _compare, "partners": _partners}[options.command](benchmark, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("tune", "compare", "partners", "all"))
    parser.add_argument("benchmark", nargs="?", choices=tuple(BENCHMARKS))
    parser.add_argument("--out", type=Path, default=Path("runs/peers"), help="folder for all runs (runs/peers)")
    parser.add_argument("--rows", help="only these rows, separated by ;")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 1 (5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    return parser.parse_args()


def _tune(benchmark: Benchmark, options: argparse.Namespace) -> None:
    names = None if options.rows is None else options.rows.split(";")
    found = tune(benchmark, options.out, n_jobs=options.jobs, names=names)
    print(f"wrote {write_choices(benchmark, found)}")


def _compare(benchmark: Benchmark, options: argparse.Namespace) -> None:
    """Run all rows of a benchmark, print the tables and write its page; some rows alone are only printed."""
    choices = read_choices(benchmark)
    names = list(rows_on(benchmark)) if options.rows is None else ["global", *options.rows.split(";")]
    settings, seeds = variants(benchmark, choices, names), list(range(1, options.seeds + 1))
    plain = compare(
        benchmark, settings, options.out, name=f"compare-{benchmark.name}", seeds=seeds, n_jobs=options.jobs
    )
    results = with_served(plain, benchmark)
    part = (
        f"{benchmark.about}\n\n{markdown(accuracy_table(results))}\n\nAccuracies in percent, gains in points over "
        f"*global*, seed by seed; seeds 1 to {len(seeds)}, 95 % intervals. *Above*, *below*: clearly, on both scores, "
        f"after Holm's adjustment. [What was tuned](../../experiments/tuning/{benchmark.name}.toml). Measured "
        f"{datetime.now(UTC):%Y-%m-%d}; [how we evaluate](../evaluation.md)."
    )
    print(f"\n# {benchmark.title}\n\n{part}\n\n{markdown(cost_table(plain, list(settings)))}")
    print(f"\n{markdown(tuning_table(choices, list(settings)))}")
    if options.rows is None:
        write_measured(PAGES / f"{benchmark.name}.md", part, begin=BEGIN, title=benchmark.title)


def _partners(benchmark: Benchmark, options: argparse.Namespace) -> None:
    settings, seeds = partner_variants(read_choices(benchmark)), list(range(1, options.seeds + 1))
    results = compare(
        benchmark, settings, options.out, name=f"partners-{benchmark.name}", seeds=seeds, n_jobs=options.jobs
    )
    print(f"\n### {benchmark.title}\n\n{markdown(cost_table(results, list(settings)))}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
