"""The page about runs: what `report` writes, `watch` keeps up to date, and every run and comparison leaves behind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fielding._typing import Json
from fielding._version import __version__
from fielding.atomic import replaced_file
from fielding.errors import FieldingError, OutputError, unknown_name
from fielding.reporting.charts.agreement import agreement
from fielding.reporting.charts.client_map import client_map
from fielding.reporting.charts.cluster_cards import cluster_cards
from fielding.reporting.charts.clusters import clusters
from fielding.reporting.charts.costs import costs
from fielding.reporting.charts.curves import curves
from fielding.reporting.charts.decisions import decisions, traffic
from fielding.reporting.charts.differences import differences
from fielding.reporting.charts.fairness import fairness
from fielding.reporting.charts.heterogeneity import heterogeneity
from fielding.reporting.charts.losses import losses
from fielding.reporting.charts.results import results
from fielding.reporting.charts.river import river
from fielding.reporting.charts.settings import settings
from fielding.reporting.charts.states import states
from fielding.reporting.charts.targets import targets
from fielding.reporting.charts.truth import truth
from fielding.reporting.comparison import comparison
from fielding.reporting.figures import PALETTE
from fielding.reporting.gathering import Gathered, Group, gathered
from fielding.reporting.page import Page, Section, page_html
from fielding.reporting.report_cards import report_cards
from fielding.reporting.report_lead import is_whole, report_lead, report_title
from fielding.reporting.run_record import RunRecord

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
