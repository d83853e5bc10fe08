"""Let distributions come back, and see how fast accuracy does, with re-use of retired models and without.

    python -m experiments.recurring [GROUND ...] [--seeds 5] [--jobs 2] [--out runs/recurring]

Fielding with label histograms, L1 and tau = 1/3, clients tested after every round. Grounds: `swing`, where all clients
swing between two label mixes by day and two others by night, so that whole clusters disappear and come back;
`swing-turned`, where images are also turned by a quarter at night; `scenario`, the scenario `recurring` in which every
mix is always somebody's. A recurrence is every change to a distribution that was there before. Data come from
FIELDING_DATA. The command goes on where it was stopped.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.sweeping import swept
from experiments.swinging import PERIOD, swinging_file
from experiments.tables import Table, markdown, merged
from experiments.threshold.cases import LOCAL, MLP_64
from experiments.threshold.verdicts import percent
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.records.logs import read_lines
from fielding.records.run_folder import ROUNDS
from fielding.reporting.numbers.paired import estimate, paired_difference

GAP, N_ROUNDS = 15, 240
N_CLIENTS, N_SAMPLES = 60, 30
FIRST_SWING = GAP
"""Data of one interval are there at the start; with the next it is night."""
BEFORE = 10
"""Rounds before a drift whose mean accuracy is to be reached again."""
SHARE = 0.95
"""How much of it."""

GROUNDS = ("swing", "swing-turned", "scenario")
WITHOUT, WITH = "without re-use", "re-use of 5"
ROWS: dict[str, Table] = {
    "global": {"method": {"name": "global"}},
    WITHOUT: {"method": {"name": "fielding", "reuse": 0}},
    WITH: {"method": {"name": "fielding", "reuse": 5}},
}
HEAD = (
    "method",
    "rounds to 95 % of before",
    "not back",
    "rounds to 95 % of last visit",
    "not back",
    "dip",
    "area of loss",
    "final accuracy",
    "re-clusterings",
    "MB",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a recurrence did to a run.

    Parameters
    ----------
    rounds
        That ended below 95 % of the mean of the ten rounds before; all of the stretch if it never came back.
    is_back
        Whether it came back.
    rounds_to_visit, is_at_visit
        The same, against the last ten rounds of the last visit of this distribution: what is to be reached is not the
        accuracy on other, maybe easier data.
    dip
        The mean before minus the lowest accuracy of the stretch.
    area
        By how much accuracy lay below the mean before, summed over the rounds of the stretch.
    """

    rounds: int
    is_back: bool
    rounds_to_visit: int
    is_at_visit: bool
    dip: float
    area: float


def recoveries(accuracy: Sequence[float], swings: Sequence[int]) -> list[Recovery]:
    """Return what every recurrence did, in order.

    Parameters
    ----------
    accuracy
        After every round.
    swings
        Rounds in which the other distribution came, rising. The second brings the first one back, and so on; the first
        swing brings something new and is no recurrence.
    """
    ends = [*swings[1:], len(accuracy)]
    found = []
    for at in range(1, len(swings)):
        stretch = accuracy[swings[at] : ends[at]]
        before, visit = (_mean(accuracy[max(0, end - BEFORE) : end]) for end in (swings[at], swings[at - 1]))
        n_below, n_below_visit = (rounds_below(stretch, SHARE * level) for level in (before, visit))
        found.append(
            Recovery(
                rounds=n_below,
                is_back=n_below < len(stretch),
                rounds_to_visit=n_below_visit,
                is_at_visit=n_below_visit < len(stretch),
                dip=before - min(stretch),
                area=sum(max(0.0, before - one) for one in stretch),
            )
        )
    return found


def rounds_below(stretch: Sequence[float], target: float) -> int:
    """Return after how many rounds a target was reached for the first time; all if it never was.

    Examples
    --------
    >>> rounds_below([0.5, 0.7, 0.6], 0.7), rounds_below([0.5], 0.4), rounds_below([0.5], 0.7)
    (1, 0, 1)
    """
    return next((at for at, one in enumerate(stretch) if one >= target), len(stretch))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The figures of a run; those of recurrences are means over them."""

    rounds: float
    n_not_back: int
    rounds_to_visit: float
    n_not_at_visit: int
    dip: float
    area: float
    accuracy: float
    reclusterings: float
    megabytes: float


def outcome(rows: Sequence[Mapping[str, Json]], summary: Mapping[str, Json]) -> Outcome:
    """Return the figures of a run that was tested after every round."""
    accuracy = [float(str(row["accuracy"])) for row in rows]
    found = recoveries(accuracy, swings(len(rows)))
    return Outcome(
        rounds=_mean([one.rounds for one in found]),
        n_not_back=sum(not one.is_back for one in found),
        rounds_to_visit=_mean([one.rounds_to_visit for one in found]),
        n_not_at_visit=sum(not one.is_at_visit for one in found),
        dip=_mean([one.dip for one in found]),
        area=_mean([one.area for one in found]),
        accuracy=float(str(summary["final_accuracy"])),
        reclusterings=float(str(summary["reclusterings"])),
        megabytes=(float(str(summary["bytes_down"])) + float(str(summary["bytes_up"]))) / 1e6,
    )


def swings(n_rounds: int) -> list[int]:
    """Return the rounds in which day and night change, and clients of the scenario leave or return.

    Examples
    --------
    >>> swings(120)
    [15, 45, 75, 105]
    """
    return list(range(FIRST_SWING, n_rounds, PERIOD * GAP))


def config_of(ground: str, row: str, seed: int, folder: Path) -> Config:
    """Return the config of a run; the trace that it needs is written first."""
    trace: Table = {"gap": GAP, "window": GAP}
    if ground == "scenario":
        trace |= {"name": "fashion_mnist", "scenario": "recurring", "share": 1.0, "period": PERIOD}
        trace |= {"clients": N_CLIENTS, "samples": N_SAMPLES}
    else:
        shape = (N_CLIENTS, N_ROUNDS // GAP + 1, N_SAMPLES)
        path = swinging_file(folder, shape, seed=seed, turned=ground == "swing-turned")
        trace |= {"file": str(path), "interval": "1d"}
    base: Table = {
        "preset": "paper",
        "seed": seed,
        "rounds": N_ROUNDS,
        "trace": trace,
        "model": MLP_64,
        "training": LOCAL,
        "evaluation": {"every": 1},
        "coordinator": {"representation": "label", "metric": "l1", "tau": 1 / 3},
    }
    return config_from(merged(base, ROWS[row]))


def table(by_row: Mapping[str, Sequence[Outcome]]) -> list[list[str]]:
    """Return the figures of rows as cells, heads first, and what re-use gains, seed by seed."""
    lines = [list(HEAD)]
    for row, runs in by_row.items():
        lines.append(
            [
                row,
                estimate([one.rounds for one in runs]).words(1),
                str(sum(one.n_not_back for one in runs)),
                estimate([one.rounds_to_visit for one in runs]).words(1),
                str(sum(one.n_not_at_visit for one in runs)),
                percent(estimate([one.dip for one in runs])),
                percent(estimate([one.area for one in runs])),
                percent(estimate([one.accuracy for one in runs])),
                estimate([one.reclusterings for one in runs]).words(1),
                f"{_mean([one.megabytes for one in runs]):.1f}",
            ]
        )
    if WITH in by_row and WITHOUT in by_row:
        lines.append(difference(by_row[WITH], by_row[WITHOUT]))
    return lines


def difference(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[str]:
    """Return the cells of what re-use changes."""

    def gain(name: str) -> tuple[list[float], list[float]]:
        return [float(getattr(one, name)) for one in ours], [float(getattr(one, name)) for one in theirs]

    return [
        "difference by re-use",
        paired_difference(*gain("rounds")).words(1, sign="+"),
        "",
        paired_difference(*gain("rounds_to_visit")).words(1, sign="+"),
        "",
        percent(paired_difference(*gain("dip")), sign="+"),
        percent(paired_difference(*gain("area")), sign="+"),
        percent(paired_difference(*gain("accuracy")), sign="+"),
        paired_difference(*gain("reclusterings")).words(1, sign="+"),
        f"{paired_difference(*gain('megabytes')).mean:+.1f}",
    ]


def tell(ground: str, done: Mapping[str, Finished], seeds: Sequence[int], out: Path) -> None:
    """Print the table of a ground; rows that failed say why."""
    by_row: dict[str, list[Outcome]] = {}
    for row in ROWS:
        runs = [done[run_name(ground, row, seed)] for seed in seeds]
        if errors := [one.error for one in runs if one.summary is None]:
            print(f"{ground}, {row}: {errors[0]}", file=sys.stderr)
            continue
        by_row[row] = [outcome(list(read_lines(out / one.name / ROUNDS)), one.summary or {}) for one in runs]
    n_times = len(seeds) * (len(swings(N_ROUNDS)) - 1)
    print(f"\n### {ground}: {n_times} recurrences over {len(seeds)} seeds\n\n{markdown(table(by_row))}")


def run_name(ground: str, row: str, seed: int) -> str:
    """Return the folder of a run."""
    return f"{ground}/{row.replace(' ', '-')}-{seed}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.recurring", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("grounds", nargs="*", metavar="GROUND", help=f"of {', '.join(GROUNDS)}; all by default")
    parser.add_argument("--seeds", type=int, default=5, help="how many (5)")
    parser.add_argument("--first-seed", type=int, default=1, help="(1); from 11 on for trials")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--out", type=Path, default=Path("runs/recurring"), help="folder for all runs (runs/recurring)")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.grounds if name not in GROUNDS]:
        parser.error(f"unknown ground {unknown[0]!r}; known: {', '.join(GROUNDS)}")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    chosen = options.grounds or list(GROUNDS)
    configs = {
        run_name(ground, row, seed): config_of(ground, row, seed, options.out / "traces")
        for seed in seeds
        for ground in chosen
        for row in ROWS
    }
    done = swept(configs, options.out, options.jobs)
    for ground in chosen:
        tell(ground, done, seeds, options.out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
