import shutil
from pathlib import Path
from typing import Any

import pytest

from fielding.errors import InputError, OptionError, OutputError
from fielding.reporting import exporting
from fielding.reporting.charts.figures import Line, lines_figure, zoom
from fielding.reporting.exporting import export_figures, export_head, for_paper
from fielding.reporting.page import Frame, Page, Section, page_html

FIGURE = lines_figure([Line(name="ours", x=[0.0, 1.0], y=[5.0, 6.0])], x_title="round", y_title="accuracy")
PAGE = Page(title="", lead="", sections=[Section(title="Accuracy over rounds", figure=FIGURE), Section(title="Words")])


@pytest.mark.browser
@pytest.mark.parametrize(("form", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<svg")])
def test_every_figure_becomes_a_file(tmp_path: Path, chromium: str, form: str, magic: bytes) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")

    (path,) = export_figures(PAGE, tmp_path / "figures", form)

    assert path == tmp_path / "figures" / f"accuracy-over-rounds.{form}"
    assert path.read_bytes().startswith(magic)


@pytest.mark.browser
def test_the_head_of_a_page_becomes_a_picture_in_light_colours(tmp_path: Path, chromium: str) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")
    from PIL import Image

    charts = [Section(title=f"Chart {at}", figure=FIGURE, key=f"chart-{at}") for at in range(3)]
    words = Section(title="Words", text="words " * 3000)
    page = Page(title="A run", lead="lead", sentence="It went well.", highlights=charts, sections=[words])
    (tmp_path / "page.html").write_text(page_html(page))

    path = export_head(tmp_path / "page.html", tmp_path / "figures" / "head.png")

    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    # Twice the size of a screen, charts side by side, and nothing of what is below them.
    assert 2000 < width < 2400
    assert height < 0.5 * width
    assert picture.getpixel((4, 4)) == (255, 255, 255)
    assert len(picture.getcolors(1 << 24) or ()) > 50


def test_a_page_that_cannot_be_opened_gives_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_address: str) -> bytes:
        raise TimeoutError("it was not drawn after 60 seconds")

    monkeypatch.setattr(exporting, "load_exporter", lambda _form: None)
    monkeypatch.setattr(exporting, "_photograph", fail)

    with pytest.raises(OutputError, match="cannot draw the head of the page: it was not drawn"):
        export_head(tmp_path / "page.html", tmp_path / "head.png")
    assert list(tmp_path.iterdir()) == []


def test_views_of_a_section_have_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = [Section(title="Loss", figure=FIGURE, words=("mean", word)) for word in ("in testing", "in training")]
    monkeypatch.setattr(exporting, "load_exporter", lambda _form: Drawer())

    paths = export_figures(Page(title="", lead="", sections=[Section(title="Loss", views=views)]), tmp_path, "png")

    assert [path.name for path in paths] == ["loss-in-testing.png", "loss-in-training.png"]


def test_a_figure_for_a_paper_is_black_on_white_and_the_page_keeps_its_own() -> None:
    layout = for_paper(FIGURE)["layout"]

    assert (layout["paper_bgcolor"], layout["font"]["color"]) == ("#ffffff", "#000000")
    assert FIGURE["layout"]["paper_bgcolor"] == "rgba(0,0,0,0)"


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot be exported as 'gif'; give png, pdf or svg"):
        export_figures(PAGE, tmp_path, "gif")


def test_a_missing_browser_is_named_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(OptionError, match="apt-get install chromium"):
        export_figures(PAGE, tmp_path, "png")


def test_a_missing_package_is_named_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(_extra: str) -> None:
        raise OptionError("kaleido is not installed; run: pip install 'fielding[export]'")

    monkeypatch.setattr(exporting, "require", lacks)

    with pytest.raises(OptionError, match=r"fielding\[export\]"):
        export_figures(PAGE, tmp_path, "png")
    assert list(tmp_path.iterdir()) == []


def test_a_page_without_figures_is_refused(tmp_path: Path, chromium: str) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")

    with pytest.raises(InputError, match="no figure"):
        export_figures(Page(title="", lead=""), tmp_path, "png")


class Drawer:
    """Stands for the package that draws: writes something for each figure and keeps what it was given."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    def write_fig_from_object_sync(self, jobs: list[dict[str, Any]], **_options: object) -> list[str]:
        self.jobs += jobs
        for job in jobs:
            job["path"].write_bytes(b"drawn")
        return []


def test_a_figure_with_a_slider_shows_its_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [Frame(label=f"round {at}", traces=[{"y": [at, at]}]) for at in range(3)]
    page = Page(title="", lead="", sections=[Section(title="Map", figure=FIGURE, frames=frames)])
    drawer = Drawer()
    monkeypatch.setattr(exporting, "load_exporter", lambda _form: drawer)

    export_figures(page, tmp_path, "png")

    (trace,) = drawer.jobs[0]["fig"]["data"]
    assert (trace["y"], trace["x"]) == ([2, 2], [0.0, 1.0])


def test_figures_of_groups_with_names_of_any_signs_and_length_have_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ("tau=1/6", "tau=1.6", "../../etc/passwd", "x" * 500, "馬", "牛", None)
    page = Page(title="", lead="", sections=[Section(title="Map", figure=FIGURE, group=group) for group in groups])
    monkeypatch.setattr(exporting, "load_exporter", lambda _form: Drawer())

    paths = export_figures(page, tmp_path / "figures", "pdf")

    assert len(set(paths)) == len(groups)
    assert sorted((tmp_path / "figures").iterdir()) == sorted(paths)


def test_a_figure_for_a_paper_shows_all_that_a_zoomed_one_hides() -> None:
    layout = for_paper(zoom(FIGURE, 0.4, 0.6))["layout"]

    assert layout["yaxis"]["range"] is None
    assert layout["paper_bgcolor"] == "#ffffff"
    assert zoom(FIGURE, 0.4, 0.6)["layout"]["yaxis"]["range"] == [0.4, 0.6]
