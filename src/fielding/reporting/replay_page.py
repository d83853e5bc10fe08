"""The page that shows what the coordinator did in a replay, from the lines of its log alone."""

from collections.abc import Mapping, Sequence

from fielding._typing import Json
from fielding.reporting.page import Card, Page, Section, page_html
from fielding.reporting.replay_figures import distance_figure, shift_figure, sizes_figure, traffic_figure
from fielding.reporting.run_summary import n_joined
from fielding.reporting.words import plain

Row = Mapping[str, Json]


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
