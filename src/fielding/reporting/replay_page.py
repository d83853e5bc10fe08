"""The page that shows what the coordinator did in a replay, from the lines of its log alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from fielding._typing import Json
from fielding.reporting.charts.figures import Figure, Line, bars_figure, lines_figure, stack_figure
from fielding.reporting.numbers.run_summary import n_joined
from fielding.reporting.page import Card, Page, Section, page_html
from fielding.reporting.words import plain

Row = Mapping[str, Json]


def distance_figure(rows: Sequence[Row]) -> Figure:
    """Return how alike the members of clusters are, against no clustering."""
    steps = _column(rows, "step")
    return lines_figure(
        [
            Line(name="one group of all", x=steps, y=_column(rows, "mean_distance_unclustered"), style=6),
            Line(name="with clusters", x=steps, y=_column(rows, "mean_client_distance"), style=0),
        ],
        x_title="step",
        y_title="mean distance to the other members",
        events=_fired(rows),
    )


def shift_figure(rows: Sequence[Row], *, step: str = "step", fired: str = "reclustered") -> Figure:
    """Return how far the centers moved, the shift that would be too much, and where all were grouped anew.

    Parameters
    ----------
    rows
        Lines with ``shift`` and ``threshold``, either of which may be None.
    step, fired
        What the lines call the time, and whether all were grouped anew.
    """
    quiet = [row for row in rows if not row[fired] and row["shift"] is not None]
    loud = [row for row in rows if row[fired] and row["shift"] is not None]
    return lines_figure(
        [
            Line(name="threshold", x=_column(rows, step), y=_column(rows, "threshold"), style=6),
            Line(name="moves were enough", x=_column(quiet, step), y=_column(quiet, "shift"), symbol="circle"),
            Line(
                name="re-clustered",
                x=_column(loud, step),
                y=_column(loud, "shift"),
                style=5,
                symbol="diamond",
                is_main=True,
            ),
        ],
        x_title=step,
        y_title="largest shift of a center",
    )


def sizes_figure(rows: Sequence[Row]) -> Figure:
    """Return the active clients of each cluster over time, as a stack; the last step is as wide as the one before."""
    steps = _column(rows, "step")
    width = steps[-1] - steps[-2] if len(steps) > 1 else 1
    steps += [step + width for step in steps[-1:]]
    sizes = [row["cluster_sizes"] for row in [*rows, *rows[-1:]]]
    ids = sorted({int(cluster) for step in sizes if isinstance(step, dict) for cluster in step})
    layers = [
        Line(
            name=f"cluster {cluster}",
            x=steps,
            y=[step.get(str(cluster), 0) if isinstance(step, dict) else 0 for step in sizes],  # type: ignore[misc]
            style=at,
        )
        for at, cluster in enumerate(ids)
    ]
    return stack_figure(layers, x_title="step", y_title="active clients", events=_fired(rows))


def traffic_figure(rows: Sequence[Row]) -> Figure:
    """Return how many clients reported and how many moved at each step."""
    steps = _column(rows, "step")
    bars = [
        Line(name="reported", x=steps, y=_column(rows, "n_reports"), style=4),
        Line(name="moved", x=steps, y=_column(rows, "n_moved"), style=1),
    ]
    return bars_figure(bars, x_title="step", y_title="clients")


def _column(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def _fired(rows: Sequence[Row]) -> list[Any]:
    return [row["step"] for row in rows if row["reclustered"]]


def replay_page(rows: Sequence[Row], summary: Row, manifest: Row) -> str:
    """Return the HTML page of a replay.

    Parameters
    ----------
    rows
        The lines of ``decisions.jsonl``.
    summary
        The content of ``summary.json``.
    manifest
        The content of ``manifest.json``.
    """
    page = Page(
        title="What the coordinator did",
        lead=f"Replay of {manifest.get('source', 'reports')}: drifted clients move to the nearest cluster; only when a "
        "center moved too far are all clients grouped anew.",
        cards=_cards(summary, n_first=sum(map(n_joined, rows))),
        sections=_sections(rows, manifest),
        footer=f"Fielding {manifest.get('fielding', '')}",
    )
    return page_html(page)


def _cards(summary: Row, *, n_first: int) -> list[Card]:
    with_clusters, without = summary["mean_client_distance"], summary["mean_distance_unclustered"]
    gain = "-"
    if isinstance(with_clusters, float) and isinstance(without, float) and without > 0.0:
        gain = f"{100.0 * (with_clusters / without - 1.0):+.0f} %"
    return [
        Card(name="clients", value=f"{summary['n_clients']}", note=f"{summary['n_steps']} steps"),
        Card(name="reports", value=f"{summary['n_reports']}", note=f"{n_first} to join, the others when data drifted"),
        Card(name="moves", value=f"{summary['n_moves']}", note="one by one, centers frozen"),
        Card(name="re-clusterings", value=f"{summary['n_reclusterings']}", note="of all clients"),
        Card(name="clusters now", value=f"{summary['n_clusters_last']}"),
        Card(name="heterogeneity", value=gain, note="mean distance, against one group"),
    ]


def _sections(rows: Sequence[Row], manifest: Row) -> list[Section]:
    policy = manifest.get("policy")
    rules = sorted(policy.items()) if isinstance(policy, dict) else []
    return [
        Section(
            title="How alike the members of a cluster are",
            text="Mean distance of a client to the others in its cluster, lower is better; dashed lines mark the steps "
            "at which all clients were grouped anew.",
            figure=distance_figure(rows),
        ),
        Section(
            title="Why all clients were grouped anew, or not",
            text="At each step with reports: how far the center that moved most has moved, against the threshold.",
            figure=shift_figure(rows),
        ),
        Section(title="Clusters over time", text="Active clients in each cluster.", figure=sizes_figure(rows)),
        Section(title="Reports and moves", text="Clients per step.", figure=traffic_figure(rows)),
        Section(title="Rules", table=[["rule", "value"], *[[name, plain(value)] for name, value in rules]]),
    ]
