from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fielding.reporting.charts.figures import Line, lines_figure
from fielding.reporting.page import PARTS, Card, Frame, Page, Section, page_html, page_record
from tests.reporting.run_logs import DRAWN

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page as Tab

NARROW = 400
WIDTHS = ("scrollWidth", "clientWidth")
EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


def evil_page() -> str:
    figure = lines_figure([Line(name=EVIL, x=[0, 1], y=[0.5, 1.0], group=EVIL)], x_title=EVIL, y_title="y", events=[1])
    frames = [Frame(label=EVIL, traces=[{"y": [0, at]}]) for at in (1, 2)]
    return page_html(
        Page(
            title=EVIL,
            lead=EVIL,
            cards=[Card(name=EVIL, value=EVIL, note=EVIL, color=EVIL)],
            sections=[
                Section(title=EVIL, text=EVIL, figure=figure, frames=frames, missing=EVIL, group=EVIL),
                Section(title="table", table=[[EVIL], [EVIL]], row_groups=[EVIL], cards=[Card(name=EVIL, value=EVIL)]),
            ],
            groups={EVIL: "#0072B2", "other": "#0072B2"},
            notes=[EVIL],
            footer=EVIL,
        )
    )


def two_groups() -> Page:
    lines = [Line(name=name, x=[0, 1], y=[0, at], style=at, group=name) for at, name in enumerate(("ours", "theirs"))]
    figure = lines_figure(lines, x_title="round", y_title="accuracy")
    frames = [Frame(label=f"round {at}", traces=[{"y": [at, at]}, {}]) for at in range(3)]
    return Page(
        title="Two groups",
        lead="",
        cards=[Card(name="ours", value="1", group="ours"), Card(name="both", value="2")],
        sections=[
            Section(title="Curves", figure=figure),
            Section(title="Map", figure=figure, frames=frames, key="map"),
            Section(title="Table", table=[["method"], ["ours"], ["theirs"]], row_groups=["ours", "theirs"]),
            Section(title="Inside of ours", figure=figure, group="ours"),
            Section(title="Inside of theirs", figure=figure, group="theirs"),
            Section(title="Nothing", missing="no client was tested"),
        ],
        groups={"ours": "#0072B2", "theirs": "#E69F00"},
    )


def opened(tab: "Tab", folder: "Path", html: str) -> "Tab":
    (folder / "page.html").write_text(html)
    tab.goto((folder / "page.html").as_uri())
    tab.wait_for_selector("h1")
    tab.evaluate("window.fielding.drawAll()")
    return tab


def seen_traces(tab: "Tab", at: int) -> list[str]:
    """Return what a figure shows, by what was really drawn."""
    script = "at => [...document.querySelectorAll('.js-plotly-plot')[at].querySelectorAll('.scatterlayer .trace')]"
    names = ".map(trace => trace.__data__[0].trace.name)"
    return list(tab.evaluate(script + names, at))


def test_a_section_has_a_digest_that_changes_with_its_content_alone() -> None:
    first, again = (page_record(two_groups())["sections"] for _ in range(2))
    other = page_record(Page(title="", lead="", sections=[Section(title="Curves", text="new")]))["sections"]

    assert first == again
    assert isinstance(first, list)
    assert isinstance(other, list)
    assert other[0]["key"] == first[0]["key"] == "curves"  # type: ignore[index,call-overload]
    assert other[0]["digest"] != first[0]["digest"]  # type: ignore[index,call-overload]


def test_sections_of_the_same_title_are_told_apart() -> None:
    sections = page_record(Page(title="", lead="", sections=[Section(title="Totals")] * 3))["sections"]

    assert isinstance(sections, list)
    assert [one["key"] for one in sections if isinstance(one, dict)] == ["totals", "totals-2", "totals-3"]


def test_no_text_of_the_page_ends_its_record() -> None:
    record = evil_page().split('id="record">')[1].split("</script>")[0]

    assert "<" not in record
    assert record.endswith("}")


@pytest.mark.browser
def test_no_text_runs_as_a_script(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, evil_page())

    assert page.title() == EVIL
    assert page.locator(".card").count() == 2
    assert page.locator("td").inner_text() == EVIL
    assert page.locator("section p").inner_text() == EVIL
    assert page.locator(".notes li").inner_text() == EVIL
    assert page.locator("img").count() == 0
    assert page.locator(".xtitle").text_content() == EVIL


@pytest.mark.browser
def test_a_switch_takes_a_group_out_of_all_figures_tables_and_cards(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(two_groups()))
    before = [seen_traces(page, at) for at in range(2)]

    page.get_by_role("button", name="ours", exact=True).click()
    page.evaluate("window.fielding.drawAll()")

    assert before == [["ours", "theirs"], ["ours", "theirs"]]
    assert [seen_traces(page, at) for at in range(2)] == [["theirs"], ["theirs"]]
    assert page.locator("#table tbody tr:visible").all_inner_texts() == ["theirs"]
    assert page.locator(".card:visible").count() == 1
    page.get_by_role("button", name="ours", exact=True).click()
    page.evaluate("window.fielding.drawAll()")
    assert [seen_traces(page, at) for at in range(2)] == before


@pytest.mark.browser
def test_a_slider_shows_a_moment_and_begins_with_the_last(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(two_groups()))

    heights = [page.evaluate("document.querySelector('#map .js-plotly-plot').data[0].y")]
    said = [page.locator("#map output").inner_text()]
    page.locator("#map input").fill("0")
    page.evaluate("window.fielding.drawAll()")
    heights.append(page.evaluate("document.querySelector('#map .js-plotly-plot').data[0].y"))
    said.append(page.locator("#map output").inner_text())

    assert heights == [[2, 2], [0, 0]]
    assert said == ["round 2", "round 0"]


@pytest.mark.browser
def test_the_inside_of_one_group_is_shown_at_a_time(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(two_groups()))
    heads = [page.locator("section:visible h2").all_inner_texts()]

    page.locator("#inside").select_option("theirs")
    heads.append(page.locator("section:visible h2").all_inner_texts())

    assert [head[3] for head in heads] == ["Inside of ours ours", "Inside of theirs theirs"]
    assert [len(head) for head in heads] == [5, 5]


@pytest.mark.browser
def test_a_newer_record_changes_only_what_changed(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(two_groups()))
    record = page_record(two_groups())
    sections = record["sections"]
    assert isinstance(sections, list)
    newer = page_record(Page(title="", lead="", sections=[Section(title="Table", table=[["method"], ["newest"]])]))
    page.evaluate("document.querySelector('#curves').dataset.kept = 'yes'")

    page.evaluate("record => window.fielding.show(record)", {**record, "sections": [sections[0], *newer["sections"]]})  # type: ignore[misc]

    assert page.locator("#curves").get_attribute("data-kept") == "yes"
    assert page.locator("#table td").all_inner_texts() == ["newest"]
    assert page.locator("section").count() == 2
    assert page.locator(DRAWN).count() == 1


@pytest.mark.browser
def test_no_button_offers_to_upload_a_figure(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(two_groups()))

    titles = [button.get_attribute("data-title") or "" for button in page.locator(".modebar-btn").all()]
    assert "Pan" in titles
    assert [title for title in titles if any(word in title for word in ("hare", "loud", "tudio"))] == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_phones_and_both_color_schemes(page: "Tab", tmp_path: "Path", scheme: str, width: int) -> None:
    (tmp_path / "page.html").write_text(evil_page())

    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("h1")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(13, 17, 23)") == (scheme == "dark")


def in_parts() -> Page:
    """Return a page like one about runs: a sentence, small charts, parts, views and a table to copy."""
    lines = [Line(name=name, x=[0, 1], y=[0, at], style=at, group=name) for at, name in enumerate(("ours", "theirs"))]
    figure = lines_figure(lines, x_title="round", y_title="accuracy")
    views = [
        Section(title="Accuracy", text=f"{score} {axis}", figure=figure, words=(score, axis))
        for score, axis in (("window", "rounds"), ("window", "time"), ("next", "rounds"))
    ]
    table = [
        ["method", *[f"figure {at}" for at in range(12)]],
        *[[name, *["0.125 ± 0.250"] * 12] for name in ("ours", "theirs")],
    ]
    filler = Section(title="Words", text="words " * 2000)
    return Page(
        title="Two methods compared",
        lead="What was run.",
        sentence="ours +2.7 points over theirs.",
        highlights=[
            Section(title=f"Chart {at}", figure=figure, key=key) for at, key in enumerate(("accuracy", "b", "c"))
        ],
        sections=[
            Section(
                title="Results",
                table=table,
                copies={"LaTeX": "\\begin{tabular}", "Markdown": "| a | <b> |"},
                part="Result",
            ),
            Section(title="Accuracy", views=views, part="Result"),
            *[replace(filler, title=f"About {part}", part=part) for part in PARTS],
            Section(title="What this does not show", text="More."),
        ],
        groups={"ours": "#0072B2", "theirs": "#E69F00"},
    )


@pytest.mark.browser
def test_the_head_is_a_sentence_and_charts_side_by_side_that_lead_to_their_sections(
    page: "Tab", tmp_path: "Path"
) -> None:
    page.set_viewport_size({"width": 1366, "height": 900})
    opened(page, tmp_path, page_html(in_parts()))

    assert page.locator("#head .sentence").inner_text() == "ours +2.7 points over theirs."
    boxes: list[Any] = [one.bounding_box() for one in page.locator("#highlights section").all()]
    assert len({box["y"] for box in boxes}) == 1
    assert boxes[0]["y"] + boxes[0]["height"] < 900
    assert page.locator("#highlights a").all_inner_texts() == ["Chart 0"]
    assert page.locator("#highlights a").get_attribute("href") == "#accuracy"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1366, NARROW])
def test_the_contents_list_names_the_parts_stays_in_sight_and_marks_where_one_is(
    page: "Tab", tmp_path: "Path", width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, tmp_path, page_html(in_parts()))
    links = page.locator("#contents > li > a")

    assert links.all_inner_texts() == [*PARTS, "What this does not show"]
    assert page.locator("h2.part").all_inner_texts() == list(PARTS)
    for part in ("Cost", "Clients"):
        page.locator("#contents").get_by_role("link", name=part, exact=True).click()
        current = "[...document.querySelectorAll('#contents > li > a[aria-current]')].map(one => one.innerText).join()"
        page.wait_for_function(f"part => {current} === part", arg=part, polling=50)  # once it has scrolled there
        box, head = page.locator("#side").bounding_box(), page.locator(f"#part-{part.lower()}").bounding_box()
        assert box is not None
        assert head is not None
        assert 0 <= box["y"] < 60
        # The list never covers what it leads to, and on a phone it takes little of the height.
        assert head["y"] >= box["y"] + box["height"] - 1 if width == NARROW else head["x"] >= box["x"] + box["width"]
        assert width > NARROW or box["height"] < 100


@pytest.mark.browser
@pytest.mark.parametrize("width", [1366, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(page: "Tab", tmp_path: "Path", width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, tmp_path, page_html(in_parts()))

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width > NARROW:
        table, home = page.locator("#results table").bounding_box(), page.locator("#results").bounding_box()
        assert table is not None
        assert home is not None
        assert table["width"] >= home["width"] - 1


@pytest.mark.browser
def test_a_choice_of_views_shows_the_nearest_that_there_is(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(in_parts()))
    section = page.locator("#accuracy")

    said = [section.locator("p").inner_text()]
    for word in ("time", "next"):
        section.get_by_role("button", name=word, exact=True).click()
        said.append(section.locator("p").inner_text())

    assert said == ["window rounds", "window time", "next rounds"]
    pressed = [one.inner_text() for one in section.locator("button[aria-pressed=true]").all()]
    assert pressed == ["next", "rounds"]
    assert section.locator(DRAWN).count() == 1


@pytest.mark.browser
def test_the_legend_of_groups_is_the_list_of_switches_alone(page: "Tab", tmp_path: "Path") -> None:
    opened(page, tmp_path, page_html(in_parts()))

    assert page.locator(".js-plotly-plot .legend").count() == 0
    assert page.locator("button.switch").all_inner_texts() == ["ours", "theirs"]


@pytest.mark.browser
def test_buttons_copy_the_table(page: "Tab", tmp_path: "Path") -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, tmp_path, page_html(in_parts()))

    for form, words in (("LaTeX", "\\begin{tabular}"), ("Markdown", "| a | <b> |")):
        page.get_by_role("button", name=f"Copy {form}").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == words
        page.get_by_role("button", name=f"Copy {form}").wait_for()


@pytest.mark.browser
def test_without_a_clipboard_the_text_is_copied_in_the_old_way_or_shown_selected(page: "Tab", tmp_path: "Path") -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    opened(page, tmp_path, page_html(in_parts()))

    page.get_by_role("button", name="Copy Markdown").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.locator("textarea").count() == 0

    page.evaluate("document.execCommand = () => false")
    page.get_by_role("button", name="Copy LaTeX").click()
    page.get_by_role("button", name="Select and copy").wait_for()
    assert page.locator("textarea").input_value() == "\\begin{tabular}"
    assert page.evaluate("getSelection().toString() || document.activeElement.tagName") in (
        "\\begin{tabular}", "TEXTAREA",
    )  # fmt: skip


@pytest.mark.browser
def test_cells_of_many_words_wrap_on_a_phone_and_nothing_is_cut(page: "Tab", tmp_path: "Path") -> None:
    row = ["a figure with a long name", "some of these words", "and more of these words", "and many more of them"]
    html = page_html(Page(title="", lead="", sections=[Section(title="", table=[row, row])]))
    (tmp_path / "page.html").write_text(html)

    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())

    scrolled, shown = (page.evaluate(f"document.querySelector('.scroll').{name}") for name in WIDTHS)
    assert scrolled == shown


@pytest.mark.browser
def test_a_table_that_is_wider_than_a_phone_casts_a_shadow_where_it_goes_on(page: "Tab", tmp_path: "Path") -> None:
    words = ["unbreakable" * 2] * 4
    html = page_html(Page(title="", lead="", sections=[Section(title="", table=[words, *[words] * 9])]))
    (tmp_path / "page.html").write_text(html)

    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())

    scrolled, shown = (page.evaluate(f"document.querySelector('.scroll').{name}") for name in WIDTHS)
    assert scrolled > shown
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    assert edge_darkness(page) > 20
    page.evaluate("document.querySelector('.scroll').scrollLeft = 10000")
    assert edge_darkness(page) < 5


def edge_darkness(page: "Tab") -> int:
    """Return how much darker than the paper the right edge of a table is, between its words."""
    from io import BytesIO

    from PIL import Image

    image = Image.open(BytesIO(page.locator(".scroll").screenshot())).convert("L")
    column = [int(image.getpixel((image.width - 2, at))) for at in range(image.height)]  # type: ignore[arg-type]
    return 255 - sorted(column)[-len(column) // 4]
