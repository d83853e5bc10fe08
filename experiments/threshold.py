"""Learned tau against fixed ones: does it come as far as the best of them, which nobody knows before?

    python -m experiments.threshold [GROUND ...] [--detectors any-change,chi2] [--floors off,on] [--seeds 5] [--jobs 2]

Label histograms, L1 and k-means as in the paper; every row is run on the same seeds. Of a detector and a noise floor,
the fixed tau with the highest mean accuracy is the best one. It is chosen by the very figures that it is then compared
by, which favors it: learned tau holds up if the paired 95 % interval of its difference to it reaches 0. Data come from
FIELDING_DATA. The command goes on where it was stopped; runs are kept in --out. Prints a table for each ground and
detector, and one of verdicts.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.peers.comparing import markdown
from experiments.peers.grounds import Table, merged
from fielding._typing import Json
from fielding.engine.config import Config
from fielding.engine.config_reader import config_from
from fielding.reporting.paired import Estimate, estimate, paired_difference
from fielding.simulation.sweep import Finished, sweep

LOCAL: Table = {"participants": 20, "local_steps": 10, "batch_size": 20, "learning_rate": 0.05, "momentum": 0.9}
FASHION: Table = {"name": "fashion_mnist", "samples": 50, "clients": 100, "held_out": 0, "gap": 8, "window": 16}
"""Data arrive every 8 rounds instead of every 20: with 8 events there is nothing to learn from."""
MLP_32, MLP_64 = ({"name": "mlp", "hidden": width} for width in (32, 64))

GROUNDS: dict[str, Table] = {
    "extrasensory": {
        "rounds": 200,
        "trace": {"name": "extrasensory", "interval": "6h", "gap": 10, "window": 40, "align": "client"},
        "model": MLP_64,
        "training": {**LOCAL, "participants": 12},
    },
    "zephyr": {
        "rounds": 240,
        "trace": {"name": "zephyr", "interval": "7d", "gap": 2, "window": 52, "last": "1050d", "clients": 302},
        "model": MLP_32,
        "training": {**LOCAL, "participants": 40, "learning_rate": 0.4},
    },
    "fashion-dirichlet": {
        "rounds": 160,
        "trace": {**FASHION, "scenario": "dirichlet"},
        "model": MLP_64,
        "training": LOCAL,
    },
    "fashion-places": {
        "rounds": 160,
        "trace": {**FASHION, "scenario": "places"},
        "model": MLP_64,
        "training": LOCAL,
    },
}
"""What all rows of a ground share, cheapest ground first."""

FIXED: dict[str, Table] = {
    f"tau {words}": {"tau": tau}
    for words, tau in (("0", 0.0), ("1/6", 1 / 6), ("1/3", 1 / 3), ("1/2", 1 / 2), ("2/3", 2 / 3))
}
LEARNED, PAIRWISE = "learned tau", "pairwise, k-center"
ROWS: dict[str, Table] = {
    **FIXED,
    LEARNED: {"tau": "learned"},
    PAIRWISE: {"trigger": "pairwise", "partitioner": "k-center"},
}
"""What rows differ by, in the coordinator; pairwise knows no noise floor."""
DETECTORS = ("any-change", "chi2")
FLOORS: dict[str, bool] = {"off": False, "on": True}
HEAD = ("trigger", "final accuracy", "against the best fixed", "re-clusterings", "K at the end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of run, whatever the seed."""

    ground: str
    detector: str
    floor: str
    row: str

    def run_name(self, seed: int) -> str:
        """Return the folder of a run."""
        row = "".join(letter if letter.isalnum() else "-" for letter in self.row)
        return f"{self.ground}/{self.detector}-floor-{self.floor}/{row}-{seed}"

    def config(self, seed: int) -> Config:
        """Return the config of a run."""
        floor: Table = {"noise_floor": True} if FLOORS[self.floor] else {}
        common: Table = {"representation": "label", "metric": "l1", "detector": self.detector}
        start: Table = {"preset": "paper", "seed": seed, "coordinator": common}
        return config_from(merged(GROUNDS[self.ground], start, {"coordinator": {**ROWS[self.row], **floor}}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a case came to, seed by seed; or why it failed."""

    accuracy: tuple[float, ...] = ()
    reclusterings: tuple[float, ...] = ()
    n_clusters: tuple[float, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How learned tau did beside the best fixed one.

    Parameters
    ----------
    best
        The fixed row with the highest mean accuracy (ties: the lower tau).
    behind
        Learned minus best, seed by seed.
    """

    best: str
    behind: Estimate

    @property
    def holds(self) -> bool:
        """Whether the 95 % interval of the difference reaches 0; a single seed tells by its sign."""
        return self.behind.mean + (self.behind.half_width or 0.0) >= 0.0


def cases(grounds: Sequence[str], detectors: Sequence[str], floors: Sequence[str]) -> list[Case]:
    """Return everything to run."""
    return [
        Case(ground=ground, detector=detector, floor=floor, row=row)
        for ground in grounds
        for detector in detectors
        for floor in floors
        for row in ROWS
        if not (row == PAIRWISE and FLOORS[floor])
    ]


def outcome(case: Case, done: Mapping[str, Finished], seeds: Sequence[int]) -> Outcome:
    """Return what the runs of a case came to."""
    runs = [done[case.run_name(seed)] for seed in seeds]
    failed = [one.error for one in runs if one.summary is None]
    if failed:
        return Outcome(error=failed[0])
    return Outcome(
        accuracy=_figures(runs, "final_accuracy"),
        reclusterings=_figures(runs, "reclusterings"),
        n_clusters=_figures(runs, "n_clusters_last"),
    )


def _figures(runs: Sequence[Finished], name: str) -> tuple[float, ...]:
    values: list[Json] = [(one.summary or {}).get(name) for one in runs]
    return tuple(float(value) if isinstance(value, (int, float)) else float("nan") for value in values)


def best_fixed(outcomes: Mapping[str, Outcome]) -> str | None:
    """Return the fixed row with the highest mean accuracy, of those that did not fail; ties: the lower tau."""
    means = {row: estimate(outcomes[row].accuracy).mean for row in FIXED if row in outcomes and outcomes[row].accuracy}
    return max(means, key=lambda row: means[row]) if means else None


def verdict(outcomes: Mapping[str, Outcome]) -> Verdict | None:
    """Return how learned tau did beside the best fixed one; None where one of them failed or was not run."""
    best = best_fixed(outcomes)
    learned = outcomes.get(LEARNED)
    if best is None or learned is None or not learned.accuracy:
        return None
    return Verdict(best=best, behind=paired_difference(learned.accuracy, outcomes[best].accuracy))


def rows_of(outcomes: Mapping[str, Outcome]) -> list[list[str]]:
    """Return a table of cells of one ground, detector and noise floor, heads first; rows that failed say why."""
    best = best_fixed(outcomes)
    lines = [list(HEAD)]
    for row, one in outcomes.items():
        if one.error is not None or best is None:
            lines.append([row, f"failed: {one.error}", *[""] * (len(HEAD) - 2)])
            continue
        behind = "best" if row == best else percent(paired_difference(one.accuracy, outcomes[best].accuracy), sign="+")
        counts = (f"{estimate(values).mean:.1f}" for values in (one.reclusterings, one.n_clusters))
        lines.append([row, percent(estimate(one.accuracy)), behind, *counts])
    return lines


def percent(one: Estimate, *, sign: str = "") -> str:
    """Return a share in points, with the half width of its interval.

    Examples
    --------
    >>> percent(estimate([0.5, 0.52]))
    '51.0 ± 12.7'
    """
    width = "" if one.half_width is None else f" ± {100 * one.half_width:.1f}"
    return f"{100 * one.mean:{sign}.1f}{width}"


def side_by_side(off: list[list[str]], on: list[list[str]]) -> list[list[str]]:
    """Return the table without the noise floor, with the figures with it beside; a row that has none has dashes."""
    by_row = {line[0]: line[1:4] for line in on[1:]}
    head = [*off[0], *(f"{name}, floor" for name in HEAD[1:4])]
    return [head, *([*line, *by_row.get(line[0], ["-"] * 3)] for line in off[1:])]


def verdict_line(ground: str, detector: str, floor: str, found: Verdict | None) -> list[str]:
    """Return a line of the table of verdicts."""
    if found is None:
        return [ground, detector, floor, "-", "-", "not known"]
    words = "within the interval or above" if found.holds else "BEHIND"
    return [ground, detector, floor, found.best, percent(found.behind, sign="+"), words]


def tell(done: Mapping[str, Finished], chosen: Sequence[Case], seeds: Sequence[int]) -> None:
    """Print all tables."""
    verdicts = [["ground", "reports", "noise floor", "best fixed", "learned minus best", "verdict"]]
    for ground, detector in dict.fromkeys((case.ground, case.detector) for case in chosen):
        by_floor: dict[str, dict[str, Outcome]] = {}
        for case in chosen:
            if (case.ground, case.detector) == (ground, detector):
                by_floor.setdefault(case.floor, {})[case.row] = outcome(case, done, seeds)
        tables = [rows_of(outcomes) for outcomes in by_floor.values()]
        both = side_by_side(*tables) if len(tables) == 2 else tables[0]
        print(f"\n### {ground}, {detector} reports\n\n{markdown(both)}")
        verdicts += [verdict_line(ground, detector, floor, verdict(found)) for floor, found in by_floor.items()]
    print(f"\n### Verdicts\n\n{markdown(verdicts)}")


def swept(configs: Mapping[str, Config], out: Path, n_jobs: int) -> dict[str, Finished]:
    """Do the runs, telling about each on the way."""
    begun, n_done = time.monotonic(), 0

    def note(one: Finished) -> None:
        nonlocal n_done
        n_done += 1
        what = one.error or f"{float(str((one.summary or {}).get('final_accuracy') or 0)):.4f}"
        minutes = (time.monotonic() - begun) / 60
        print(f"{n_done}/{len(configs)} {one.name}: {what} ({minutes:.1f} min)", file=sys.stderr, flush=True)

    return sweep(configs, out, n_jobs=n_jobs, on_done=note)


def listed(allowed: Sequence[str]) -> "type[str]":
    """Return a reader of values from a list, separated by commas."""

    def read(text: str) -> list[str]:
        values = text.split(",")
        if unknown := [value for value in values if value not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(allowed)}")
        return values

    return read  # type: ignore[return-value]


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
    configs = {case.run_name(seed): case.config(seed) for case in chosen for seed in seeds}
    tell(swept(configs, options.out, options.jobs), chosen, seeds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
