"""Knobs chosen on the validation trace: the same number of runs for every method, then frozen in a file."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomli_w

from experiments.peers.benchmarks import Benchmark, base_table
from experiments.peers.rows import Row, Settings, rows_on, settings_of
from experiments.peers.search import Point, Scores, is_inside, ranked, wanted
from experiments.sweeping import swept
from experiments.tables import Table, folder_name
from fielding._typing import Json
from fielding.comparing.variants import with_settings
from fielding.config.keys import Config
from fielding.config.reader import config_from

FOLDER = Path(__file__).parent.parent / "tuning"
"""Where choices are kept, a file per benchmark."""
SEED = 1_000
"""The first of all runs for tuning; comparisons use seeds from 1."""
ALLOWANCE = 24
"""Runs on the validation trace that every row gets that is tuned."""
Choice = Mapping[str, Json]
"""What was found for a row: ``chosen``, ``runner_up``, their scores, ``at_edge``, and all that was tried."""


def tuned_rows(benchmark: Benchmark) -> dict[str, Row]:
    """Return the rows that have something to choose."""
    return {name: row for name, row in rows_on(benchmark).items() if row.knobs}


def tune(benchmark: Benchmark, folder: Path, *, n_jobs: int, names: list[str] | None = None) -> dict[str, Choice]:
    """Choose the knobs of all rows, or of some, on the validation trace; done runs are not done again."""
    rows = {name: row for name, row in tuned_rows(benchmark).items() if names is None or name in names}
    base, out = base_table(benchmark, folder, is_tuning=True), folder / f"tune-{benchmark.name}"
    scores: dict[str, dict[Point, list[float]]] = {name: {} for name in rows}
    while True:
        batch: dict[str, tuple[str, Point, Config]] = {}
        for name, row in rows.items():
            for point, number in wanted(_lengths(row), _start(row), scores[name], ALLOWANCE):
                values = " ".join(f"{value:.6g}" for value in values_at(row, point).values())
                run = folder_name(f"{name} {values} {number}")
                config = with_settings(base, {**settings_of(row, benchmark), **values_at(row, point)})
                batch[run] = (name, point, config_from(with_settings(config, {"seed": SEED + number})))
        if not batch:
            return {name: choice_of(row, scores[name]) for name, row in rows.items()}
        done = swept({run: config for run, (_, _, config) in batch.items()}, out, n_jobs)
        if failed := [one for one in done.values() if one.error is not None]:
            raise SystemExit(f"{len(failed)} runs failed, {failed[0].name} among them: {failed[0].error}")
        for run, (name, point, _) in batch.items():
            scores[name].setdefault(point, []).append(score_of(done[run].summary, rows[name].served))


def values_at(row: Row, point: Point) -> Settings:
    """Return the values of a row's knobs at a point."""
    return {knob.key: knob.ladder[at] for knob, at in zip(row.knobs, point, strict=True)}


def score_of(summary: Mapping[str, Json] | None, served: str) -> float:
    """Return what knobs are chosen by: the mean of the final accuracies on window and next interval.

    A run without any scores less than any other.
    """
    names = (f"{name}_{served}" if served else name for name in ("final_accuracy", "final_next_accuracy"))
    values = [value for name in names if isinstance(value := (summary or {}).get(name), (int, float))]
    return round(sum(values) / len(values), 4) if values else -1.0


def choice_of(row: Row, scores: Scores) -> Choice:
    """Return what was chosen for a row, and what else was tried."""
    best, *others = ranked(_lengths(row), _start(row), scores)
    shared = min(len(scores[one]) for one in (best, *others[:1]))  # seeds by which the first two were told apart
    edges: list[Json] = [
        knob.key
        for axis, knob in enumerate(row.knobs)
        if best[axis] in (0, len(knob.ladder) - 1) or not _has_neighbours(best, axis, scores)
    ]
    return {
        "chosen": values_at(row, best),
        "score": _mean(scores[best][:shared]),
        "runner_up": values_at(row, others[0]) if others else {},
        "runner_up_score": _mean(scores[others[0]][:shared]) if others else -1.0,
        "at_edge": edges,
        "is_finished": is_inside(_lengths(row), _start(row), scores),
        "tried": [{**values_at(row, point), "scores": list(scores[point])} for point in scores],
    }


def _has_neighbours(point: Point, axis: int, scores: Scores) -> bool:
    """Return whether a lower and a higher value of a knob were tried, whatever the other knobs were then."""
    tried = {other[axis] for other in scores}
    return min(tried) < point[axis] < max(tried)


def _lengths(row: Row) -> list[int]:
    return [len(knob.ladder) for knob in row.knobs]


def _start(row: Row) -> Point:
    return tuple(knob.ladder.index(knob.start) for knob in row.knobs)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def choice_file(benchmark: Benchmark) -> Path:
    """Return where the choices for a benchmark are kept."""
    return FOLDER / f"{benchmark.name}.toml"


def write_choices(benchmark: Benchmark, found: Mapping[str, Choice]) -> Path:
    """Write down what was chosen, beside what was chosen for other rows before."""
    path = choice_file(benchmark)
    known = read_choices(benchmark) if path.exists() else {}
    path.write_text(
        f"# Chosen on the validation trace by `python -m experiments.peers tune {benchmark.name}`; do not edit.\n"
        + tomli_w.dumps({**known, **found})
    )
    return path


def read_choices(benchmark: Benchmark) -> dict[str, Choice]:
    """Return what was chosen; an error says how to choose."""
    path = choice_file(benchmark)
    if not path.exists():
        raise SystemExit(f"{path} is missing; run python -m experiments.peers tune {benchmark.name} first")
    return tomllib.loads(path.read_text())


def untuned(benchmark: Benchmark) -> list[str]:
    """Return the rows for which nothing has been chosen yet."""
    known = read_choices(benchmark) if choice_file(benchmark).exists() else {}
    return [name for name in tuned_rows(benchmark) if name not in known]


def chosen_for(name: str, row: Row, choices: Mapping[str, Choice]) -> Table:
    """Return the values that were chosen for a row, or for the row that it goes with."""
    if row.runs_of is not None:
        return {}
    source = row.like or name
    if source not in choices:
        raise SystemExit(f"nothing was chosen for {source}; run python -m experiments.peers tune first")
    chosen = choices[source]["chosen"]
    return dict(chosen) if isinstance(chosen, dict) else {}
