"""Logs of runs as tidy DataFrames of pandas, one row per round, per client and evaluation, per event, or per run."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fielding._extras import require
from fielding._typing import Json
from fielding.errors import unknown_name
from fielding.json_text import parse_json
from fielding.records.run_folder import CLIENTS, EVENTS, ROUNDS
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.numbers.run_record import RunRecord, flatten

Row = Mapping[str, Json]


def frame_of(folder: Path, what: str = "rounds") -> Any:
    """Return what the logs in a folder hold as a DataFrame; of a comparison, ``method`` and ``seed`` come first.

    ``what``: ``rounds`` (a row per round), ``clients`` (per client and evaluation), ``events`` (per round in which
    clients reported) or ``summary`` (per run). A column that a row lacks is empty there. OptionError if there is no
    such log, or pandas is not installed.
    """
    if what not in LOGS:
        raise unknown_name("frame", what, LOGS)
    pandas = require("data", "pandas")
    found = gather_runs([folder])
    is_comparison = any(one.folder != folder for _, one in found.runs)
    rows: list[dict[str, Json]] = []
    for group, one in found.runs:
        first: dict[str, Json] = {"method": group.name, "seed": one.seed} if is_comparison else {}
        rows += [{**first, **row, **first} for row in LOGS[what](one)]  # a summary has the method, too
    return pandas.DataFrame(rows)


def log_lines(path: Path) -> Iterator[dict[str, Json]]:
    """Yield the lines of a log that are whole."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield parse_json(line)


def _round_rows(run: RunRecord) -> Iterator[Row]:
    for row in log_lines(run.folder / ROUNDS):
        yield {name: value for name, value in flatten(row).items() if not isinstance(value, list)}


def _event_rows(run: RunRecord) -> Iterator[Row]:
    if (run.folder / EVENTS).exists():
        for row in log_lines(run.folder / EVENTS):
            yield {name: value for name, value in row.items() if name != "silhouettes"}


def _client_rows(run: RunRecord) -> Iterator[Row]:
    if not (run.folder / CLIENTS).exists():
        return
    for line in log_lines(run.folder / CLIENTS):
        columns = {name: values for name, values in flatten(line).items() if isinstance(values, list)}
        for at in range(len(columns["client"])):
            row = {name: values[at] for name, values in columns.items()}
            yield {"round": line["round"], **row, **_shares(row)}


def _shares(row: Row) -> dict[str, Json]:
    """Return accuracies from counts: of the window, of the newest and of the next interval, raw and served."""
    found: dict[str, Json] = {}
    for where in ("", "newest_", "next_"):
        n_test = row.get(f"{where}n_test")
        if isinstance(n_test, int) and n_test:
            for name, prefix in (("correct", ""), ("served", "served_")):
                if isinstance(right := row.get(f"{where}{name}"), int):
                    found[f"{prefix}{where}accuracy"] = right / n_test
    return found


def _summary_rows(run: RunRecord) -> Iterator[Row]:
    yield {name: value for name, value in flatten(dict(run.summary())).items() if not isinstance(value, list)}


LOGS: dict[str, Callable[[RunRecord], Iterator[Row]]] = {
    "rounds": _round_rows,
    "clients": _client_rows,
    "events": _event_rows,
    "summary": _summary_rows,
}
"""What becomes a frame, by name."""
