"""The page of one run, from its folder alone."""

from pathlib import Path

from fielding._typing import Json
from fielding.federation.ledger import CATEGORIES
from fielding.reporting.figures import MOST_MARKS
from fielding.reporting.page import Card, Section, page_html
from fielding.reporting.replay_figures import shift_figure
from fielding.reporting.run_figures import (
    MOST_ARRIVALS,
    accuracy_figure,
    agreement_figure,
    clients_figure,
    losses_figure,
    reclusterings,
    shown_events,
    sizes_figure,
    timed_figure,
    traffic_figure,
)
from fielding.reporting.run_record import Row, RunRecord, client_accuracy, read_run
from fielding.reporting.run_summary import evaluations, final_words, run_summary
from fielding.reporting.run_table import n_drift_reports
from fielding.reporting.words import as_time, digits, megabytes, plain

_OTHERWISE = tuple((how, f"final_accuracy_{how}", f"worst_decile_{how}") for how in ("corrected", "tuned"))
"""What clients may do to the models that serve them, and the final figures that tell how they fare then."""


def run_page(folder: Path) -> str:
    """Return the HTML page of a run: self-contained, whatever the run was like.

    Parameters
    ----------
    folder
        Of the run; ``rounds.jsonl``, ``events.jsonl``, ``memberships.jsonl``, ``clients.jsonl``, ``manifest.json`` and
        the newest checkpoint are read.

    Raises
    ------
    InputError
        If it is not the folder of a run.
    """
    record = read_run(folder)
    gap = record.setting("trace", "gap")
    summary = run_summary(record.rounds, record.events, gap=gap if isinstance(gap, int) else 1)
    sections = [
        *_accuracy(record),
        *_clusters(record),
        *_clients(record),
        _costs(record, summary),
        settings_section(record.manifest),
    ]
    return page_html(
        "What the run gave",
        _lead(record, summary),
        cards=_cards(summary, is_clustered=record.is_clustered),
        sections=sections,
        footer=f"Fielding {record.manifest.get('fielding', '')}",
    )


def _lead(record: RunRecord, summary: Row) -> str:
    source = record.setting("trace", "file") or record.setting("trace", "name") or "samples of one's own"
    scenario = record.setting("trace", "scenario")
    drifting = f", drift scenario {scenario}" if scenario else ""
    final = f"; final figures: {final_words(summary)}" if summary["n_final_evaluations"] else ""
    return (
        f"Method {record.setting('method', 'name')} on {source}{drifting}; {len(record.rounds)} rounds, "
        f"seed {record.manifest.get('seed')}. Accuracy is measured on each client's own test samples, with the model "
        f"that serves it{final}."
    )


def _cards(summary: Row, *, is_clustered: bool) -> list[Card]:
    return [
        *_warnings(summary),
        *_accuracy_cards(summary),
        *(_cluster_cards(summary) if is_clustered else ()),
        Card(
            name="simulated time", value=as_time(float(str(summary["time_s"]))), note=f"{summary['n_rounds']:,} rounds"
        ),
        Card(name="sent to clients", value=megabytes(summary["bytes_down"])),
        Card(name="sent by clients", value=megabytes(summary["bytes_up"])),
    ]


def _warnings(summary: Row) -> list[Card]:
    if not summary["n_failed"]:
        return []
    failed = f"{summary['n_failed']:,} of {summary['n_trained']:,}"
    note = "trainings gave no finite model; lower training.learning_rate"
    return [Card(name="training diverged", value=failed, note=note, is_warning=True)]


def _accuracy_cards(summary: Row) -> list[Card]:
    if summary["final_accuracy"] is None:
        return [Card(name="final accuracy", value="none", note="no client had test samples")]
    return [
        Card(name="final accuracy", value=digits(summary["final_accuracy"]), note="mean over clients"),
        *[
            Card(name=f"{how} accuracy", value=digits(summary[name]), note=f"worst tenth: {digits(summary[worst])}")
            for how, name, worst in _OTHERWISE
            if summary.get(name) is not None
        ],
        Card(name="worst decile", value=digits(summary["worst_decile"]), note="the worst tenth of the clients"),
    ]


def _cluster_cards(summary: Row) -> list[Card]:
    # Where no coordinator decides, clusters are seen from outside.
    decided, seen = ("one by one, centers frozen", "of all clients"), ("to another cluster", "a cluster came or went")
    moved, regrouped = seen if summary["heterogeneity"] is None else decided
    return [
        Card(name="clusters now", value=digits(summary["n_clusters_last"], 0)),
        Card(name="moves", value=digits(summary["moves"], 0), note=moved),
        Card(name="re-clusterings", value=digits(summary["reclusterings"], 0), note=regrouped),
        _report_card(summary),
    ]


def _report_card(summary: Row) -> Card:
    """Return how many reports there were; which of them told of drift is known where a coordinator heard them."""
    n_drifted = n_drift_reports(summary)
    if n_drifted is None:
        return Card(name="reports", value=digits(summary["n_reports"], 0))
    note = f"besides {summary['n_first_reports']:,} first reports, to join"
    return Card(name="reports of drift", value=digits(n_drifted, 0), note=note)


def _accuracy(record: RunRecord) -> list[Section]:
    if not evaluations(record.rounds):
        return [Section(title="Accuracy", text="No client was tested: none had a test sample in its window.")]
    return [
        Section(
            title="Accuracy over rounds",
            text=_marks_words(record),
            figure=accuracy_figure(record),
        ),
        Section(
            title="Accuracy over simulated time",
            text="The same, over the time it would have taken on the clients' devices and networks.",
            figure=timed_figure(record),
        ),
        Section(title="Loss", text="Mean over participants and over tested clients.", figure=losses_figure(record)),
    ]


def _marks_words(record: RunRecord) -> str:
    """Return what the vertical lines of a figure mean; those that are too many are not drawn."""
    words = []
    if 0 < len(record.arrivals) <= MOST_ARRIVALS:
        words.append("Gray dashed lines: new samples arrive.")
    if 0 < len(reclusterings(record)) <= MOST_MARKS:
        words.append("Orange dashed lines: all clients were grouped anew.")
    return " ".join(words)


def _clusters(record: RunRecord) -> list[Section]:
    if not record.is_clustered:
        return []
    sections = [
        Section(title="Clusters over time", text="Clients in each cluster.", figure=sizes_figure(record)),
        Section(
            title="Reports and moves",
            text="All clients report when they join, later those whose data drifted; some move to another cluster.",
            figure=traffic_figure(record),
        ),
    ]
    if any(event["shift"] is not None for event in record.events):
        sections.append(
            Section(
                title="Why all clients were grouped anew, or not",
                text="At each round with reports: how far the center that moved most has moved, against the threshold.",
                figure=shift_figure(shown_events(record.events), step="round", fired="fired"),
            )
        )
    if any(row.get("ari") is not None and row.get("n_clusters") != 1 for row in record.rounds):
        sections.append(
            Section(
                title="Do the clusters match the truth?",
                text="Adjusted Rand index between clusters and the true groups, which the scenario knows: 1 is "
                "perfect, 0 is chance. Where nearly every client has a group of its own, it stays near 0 and says "
                "nothing.",
                figure=agreement_figure(record),
            )
        )
    return sections


def _clients(record: RunRecord) -> list[Section]:
    if record.clients is None or not client_accuracy(record.clients).size:
        return []
    return [
        Section(
            title="How clients fare",
            text=f"Share of the clients whose accuracy is at most so high, after round {record.clients['round']}: the "
            "further to the right, the better.",
            figure=clients_figure([("this run", client_accuracy(record.clients))]),
        )
    ]


def _costs(record: RunRecord, summary: Row) -> Section:
    names = ("bytes_down", "bytes_up", "client_seconds")
    heads = ["kind", "to clients", "from clients", "client hours"]
    if record.costs is None:
        rows = [("all", [summary[name] for name in names])]
    else:
        totals = [record.costs[name] for name in names]
        rows = [
            (kind, [total.get(kind) if isinstance(total, dict) else None for total in totals])
            for kind in (*CATEGORIES, "all")
        ]
    return Section(
        title="What it cost",
        text="Models down and up, reports of drift, and questions that a method asked its clients (probes). Whoever "
        "was asked and answered too late is charged too.",
        table=[heads, *[[kind, *_cost_cells(amounts)] for kind, amounts in rows]],
    )


def _cost_cells(amounts: list[Json]) -> list[str]:
    down, up, seconds = amounts
    return [megabytes(down), megabytes(up), digits(seconds / 3600 if isinstance(seconds, (int, float)) else None, 1)]


def settings_section(manifest: Row) -> Section:
    """Return the config of a run as a table."""
    config = manifest.get("config")
    rows: list[list[str]] = []
    for name, value in config.items() if isinstance(config, dict) else ():
        if isinstance(value, dict):
            rows += [[f"{name}.{inner}", plain(one)] for inner, one in value.items()]
        else:
            rows.append([name, plain(value)])
    return Section(
        title="Config",
        text=f"Every key that has a value, seed {manifest.get('seed')}.",
        table=[["key", "value"], *rows],
    )
