"""Measure representations of clients' data.

    python -m experiments.representations ari       do they find the true groups? adjusted Rand index at the start
    python -m experiments.representations stages    the paper's table: clusters by gradients of a model in training
    python -m experiments.representations concept   the paper's figure: accuracy while clients swap labels
    python -m experiments.representations costs     seconds and bytes of a client that drifted

Data come from FIELDING_DATA. Every command but the last goes on where it was stopped; figures are kept in --out.
"""

import argparse
import json
import sys
from pathlib import Path

from experiments.representations import concept, costs, finding, stages
from experiments.representations.tasks import collected
from experiments.tables import markdown
from fielding.comparing.sweep import Finished, sweep

SEEDS = {"ari": 5, "stages": 3, "concept": 5, "costs": 0}


def main() -> None:
    options = _options()
    out = Path(options.out) / options.command
    seeds = list(range(1, (options.seeds or SEEDS[options.command]) + 1))
    if options.command == "ari":
        _tell(finding.tables(collected(finding.work, finding.tasks(seeds), out, n_jobs=options.jobs), seeds))
    elif options.command == "stages":
        found = collected(stages.work, stages.tasks(seeds), out, n_jobs=options.jobs)
        _tell(stages.tables(found, seeds))
        print("", *(stages.paper_finding(found, ground, seeds) for ground in stages.GROUNDS), sep="\n")
    elif options.command == "concept":
        done = sweep(concept.runs(seeds), out, n_jobs=options.jobs, on_done=_note)
        for scene in concept.SCENES:
            _tell(
                {
                    f"{scene}: final figures": concept.final_table(scene, seeds, done),
                    f"{scene}: accuracy over the rounds": concept.course_table(scene, seeds, out),
                }
            )
    else:
        _costs(out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.representations", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=tuple(SEEDS))
    parser.add_argument("--out", default="runs/representations", help="folder for figures (runs/representations)")
    parser.add_argument("--seeds", type=int, help="how many seeds, from 1 (ari and concept 5, stages 3)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    return parser.parse_args()


def _note(one: Finished) -> None:
    print(f"{one.name}: {one.error or 'done'}", file=sys.stderr, flush=True)


def _tell(tables: dict[str, list[list[str]]]) -> None:
    for title, lines in tables.items():
        print(f"\n### {title}\n\n{markdown(lines)}")


def _costs(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, setting in costs.SETTINGS.items():
        windows = costs.windows_of(setting)
        found = costs.measured(windows, costs.DESCRIBED, n_repeats=setting.n_repeats)
        (out / f"{name}.json").write_text(json.dumps(found))
        _tell({f"{setting.title}: {windows.trainer.layout.parameter_size:,} parameters": costs.table(found)})
        print(f"\n{costs.verdict(found)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
