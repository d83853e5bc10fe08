"""The page about runs: what `report` writes, `watch` keeps up to date, and every run and comparison leaves behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fielding._typing import Json
from fielding._version import __version__
from fielding.atomic import replaced_file
from fielding.errors import FieldingError, OutputError, unknown_name
from fielding.reporting.charts.client_map import draw_client_map
from fielding.reporting.charts.clusters import draw_cluster_cards
from fielding.reporting.charts.curves import draw_accuracy, draw_clusters, draw_losses, draw_metric, metric_names
from fielding.reporting.charts.decisions import draw_coordinator
from fielding.reporting.charts.drift_events import TITLE as AROUND
from fielding.reporting.charts.drift_events import draw_around_drifts
from fielding.reporting.charts.experts import draw_served_by
from fielding.reporting.charts.fairness import draw_fairness
from fielding.reporting.charts.figures import PALETTE
from fielding.reporting.charts.group_bars import draw_accuracy_against_bytes, draw_costs, draw_times_to_target
from fielding.reporting.charts.tables import (
    STATES,
    leave_out_columns,
    tabulate_budgets,
    tabulate_clusters,
    tabulate_left_out,
    tabulate_results,
    tabulate_run,
    tabulate_settings,
    tabulate_states,
)
from fielding.reporting.charts.truth import draw_memberships
from fielding.reporting.comparison_tables import seed_count_words
from fielding.reporting.headline import draw_highlights, expert_counts, write_sentence
from fielding.reporting.numbers.comparison import compare_groups, diverged_words
from fielding.reporting.numbers.groups import RunGroups, gather_runs
from fielding.reporting.numbers.run_record import FINISHED, RunRecord
from fielding.reporting.numbers.run_summary import failing_words, final_words, run_summary
from fielding.reporting.page import PARTS, Card, Page, Section, page_html

Row = Mapping[str, Json]
Drawn = Section | list[Section]
MOST_NAMES = 8  # groups that the paragraph names
MOST_INSIDE = 8  # groups whose clusters are shown in full: each adds up to a megabyte
DAMAGE = (FieldingError, OSError, ArithmeticError, LookupError, TypeError, ValueError)
"""What drawing a damaged folder may raise."""
CANNOT = "This cannot be drawn"
_CLUSTERS: tuple[tuple[str, Callable[[RunRecord, str | None], Section]], ...] = (
    ("The clusters now", draw_cluster_cards),
    ("Who is in which cluster", draw_memberships),
    ("Map of clients", draw_client_map),
    ("What the coordinator decided, and why", draw_coordinator),
)
_COST: tuple[tuple[str, Callable[[RunGroups], Drawn]], ...] = (
    ("Accuracy against bytes", draw_accuracy_against_bytes),
    ("What it costs clients", draw_costs),
    ("Time to the target", draw_times_to_target),
)


def read_report(folders: Sequence[Path], *, reference: str | None = None) -> tuple[RunGroups, dict[str, Json]]:
    """Read some folders of runs or comparisons; return the runs and their comparison, as in ``summary.json``.

    ``reference`` is the group that others are compared with, instead of the one that the folders name. InputError if
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
        sentence=write_sentence(runs, compared),
        highlights=[one for one in _draw("", partial(draw_highlights, runs, compared)) if not one.missing],
        cards=warning_cards(runs),
        sections=_sections(runs, compared),
        groups={name: PALETTE[style % len(PALETTE)] for name, style in runs.styles.items()},
        notes=[*notes, *[f"{one.group}, seed {one.seed}: {one.problem}" for one in runs.awaited if one.problem]],
        footer=f"Fielding {__version__}",
    )


def are_all_finished(runs: RunGroups) -> bool:
    """Return whether all runs are finished, and none is still to come."""
    return not runs.awaited and all(run.state == FINISHED for _, run in runs.runs)


def _sections(runs: RunGroups, summary: Row) -> list[Section]:
    """Return all sections by part; what has nothing to show is told in the last one."""
    inside = [group for group in runs.groups if group.is_clustered][:MOST_INSIDE]  # each by its first run
    weighing = [group for group in runs.groups if expert_counts(group)][:MOST_INSIDE]
    names = {group.name: group.name if len({*inside, *weighing}) > 1 else None for group in (*inside, *weighing)}
    one_run = runs.runs[0][1] if len(runs.runs) == 1 else None
    numbers = partial(tabulate_results, runs, summary) if one_run is None else partial(tabulate_run, one_run)
    parts: dict[str, list[Section]] = {part: [] for part in PARTS}
    result, clients, clusters, cost, settings = parts.values()
    if not are_all_finished(runs):
        result += _draw(STATES, partial(tabulate_states, runs))
    result += _draw("Results in numbers", numbers)
    result += _draw("Accuracy", partial(draw_accuracy, runs))
    for metric in metric_names(runs):
        result += _draw(metric, partial(draw_metric, runs, metric))
    result += _draw(AROUND, partial(draw_around_drifts, runs))
    result += _draw("Loss", partial(draw_losses, runs))
    clients += _draw("How single clients fare", partial(draw_fairness, runs))
    for group in weighing:
        name = names[group.name]
        clients += _draw("What clients are served by", partial(draw_served_by, group.runs[0], name), group=name)
    clusters += _draw("Clusters over rounds", partial(draw_clusters, runs))
    for group in inside:
        name = names[group.name]
        if any("by_cluster" in row for row in group.runs[0].rounds):
            clusters += _draw(
                "Your own metrics by cluster", partial(tabulate_clusters, group.runs[0], name), group=name
            )
        for title, chart in _CLUSTERS:
            clusters += _draw(title, partial(chart, group.runs[0], name), group=name)
    for title, draw in _COST:
        cost += _draw(title, partial(draw, runs))
    clients += _draw("Privacy", partial(tabulate_budgets, runs))
    settings += _draw("Settings", partial(tabulate_settings, runs))
    every = [replace(one, part=part) for part, sections in parts.items() for one in sections]
    shown = [one for one in every if not one.missing or one.missing.startswith(CANNOT)]
    left_out = tabulate_left_out([one for one in every if one not in shown])
    return [_without_constants(one) for one in (*shown, *(replace(one, part=PARTS[-1]) for one in left_out))]


def _without_constants(section: Section) -> Section:
    if section.title == STATES:  # its columns must not come and go while runs go on
        return section
    return replace(leave_out_columns(section), views=[leave_out_columns(view) for view in section.views])


def _draw(title: str, draw: Callable[[], Drawn], group: str | None = None) -> list[Section]:
    """Return some sections; what a damaged folder does not let draw leaves the others alone."""
    try:
        found = draw()
    except DAMAGE as error:
        return [Section(title=title, missing=f"{CANNOT}: {error or type(error).__name__}", group=group)]
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
        f"trained on (next).{_sample_words(every)}{final}"
    )


def _sample_words(runs: Sequence[RunRecord]) -> str:
    """Return that a sample of the clients was tested, if so in the last evaluation of some run."""
    for run in runs:
        row = next((row for row in reversed(run.rounds) if "n_tested" in row), {})
        if "n_testable" in row:
            return (
                f" {row['n_tested']:,} of {row['n_testable']:,} clients were tested, drawn anew for each evaluation; "
                "figures and charts of single clients are of those."
            )
    return ""


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


# ---------------------------------------------------------------- warnings


def warning_cards(runs: RunGroups) -> list[Card]:
    """Return a card for each run with devices that fail now, and one if models of any run were not finite."""
    return [*_failing_cards(runs), *_diverged_cards(runs)]


def _failing_cards(runs: RunGroups) -> list[Card]:
    cards = []
    for group, run in runs.runs:
        n_failing, told = failing_words(run.rounds)
        if n_failing:
            whose = f"{group.name}, seed {run.seed}: " if len(runs.runs) > 1 else ""
            cards.append(Card(name="devices that fail", value=f"{n_failing:,}", note=whose + told, is_warning=True))
    return cards


def _diverged_cards(runs: RunGroups) -> list[Card]:
    counts: dict[str, tuple[int, int]] = {}
    for group in runs.groups:
        figures = [run_summary(run.rounds, run.events, gap=run.gap) for run in group.runs]
        n_failed, n_trained = (sum(int(str(one[name])) for one in figures) for name in ("n_failed", "n_trained"))
        counts[group.name] = n_failed, n_trained
    words = diverged_words(counts)
    if not words:
        return []
    failed, trained = (sum(one[at] for one in counts.values()) for at in (0, 1))
    whose = f": {words}" if len(runs.groups) > 1 else ""
    note = f"trainings gave no finite model{whose}; lower training.learning_rate"
    if any(run.is_deployed for _, run in runs.runs):  # devices fail for other reasons, too
        return [Card(name="training failed", value=f"{failed:,} of {trained:,}", note=f"trainings{whose}")]
    return [Card(name="training diverged", value=f"{failed:,} of {trained:,}", note=note, is_warning=True)]
