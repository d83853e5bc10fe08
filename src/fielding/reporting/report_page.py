"""The page about runs: what `report` writes, `watch` keeps up to date, and every run and comparison leaves behind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fielding._typing import Json
from fielding._version import __version__
from fielding.atomic import replaced_file
from fielding.errors import FieldingError, OutputError, unknown_name
from fielding.reporting.charts.client_map import client_map
from fielding.reporting.charts.clusters import cluster_cards
from fielding.reporting.charts.curves import curves, differences, heterogeneity, losses
from fielding.reporting.charts.decisions import decisions, traffic
from fielding.reporting.charts.fairness import fairness
from fielding.reporting.charts.figures import PALETTE
from fielding.reporting.charts.group_bars import clusters, costs, targets
from fielding.reporting.charts.results import results, settings, states
from fielding.reporting.charts.river import river
from fielding.reporting.charts.truth import agreement, truth
from fielding.reporting.comparison_tables import seed_count_words
from fielding.reporting.numbers.comparison import comparison, diverged_words
from fielding.reporting.numbers.groups import Gathered, Group, gathered
from fielding.reporting.numbers.run_record import FINISHED, RunRecord
from fielding.reporting.numbers.run_summary import evaluations, final_words, run_summary
from fielding.reporting.page import Card, Page, Section, page_html
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


MOST_NAMES = 8
"""Groups that the paragraph names."""


def is_whole(runs: Gathered) -> bool:
    """Return whether all runs are finished, and none is still to come."""
    return not runs.awaited and all(run.state == FINISHED for _, run in runs.runs)


def report_title(runs: Gathered) -> str:
    """Return the title: how many methods, those that wait for their first run too, and whether that is all."""
    so_far = "" if is_whole(runs) else " so far"
    if len(runs.variants) > 1:
        return f"{len(runs.variants)} methods compared{so_far}"
    if len(runs.runs) == 1 and not runs.awaited:
        return f"What the run gave{so_far}: {runs.title}"
    return f"{runs.title}: {len(runs.runs)} runs{so_far}"


def report_lead(runs: Gathered) -> str:
    """Return what was run: methods, data, rounds, seeds, and what accuracy is."""
    if not runs.groups:
        return "No run has begun yet."
    names = [group.name for group in runs.groups]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    every = [run for _, run in runs.runs]
    return (
        f"{', '.join(names[:MOST_NAMES])}{more} on {_sources(every)}; {_lengths(every)}, {_seeds(runs)}. Accuracy is "
        "measured on each client's own test samples, with the model that serves it, unweighted mean over "
        f"clients.{_final(runs)}"
    )


def _sources(runs: Sequence[RunRecord]) -> str:
    """Return the data sets of runs with their drift scenarios, each once; runs without a config do not count."""
    known = [run for run in runs if run.config] or runs
    found = list(
        dict.fromkeys((_source(run), None if run.is_deployed else run.setting("trace", "scenario")) for run in known)
    )
    if len(found) == 1:
        ((source, scenario),) = found
        return f"{source}, drift scenario {scenario}" if scenario else source
    names = [f"{source} (drift scenario {scenario})" if scenario else source for source, scenario in found]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _source(run: RunRecord) -> str:
    if run.is_deployed:
        return "real devices"
    return str(run.setting("trace", "file") or run.setting("trace", "name") or "samples of one's own")


def _lengths(runs: Sequence[RunRecord]) -> str:
    lengths = [run.n_expected or len(run.rounds) for run in runs]
    low, high = min(lengths), max(lengths)
    return f"{low:,} to {high:,} rounds" if low < high else f"{high:,} rounds"


def _seeds(runs: Gathered) -> str:
    counts = [len(group.runs) for group in runs.groups]
    if max(counts) > 1:
        return f"{seed_count_words(counts)}, with 95 % intervals"
    seeds = list(dict.fromkeys(str(run.seed) for _, run in runs.runs))
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"one seed each ({', '.join(seeds)})"


def _final(runs: Gathered) -> str:
    """Return what final figures are means over, where that is so for all runs alike."""
    if not is_whole(runs):
        return ""
    found = {final_words(summary) for _, run in runs.runs if (summary := _summary(run))["n_final_evaluations"]}
    return f" Final figures: {found.pop()}." if len(found) == 1 else ""


def _summary(run: RunRecord) -> dict[str, Json]:
    return run_summary(run.rounds, (), gap=run.gap)


MOST_INSIDE = 8
"""Groups whose clusters are shown in full: each adds up to a megabyte."""
DAMAGE = (FieldingError, OSError, ArithmeticError, LookupError, TypeError, ValueError)
"""What drawing a damaged folder may raise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """Runs, and their figures side by side.

    Parameters
    ----------
    gathered
        The runs.
    summary
        The content of a comparison's ``summary.json``.
    """

    gathered: Gathered
    summary: Mapping[str, Json]


def read_report(folders: Sequence[Path], *, reference: str | None = None) -> Report:
    """Read some folders and compare what is in them.

    Parameters
    ----------
    folders
        Of runs or comparisons.
    reference
        The group that others are held against, instead of the one that the folders name.

    Raises
    ------
    InputError
        If there is no run in any of them.
    OptionError
        If there is no group of that name.
    """
    found = gathered(folders)
    if reference is not None:
        names = [group.name for group in found.groups]
        if reference not in names:
            raise unknown_name("reference", reference, names)
        found = replace(found, reference=reference)
    return Report(gathered=found, summary=comparison(found))


def report_of(runs: Gathered, summary: Mapping[str, Json] | None = None) -> Page:
    """Return the page about some runs, finished or not.

    Parameters
    ----------
    runs
        The runs.
    summary
        Their comparison, if it is known already.
    """
    compared = comparison(runs) if summary is None else summary
    return Page(
        title=report_title(runs),
        lead=report_lead(runs),
        cards=report_cards(runs, compared),
        sections=list(_sections(runs, compared)),
        groups={name: PALETTE[style % len(PALETTE)] for name, style in runs.styles.items()},
        notes=_notes(runs),
        footer=f"Fielding {__version__}",
    )


def report_page(folders: Sequence[Path]) -> str:
    """Return the page about the runs of some folders as HTML."""
    report = read_report(folders)
    return page_html(report_of(report.gathered, report.summary))


def written_report(report: Report, target: Path) -> Page:
    """Write a page, whole or not at all, and return what is on it.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    page = report_of(report.gathered, report.summary)
    html = page_html(page).encode(errors="replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    with replaced_file(target) as file:
        file.write(html)
    return page


def _sections(runs: Gathered, summary: Mapping[str, Json]) -> Iterator[Section]:
    if not is_whole(runs):
        yield from _drawn("The runs", partial(states, runs))
    if len(runs.groups) > 1:
        yield from _drawn("Results in numbers", partial(results, runs, summary))
    for title, chart in _COMPARED:
        yield from _drawn(title, partial(chart, runs))
    inside = _inside(runs)
    for group in inside:
        name = group.name if len(inside) > 1 else None
        for title, inner in _INSIDE:
            yield from _drawn(title, partial(inner, group.runs[0], name), group=name)
    for title, chart in _AFTER:
        yield from _drawn(title, partial(chart, runs))


Drawn = Section | list[Section]
_COMPARED: tuple[tuple[str, Callable[[Gathered], Drawn]], ...] = (
    ("Accuracy", curves),
    ("Time to target", targets),
    ("Differences", differences),
    ("How clients fare", fairness),
    ("Heterogeneity", heterogeneity),
    ("Number of clusters", clusters),
    ("Agreement", agreement),
)
_INSIDE: tuple[tuple[str, Callable[[RunRecord, str | None], Drawn]], ...] = (
    ("The clusters now", cluster_cards),
    ("Who was in which cluster", river),
    ("Map of the clients", client_map),
    ("What the coordinator decided", decisions),
    ("Reports and moves", traffic),
    ("Clusters and true concepts", truth),
)
_AFTER: tuple[tuple[str, Callable[[Gathered], Drawn]], ...] = (
    ("Costs", costs),
    ("Losses", losses),
    ("Settings", settings),
)


def _drawn(title: str, draw: Callable[[], Drawn], group: str | None = None) -> list[Section]:
    """Return some sections; what a damaged folder does not let draw leaves the others alone."""
    try:
        found = draw()
    except DAMAGE as error:
        return [Section(title=title, missing=f"This cannot be drawn: {error or type(error).__name__}", group=group)]
    return found if isinstance(found, list) else [found]


def _inside(runs: Gathered) -> list[Group]:
    """Return the groups whose inside is shown, each by its first run."""
    return [group for group in runs.groups if group.is_clustered][:MOST_INSIDE]


def _notes(runs: Gathered) -> list[str]:
    """Return what is missing or damaged, each with the run that it is of."""
    many = len(runs.runs) > 1
    return [
        *runs.problems,
        *[
            f"{group.name}, seed {run.seed}: {problem}" if many else problem
            for group, run in runs.runs
            for problem in run.problems
        ],
        *[f"{one.group}, seed {one.seed}: {one.problem}" for one in runs.awaited if one.problem],
    ]
