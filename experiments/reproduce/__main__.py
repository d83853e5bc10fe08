"""The figures and tables of the paper on stand-ins for its data.

    python -m experiments.reproduce --list                what there is, most important first
    python -m experiments.reproduce NAME... [--quick]     run, or go on; prints tables, draws the figure, writes a page
    python -m experiments.reproduce all --jobs 2          everything, in the order of the list
    python -m experiments.reproduce NAME --from-page      draw and list what the tables of the page hold; nothing is run

Data come from FIELDING_DATA; --quick needs none and shows only that everything works. What is done in --out is not done
again. Pages are in docs/results/reproduce, with their figures; the quick form writes none unless --page names one. The
figure of the paper, ours, is also with the runs, as OUT/NAME/NAME.svg.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from experiments.reproduce import overhead, staged
from experiments.reproduce.page import (
    PAGES,
    claims_on,
    index_part,
    measured_in,
    measured_part,
    section,
    write_illustrated,
    write_page,
)
from experiments.reproduce.plots import ROWS, draw
from experiments.reproduce.reading import Experiment, names, read
from experiments.reproduce.results import results_of
from experiments.reproduce.running import Way, check_data, run_all
from experiments.reproduce.tables import claim_table, course_table, measured_table, variant_table
from fielding.atomic import replaced_file
from fielding.errors import FieldingError
from fielding.records.manifest import write_json

MEASURES = {"stages": staged.measure, "overhead": overhead.measure}
MINUTES = "minutes.json"
"""How long an experiment took, beside its runs."""
INDEX_TITLE = "The paper's figures and tables on stand-ins"


def main() -> int:
    options = _options()
    if options.list or not options.names:
        for name in names():
            one = read(name)
            print(f"{name:<16} {one.of_paper}: {one.title}")
        return 0
    way = Way(out=options.out, is_quick=options.quick, n_jobs=options.jobs)
    failed = []
    for name in names() if options.names == ["all"] else options.names:
        try:
            if options.from_page:
                redraw(read(name), options.page or PAGES / f"{name}.md")
                if options.page is None:
                    write_index()
            else:
                tell(read(name), way, options.page)
        except FieldingError as error:
            print(f"error: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        print(f"error: not done: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def tell(experiment: Experiment, way: Way, page: Path | None) -> None:
    """Run an experiment, or what is left of it, print its tables, and write its page and the list of all."""
    part = reproduced(experiment, way)
    print(f"\n# {experiment.title}\n\n{part}", flush=True)
    figure = None
    if experiment.plot is not None:
        drawn = figure_file(experiment, way)
        print(f"\nfigure: {drawn}", flush=True)
        figure = drawn.read_text(encoding="utf-8")
    if page is not None:
        write_illustrated(experiment, part, page, figure)
    elif not way.is_quick:
        write_illustrated(experiment, part, PAGES / f"{experiment.name}.md", figure)
        write_index()


def write_index() -> None:
    """Write the list of all experiments from what stands on their pages."""
    everything = [read(name) for name in names()]
    write_page(INDEX_TITLE, index_part(claims_on(PAGES, everything), everything), PAGES / "index.md")


def redraw(experiment: Experiment, page: Path) -> None:
    """Draw the figure of a page anew from its tables, for which no runs are needed; curves are not among them."""
    if experiment.plot is None:
        print(f"{experiment.name}: no figure in the paper")
        return
    part = measured_in(page)
    write_illustrated(experiment, part, page, draw(experiment, part))
    print(f"{experiment.name}: {page.with_suffix('.svg')}")


def figure_file(experiment: Experiment, way: Way) -> Path:
    """Return where the figure of an experiment is, beside its runs."""
    return way.folder_of(experiment) / f"{experiment.name}.svg"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.reproduce", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="of experiments, or all")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument("--quick", action="store_true", help="a few rounds of embedded digits, one seed")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--out", type=Path, default=Path("runs/reproduce"), help="folder for runs (runs/reproduce)")
    parser.add_argument(
        "--from-page", action="store_true", help="draw the figure from the tables of the page; nothing is run"
    )
    parser.add_argument("--page", type=Path, help="page to write instead of docs/results/reproduce/NAME.md")
    return parser.parse_args()


def reproduced(experiment: Experiment, way: Way) -> str:
    """Run an experiment, or what is left of it, draw its figure, and return the measured part of its page."""
    begun, results = time.monotonic(), None
    if experiment.measure is None:
        plan = run_all(experiment, way)
        minutes = _minutes(experiment, way, (time.monotonic() - begun) / 60)
        results = results_of(way.folder_of(experiment), plan, list(experiment.variants), experiment.served)
        beside = claim_table(experiment, results)
        sections = [section(ROWS, variant_table(experiment, results))]
        if courses := course_table(experiment, results):
            sections.append(section("Over the rounds", courses))
    else:
        if not way.is_quick:
            check_data(experiment)
        found, more = MEASURES[experiment.measure](
            way.parse_seeds(experiment), way.folder_of(experiment), is_quick=way.is_quick, n_jobs=way.n_jobs
        )
        minutes = _minutes(experiment, way, (time.monotonic() - begun) / 60)
        beside, sections = measured_table(experiment, found), list(more)
    sections.insert(0, section("The paper's numbers and ours", beside))
    part = measured_part(experiment, sections, minutes=minutes, n_seeds=len(way.parse_seeds(experiment)))
    if experiment.plot is not None:
        with replaced_file(figure_file(experiment, way)) as file:
            file.write(draw(experiment, part, results).encode())
    return part


def _minutes(experiment: Experiment, way: Way, more: float) -> float:
    """Return how long an experiment took in all, also before it was stopped; kept beside its runs."""
    path = way.folder_of(experiment) / MINUTES
    try:
        before = float(json.loads(path.read_text())["minutes"])
    except (OSError, ValueError, KeyError, TypeError):
        before = 0.0
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"minutes": round(before + more, 2)})
    return before + more


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)
