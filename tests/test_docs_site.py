"""The docs as a site: it builds without a warning, asks the network for nothing, and can be searched from a folder."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fielding

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
REQUEST = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\ssrc="?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?![^>]*rel="?(?:canonical|prev|next))[^>]*\shref="?(?:https?:)?//[^>]*>"""
)
STYLE_REQUEST = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//[^)]*""")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with warnings, such as links that lead nowhere, as errors, and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(folder),
    ]  # --quiet undoes --strict
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize(
    "text",
    ['<script src="https://cdn.org/x.js">', '<link rel="stylesheet" href="//f.org/x">', "<img alt='' src=//x.y>"],
)
def test_the_pattern_of_requests_finds_them(text: str) -> None:
    assert REQUEST.search(text)


def test_no_page_asks_the_network_for_anything(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    asked = [f"{page.name}: {found[0]}" for page in pages for found in REQUEST.finditer(page.read_text("utf-8"))]
    sheets = sorted(site.rglob("*.css"))
    asked += [f"{sheet.name}: {found[0]}" for sheet in sheets for found in STYLE_REQUEST.finditer(sheet.read_text())]

    assert len(pages) > 80
    assert asked == []


def test_links_out_of_the_docs_lead_to_copies(site: Path) -> None:
    assert 'href="source/src/fielding/engine/round.py.txt"' in (site / "simulator.html").read_text("utf-8")
    assert (site / "source/src/fielding/engine/round.py.txt").is_file()


def test_every_public_name_is_on_the_page_of_the_api(site: Path) -> None:
    listed = re.findall(r"^::: fielding\.(\w+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    built = (site / "api.html").read_text("utf-8")

    assert sorted(listed) == sorted(set(fielding.__all__) - {"__version__"})
    assert [name for name in listed if f'id="fielding.{name}"' not in built] == []
    assert "Run an experiment." in built  # the docstring of run


def test_drawings_are_in_the_page(site: Path) -> None:
    drawn = re.findall(r'<svg [^>]*class="drawing"', (site / "concepts.html").read_text("utf-8"))

    assert len(drawn) == 4


def test_figures_of_the_paper_are_in_their_pages(site: Path) -> None:
    figures = sorted((ROOT / "docs" / "results" / "reproduce").glob("*.svg"))
    pages = [(site / "results" / "reproduce" / f"{figure.stem}.html").read_text("utf-8") for figure in figures]

    assert len(figures) == 17
    assert all(page.count('class="drawing plot"') == 1 for page in pages)


@pytest.mark.browser
def test_search_works_from_a_folder(site: Path, page: "Page") -> None:
    page.goto((site / "index.html").as_uri())
    page.fill("[data-md-component=search-query]", "hysteresis")

    page.wait_for_selector(".md-search-result__item a", state="attached")
    assert "hysteresis" in page.inner_text(".md-search-result__list").lower()
