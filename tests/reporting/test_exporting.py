import shutil
from pathlib import Path

import pytest

from fielding.errors import InputError, OptionError
from fielding.reporting import exporting
from fielding.reporting.exporting import exported, for_paper
from fielding.reporting.figures import Line, lines_figure
from fielding.reporting.page import Page, Section

FIGURE = lines_figure([Line(name="ours", x=[0.0, 1.0], y=[5.0, 6.0])], x_title="round", y_title="accuracy")
PAGE = Page(title="", lead="", sections=[Section(title="Accuracy over rounds", figure=FIGURE), Section(title="Words")])


@pytest.mark.browser
@pytest.mark.parametrize(("form", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_every_figure_becomes_a_file(tmp_path: Path, chromium: str, form: str, magic: bytes) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")

    (path,) = exported(PAGE, tmp_path / "figures", form)

    assert path == tmp_path / "figures" / f"accuracy-over-rounds.{form}"
    assert path.read_bytes().startswith(magic)


def test_a_figure_for_a_paper_is_black_on_white_and_the_page_keeps_its_own() -> None:
    layout = for_paper(FIGURE)["layout"]

    assert (layout["paper_bgcolor"], layout["font"]["color"]) == ("#ffffff", "#000000")
    assert FIGURE["layout"]["paper_bgcolor"] == "rgba(0,0,0,0)"


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot be exported as 'gif'; give png or pdf"):
        exported(PAGE, tmp_path, "gif")


def test_a_missing_browser_is_named_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(OptionError, match="apt-get install chromium"):
        exported(PAGE, tmp_path, "png")


def test_a_missing_package_is_named_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(_extra: str) -> None:
        raise OptionError("kaleido is not installed; run: pip install 'fielding[export]'")

    monkeypatch.setattr(exporting, "require", lacks)

    with pytest.raises(OptionError, match=r"fielding\[export\]"):
        exported(PAGE, tmp_path, "png")
    assert list(tmp_path.iterdir()) == []


def test_a_page_without_figures_is_refused(tmp_path: Path, chromium: str) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")

    with pytest.raises(InputError, match="no figure"):
        exported(Page(title="", lead=""), tmp_path, "png")
