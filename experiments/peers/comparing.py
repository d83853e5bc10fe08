"""All rows on all seeds of a benchmark, and the tables that come out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.peers.benchmarks import Benchmark, base_table
from experiments.peers.rows import PARTNERS, ROWS, Settings, rows_on, settings_of
from experiments.peers.tuning import Choice, chosen_for
from experiments.reproduce.results import Results, as_served, results_of
from experiments.reproduce.tables import COLUMNS, Cells
from experiments.sweeping import forget_changed, telling
from fielding._typing import Json
from fielding.comparing.compare import run_comparison
from fielding.comparing.plan import plan_comparison, resolve_variant
from fielding.comparing.sweep import Following
from fielding.records.plan import Variant
from fielding.reporting.numbers.paired import COVERAGE, holm, paired_p

REFERENCE = "global"
COSTS = ("hours", "down", "up", "reclusterings", "clusters")
"""What rows cost and what their clusters did."""
PAGE = ("accuracy", "gain", "next", "next gain")
"""Columns of the table of a page: corrected and tuned models have rows of their own here."""


def variants(benchmark: Benchmark, choices: Mapping[str, Choice], names: Sequence[str]) -> dict[str, Settings]:
    """Return the settings of the rows that have runs of their own, with what was chosen for them."""
    return {
        name: {**settings_of(row, benchmark), **chosen_for(name, row, choices)}
        for name, row in rows_on(benchmark).items()
        if row.runs_of is None and name in names
    }


def partner_variants(choices: Mapping[str, Choice]) -> dict[str, Settings]:
    """Return the settings of a global model and of Fielding with everything that they combine with."""
    return {
        f"{method} + {partner}": {**ROWS[method].settings, **chosen_for(method, ROWS[method], choices), **extra}
        for method in (REFERENCE, "fielding")
        for partner, extra in PARTNERS.items()
    }


def compare(
    benchmark: Benchmark,
    settings: Mapping[str, Settings],
    folder: Path,
    *,
    name: str,
    seeds: Sequence[int],
    n_jobs: int,
) -> Results:
    """Do all runs of a comparison, or what is left of them, and read them; SystemExit names a run that failed.

    Rows that come to the same config share their runs, such as one with a tuned tau that was tuned to the usual one.
    """
    table = base_table(benchmark, folder, is_tuning=False)
    first, configs = dict[str, str](), dict[str, dict[str, Json] | None]()
    for row, one in settings.items():
        configs[row] = resolve_variant(table, Variant(name=row, folder=row, settings=one))
        first[row] = next(other for other, known in configs.items() if known == configs[row])
    forget_changed(folder / name, settings)
    comparison = plan_comparison(
        table,
        {row: one for row, one in settings.items() if first[row] == row},
        seeds=list(seeds),
        out=folder / name,
        reference=REFERENCE if REFERENCE in settings else next(iter(settings)),
    )
    note = telling(len(comparison.configs), f"{name} ")
    failures = run_comparison(comparison, n_jobs=n_jobs, following=Following(on_done=note)).failures
    if failures:
        failed, error = next(iter(failures.items()))
        raise SystemExit(f"{len(failures)} runs failed, {failed} among them: {error}")
    found = results_of(comparison.folder, comparison.plan, [row for row in settings if first[row] == row])
    return Results(
        seeds=found.seeds,
        runs={row: found.runs[first[row]] for row in settings},
        metrics={row: found.metrics[first[row]] for row in settings},
    )


def with_served(results: Results, benchmark: Benchmark) -> Results:
    """Return the results with rows that score the runs of another row in another way."""
    runs, metrics = dict(results.runs), dict(results.metrics)
    for name, row in rows_on(benchmark).items():
        source = row.runs_of or name
        if source in results.runs and row.served:
            runs[name] = results.runs[source]
            metrics[name] = [as_served(one, row.served) for one in results.metrics[source]]
    ordered = [name for name in rows_on(benchmark) if name in runs]
    return Results(
        seeds=results.seeds,
        runs={name: runs[name] for name in ordered},
        metrics={name: metrics[name] for name in ordered},
    )


def accuracy_table(results: Results) -> Cells:
    """Return the accuracies of all rows, heads first; the names say who is clearly above or below.

    Gains alone have intervals: they are taken seed by seed, and accuracies differ between seeds for all rows alike.
    """
    columns, so = [COLUMNS[name] for name in PAGE], verdicts(results)
    rows = []
    for name in results.runs:
        cells = [column.cell(results, name, REFERENCE) for column in columns]
        cells[0], cells[2] = (cells[at].partition(" ±")[0] for at in (0, 2))
        rows.append([f"{name}: {so[name]}" if so[name] in ("above", "below") else name, *cells])
    return [["method", *(column.head for column in columns)], *rows]


def verdicts(results: Results) -> dict[str, str]:
    """Return which rows are clearly above or below one model: on the window *and* on the next interval.

    Paired t-tests over the seeds, adjusted for the number of rows by Holm's rule, at 5 %.
    """
    others = [name for name in results.runs if name != REFERENCE]
    found: dict[str, list[float]] = {name: [] for name in others}
    for figure in ("final_accuracy", "final_next_accuracy"):
        theirs = results.values(REFERENCE, figure)
        gaps = {
            name: [
                one - other
                for one, other in zip(results.values(name, figure), theirs, strict=True)
                if one is not None and other is not None
            ]
            for name in others
        }
        for name, p in zip(others, holm([paired_p(gaps[name]) for name in others]), strict=True):
            is_clear = p is not None and p < 1 - COVERAGE
            found[name].append(sum(gaps[name]) if is_clear else 0.0)
    words = {name: _verdict(gaps) for name, gaps in found.items()}
    return {name: words.get(name, "reference") for name in results.runs}


def _verdict(gaps: Sequence[float]) -> str:
    if min(gaps) > 0:
        return "above"
    return "below" if max(gaps) < 0 else "not clear"


def cost_table(results: Results, names: Sequence[str]) -> Cells:
    """Return what rows cost and what their clusters did, heads first."""
    columns = [COLUMNS[name] for name in COSTS]
    return [
        ["method", *(column.head for column in columns)],
        *([name, *(column.cell(results, name, REFERENCE) for column in columns)] for name in names),
    ]


def tuning_table(choices: Mapping[str, Choice], names: Sequence[str]) -> Cells:
    """Return what was chosen for rows on the validation trace, heads first."""
    lines = [["method", "chosen", "runs", "search"]]
    for name in names:
        found = choices.get(name)
        if found is None:
            continue
        tried = found["tried"]
        lines.append(
            [
                name,
                _words(found["chosen"]),
                str(sum(len(one["scores"]) for one in tried)),  # type: ignore[union-attr, index, arg-type, misc, call-overload]
                _search_words(found),
            ]
        )
    return lines


def _search_words(found: Choice) -> str:
    """Return whether the search came to its end, and which choices lie at the edge of what was tried."""
    edges = found["at_edge"]
    words = "finished" if found["is_finished"] else "cut short"
    if isinstance(edges, list) and edges:
        words += "; at the edge: " + ", ".join(str(key).rpartition(".")[2] for key in edges)
    return words


def _words(settings: Json) -> str:
    pairs = settings.items() if isinstance(settings, dict) else ()
    return ", ".join(f"{key.rpartition('.')[2]} {value:.4g}" for key, value in pairs if isinstance(value, (int, float)))
