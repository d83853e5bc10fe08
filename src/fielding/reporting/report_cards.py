"""The numbers at the top of a report."""

from collections.abc import Mapping, Sequence

from fielding._typing import Json
from fielding.reporting.comparison_notes import diverged_words
from fielding.reporting.figures import PALETTE
from fielding.reporting.gathering import Gathered
from fielding.reporting.page import Card
from fielding.reporting.run_record import FINISHED, RunRecord
from fielding.reporting.run_summary import evaluations, run_summary
from fielding.reporting.run_table import n_drift_reports
from fielding.reporting.words import as_time, digits, megabytes

Row = Mapping[str, Json]
MOST_CARDS = 8
"""Groups with a card of their own; more are told by the table."""
_OTHERWISE = ("corrected", "tuned")


def report_cards(runs: Gathered, summary: Row) -> list[Card]:
    """Return the cards of a report: those of the one run, or one per group of runs."""
    if len(runs.runs) == 1:
        (run,) = (run for _, run in runs.runs)
        return run_cards(run)
    groups = runs.groups if len(runs.groups) <= MOST_CARDS else ()
    return [*_group_warnings(runs), *[_group_card(runs, group.name, summary) for group in groups]]


def run_cards(run: RunRecord) -> list[Card]:
    """Return the numbers of one run that matter."""
    summary = _figures(run)
    return [
        *_warnings(summary),
        *(_accuracy_cards(summary) if run.state == FINISHED else _cards_so_far(run)),
        *(_cluster_cards(summary) if run.is_clustered else ()),
        Card(
            name="time" if run.is_deployed else "simulated time",
            value=as_time(float(str(summary["time_s"]))),
            note=f"{summary['n_rounds']:,} rounds",
        ),
        Card(name="sent to clients", value=megabytes(summary["bytes_down"])),
        Card(name="sent by clients", value=megabytes(summary["bytes_up"])),
    ]


def _figures(run: RunRecord) -> Row:
    return run_summary(run.rounds, run.events, gap=run.gap)


def _group_warnings(runs: Gathered) -> list[Card]:
    counts: dict[str, tuple[int, int]] = {}
    for group in runs.groups:
        figures = [_figures(run) for run in group.runs]
        n_failed, n_trained = (sum(int(str(one[name])) for one in figures) for name in ("n_failed", "n_trained"))
        counts[group.name] = n_failed, n_trained
    words = diverged_words(counts)
    if not words:
        return []
    note = f"trainings gave no finite model: {words}; lower training.learning_rate"
    failed, trained = (sum(one[at] for one in counts.values()) for at in (0, 1))
    return [Card(name="training diverged", value=f"{failed:,} of {trained:,}", note=note, is_warning=True)]


def _group_card(runs: Gathered, name: str, summary: Row) -> Card:
    figures, gain = (_record(summary, part, name, "final_accuracy") for part in ("methods", "paired"))
    value, note, reference = digits(figures.get("mean")), "mean over clients and seeds", runs.references.get(name)
    group = runs.group(name)
    if group is not None and not group.finished:
        value, note = _so_far(group.runs)
    elif name == reference:
        note = "the others are held against it" if name == runs.reference else "others are held against it"
    elif isinstance(mean := gain.get("mean"), float):
        note = f"{mean:+.3f}{_half_width(gain)} against {reference}"
    color = PALETTE[runs.styles[name] % len(PALETTE)]
    return Card(name=name, value=value, note=note, group=name, color=color)


def _so_far(runs: Sequence[RunRecord]) -> tuple[str, str]:
    """Return the newest accuracy of runs that go on or were stopped, and how far they are."""
    newest = [float(str(tested[-1]["accuracy"])) for run in runs if (tested := evaluations(run.rounds))]
    counts = [len(run.rounds) for run in runs]
    rounds = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{max(counts):,}"
    n_expected = max(run.n_expected for run in runs)
    note = f"so far, round {rounds}{f' of {n_expected:,}' if n_expected else ''}"
    return digits(sum(newest) / len(newest) if newest else None), note


def _half_width(record: Row) -> str:
    ends = record.get("ci95")
    if not isinstance(ends, list):
        return ""
    low, high = (float(str(end)) for end in ends)
    return f" ± {(high - low) / 2:.3f}"


def _record(summary: Row, *path: str) -> Row:
    found: Json = dict(summary)
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _warnings(summary: Row) -> list[Card]:
    if not summary["n_failed"]:
        return []
    failed = f"{summary['n_failed']:,} of {summary['n_trained']:,}"
    note = "trainings gave no finite model; lower training.learning_rate"
    return [Card(name="training diverged", value=failed, note=note, is_warning=True)]


def _accuracy_cards(summary: Row) -> list[Card]:
    if summary["final_accuracy"] is None:
        return [Card(name="final accuracy", value="none", note="no client was tested")]
    return [
        Card(name="final accuracy", value=digits(summary["final_accuracy"]), note="mean over clients"),
        *[
            Card(
                name=f"{how} accuracy",
                value=digits(summary[f"final_accuracy_{how}"]),
                note=f"worst tenth: {digits(summary.get(f'worst_decile_{how}'))}",
            )
            for how in _OTHERWISE
            if summary.get(f"final_accuracy_{how}") is not None
        ],
        Card(name="worst decile", value=digits(summary["worst_decile"]), note="the worst tenth of the clients"),
    ]


def _cards_so_far(run: RunRecord) -> list[Card]:
    value, note = _so_far([run])
    return [Card(name="accuracy", value=value, note=note)]


def _cluster_cards(summary: Row) -> Sequence[Card]:
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
