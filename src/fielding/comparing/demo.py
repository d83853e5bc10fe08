"""The demo: Fielding, the paper's method, parts of it and one model on digits whose clients move between places."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.comparing.plan import PlannedComparison, plan_comparison
from fielding.comparing.variants import named_variants
from fielding.config.presets import PRESETS
from fielding.methods import METHODS as KNOWN
from fielding.records.run_folder import PAGE
from fielding.reporting.numbers.groups import RunGroups
from fielding.reporting.page import Page, Section, page_html
from fielding.reporting.report_page import make_page, read_report

ROWS: dict[str, dict[str, Json]] = {
    "auto": {"preset": "auto"},
    **{name: {"preset": "paper", "method.name": name} for name in ("fielding", "moves", "static", "global")},
}
"""What Fielding makes of the paper's method; that method; and three rows of which each lacks something that the one
before it has: grouping everyone anew, moving drifted clients, clusters."""
SETTINGS: dict[str, Json] = {
    "rounds": 200,
    "trace": {
        "name": "digits",
        "scenario": "places",
        "clients": 100,
        "gap": 20,
        "window": 20,
        "samples": 100,
        "at_first": 2,
        "share": 0.05,
    },
    "model": {"name": "mlp", "hidden": 64},
    # All rows train as the paper does.
    "training": {**PRESETS["paper"]["training"], "participants": 20, "batch_size": 20, "learning_rate": 0.05},
    "evaluation": {"every": 10},
}
"""What all rows share; all other keys have their defaults. Fixed on seeds 11 to 13; docs/demo.md tells of all variants
that were tried."""
AUTO = (
    "the paper's method as Fielding would run it: clusters share the body of their models, and each client is served "
    "by what its own evidence is best for"
)
CAVEAT = (
    "Clusters by label mixes are ahead where clients are, and lose where they are going: on the next interval, for "
    "which some have moved, those are still served by the model of the place that they left, until their first samples "
    "are in. The more clients move, the more that costs: with three in ten at every event, clusters are far behind one "
    "model on that score. They pay off at all because a window is as long as the time between two events: all samples "
    "that a client holds are from one place. The scenario was made so that groups split, because nothing else "
    "shows what grouping everyone anew is worth; docs/demo.md has the figures of all variants that were tried."
)


def plan_demo(out: Path, n_seeds: int, settings: Mapping[str, Json] = SETTINGS) -> PlannedComparison:
    """Return the demo as a comparison that can be run on seeds 1 to so many; nothing is written.

    The folder is free, or holds this demo, whole or in part; InputError if there is something else in it.
    """
    return plan_comparison(dict(settings), named_variants(ROWS), seeds=n_seeds, out=out, reference="global")


def write_demo_page(folder: Path) -> dict[str, Json]:
    """Write ``report.html`` about a demo that was run; return its comparison, as in ``summary.json``."""
    runs, summary = read_report([folder])
    with replaced_file(folder / PAGE) as file:
        file.write(page_html(demo_page(runs, summary)).encode())
    return summary


def demo_page(runs: RunGroups, summary: Mapping[str, Json]) -> Page:
    """Return the page of a comparison with what is to be known of the demo."""
    words = []
    for group in runs.groups[:1]:  # all have the same rounds
        n_rounds = group.runs[0].n_expected or len(group.runs[0].rounds)
        words.append(f"{n_rounds} rounds")
    n_seeds = max((len(group.runs) for group in runs.groups), default=0)
    if n_seeds:
        words.append(f"{n_seeds} seeds, with 95 % intervals" if n_seeds > 1 else "1 seed")
    summaries = {name: KNOWN[name].summary for name in ROWS if name in KNOWN}
    compared = Section(
        title="What is compared",
        table=[["row", "what it does"], ["auto", AUTO], *[[name, text] for name, text in summaries.items()]],
    )
    page = make_page(runs, summary)
    return replace(
        page,
        title="Do clusters pay off while clients move and groups split?",
        lead="100 clients live in two places; halfway two more open, and half of the clients move there. Each place "
        "has its own mix of digits and its own look (turned by 90 degrees); every 20 rounds one client in twenty moves "
        "to another. Fielding, the paper's method, that method with parts left out, and one global model "
        f"({', '.join(words)}). Accuracy is the unweighted mean over clients: on the test samples of their windows, "
        "and on samples of the interval to come that no client has trained on (next). Served is what a client gets "
        "once it weighs its model and other experts by evidence; auto does, the paper does not.",
        sections=[compared, *page.sections, Section(title="What this does not show", text=CAVEAT)],
        footer=f"{page.footer}. Written by fielding demo; each run has a folder of its own beside this page.",
    )
