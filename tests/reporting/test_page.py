from html import unescape
from typing import TYPE_CHECKING

import pytest

from fielding.reporting.figures import Line, lines_figure
from fielding.reporting.page import Card, Section, page_html

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

NARROW = 400
WIDTHS = ("scrollWidth", "clientWidth")
EVIL = "<script>document.title='taken'</script>"


def evil_page() -> str:
    figure = lines_figure([Line(name=EVIL, x=[0, 1], y=[0.5, 1.0])], x_title=EVIL, y_title="y", events=[1])
    return page_html(
        EVIL,
        EVIL,
        cards=[Card(name=EVIL, value=EVIL, note=EVIL)],
        sections=[Section(title=EVIL, text=EVIL, figure=figure), Section(title="table", table=[[EVIL], [EVIL]])],
        footer=EVIL,
    )


def test_texts_are_escaped() -> None:
    html = evil_page()
    outside_library = html.split("</style>")[1].split("<body>")[1]

    assert EVIL not in outside_library
    assert EVIL in unescape(outside_library)


@pytest.mark.browser
def test_no_text_runs_as_a_script(page: "Page", tmp_path: "Path") -> None:
    (tmp_path / "page.html").write_text(evil_page())

    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector(".js-plotly-plot .main-svg")

    assert page.title() == EVIL
    assert page.locator(".card").count() == 1
    assert page.locator("td").inner_text() == EVIL


@pytest.mark.browser
def test_no_button_offers_to_upload_a_figure(page: "Page", tmp_path: "Path") -> None:
    (tmp_path / "page.html").write_text(evil_page())

    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector(".js-plotly-plot .main-svg")

    titles = [button.get_attribute("data-title") or "" for button in page.locator(".modebar-btn").all()]
    assert "Pan" in titles
    assert [title for title in titles if any(word in title for word in ("hare", "loud", "tudio"))] == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_phones_and_both_color_schemes(page: "Page", tmp_path: "Path", scheme: str, width: int) -> None:
    (tmp_path / "page.html").write_text(evil_page())

    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector(".js-plotly-plot .main-svg")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(13, 17, 23)") == (scheme == "dark")


@pytest.mark.browser
def test_cells_of_many_words_wrap_on_a_phone_and_nothing_is_cut(page: "Page", tmp_path: "Path") -> None:
    row = ["a figure with a long name", "some of these words", "and more of these words", "and many more of them"]
    html = page_html("", "", cards=[], sections=[Section(title="", table=[row, row])])
    (tmp_path / "page.html").write_text(html)

    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())

    scrolled, shown = (page.evaluate(f"document.querySelector('.scroll').{name}") for name in WIDTHS)
    assert scrolled == shown


@pytest.mark.browser
def test_a_table_that_is_wider_than_a_phone_casts_a_shadow_where_it_goes_on(page: "Page", tmp_path: "Path") -> None:
    words = ["unbreakable" * 2] * 4
    html = page_html("", "", cards=[], sections=[Section(title="", table=[words, *[words] * 9])])
    (tmp_path / "page.html").write_text(html)

    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())

    scrolled, shown = (page.evaluate(f"document.querySelector('.scroll').{name}") for name in WIDTHS)
    assert scrolled > shown
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    assert edge_darkness(page) > 20
    page.evaluate("document.querySelector('.scroll').scrollLeft = 10000")
    assert edge_darkness(page) < 5


def edge_darkness(page: "Page") -> int:
    """Return how much darker than the paper the right edge of a table is, between its words."""
    from io import BytesIO

    from PIL import Image

    image = Image.open(BytesIO(page.locator(".scroll").screenshot())).convert("L")
    column = [int(image.getpixel((image.width - 2, at))) for at in range(image.height)]  # type: ignore[arg-type]
    return 255 - sorted(column)[-len(column) // 4]
