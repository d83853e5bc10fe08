"""Every section copes with runs that are empty, going on, damaged, of hostile names, or very many."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from fielding._typing import Json
from fielding.reporting.charts.curves import (
    draw_accuracy,
    draw_agreement,
    draw_cluster_counts,
    draw_heterogeneity,
    draw_losses,
)
from fielding.reporting.charts.drift_events import draw_around_drifts
from fielding.reporting.charts.fairness import draw_fairness
from fielding.reporting.charts.group_bars import draw_costs, draw_times_to_target
from fielding.reporting.charts.tables import tabulate_results, tabulate_settings, tabulate_states
from fielding.reporting.numbers.groups import WAITING, AwaitedRun, Group, RunGroups
from fielding.reporting.numbers.run_record import RunRecord, read_run
from fielding.reporting.page import Page, Section, page_record
from tests.reporting.charts.group_runs import HOSTILE, accuracies, one_run

Chart = Callable[[RunGroups], Section | list[Section]]
CHARTS: list[Chart] = [
    tabulate_results, draw_accuracy, draw_times_to_target, draw_heterogeneity, draw_cluster_counts,
    draw_fairness, draw_costs, draw_agreement, draw_losses, draw_around_drifts, tabulate_states, tabulate_settings,
]  # fmt: skip
every_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.__name__)


@every_chart
@pytest.mark.parametrize("kind", ["empty", "running", "damaged", "without a manifest"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a whole one"])
def test_a_run_that_is_not_whole_is_drawn_or_said_to_be_missing(
    tmp_path: Path, chart: Chart, kind: str, beside: bool
) -> None:
    groups = [Group(name="odd", runs=(_odd(tmp_path / "odd", kind),))]
    if beside:
        groups.append(Group(name="whole", runs=(_whole(tmp_path / "whole", 1), _whole(tmp_path / "other", 2))))
    gathered = RunGroups(title="", groups=tuple(groups), reference="odd" if beside else None)

    for section in _checked(chart, gathered):
        assert bool(section.missing) != bool(section.figure or section.table)


@every_chart
def test_a_comparison_that_has_not_begun_has_nothing_to_draw(chart: Chart) -> None:
    awaited = (AwaitedRun(group="ours", seed=1, state=WAITING),)

    for section in _checked(chart, RunGroups(title="", groups=(), reference=None, awaited=awaited)):
        assert section.missing or chart is tabulate_states


@every_chart
def test_names_from_folders_stay_text(tmp_path: Path, chart: Chart) -> None:
    runs = (_whole(tmp_path / "a", 1), _whole(tmp_path / "b", 2))
    groups = (Group(name=HOSTILE, runs=runs), Group(name="<b>other</b>", runs=runs[:1]))

    for section in _checked(chart, RunGroups(title="", groups=groups, reference=HOSTILE)):
        shown = (
            json.dumps(_without_meta(section.figure)).replace("<br>", "").replace("<extra>", "").replace("</extra>", "")
        )
        assert "<" not in shown


@every_chart
def test_twenty_five_groups_stay_small(tmp_path: Path, chart: Chart) -> None:
    run = _whole(tmp_path / "a", 1, n_rounds=400)
    groups = tuple(Group(name=f"tau={at}", runs=(run, replace(run))) for at in range(25))

    sections = _checked(chart, RunGroups(title="", groups=groups, reference="tau=0"))

    assert len(json.dumps(page_record(Page(title="", lead="", sections=sections)))) < 500_000


def _checked(chart: Chart, gathered: RunGroups) -> list[Section]:
    """Return the sections of a chart, after plotly and JSON have taken them."""
    found = chart(gathered)
    sections = [found] if isinstance(found, Section) else found
    assert sections or len(gathered.groups) < 2
    shown = [one for section in sections for one in section.views or [section]]
    for section in shown:
        if section.figure is not None:
            go.Figure(section.figure)
        if section.row_groups:
            assert len(section.row_groups) == len(section.table) - 1
    json.dumps(page_record(Page(title="", lead="", sections=sections)), allow_nan=False)
    return shown


def _odd(folder: Path, kind: str) -> RunRecord:
    rows = {"empty": [], "running": accuracies([None, None])}.get(kind, accuracies([0.5, 0.6]))
    run = one_run(folder, rows, is_finished=False)
    if kind == "damaged":
        (folder / "rounds.jsonl").write_text(
            '{"round": 0, "time_s": 1.0, "accuracy": "high", "n_clusters": null, "bytes_up": []}\n{"rou\n[1]\n'
            '{"round": 1, "time_s": 2.0, "accuracy": NaN, "reclustered": true}\n'
        )
        (folder / "clients.jsonl").write_text('{"round": 0, "client": ["ann"]}\n')
    if kind == "without a manifest":
        (folder / "manifest.json").unlink()
    return read_run(folder) if kind != "empty" else run


def _whole(folder: Path, seed: int, n_rounds: int = 4) -> RunRecord:
    rows = accuracies(
        [0.5 + 0.01 * (at % 7) for at in range(n_rounds)], worst_decile=0.25, ari=0.5, test_loss=1.5,
        measured_heterogeneity=0.5, unclustered_heterogeneity=1.0, corrected_accuracy=0.75,
    )  # fmt: skip
    rows[1]["reclustered"] = True
    tests: dict[str, Json] = {
        "round": 0, "client": ["ann", "bob"], "cluster": [0, 1], "n_test": [4, 0], "correct": [1, 0],
        "corrected": [2, 0],
    }  # fmt: skip
    return one_run(folder, rows, seed=seed, clients=[tests])


def _without_meta(figure: dict[str, Any] | None) -> Any:
    """Return a figure without what is never shown: the page compares names of groups as they are."""
    if figure is None:
        return None
    return {**figure, "data": [{key: value for key, value in one.items() if key != "meta"} for one in figure["data"]]}
