"""The page of the demo, which shows whether clusters pay off while clients move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json
from fielding.records.run_folder import CLIENTS
from fielding.reporting.comparison import Row, comparison_table, difference_words, estimate_of, target_words
from fielding.reporting.demo_figures import Curves, accuracy_over_rounds, accuracy_over_time, agreement, read_curves
from fielding.reporting.figures import Raster, raster_figure
from fielding.reporting.page import Card, Section, page_html
from fielding.reporting.run_figures import clients_figure
from fielding.reporting.run_page import settings_section
from fielding.reporting.run_record import client_accuracy, last_line, membership_changes, read_manifest
from fielding.reporting.run_summary import final_words
from fielding.reporting.words import digits

NAMES = {"fielding": "Fielding", "global": "one global model"}
CAVEAT = (
    "Clusters pay off here because a window is as long as the time between two moves, 20 rounds: all samples that a "
    "client holds are from one place. With the default window of 100 rounds a client holds the samples of five stays; "
    "then its histogram says little about where it is now, and clusters gain nothing: the global model is as good or "
    "slightly better. The scenario (four places, 30 % move) was not tuned, but the window was chosen knowing both "
    "results; docs/demo.md has the numbers. Nor does the demo show re-clusterings: clients move, but the places stay "
    "as they are, so moving clients one by one is enough."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """Where each client really is.

    Parameters
    ----------
    rounds
        Rounds in which that may change, from 0.
    client_ids
        The clients.
    places
        The place of each client from each of these rounds on, shape ``(n_rounds, n_clients)``.
    """

    rounds: Sequence[int]
    client_ids: Sequence[ClientId]
    places: npt.NDArray[np.int32]


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
    curves = {NAMES.get(method, method): read_curves(mine) for method, mine in folders.items()}
    n_seeds = len(next(iter(folders.values())))
    return page_html(
        "Do clusters pay off while clients move?",
        "100 clients live in four places; each place has its own mix of digits and its own look (turned by 90 "
        f"degrees). Every 20 rounds three clients in ten move. Fielding (preset paper) against one global model, "
        f"{n_seeds} seeds.",
        cards=_cards(summary),
        sections=[
            *_results(curves, summary, truth),
            *_groups(folders, curves, truth),
            Section(title="What this does not show", text=CAVEAT),
            settings_section(read_manifest(folders["fielding"][0])),
        ],
        footer="Written by fielding demo; each run has a folder of its own beside this page.",
    )


def _cards(summary: Row) -> list[Card]:
    methods, paired = summary["methods"], summary["paired"]
    cards = []
    for method, figures in methods.items() if isinstance(methods, dict) else ():
        accuracy = estimate_of(figures["final_accuracy"] if isinstance(figures, dict) else None)
        cards.append(Card(name=NAMES.get(method, method), value=digits(accuracy.mean), note="final accuracy"))
    for method, figures in paired.items() if isinstance(paired, dict) else ():
        for figure, note in (("final_accuracy", "final accuracy"), ("worst_decile", "worst tenth of the clients")):
            gain = estimate_of(figures[figure] if isinstance(figures, dict) else None)
            interval = "one seed: no interval" if gain.half_width is None else f"± {gain.half_width:.3f}, {note}"
            cards.append(Card(name=f"{NAMES.get(method, method)} - global", value=f"{gain.mean:+.3f}", note=interval))
    return cards


def _results(curves: Mapping[str, Curves], summary: Row, truth: Truth) -> list[Section]:
    events = [float(at) for at in truth.rounds if at]
    return [
        Section(
            title="In numbers",
            text=f"{difference_words(summary, 'fielding')}. Final: {final_words(summary)}. {target_words(summary)}",
            table=comparison_table(summary),
        ),
        Section(
            title="Accuracy over rounds",
            text="Mean over seeds of the mean over clients, with 95 % t-intervals; dashed lines: clients move. The "
            "start is cut off; a double click shows it.",
            figure=accuracy_over_rounds(curves, events),
        ),
        Section(
            title="Accuracy over simulated time",
            text="The same, over the time it would have taken on the clients' devices and networks.",
            figure=accuracy_over_time(curves),
        ),
    ]


def _groups(folders: Mapping[str, Sequence[Path]], curves: Mapping[str, Curves], truth: Truth) -> list[Section]:
    first = folders["fielding"][0]
    return [
        Section(
            title="Clusters and places",
            text="Seed 1, a row per client, in both pictures in the same order. Above: the cluster it is in, as "
            "Fielding decided from label histograms alone; below: the place it is in. A cluster has the color of the "
            "place that it has the most clients in common with.",
            figure=raster_figure(rasters(first, truth), x_title="round", y_title="clients"),
        ),
        Section(
            title="Do the clusters match the places?",
            text="Adjusted Rand index: 1 is perfect, 0 is chance.",
            figure=agreement({name: one for name, one in curves.items() if name == NAMES["fielding"]}),
        ),
        Section(
            title="How clients fare",
            text="Share of the clients whose accuracy is at most so high at the last evaluation, all seeds together: "
            "the further to the right, the better.",
            figure=clients_figure([(NAMES.get(name, name), _last_accuracy(mine)) for name, mine in folders.items()]),
        ),
    ]


def rasters(folder: Path, truth: Truth) -> list[Raster]:
    """Return the clusters of a run and the true places; clients in the order of where they were and went."""
    order = np.lexsort(truth.places[::-1])
    row_of = {client: row for row, client in enumerate(truth.client_ids)}
    rounds, columns = [], []
    now = np.full(len(row_of), -1, dtype=np.int32)
    for at, changed in membership_changes(folder):
        for client, cluster in changed:
            now[row_of[client]] = cluster
        rounds.append(at)
        columns.append(now.copy())
    clusters = np.stack(columns)
    n_places = int(truth.places.max()) + 1
    colors = matched_colors(clusters, truth.places[_at(truth.rounds, rounds)], n_places)
    names = [f"place {at + 1} and its cluster" for at in range(n_places)]
    names += [f"another cluster ({at + 1})" for at in range(max(colors.values(), default=-1) + 1 - n_places)]
    cells = np.vectorize(lambda cluster: colors.get(cluster, -1), otypes=[np.int32])(clusters)
    last = float(max(rounds[-1], truth.rounds[-1]) + _span(truth.rounds))
    return [
        Raster(title="cluster", edges=_edges(rounds, last), cells=cells.T[order], names=names),
        Raster(title="true place", edges=_edges(truth.rounds, last), cells=truth.places.T[order], names=names),
    ]


def matched_colors(clusters: npt.NDArray[np.int32], places: npt.NDArray[np.int32], n_places: int) -> dict[int, int]:
    """Return a color for each cluster: that of the place it shares most with, and new ones for what is left.

    Examples
    --------
    >>> matched_colors(np.array([[7, 7, 5, 9]], dtype=np.int32), np.array([[1, 1, 0, 0]], dtype=np.int32), 2)
    {7: 1, 5: 0, 9: 2}
    """
    pairs, counts = np.unique(np.stack([clusters.ravel(), places.ravel()]), axis=1, return_counts=True)
    colors: dict[int, int] = {}
    for at in np.argsort(-counts, kind="stable").tolist():
        cluster, place = int(pairs[0, at]), int(pairs[1, at])
        if cluster >= 0 and cluster not in colors and place not in colors.values():
            colors[cluster] = place
    left = [int(one) for one in np.unique(clusters).tolist() if one >= 0 and one not in colors]
    return colors | {cluster: n_places + at for at, cluster in enumerate(left)}


def _at(known: Sequence[int], wanted: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the newest of the known rounds at each of the wanted ones."""
    return np.asarray(np.searchsorted(np.array(known), np.array(wanted), side="right") - 1)


def _span(rounds: Sequence[int]) -> int:
    return rounds[-1] - rounds[-2] if len(rounds) > 1 else 1


def _edges(rounds: Sequence[int], last: float) -> npt.NDArray[np.float64]:
    return np.array([*rounds, last], dtype=np.float64)


def _last_accuracy(folders: Sequence[Path]) -> npt.NDArray[np.float64]:
    lines: list[Mapping[str, Json] | None] = [last_line(folder / CLIENTS) for folder in folders]
    return np.concatenate([client_accuracy(line) for line in lines if line is not None])
