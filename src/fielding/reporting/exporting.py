"""Figures of a page as files for a paper: PNG or PDF, on white, without a title of their own."""

import logging
import shutil
import warnings
from pathlib import Path
from types import ModuleType

from fielding._extras import require
from fielding.errors import InputError, OptionError, OutputError, echo
from fielding.reporting.charts.figures import Figure, change_layout
from fielding.reporting.page import Page, distinct

FORMATS = ("png", "pdf")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_WIDTH, _SCALE = 820, 2


def export_figures(page: Page, folder: Path, form: str) -> list[Path]:
    """Write every figure of a page into a folder, as ``KEY.png`` or ``KEY.pdf``; return the files.

    OptionError if the format is not known, or if the package or the browser that draws is missing; the message names
    it. OutputError if a figure cannot be written.
    """
    kaleido = load_exporter(form)
    figures: dict[str, Figure] = {}
    for section in distinct(page.sections):
        if section.figure is not None:  # as the page shows it at first: a slider stands at its last moment
            changes = section.frames[-1].traces if section.frames else ()
            traces = section.figure["data"]
            changed = [{**trace, **change} for trace, change in zip(traces, changes, strict=False)]
            figures[section.key] = {**section.figure, "data": [*changed, *traces[len(changed) :]]}
    if not figures:
        raise InputError("there is no figure to export")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write into {folder}: {error.strerror or error}") from error
    paths = [folder / f"{key}.{form}" for key in figures]
    jobs = []
    for figure, path in zip(figures.values(), paths, strict=True):
        size = {"width": _WIDTH, "height": figure["layout"].get("height", 340), "scale": _SCALE}
        jobs.append({"fig": for_paper(figure), "path": path, "opts": {"format": form, **size}})
    for name in ("kaleido", "choreographer"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # All in one browser: starting it takes longer than drawing. Without a word about MathJax its page would
            # ask a network for it.
            problems = kaleido.write_fig_from_object_sync(jobs, kopts={"mathjax": False})
        except Exception as error:
            raise OutputError(f"the browser cannot draw figures: {error}") from error
    if problems:
        raise OutputError(f"the browser cannot draw a figure: {problems[0]}")
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise OutputError(f"cannot draw {missing[0]}: the browser gave no image")
    return paths


def load_exporter(form: str) -> ModuleType:
    """Return the package that draws figures; raise OptionError if this format, the package or a browser is missing."""
    if form not in FORMATS:
        raise OptionError(f"figures cannot be exported as {echo(form)}; give {' or '.join(FORMATS)}")
    kaleido = require("export")
    if not any(map(shutil.which, BROWSERS)):
        raise OptionError("to export figures a Chrome or Chromium must be installed (Debian: apt-get install chromium)")
    return kaleido


def for_paper(figure: Figure) -> Figure:
    """Return a figure in black on white."""
    return change_layout(
        figure, paper_bgcolor="#ffffff", plot_bgcolor="#ffffff", font={"color": "#000000", "family": "sans-serif"}
    )
