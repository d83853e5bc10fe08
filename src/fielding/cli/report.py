"""`fielding report`: one page, and figures for a paper, from the folders of runs."""

from pathlib import Path
from typing import Annotated

import typer

from fielding.cli.console import note_down, progress_bar, say, say_json
from fielding.cli.options import OUT, JsonOutput, Quiet

PAGE, FIGURES = "report.html", "figures"


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, of comparisons, or of folders of runs.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page; report.html in DIR, or here if there are several.", **OUT),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(
            metavar="png|pdf|svg", help="Also write every figure and a picture of the head, into figures beside it."
        ),
    ] = None,
    reference: Annotated[str | None, typer.Option(help="Compare the others with this method.")] = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained page about one or many runs, finished or not.

    Runs of the same config and different seeds are taken together, with 95 % intervals; what is missing or damaged is
    said on the page, and the rest is drawn. `--export` needs the extra `export` and a Chrome or Chromium.
    """
    from fielding.reporting.exporting import HEAD, export_figures, export_head, load_exporter
    from fielding.reporting.report_page import read_report, write_report

    if export is not None:
        load_exporter(export)  # before anything is read: that may take a while
    target = out or (folders[0] if len(folders) == 1 else Path()) / PAGE
    target = target / PAGE if target.is_dir() else target
    with progress_bar("reading runs", None, quiet=quiet) as bar:
        runs, summary = read_report(folders, reference=reference)
        bar.describe("drawing")
        page = write_report(runs, summary, target)
        bar.describe("exporting figures")
        files = export_figures(page, target.parent / FIGURES, export) if export else []
        files += [export_head(target, target.parent / FIGURES / HEAD)] if export else []
    for note in () if quiet else page.notes:
        note_down(note)
    if as_json:
        say_json(summary)
    elif not quiet:
        say(f"page:    {target}")
        if files:
            say(f"figures: {target.parent / FIGURES} ({len(files)} files)")
