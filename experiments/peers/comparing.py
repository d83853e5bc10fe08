"""All rows on all seeds of a ground, and the table that comes out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.peers.grounds import Ground, base_table, merged
from experiments.peers.rows import PARTNERS, ROWS, Chosen, folder_name, rows_on, settings_of
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.records.logs import read_lines
from fielding.records.run_folder import ROUNDS
from fielding.reporting.numbers.paired import Estimate, estimate, paired_difference
from fielding.reporting.numbers.run_summary import last_crossing

HEAD = (
    "method",
    "final accuracy",
    "against global",
    "worst tenth",
    "newest data",
    "next interval",
    "hours to target",
    "dip",
    "MB down",
    "MB up",
    "client hours",
    "moves",
    "re-clusterings",
    "K at the end",
    "within-cluster L1",
)
BASELINE = "global"


def comparison_runs(
    ground: Ground, folder: Path, chosen: Chosen, seeds: Sequence[int], rows: Sequence[str]
) -> dict[str, Config]:
    """Return the runs of some rows of the comparison of methods, by the name of their folder."""
    base = base_table(ground, folder, is_tuning=False)
    return {
        run_name(name, seed): config_from(merged(base, {"seed": seed}, settings_of(row, ground), chosen.of(name)))
        for seed in seeds
        for name, row in rows_on(ground).items()
        if name in rows
    }


def partner_runs(ground: Ground, folder: Path, chosen: Chosen, seeds: Sequence[int]) -> dict[str, Config]:
    """Return the runs of a global model and of Fielding with everything that they combine with."""
    base = base_table(ground, folder, is_tuning=False)
    return {
        run_name(f"{method} + {partner}", seed): config_from(
            merged(base, {"seed": seed}, ROWS[method].settings, chosen.of(method), extra)
        )
        for seed in seeds
        for partner, extra in PARTNERS.items()
        for method in ("global", "fielding")
    }


def run_name(row: str, seed: int) -> str:
    """Return the folder of a run."""
    return f"{folder_name(row)}-{seed}"


def table(
    rows: Sequence[str],
    seeds: Sequence[int],
    done: Mapping[str, Finished],
    out: Path,
    *,
    baselines: Sequence[str] | None = None,
) -> list[list[str]]:
    """Return the figures of rows as cells, heads first; rows that failed say why.

    Parameters
    ----------
    rows, seeds, done, out
        What was run, and where.
    baselines
        The row that each row is held against; the global model by default.
    """
    lines = [list(HEAD)]
    for name, baseline in zip(rows, baselines or [BASELINE] * len(rows), strict=True):
        runs = [done[run_name(name, seed)] for seed in seeds]
        targets = [_figure(done[run_name(baseline, seed)], "final_accuracy") for seed in seeds]
        failed = [one.error for one in runs if one.summary is None]
        if failed:
            lines.append([name, f"failed: {failed[0]}", *[""] * (len(HEAD) - 2)])
        else:
            lines.append([name, *_cells(runs, targets, out)])
    return lines


def _cells(runs: Sequence[Finished], targets: Sequence[float], out: Path) -> list[str]:
    accuracies = [_figure(one, "final_accuracy") for one in runs]
    gain = paired_difference(accuracies, targets)
    return [
        _percent(estimate(accuracies)),
        _percent(gain, sign="+"),
        _percent(estimate([_figure(one, "worst_decile") for one in runs])),
        _mean(runs, "final_newest_accuracy", 0.01, 1),
        _mean(runs, "final_prequential_accuracy", 0.01, 1),
        _hours([_time_to(out / one.name, target) for one, target in zip(runs, targets, strict=True)]),
        *(_mean(runs, name, unit, places) for name, unit, places in _FIGURES),
    ]


_FIGURES = (
    ("dip", 0.01, 1),
    ("bytes_down", 1e6, 0),
    ("bytes_up", 1e6, 0),
    ("client_seconds", 3600.0, 1),
    ("moves", 1.0, 0),
    ("reclusterings", 1.0, 1),
    ("n_clusters_last", 1.0, 1),
    ("measured_heterogeneity", 1.0, 2),
)


def _percent(one: Estimate, *, sign: str = "") -> str:
    width = "" if one.half_width is None else f" ± {100 * one.half_width:.1f}"
    return f"{100 * one.mean:{sign}.1f}{width}"


def _mean(runs: Sequence[Finished], name: str, unit: float, places: int) -> str:
    values = [value for one in runs if isinstance(value := (one.summary or {}).get(name), (int, float))]
    return f"{sum(values) / len(values) / unit:.{places}f}" if values else "-"


def _hours(times: Sequence[float | None]) -> str:
    known = [time for time in times if time is not None]
    if not known:
        return "never"
    mean = f"{sum(known) / len(known) / 3600:.1f}"
    return mean if len(known) == len(times) else f"{mean} ({len(known)} of {len(times)})"


def _time_to(folder: Path, target: float) -> float | None:
    row = last_crossing(list(read_lines(folder / ROUNDS)), target)
    return None if row is None else float(str(row["time_s"]))


def _figure(one: Finished, name: str) -> float:
    value: Json = (one.summary or {}).get(name)
    return float(value) if isinstance(value, (int, float)) else float("nan")


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return cells as a Markdown table."""
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])
