"""The page of the demo, which shows whether clusters pay off while clients move."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Json
from fielding.methods.registry import METHODS
from fielding.records.run_folder import CLIENTS
from fielding.reporting.comparison import (
    BASELINE,
    Row,
    comparison_table,
    difference_words,
    estimate_of,
    target_words,
)
from fielding.reporting.demo_figures import (
    Curves,
    accuracy_over_rounds,
    accuracy_over_time,
    agreement,
    read_curves,
    same_curves,
)
from fielding.reporting.demo_rasters import Truth, rasters
from fielding.reporting.figures import raster_figure
from fielding.reporting.page import Card, Section, page_html
from fielding.reporting.run_figures import clients_figure
from fielding.reporting.run_page import settings_section
from fielding.reporting.run_record import client_accuracy, last_line, read_manifest
from fielding.reporting.run_summary import final_words
from fielding.reporting.words import digits

CAVEAT = (
    "Clusters pay off here because a window is as long as the time between two moves, 20 rounds: all samples that a "
    "client holds are from one place. With the default window of 100 rounds a client holds the samples of five stays; "
    "then its histogram says little about where it is now, and clusters gain nothing: the global model is as good or "
    "slightly better. The scenario (four places, 30 % move) was not tuned, but the window was chosen knowing both "
    "results; docs/demo.md has the numbers. Nor does the demo show what re-clusterings are worth: clients move, but "
    "the places stay as they are, so moving clients one by one is enough."
)


def demo_page(folders: Mapping[str, Sequence[Path]], summary: Row, truth: Truth) -> str:
    """Return the HTML page.

    Parameters
    ----------
    folders
        By method: the run folder of each seed.
    summary
        The comparison of these runs.
    truth
        Of the first seed.
    """
    curves = {method: read_curves(mine) for method, mine in folders.items()}
    n_seeds = len(next(iter(folders.values())))
    return page_html(
        "Do clusters pay off while clients move?",
        "100 clients live in four places; each place has its own mix of digits and its own look (turned by 90 "
        "degrees). Every 20 rounds three clients in ten move. Fielding against one global model, and against itself "
        f"with parts left out (preset paper, {_seeds(n_seeds)}).",
        cards=_cards(summary),
        sections=[
            *_results(curves, summary, truth),
            *_groups(folders, curves, clustered(summary), truth),
            Section(title="What this does not show", text=CAVEAT),
            settings_section(read_manifest(next(iter(folders.values()))[0])),
        ],
        footer="Written by fielding demo; each run has a folder of its own beside this page.",
    )


def clustered(summary: Row) -> list[str]:
    """Return the methods that group clients: those with several clusters, or whose clients report."""
    return [
        method
        for method, figures in _figures(summary, "methods").items()
        if estimate_of(figures["n_clusters_last"]).mean != 1 or estimate_of(figures["n_reports"]).mean
    ]


def demo_table(summary: Row) -> list[list[str]]:
    """Return the comparison for people, with the worst clients' gain and the agreement of clusters and places."""
    paired, methods, grouping = _figures(summary, "paired"), _figures(summary, "methods"), clustered(summary)
    gains = [estimate_of(paired[one]["worst_decile"]).words(sign="+") if one in paired else "-" for one in methods]
    matches = [estimate_of(methods[one].get("final_ari")).words(2) if one in grouping else "-" for one in methods]
    return [
        *comparison_table(summary),
        [f"worst tenth minus that of {BASELINE}", *gains],
        ["agreement with places (ARI)", *matches],
    ]


def difference_lines(summary: Row) -> list[str]:
    """Return a line for each method on how much better or worse than the global model it is."""
    return [difference_words(summary, method) for method in _figures(summary, "paired")]


def _figures(summary: Row, name: str) -> dict[str, dict[str, Json]]:
    found = summary[name]
    return {method: one for method, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def _cards(summary: Row) -> list[Card]:
    paired = _figures(summary, "paired")
    return [
        Card(
            name=f"{method}: final accuracy",
            value=digits(estimate_of(figures["final_accuracy"]).mean),
            note=_gain_words(paired[method]) if method in paired else "mean over clients and seeds",
        )
        for method, figures in _figures(summary, "methods").items()
    ]


def _gain_words(figures: Row) -> str:
    gain = estimate_of(figures["final_accuracy"])
    unsure = "; one seed: no interval" if gain.half_width is None else ""
    return f"{gain.words(sign='+')} against {BASELINE}{unsure}"


def _results(curves: Mapping[str, Curves], summary: Row, truth: Truth) -> list[Section]:
    events = [float(at) for at in truth.rounds if at]
    return [
        Section(
            title="What is compared",
            table=[["method", "what it does"], *[[method, METHODS[method].summary] for method in curves]],
        ),
        Section(
            title="Better or worse than one global model?",
            table=[["differences seed by seed"], *[[line] for line in difference_lines(summary)]],
        ),
        Section(
            title="Accuracy over rounds",
            text="Mean over seeds of the mean over clients, with 95 % t-intervals; dashed gray lines: clients move. "
            f"The start is cut off; a double click shows it. {_same_words(curves, summary)}",
            figure=accuracy_over_rounds(curves, events),
        ),
        Section(
            title="In numbers",
            text=f"Final: {final_words(summary)}. {target_words(summary)} ARI: adjusted Rand index of clusters and "
            "places at the end, 1 is perfect, 0 is chance.",
            table=[[row[0], *map(_wrapped_well, row[1:])] for row in demo_table(summary)],
        ),
        Section(
            title="Accuracy over simulated time",
            text="The same, over the time it would have taken on the clients' devices and networks.",
            figure=accuracy_over_time(curves),
        ),
    ]


def _same_words(curves: Mapping[str, Curves], summary: Row) -> str:
    """Return which methods gave the same numbers, lest a reader look for a curve that lies upon another."""
    methods = _figures(summary, "methods")
    words = []
    for names in same_curves(curves):
        regrouped = any(estimate_of(methods[name]["reclusterings"]).mean for name in names)
        why = "" if regrouped else ", as no center moved far enough to group everyone anew"
        words.append(
            f"The curves of {' and '.join(names)} lie upon each other: they are the same in every evaluation on every "
            f"seed{why}."
        )
    return " ".join(words)


def _groups(
    folders: Mapping[str, Sequence[Path]], curves: Mapping[str, Curves], grouping: Sequence[str], truth: Truth
) -> list[Section]:
    first = {method: folders[method][0] for method in grouping}
    return [
        Section(
            title="Clusters and places",
            text="Seed 1, a row per client, in all pictures in the same order. At the bottom: the place it is in; "
            "above: the cluster it is in, as a method decided from label histograms alone. A cluster has the color of "
            "the place that it has the most clients in common with.",
            figure=raster_figure(rasters(first, truth), x_title="round", y_title="clients"),
        ),
        Section(
            title="Do the clusters match the places?",
            text="Adjusted Rand index: 1 is perfect, 0 is chance. Mean over seeds with 95 % t-intervals.",
            figure=agreement(curves, grouping),
        ),
        Section(
            title="How clients fare",
            text="Share of the clients whose accuracy is at most so high at the last evaluation, all seeds together: "
            "the further to the right, the better.",
            figure=clients_figure([(name, _last_accuracy(mine)) for name, mine in folders.items()]),
        ),
    ]


def _wrapped_well(cell: str) -> str:
    r"""Return a cell whose words a narrow screen breaks before an interval or a remark, and nowhere else.

    Examples
    --------
    >>> _wrapped_well("0.975 ± 0.003").split(" "), _wrapped_well("194 (4 of 5)").split(" ")
    (['0.975', '±\xa00.003'], ['194', '(4\xa0of\xa05)'])
    """
    head, *rest = cell.split(" ")
    return " ".join([head, *(["\xa0".join(rest)] if rest else ())])


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _last_accuracy(folders: Sequence[Path]) -> npt.NDArray[np.float64]:
    lines: list[Mapping[str, Json] | None] = [last_line(folder / CLIENTS) for folder in folders]
    return np.concatenate([client_accuracy(line) for line in lines if line is not None])
