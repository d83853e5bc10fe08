"""Large runs: their page stays small enough to be sent around and quick to look at; times are printed, not asserted."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fielding.reporting.report_page import read_report, write_report
from tests.reporting.big_folder import Shape, big_folder
from tests.reporting.run_logs import DRAWN

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

MOST_BYTES = 15_000_000
# What the browser has drawn of what it shows at first; a frame later nothing is left to be begun.
IN_SIGHT = """async () => {
    const isInSight = (one) => one.getBoundingClientRect().top < innerHeight;
    const inSight = [...document.querySelectorAll(".figure")].filter(isInSight);
    while (inSight.some((one) => !one.querySelector(".main-svg"))) await new Promise(requestAnimationFrame);
    return performance.now();
}"""
ALL = "async () => { await window.fielding.drawAll(); return performance.now(); }"


def written(folder: Path, shape: Shape) -> tuple[Path, float]:
    """Write a run and the page about it; return the page and the seconds that reading and drawing took."""
    big_folder(folder / "run", shape)
    begun = time.perf_counter()
    page = write_report(*read_report([folder / "run"]), folder / "page.html")
    took = time.perf_counter() - begun
    assert [section.missing for section in page.sections if "cannot" in section.missing] == []
    assert list(page.notes) == []
    return folder / "page.html", took


@pytest.mark.slow
def test_the_page_about_5000_clients_and_400_rounds_is_under_15_mb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, took = written(tmp_path, Shape(n_clients=5000, n_rounds=400))

    size = path.stat().st_size
    with capsys.disabled():
        print(f"\n5,000 clients x 400 rounds: report in {took:.1f} s (aim: 20 s), {size / 1e6:.1f} MB")  # noqa: T201
    assert size < MOST_BYTES


@pytest.mark.browser
def test_1000_clients_and_2000_rounds_are_drawn(
    page: "Tab", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, took = written(tmp_path, Shape(n_clients=1000, n_rounds=2000))

    page.goto(path.as_uri())
    in_sight = page.evaluate(IN_SIGHT) / 1000
    everything = page.evaluate(ALL) / 1000

    size = path.stat().st_size / 1e6
    assert size < MOST_BYTES / 1e6
    with capsys.disabled():
        print(  # noqa: T201
            f"\n1,000 clients x 2,000 rounds: report in {took:.1f} s, {size:.1f} MB; drawn what is in sight after"
            f" {in_sight:.1f} s, everything after {everything:.1f} s (aim: 3 s)"
        )
    assert page.locator(DRAWN).count() == page.locator(".figure:visible").count() >= 11
