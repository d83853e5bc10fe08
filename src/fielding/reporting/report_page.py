"""The page about runs: what `report` writes, `watch` keeps up to date, and every run and comparison leaves behind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fielding._typing import Json
from fielding._version import __version__
from fielding.atomic import replaced_file
from fielding.errors import FieldingError, OutputError, unknown_name
from fielding.federation.evaluation import TREATMENTS
from fielding.reporting.charts.client_map import draw_client_map
from fielding.reporting.charts.clusters import draw_cluster_cards
from fielding.reporting.charts.curves import (
    draw_accuracy,
    draw_agreement,
    draw_cluster_counts,
    draw_differences,
    draw_heterogeneity,
    draw_losses,
)
from fielding.reporting.charts.decisions import draw_decisions, draw_traffic
from fielding.reporting.charts.experts import draw_alone, draw_experts
from fielding.reporting.charts.fairness import draw_fairness
from fielding.reporting.charts.figures import PALETTE
from fielding.reporting.charts.group_bars import draw_accuracy_against_bytes, draw_costs, draw_times_to_target
from fielding.reporting.charts.river import draw_river
from fielding.reporting.charts.tables import tabulate_results, tabulate_settings, tabulate_states
from fielding.reporting.charts.truth import draw_truth
from fielding.reporting.comparison_tables import seed_count_words
from fielding.reporting.formatting import as_time, digits, megabytes, n_drift_reports
from fielding.reporting.numbers.comparison import CLAIMED, compare_groups, diverged_words
from fielding.reporting.numbers.groups import RunGroups, gather_runs
from fielding.reporting.numbers.run_record import FINISHED, RunRecord
from fielding.reporting.numbers.run_summary import evaluations, final_words, run_summary
from fielding.reporting.page import Card, Page, Section, page_html

Row = Mapping[str, Json]
Drawn = Section | list[Section]
MOST_CARDS = 8  # groups with a card of their own; more are told by the table
MOST_NAMES = 8  # groups that the paragraph names
MOST_INSIDE = 8  # groups whose clusters are shown in full: each adds up to a megabyte
DAMAGE = (FieldingError, OSError, ArithmeticError, LookupError, TypeError, ValueError)
"""What drawing a damaged folder may raise."""
_COMPARED: tuple[tuple[str, Callable[[RunGroups], Drawn]], ...] = (
    ("Accuracy", draw_accuracy),
    ("Accuracy against bytes", draw_accuracy_against_bytes),
    ("Time to target", draw_times_to_target),
    ("Differences", draw_differences),
    ("How clients fare", draw_fairness),
    ("Heterogeneity", draw_heterogeneity),
    ("Number of clusters", draw_cluster_counts),
    ("Agreement", draw_agreement),
)
_INSIDE: tuple[tuple[str, Callable[[RunRecord, str | None], Drawn]], ...] = (
    ("The clusters now", draw_cluster_cards),
    ("Who was in which cluster", draw_river),
    ("Map of the clients", draw_client_map),
    ("What the coordinator decided", draw_decisions),
    ("Reports and moves", draw_traffic),
    ("Clusters and true concepts", draw_truth),
    ("Experts", draw_experts),
    ("Experts alone", draw_alone),
)
_AFTER: tuple[tuple[str, Callable[[RunGroups], Drawn]], ...] = (
    ("Costs", draw_costs),
    ("Losses", draw_losses),
    ("Settings", tabulate_settings),
)


def read_report(folders: Sequence[Path], *, reference: str | None = None) -> tuple[RunGroups, dict[str, Json]]:
    """Read some folders of runs or comparisons; return the runs and their comparison, as in ``summary.json``.

    ``reference`` is the group that others are held against, instead of the one that the folders name. InputError if
    there is no run in any of them, OptionError if there is no group of that name.
    """
    found = gather_runs(folders)
    if reference is not None:
        names = [group.name for group in found.groups]
        if reference not in names:
            raise unknown_name("reference", reference, names)
        found = replace(found, reference=reference)
    return found, compare_groups(found)


def report_page(folders: Sequence[Path]) -> str:
    """Return the page about the runs of some folders as HTML."""
    return page_html(make_page(*read_report(folders)))


def write_report(runs: RunGroups, summary: Row, target: Path) -> Page:
    """Write a page, whole or not at all, and return what is on it; OutputError if it cannot be written."""
    page = make_page(runs, summary)
    html = page_html(page).encode(errors="replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    with replaced_file(target) as file:
        file.write(html)
    return page


def make_page(runs: RunGroups, summary: Row | None = None) -> Page:
    """Return the page about some runs, finished or not; ``summary`` is their comparison, if it is known already."""
    compared = compare_groups(runs) if summary is None else summary
    so_far = "" if are_all_finished(runs) else " so far"
    if len(runs.variants) > 1:
        title = f"{len(runs.variants)} methods compared{so_far}"
    elif len(runs.runs) == 1 and not runs.awaited:
        title = f"What the run gave{so_far}: {runs.title}"
    else:
        title = f"{runs.title}: {len(runs.runs)} runs{so_far}"
    notes = list(runs.problems)
    for group, run in runs.runs:
        whose = f"{group.name}, seed {run.seed}: " if len(runs.runs) > 1 else ""
        notes += [f"{whose}{problem}" for problem in run.problems]
    return Page(
        title=title,
        lead=report_lead(runs),
        cards=report_cards(runs, compared),
        sections=list(_sections(runs, compared)),
        groups={name: PALETTE[style % len(PALETTE)] for name, style in runs.styles.items()},
        notes=[*notes, *[f"{one.group}, seed {one.seed}: {one.problem}" for one in runs.awaited if one.problem]],
        footer=f"Fielding {__version__}",
    )


def are_all_finished(runs: RunGroups) -> bool:
    """Return whether all runs are finished, and none is still to come."""
    return not runs.awaited and all(run.state == FINISHED for _, run in runs.runs)


def _sections(runs: RunGroups, summary: Row) -> Iterator[Section]:
    if not are_all_finished(runs):
        yield from _draw("The runs", partial(tabulate_states, runs))
    if len(runs.groups) > 1:
        yield from _draw("Results in numbers", partial(tabulate_results, runs, summary))
    for title, chart in _COMPARED:
        yield from _draw(title, partial(chart, runs))
    inside = [group for group in runs.groups if group.is_clustered][:MOST_INSIDE]  # each by its first run
    for group in inside:
        name = group.name if len(inside) > 1 else None
        for title, inner in _INSIDE:
            yield from _draw(title, partial(inner, group.runs[0], name), group=name)
    for title, chart in _AFTER:
        yield from _draw(title, partial(chart, runs))


def _draw(title: str, draw: Callable[[], Drawn], group: str | None = None) -> list[Section]:
    """Return some sections; what a damaged folder does not let draw leaves the others alone."""
    try:
        found = draw()
    except DAMAGE as error:
        return [Section(title=title, missing=f"This cannot be drawn: {error or type(error).__name__}", group=group)]
    return found if isinstance(found, list) else [found]


# ---------------------------------------------------------------- the first paragraph


def report_lead(runs: RunGroups) -> str:
    """Return what was run: methods, data, rounds, seeds, and what accuracy is."""
    if not runs.groups:
        return "No run has begun yet."
    names, every = [group.name for group in runs.groups], [run for _, run in runs.runs]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    lengths = [run.n_expected or len(run.rounds) for run in every]
    low, high = min(lengths), max(lengths)
    rounds = f"{low:,} to {high:,} rounds" if low < high else f"{high:,} rounds"
    counts = [len(group.runs) for group in runs.groups]
    seeds = list(dict.fromkeys(str(run.seed) for run in every))
    seed_words = f"seed {seeds[0]}" if len(seeds) == 1 else f"one seed each ({', '.join(seeds)})"
    if max(counts) > 1:
        seed_words = f"{seed_count_words(counts)}, with 95 % intervals"
    final = ""
    if are_all_finished(runs):  # what final figures are means over, where that is so for all runs alike
        summaries = [run_summary(run.rounds, (), gap=run.gap) for run in every]
        found = {final_words(one) for one in summaries if one["n_final_evaluations"]}
        final = f" Final figures: {found.pop()}." if len(found) == 1 else ""
    return (
        f"{', '.join(names[:MOST_NAMES])}{more} on {_source_words(every)}; {rounds}, {seed_words}. Accuracy is "
        "measured with the model that serves a client, unweighted mean over clients: on the test samples of its "
        "window; on those of the newest interval (newest); and on samples of the interval to come that no client has "
        f"trained on (next).{final}"
    )


def _source_words(runs: Sequence[RunRecord]) -> str:
    """Return the data sets of runs with their drift scenarios, each once; runs without a config do not count."""
    known = [run for run in runs if run.config] or runs
    found: dict[tuple[str, Json], None] = {}
    for run in known:
        source = run.setting("trace", "file") or run.setting("trace", "name") or "samples of one's own"
        pair = ("real devices", None) if run.is_deployed else (str(source), run.setting("trace", "scenario"))
        found[pair] = None
    if len(found) == 1:
        ((name, scenario),) = found
        return f"{name}, drift scenario {scenario}" if scenario else name
    names = [f"{name} (drift scenario {scenario})" if scenario else name for name, scenario in found]
    return f"{', '.join(names[:-1])} and {names[-1]}"


# ---------------------------------------------------------------- cards


def report_cards(runs: RunGroups, summary: Row) -> list[Card]:
    """Return the cards of a report: those of the one run, or one per group of runs."""
    if len(runs.runs) == 1:
        return run_cards(runs.runs[0][1])
    counts: dict[str, tuple[int, int]] = {}
    for group in runs.groups:
        figures = [run_summary(run.rounds, run.events, gap=run.gap) for run in group.runs]
        n_failed, n_trained = (sum(int(str(one[name])) for one in figures) for name in ("n_failed", "n_trained"))
        counts[group.name] = n_failed, n_trained
    groups = runs.groups if len(runs.groups) <= MOST_CARDS else ()
    cards = [_group_card(runs, group.name, summary) for group in groups]
    if words := diverged_words(counts):
        failed, trained = (sum(one[at] for one in counts.values()) for at in (0, 1))
        cards.insert(0, _diverged_card(failed, trained, f": {words}"))
    return cards


def run_cards(run: RunRecord) -> list[Card]:
    """Return the numbers of one run that matter."""
    summary = run_summary(run.rounds, run.events, gap=run.gap)
    cards = []
    if summary["n_failed"]:
        cards.append(_diverged_card(summary["n_failed"], summary["n_trained"]))
    if run.state != FINISHED:
        value, note = _last_accuracy([run])
        cards.append(Card(name="accuracy", value=value, note=note))
    elif summary["final_accuracy"] is None:
        cards.append(Card(name="final accuracy", value="none", note="no client was tested"))
    else:
        cards.append(Card(name="final accuracy", value=digits(summary["final_accuracy"]), note="on the window"))
        for where, note in (("newest", "on the newest interval"), ("next", "samples that come next, before training")):
            if (final := summary[f"final_{where}_accuracy"]) is not None:
                cards.append(Card(name=f"{where} accuracy", value=digits(final), note=note))
        for how in TREATMENTS:
            if (final := summary.get(f"final_accuracy_{how}")) is not None:
                words = (
                    [f"next: {digits(following)}"] if (following := summary.get(f"final_next_accuracy_{how}")) else []
                )
                note = ", ".join([*words, f"worst tenth: {digits(summary.get(f'worst_decile_{how}'))}"])
                cards.append(Card(name=f"{how} accuracy", value=digits(final), note=note))
        worst = digits(summary["worst_decile"])
        cards.append(Card(name="worst decile", value=worst, note="the worst tenth of the clients"))
    if run.is_clustered:
        cards += _cluster_cards(summary)
    return [
        *cards,
        Card(
            name="time" if run.is_deployed else "simulated time",
            value=as_time(float(str(summary["time_s"]))),
            note=f"{summary['n_rounds']:,} rounds",
        ),
        Card(name="sent to clients", value=megabytes(summary["bytes_down"])),
        Card(name="sent by clients", value=megabytes(summary["bytes_up"])),
    ]


def _diverged_card(n_failed: Json, n_trained: Json, whose: str = "") -> Card:
    note = f"trainings gave no finite model{whose}; lower training.learning_rate"
    return Card(name="training diverged", value=f"{n_failed:,} of {n_trained:,}", note=note, is_warning=True)


def _cluster_cards(summary: Row) -> list[Card]:
    # Where no coordinator decides, clusters are seen from outside.
    decided, seen = ("one by one, centers frozen", "of all clients"), ("to another cluster", "a cluster came or went")
    moved, regrouped = seen if summary["heterogeneity"] is None else decided
    # Which reports told of drift is known where a coordinator heard them.
    n_drifted = n_drift_reports(summary)
    reports = Card(name="reports", value=digits(summary["n_reports"], 0))
    if n_drifted is not None:
        note = f"besides {summary['n_first_reports']:,} first reports, to join"
        reports = Card(name="reports of drift", value=digits(n_drifted, 0), note=note)
    return [
        Card(name="clusters now", value=digits(summary["n_clusters_last"], 0)),
        Card(name="moves", value=digits(summary["moves"], 0), note=moved),
        Card(name="re-clusterings", value=digits(summary["reclusterings"], 0), note=regrouped),
        reports,
    ]


def _group_card(runs: RunGroups, name: str, summary: Row) -> Card:
    def record(part: str, figure: str) -> Row:
        found: Json = dict(summary)
        for key in (part, name, figure):
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    reference, group = runs.references.get(name), runs.group(name)
    value, notes = digits(record("methods", "final_accuracy").get("mean")), []
    if isinstance(following := record("methods", "final_next_accuracy").get("mean"), float):
        notes.append(f"next {digits(following)}")
    gains = {figure: record("paired", figure) for figure in CLAIMED.values()}
    if group is not None and not group.finished:
        value, note = _last_accuracy(group.runs)
        notes = [note]
    elif name == reference:
        notes.append("the others are held against it" if name == runs.reference else "others are held against it")
    elif any(isinstance(gain.get("mean"), float) for gain in gains.values()):
        words = [words for gain in gains.values() if (words := _gain_words(gain))]
        notes.append(f"{', next '.join(words)} against {reference}")
    else:
        notes = notes or ["mean over clients and seeds"]
    note = ";\n".join(notes)
    return Card(name=name, value=value, note=note, group=name, color=PALETTE[runs.styles[name] % len(PALETTE)])


def _gain_words(gain: Row) -> str:
    mean, ends = gain.get("mean"), gain.get("ci95")
    if not isinstance(mean, float):
        return ""
    low, high = (float(str(end)) for end in ends) if isinstance(ends, list) else (mean, mean)
    return f"{mean:+.3f}{f' ± {(high - low) / 2:.3f}' if isinstance(ends, list) else ''}"


def _last_accuracy(runs: Sequence[RunRecord]) -> tuple[str, str]:
    """Return the last accuracy of runs that go on or were stopped, and how far they are."""
    last = [float(str(tested[-1]["accuracy"])) for run in runs if (tested := evaluations(run.rounds))]
    counts = [len(run.rounds) for run in runs]
    rounds = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{max(counts):,}"
    n_expected = max(run.n_expected for run in runs)
    note = f"so far, round {rounds}{f' of {n_expected:,}' if n_expected else ''}"
    return digits(sum(last) / len(last) if last else None), note
