"""Hold ``auto`` against the best rivals of each scenario, by two scores: of the window, and of the interval to come.

    python -m experiments.beyond rivals      thirteen rivals on seed 1; the best by each score go to chosen.json
    python -m experiments.beyond score       auto, the best rivals, one model and Flash, seeds 4 to 8
    python -m experiments.beyond ablation    auto with one part switched off at a time, seed 11
    python -m experiments.beyond torch       auto and five rivals with a CNN and ResNet-18, seeds 4 to 6
    python -m experiments.beyond table       prints the tables of whatever is done

Data come from FIELDING_DATA, and two of the unseen traces from FIELDING_UNSEEN (experiments/beyond/unseen.py writes
them). Every command goes on where it was stopped; runs are kept in --out. A run belongs to the code that made it: take
another folder when the code has changed.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.beyond import tables
from experiments.beyond.choosing import SCORES, Summary, best_rival, chosen_rivals, scored_rows, write_choice
from experiments.beyond.rows import (
    ALWAYS,
    AUTO,
    CHOOSING,
    GLOBAL,
    PARTS,
    RIVALS,
    SIX,
    TRYING,
    run_name,
    runs,
    scoring_seeds,
)
from experiments.beyond.running import run_all, stored_run, wall_seconds
from experiments.beyond.scenarios import ALL, SCENARIOS, TORCH, UNSEEN
from experiments.beyond.traffic import traffic_of
from experiments.beyond.worse import experts_alone, share_worse
from experiments.tables import markdown
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config

CHOSEN = "chosen.json"
TRACES = {"seen": SCENARIOS, "unseen": UNSEEN, "all": {**SCENARIOS, **UNSEEN}, "torch": TORCH}


def main() -> None:
    options = _options()
    traces = TORCH if options.command == "torch" else TRACES[options.traces]
    names = list(traces) if options.scenarios is None else options.scenarios.split(",")
    if unknown := set(names) - set(ALL):
        sys.exit(f"there is no scenario {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    out = Path(options.out)
    if options.command == "rivals":
        choose(names, out, options.jobs)
    elif options.command == "score":
        score(names, out, options.jobs)
    elif options.command == "ablation":
        _run(runs([ALL[name] for name in names], list(PARTS), TRYING), out, options.jobs)
        print(parts_table(names, out))
    elif options.command == "torch":
        for name in names:
            _run(runs([ALL[name]], SIX, scoring_seeds(ALL[name])), out, options.jobs)
        print(rows_table(names, SIX, out))
    else:
        print("\n".join(whole_table(names, out)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.beyond", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("rivals", "score", "ablation", "torch", "table"))
    parser.add_argument("--out", default="runs/beyond", help="folder for all runs (runs/beyond)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--traces", choices=TRACES, default="seen", help="those auto was made on, new ones, or all (seen)"
    )
    which.add_argument("--scenarios", help="only these, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser.parse_args()


def choose(names: Sequence[str], out: Path, n_jobs: int) -> None:
    """Run all rivals on the seeds for choosing and write down the best of each scenario by each score."""
    for name in names:
        _run(runs([ALL[name]], list(RIVALS), CHOOSING), out, n_jobs)
        found = summaries(name, list(RIVALS), CHOOSING, out)
        bests = {score: one for score in SCORES if (one := best_rival(found, CHOOSING, score)) is not None}
        if not bests:
            print(f"{name}: no rival came to its end", file=sys.stderr)
            continue
        write_choice(out / CHOSEN, {name: {**bests}})
        print(f"{name}: " + ", ".join(f"{best['rival']} ({score})" for score, best in bests.items()))
        if failed := [rival for rival in RIVALS if any((rival, seed) not in found for seed in CHOOSING)]:
            print(f"{name}: could not be chosen, since runs failed: {', '.join(failed)}", file=sys.stderr)


def score(names: Sequence[str], out: Path, n_jobs: int) -> None:
    """Run auto, the best rivals, one model and Flash on the seeds for scoring."""
    bests = chosen_rivals(out / CHOSEN)
    if missing := [name for name in names if name not in bests]:
        sys.exit(f"no rival is chosen for {', '.join(missing)}; run python -m experiments.beyond rivals first")
    for name in names:
        _run(runs([ALL[name]], scored_rows(bests[name]), scoring_seeds(ALL[name])), out, n_jobs)


def summaries(name: str, rows: Sequence[str], seeds: Sequence[int], out: Path) -> dict[tuple[str, int], Summary]:
    """Return the summaries of the runs of a scenario that came to their end."""
    found: dict[tuple[str, int], Summary] = {}
    for row in rows:
        for seed in seeds:
            ((folder, config),) = runs([ALL[name]], [row], [seed]).items()
            one = stored_run(folder, config, out)
            if one is not None and one.summary is not None:
                found[row, seed] = one.summary
            elif one is not None:
                print(f"{folder} is left out: {one.error}", file=sys.stderr)
    return found


def whole_table(names: Sequence[str], out: Path) -> list[str]:
    """Return all tables as Markdown: the one that matters, for docs/results/index.md, and those behind it."""
    bests = chosen_rivals(out / CHOSEN)
    chosen = {name: summaries(name, list(RIVALS), CHOOSING, out) for name in names}
    seeds = {name: scoring_seeds(ALL[name]) for name in names}
    scored = {name: summaries(name, scored_rows(bests.get(name, {})), seeds[name], out) for name in names}
    sent, worse, alone = {}, {}, {}
    for name, found in scored.items():
        ours, plain = (
            {seed: out / name / run_name(row, seed) for seed in seeds[name] if (row, seed) in found}
            for row in (AUTO, GLOBAL)
        )
        sent[name] = [traffic_of(folder) for folder in ours.values()]
        worse[name] = [share_worse(folder, plain[seed]) for seed, folder in ours.items() if seed in plain]
        alone[name] = {seed: experts_alone(folder) for seed, folder in ours.items()}
    verdicts = []
    for one in SCORES:
        results = {
            name: tables.verdict(found, bests.get(name, {}).get(one), seeds[name], one)
            for name, found in scored.items()
        }
        verdicts.append(f"\n### Verdict, {one}\n\n" + "\n".join(f"- {line}" for line in tables.conclusion(results)))
    return [
        _titled("Served, auto and the best rivals", tables.front_cells(scored, bests, seeds, worse)),
        *verdicts,
        rows_table(names, ALWAYS, out),
        _titled("The weights and the best expert alone", tables.expert_cells(scored, alone)),
        _titled("All rivals, window / next, seed 1", tables.rival_cells(chosen, CHOOSING)),
        _titled("The worst tenth of the clients", tables.fairness_cells(scored, bests, seeds, worse)),
        _titled("Costs", tables.cost_cells(scored, bests, seeds)),
        _titled("What clients of auto send beside models", tables.traffic_cells(sent)),
        parts_table(names, out),
        _titled("Longest runs", _wall_cells(names, out)),
    ]


def parts_table(names: Sequence[str], out: Path) -> str:
    """Return the table of parts switched off."""
    found = {name: summaries(name, list(PARTS), TRYING, out) for name in names}
    return _titled("Parts switched off, window / next, seed 11", tables.part_cells(found, TRYING))


def rows_table(names: Sequence[str], rows: Sequence[str], out: Path) -> str:
    """Return the tables of some rows by each score, and of how much better auto is than each."""
    seeds = {name: scoring_seeds(ALL[name]) for name in names}
    found = {name: summaries(name, rows, seeds[name], out) for name in names}
    return "\n".join(_titled(f"Served, {one}", tables.row_cells(found, rows, seeds, one)) for one in SCORES)


def _wall_cells(names: Sequence[str], out: Path) -> tables.Cells:
    """Return how long runs took that are done and were not stopped on the way."""
    lines = [["scenario", "runs", "mean, s", "longest, s"]]
    for name in names:
        walls = [wall_seconds(out, f"{name}/{path.parent.name}") for path in (out / name).glob("*/summary.json")]
        if seconds := [one for one in walls if one is not None]:
            mean = sum(seconds) / len(seconds)
            lines.append([name, str(len(seconds)), f"{mean:.1f}", f"{max(seconds):.1f}"])
    return lines


def _run(configs: Mapping[str, Config], out: Path, n_jobs: int) -> None:
    """Do the runs, telling about each on the way."""
    begun, n_done = time.monotonic(), 0

    def tell(one: Finished) -> None:
        nonlocal n_done
        n_done += 1
        seconds, summary = wall_seconds(out, one.name), one.summary or {}
        both = [summary.get(figure) for figure in SCORES.values()]
        words = one.error or " / ".join(f"{float(str(value)):.4f}" for value in both if value is not None)
        took = "" if seconds is None else f", {seconds:.0f} s"
        minutes = (time.monotonic() - begun) / 60
        print(f"{n_done}/{len(configs)} {one.name}: {words}{took} ({minutes:.1f} min)", file=sys.stderr, flush=True)

    run_all(configs, out, n_jobs=n_jobs, on_done=tell)


def _titled(title: str, cells: tables.Cells) -> str:
    return f"\n### {title}\n\n{markdown(cells)}"


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
