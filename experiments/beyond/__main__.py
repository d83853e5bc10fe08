"""Hold ``auto`` against the best rival of each scenario.

    python -m experiments.beyond rivals      ten rivals on seeds 1 to 3; the best of each scenario goes to chosen.json
    python -m experiments.beyond score       the best rival, auto and the global model on seeds 4 to 8
    python -m experiments.beyond ablation    auto with one part switched off at a time, seeds 11 and 12
    python -m experiments.beyond table       prints the tables of whatever is done

Data come from FIELDING_DATA. Every command goes on where it was stopped; runs are kept in --out. A run belongs to the
code that made it: take another folder when the code has changed.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.beyond import tables
from experiments.beyond.choosing import Summary, best_rival, read_choice, write_choice
from experiments.beyond.rows import AUTO, CHOOSING, GLOBAL, PARTS, REFERENCES, RIVALS, SCORING, TRYING, run_name, runs
from experiments.beyond.running import run_all, stored_run, wall_seconds
from experiments.beyond.scenarios import SCENARIOS
from experiments.beyond.traffic import Traffic, traffic_of
from experiments.tables import markdown
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config

CHOSEN = "chosen.json"
Found = dict[tuple[str, int], Summary]


def main() -> None:
    options = _options()
    names = list(SCENARIOS) if options.scenarios is None else options.scenarios.split(",")
    if unknown := set(names) - set(SCENARIOS):
        sys.exit(f"there is no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    out = Path(options.out)
    if options.command == "rivals":
        choose(names, out, options.jobs)
    elif options.command == "score":
        score(names, out, options.jobs)
    elif options.command == "ablation":
        _run(runs([SCENARIOS[name] for name in names], list(PARTS), TRYING), out, options.jobs)
        print(_titled("Parts switched off", parts_table(names, out)))
    else:
        print("\n".join(whole_table(names, out)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.beyond", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("rivals", "score", "ablation", "table"))
    parser.add_argument("--out", default="runs/beyond", help="folder for all runs (runs/beyond)")
    parser.add_argument("--scenarios", help="only these, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser.parse_args()


def choose(names: Sequence[str], out: Path, n_jobs: int) -> None:
    """Run all rivals on the seeds for choosing and write down the best of each scenario."""
    for name in names:  # the reference on one seed is enough: it cannot be chosen
        scenario = SCENARIOS[name]
        _run(
            {**runs([scenario], list(RIVALS), CHOOSING), **runs([scenario], list(REFERENCES), CHOOSING[:1])},
            out,
            n_jobs,
        )
        best = best_rival(summaries(name, list(RIVALS), CHOOSING, out), CHOOSING)
        if best is None:
            print(f"{name}: no rival came to its end", file=sys.stderr)
            continue
        write_choice(out / CHOSEN, {name: best.record(CHOOSING)})
        print(f"{name}: {best.rival}, {best.how}")
        if failed := [rival for rival, means in best.means.items() if None in means.values()]:
            print(f"{name}: could not be chosen, since runs failed: {', '.join(failed)}", file=sys.stderr)


def score(names: Sequence[str], out: Path, n_jobs: int) -> None:
    """Run the best rival, auto and the global model on the seeds for scoring."""
    bests = chosen_rivals(out)
    if missing := [name for name in names if name not in bests]:
        sys.exit(f"no rival is chosen for {', '.join(missing)}; run python -m experiments.beyond rivals first")
    for name in names:
        rows = list(dict.fromkeys((AUTO, bests[name][0], GLOBAL)))
        _run(runs([SCENARIOS[name]], rows, SCORING), out, n_jobs)


def chosen_rivals(out: Path) -> dict[str, tuple[str, str]]:
    """Return the best rival of each scenario, and whether raw or corrected."""
    return {
        name: (str(one["rival"]), str(one["how"]))
        for name, one in read_choice(out / CHOSEN).items()
        if isinstance(one, dict)
    }


def summaries(name: str, rows: Sequence[str], seeds: Sequence[int], out: Path) -> Found:
    """Return the summaries of the runs of a scenario that came to their end."""
    found: Found = {}
    for row in rows:
        for seed in seeds:
            ((folder, config),) = runs([SCENARIOS[name]], [row], [seed]).items()
            one = stored_run(folder, config, out)
            if one is not None and one.summary is not None:
                found[row, seed] = one.summary
            elif one is not None:
                print(f"{folder} is left out: {one.error}", file=sys.stderr)
    return found


def whole_table(names: Sequence[str], out: Path) -> list[str]:
    """Return all tables as Markdown, for docs/results/beyond.md."""
    bests = {name: one for name, one in chosen_rivals(out).items() if name in names}
    chosen = {name: _with_references(name, out) for name in names}
    scored = {
        name: summaries(name, list(dict.fromkeys((AUTO, GLOBAL, *bests.get(name, ())[:1]))), SCORING, out)
        for name in names
    }
    sent = {name: _traffic(name, scored[name], out) for name in names}
    verdicts = {name: tables.verdict(scored[name], bests[name], SCORING) if name in bests else None for name in names}
    silent = [one.silent_share for one in sent.get("static", {}).values()]
    ends = tables.conclusion(verdicts, silent, walls(names, out))
    return [
        _titled("Verdict", markdown(tables.verdict_cells(scored, bests, SCORING))),
        "\n" + "\n".join(f"- {line}" for line in ends),
        _titled("All rivals, raw / corrected, seeds 1 to 3", markdown(tables.rival_cells(chosen, CHOOSING))),
        _titled("Costs", markdown(tables.cost_cells(scored, bests, SCORING))),
        _titled("What clients of auto send beside models", markdown(tables.traffic_cells(sent))),
        _titled("Parts switched off", parts_table(names, out)),
        _titled("Longest runs", markdown(_wall_cells(names, out))),
    ]


def parts_table(names: Sequence[str], out: Path) -> str:
    """Return the table of parts switched off."""
    return markdown(tables.part_cells({name: summaries(name, list(PARTS), TRYING, out) for name in names}, TRYING))


def walls(names: Sequence[str], out: Path) -> list[float]:
    """Return the seconds of all runs that are done and were not stopped on the way."""
    folders = (path for name in names for path in (out / name).glob("*/summary.json"))
    found = (wall_seconds(out, f"{path.parent.parent.name}/{path.parent.name}") for path in folders)
    return [seconds for seconds in found if seconds is not None]


def _wall_cells(names: Sequence[str], out: Path) -> tables.Cells:
    lines = [["scenario", "runs", "mean, s", "longest, s"]]
    for name in names:
        if seconds := walls([name], out):
            mean = sum(seconds) / len(seconds)
            lines.append([name, str(len(seconds)), f"{mean:.1f}", f"{max(seconds):.1f}"])
    return lines


def _with_references(name: str, out: Path) -> Found:
    """Return the runs for choosing; the one run of a reference stands for all seeds."""
    found = summaries(name, list(RIVALS), CHOOSING, out)
    for (row, _), summary in summaries(name, list(REFERENCES), CHOOSING[:1], out).items():
        found |= {(row, seed): summary for seed in CHOOSING}
    return found


def _traffic(name: str, found: Mapping[tuple[str, int], Summary], out: Path) -> dict[int, Traffic]:
    return {seed: traffic_of(out / name / run_name(AUTO, seed)) for seed in SCORING if (AUTO, seed) in found}


def _run(configs: Mapping[str, Config], out: Path, n_jobs: int) -> None:
    """Do the runs, telling about each on the way."""
    begun, n_done = time.monotonic(), 0

    def tell(one: Finished) -> None:
        nonlocal n_done
        n_done += 1
        seconds, summary = wall_seconds(out, one.name), one.summary or {}
        both = [summary.get(figure) for figure in ("final_accuracy", "final_accuracy_corrected")]
        words = one.error or " / ".join(f"{float(str(value)):.4f}" for value in both if value is not None)
        took = "" if seconds is None else f", {seconds:.0f} s"
        minutes = (time.monotonic() - begun) / 60
        print(f"{n_done}/{len(configs)} {one.name}: {words}{took} ({minutes:.1f} min)", file=sys.stderr, flush=True)

    run_all(configs, out, n_jobs=n_jobs, on_done=tell)


def _titled(title: str, text: str) -> str:
    return f"\n### {title}\n\n{text}"


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
