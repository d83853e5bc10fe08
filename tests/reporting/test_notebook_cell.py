"""What notebooks show of a run and of a comparison, in a browser: nothing but HTML and SVG, in light and in dark."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fielding import Result, compare, run
from fielding.comparing.compare import ComparisonResult
from fielding.reporting.charts.figures import Line, lines_figure
from fielding.reporting.notebook_cell import svg_lines
from tests.comparing.forked import forking
from tests.simulation.run_cases import small_pool, table

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

SMALLEST = 8.5  # pixels of a letter's height that can still be read
BOXES = """names => [...document.querySelectorAll(names)].map(one => {
  const {left, right, top, bottom} = one.getBoundingClientRect();
  return [left, right, top, bottom];
})"""
LETTERS = """() => [...document.querySelectorAll("svg text")].map(
  one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"""


@pytest.fixture(scope="module")
def alone() -> Result:
    """Return a run that says that trainings diverged, so that there is a card."""
    result = run(table(evaluation={"every": 1}), own=small_pool())
    log = result.folder / "rounds.jsonl"
    log.write_text(log.read_text().replace('"n_failed":0', '"n_failed":3').replace('"n_failed": 0', '"n_failed": 3'))
    return result


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResult:
    out: Path = tmp_path_factory.mktemp("cell") / "out"
    vary = {"coordinator.tau": [0.0, 0.5]}
    with forking():
        return compare(table(), ["fielding", "global"], vary=vary, seeds=2, own=small_pool(), out=out)


def shown(tab: "Tab", html: str, scheme: Any, width: int) -> "Tab":
    tab.set_viewport_size({"width": width, "height": 700})
    tab.emulate_media(color_scheme=scheme)
    tab.set_content(f'<!doctype html><html style="color-scheme:light dark"><body>{html}</body></html>')
    return tab


def brightness(tab: "Tab", names: str) -> Any:
    """Return how bright each pixel of an element is, from 0 to 255."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    return np.asarray(image.open(io.BytesIO(tab.locator(names).first.screenshot())).convert("L"))


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000])
@pytest.mark.parametrize("kind", ["alone", "both"])
def test_a_cell_can_be_read(kind: str, width: int, scheme: str, page: "Tab", request: pytest.FixtureRequest) -> None:
    result: Result | ComparisonResult = request.getfixturevalue(kind)
    tab = shown(page, result._repr_html_(), scheme, width)

    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for left, right, _, _ in tab.evaluate(BOXES, "body *:not(polyline, polygon)"):
        assert 0 <= left <= right <= width
    (chart,) = tab.evaluate(BOXES, "body > div > svg")
    lines = tab.evaluate(BOXES, "svg svg polyline")
    assert len(lines) >= 2
    for left, right, top, bottom in lines:
        assert chart[0] <= left < right <= chart[1] + 1
        assert right - left > 0.5 * (chart[1] - chart[0])
        assert top < chart[3]
        assert bottom > chart[2]
    assert min(tab.evaluate(LETTERS)) >= SMALLEST
    names = [one.inner_text() for one in tab.locator("div > span").all()]
    assert len(names) == len(lines)
    for element in ("p", "svg", *(["div div > div"] if kind == "alone" else [])):
        bright = brightness(tab, element)
        background = float(np.median(bright))
        assert background > 200 if scheme == "light" else background < 60
        assert np.abs(bright - background).max() > 100  # letters and lines


@pytest.mark.browser
def test_a_card_tells_what_to_do(page: "Tab", alone: Result) -> None:
    text = shown(page, alone._repr_html_(), "light", 400).locator("body").inner_text()

    assert "training diverged" in text
    assert "lower training.learning_rate" in text


def test_names_are_shown_as_they_are_and_never_as_mark_up() -> None:
    html = svg_lines(lines_figure([Line(name="a < <b>", x=[0, 1], y=[0, 1])], x_title="x", y_title="y"))

    assert "a &lt; &lt;b&gt;</span>" in html


def test_a_comparison_shows_lines_over_rounds(both: ComparisonResult) -> None:
    html = both._repr_html_()

    assert "Accuracy over rounds. On the window, mean over clients." in html
    assert html.count("<polyline") == len(both.plan.variants) == 3
    assert html.count("<polygon") == 3
    assert "<script" not in html
