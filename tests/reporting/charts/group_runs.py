"""Groups of runs written by hand, and what figures show of them."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fielding._typing import Json
from fielding.reporting.numbers.groups import Group, RunGroups
from fielding.reporting.numbers.run_record import RunRecord, read_run
from fielding.reporting.page import Section
from tests.reporting.run_logs import CONFIG, round_line

Rows = Sequence[Mapping[str, Json]]
HOSTILE = "<img src=x onerror=alert(1)> & co"


def accuracies(values: Sequence[float | None], *, seconds: float = 60.0, **more: Json) -> list[dict[str, Json]]:
    """Return a round for each accuracy, None for a round without an evaluation; each takes so long."""
    rows = []
    for at, value in enumerate(values):
        found: dict[str, Json] = {} if value is None else {"accuracy": value, **more}
        rows.append({**round_line(at), "time_s": seconds * (at + 1), **found})
    return rows


def one_run(
    folder: Path, lines: Rows, *, seed: int = 1, is_finished: bool = True, clients: Rows = (), **config: Json
) -> RunRecord:
    """Write a run and read it; ``config`` is what differs from the usual one."""
    folder.mkdir(parents=True)
    for name, log in {"rounds": lines, "events": (), "memberships": (), "clients": clients}.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log))
    manifest = {"fielding": "0.1", "seed": seed, "config": {**CONFIG, "seed": seed, "rounds": 9, **config}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    if is_finished:
        (folder / "summary.json").write_text("{}")
    return read_run(folder)


def groups_of(folder: Path, groups: Mapping[str, Sequence[Rows]], reference: str | None = None) -> RunGroups:
    """Write finished runs, one for each seed from 1, and gather them; the first group is the reference."""
    found = []
    for at, (name, seeds) in enumerate(groups.items()):
        runs = [one_run(folder / f"{at}-{seed}", rows, seed=seed) for seed, rows in enumerate(seeds, start=1)]
        found.append(Group(name=name, runs=tuple(runs)))
    first = reference or (found[0].name if len(found) > 1 else None)
    return RunGroups(title="by hand", groups=tuple(found), reference=first)


def numbers(values: Any) -> list[float]:
    """Return the numbers of a trace, packed or not, with NaN for gaps."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=f"<{values['dtype']}").astype(float).tolist()
    return [float("nan") if one is None else float(one) for one in values]


def view(section: Section, *words: str) -> Section:
    """Return the one view of a section that has these words on its buttons."""
    (found,) = (one for one in section.views if set(words) <= set(one.words))
    return found


def traces(section: Section, name: str) -> list[dict[str, Any]]:
    """Return the traces of a name, bands first."""
    return [trace for trace in drawn(section)["data"] if trace["name"] == name]


def drawn(section: Section) -> dict[str, Any]:
    """Return the figure of a section, after plotly has found nothing wrong with it."""
    if section.figure is None:
        raise AssertionError(section.missing)
    go.Figure(section.figure)
    return section.figure
