"""The page that shows what the coordinator did in a replay, from the lines of its log alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from fielding._typing import Json
from fielding.reporting.charts.figures import Figure, Line, bars_figure, lines_figure, stack_figure
from fielding.reporting.formatting import plain
from fielding.reporting.numbers.run_summary import count_joined
from fielding.reporting.page import Card, Page, Section, page_html

Row = Mapping[str, Json]


def replay_page(rows: Sequence[Row], summary: Row, manifest: Row) -> str:
    """Return the page of a replay as HTML, from what its folder holds: decisions, summary and manifest."""
    page = Page(
        title="What the coordinator did",
        lead=f"Replay of {manifest.get('source', 'reports')}: drifted clients move to the nearest cluster; only when a "
        "center moved too far are all clients grouped anew.",
        cards=_cards(summary, n_first=sum(map(count_joined, rows))),
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
    def column(name: str, chosen: Sequence[Row] = rows) -> list[Any]:
        return [row[name] for row in chosen]

    steps, policy = column("step"), manifest.get("policy")
    rules = sorted(policy.items()) if isinstance(policy, dict) else []
    measured = [row for row in rows if row["shift"] is not None]
    calm = [row for row in measured if not row["reclustered"]]
    fired = [row for row in measured if row["reclustered"]]
    distances = [
        Line(name="one group of all", x=steps, y=column("mean_distance_unclustered"), style=6),
        Line(name="with clusters", x=steps, y=column("mean_client_distance"), style=0),
    ]
    (x, y), (far_x, far_y) = ((column("step", some), column("shift", some)) for some in (calm, fired))
    shifts = [
        Line(name="threshold", x=steps, y=column("threshold"), style=6),
        Line(name="moves were enough", x=x, y=y, symbol="circle"),
        Line(name="re-clustered", x=far_x, y=far_y, style=5, symbol="diamond", is_main=True),
    ]
    traffic = [
        Line(name="reported", x=steps, y=column("n_reports"), style=4),
        Line(name="moved", x=steps, y=column("n_moved"), style=1),
    ]
    return [
        Section(
            title="How alike the members of a cluster are",
            text="Mean distance of a client to the others in its cluster, lower is better; dashed lines mark the steps "
            "at which all clients were grouped anew.",
            figure=lines_figure(
                distances, x_title="step", y_title="mean distance to the other members", events=_reclustered_steps(rows)
            ),
        ),
        Section(
            title="Why all clients were grouped anew, or not",
            text="At each step with reports: how far the center that moved most has moved, against the threshold.",
            figure=lines_figure(shifts, x_title="step", y_title="largest shift of a center"),
        ),
        Section(title="Clusters over time", text="Active clients in each cluster.", figure=sizes_figure(rows)),
        Section(
            title="Reports and moves",
            text="Clients per step.",
            figure=bars_figure(traffic, x_title="step", y_title="clients"),
        ),
        Section(title="Rules", table=[["rule", "value"], *[[name, plain(value)] for name, value in rules]]),
    ]


def sizes_figure(rows: Sequence[Row]) -> Figure:
    """Return the active clients of each cluster over time, as a stack; the last step is as wide as the one before."""
    steps: list[Any] = [row["step"] for row in rows]
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
    return stack_figure(layers, x_title="step", y_title="active clients", events=_reclustered_steps(rows))


def _reclustered_steps(rows: Sequence[Row]) -> list[Any]:
    return [row["step"] for row in rows if row["reclustered"]]
