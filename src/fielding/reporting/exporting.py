"""Files from a page: its figures for a paper, PNG, PDF or SVG, on white; and a picture of its head for a README."""

import asyncio
import base64
import json
import logging
import shutil
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from fielding._extras import require
from fielding.errors import InputError, OptionError, OutputError, echo
from fielding.reporting.charts.figures import ZOOMED, Figure, change_layout
from fielding.reporting.page import Page, Section, distinct, key_of

FORMATS = ("png", "pdf", "svg")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
HEAD = "head.png"
_WIDTH, _SCALE = 820, 2
_HEAD_WIDTH, _LONGEST_S = 1160, 60.0
# Where the head of the page is, once its figures are drawn; nothing before the page is there.
_PLACE = """window.fielding && document.getElementById("head") && window.fielding.drawAll().then(() => {
  const {x, y, width, height} = document.getElementById("head").getBoundingClientRect();
  return JSON.stringify({x: x - 16, y: y - 16, width: width + 32, height: height + 20});
})"""


def page_figures(page: Page) -> dict[str, Figure]:
    """Return every figure of a page by its key; those that a reader chooses from have the words of their buttons."""
    figures: dict[str, Figure] = {}
    for section in distinct(page.sections):
        rows = [set(row) for row in zip(*(view.words for view in section.views), strict=True)]
        for one in (section, *section.views):
            if one.figure is not None:  # as the page shows it at first: a slider stands at its last moment
                changes = one.frames[-1].traces if one.frames else ()
                traces = one.figure["data"]
                changed = [{**trace, **change} for trace, change in zip(traces, changes, strict=False)]
                words = [
                    key_of(Section(title=word)) for word, row in zip(one.words, rows, strict=False) if len(row) > 1
                ]
                key = "-".join([section.key, *words])
                figures[key] = {**one.figure, "data": [*changed, *traces[len(changed) :]]}
    return figures


def export_figures(page: Page, folder: Path, form: str) -> list[Path]:
    """Write every figure of a page into a folder, as ``KEY.png``, ``KEY.pdf`` or ``KEY.svg``; return the files.

    OptionError if the format is not known, or if the package or the browser that draws is missing; the message names
    it. OutputError if a figure cannot be written.
    """
    kaleido, figures = load_exporter(form), page_figures(page)
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
    _be_quiet()
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


def _be_quiet() -> None:
    for name in ("kaleido", "choreographer"):
        logging.getLogger(name).setLevel(logging.ERROR)


def export_head(page: Path, target: Path) -> Path:
    """Write a picture of the head of a page that was written: its sentence and the charts that carry it, in light.

    OptionError if the package or the browser that draws is missing, OutputError if it gives no picture.
    """
    load_exporter("png")
    _be_quiet()
    found: list[bytes | Exception] = []

    def draw() -> None:  # in a thread of its own: the caller's may have an event loop already
        try:
            found.append(asyncio.run(_photograph(page.resolve().as_uri())))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise OutputError(f"the browser cannot draw the head of the page: {found[0]}") from found[0]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(found[0])
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    return target


async def _photograph(address: str) -> bytes:
    """Return the head of a page as PNG, with the light colours."""
    from choreographer import Browser

    async with Browser(headless=True) as browser:
        tab = await browser.create_tab(address)

        async def ask(command: str, **params: Any) -> dict[str, Any]:
            answer: Any = await tab.send_command(command, params)
            if "error" in answer:
                raise RuntimeError(answer["error"].get("message", command))
            return dict(answer["result"])

        size = {"width": _HEAD_WIDTH, "height": 900, "deviceScaleFactor": _SCALE, "mobile": False}
        await ask("Emulation.setDeviceMetricsOverride", **size)
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        await ask("Emulation.setEmulatedMedia", features=light)
        deadline = asyncio.get_running_loop().time() + _LONGEST_S
        while True:
            answer = await ask("Runtime.evaluate", expression=_PLACE, awaitPromise=True, returnByValue=True)
            if isinstance(words := answer["result"].get("value"), str):
                break
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"it was not drawn after {_LONGEST_S:.0f} seconds")
            await asyncio.sleep(0.1)
        clip = {**json.loads(words), "scale": 1}
        shot = await ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


def load_exporter(form: str) -> ModuleType:
    """Return the package that draws figures; raise OptionError if this format, the package or a browser is missing."""
    if form not in FORMATS:
        raise OptionError(
            f"figures cannot be exported as {echo(form)}; give {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    kaleido = require("export")
    if not any(map(shutil.which, BROWSERS)):
        raise OptionError("to export figures a Chrome or Chromium must be installed (Debian: apt-get install chromium)")
    return kaleido


def for_paper(figure: Figure) -> Figure:
    """Return a figure in black on white that shows all of its lines: on paper nobody can zoom out."""
    if figure["layout"].get("meta") == ZOOMED:
        figure = change_layout(figure, yaxis={"range": None})
    return change_layout(
        figure, paper_bgcolor="#ffffff", plot_bgcolor="#ffffff", font={"color": "#000000", "family": "sans-serif"}
    )
