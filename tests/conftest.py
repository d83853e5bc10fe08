"""What all tests share: property-test profiles, the data folder, a browser, and no silent skips in CI."""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

ROOT = Path(__file__).resolve().parent.parent

# New examples each time; CI gives a seed of the commit and prints it. Else hypothesis would take the same ones there.
settings.register_profile("default", max_examples=20, deadline=None, derandomize=False)
settings.register_profile(
    "slow",
    max_examples=1000,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Register what must reach the doctests of ``src`` and the README too: this file alone rules ``tests`` only."""
    config.pluginmanager.register(DoctestNames(), "doctest-names")
    if os.environ.get("FIELDING_FAIL_ON_SKIP", "0") not in ("", "0"):
        config.pluginmanager.register(SkipsFail(), "skips-fail")


def pytest_collection_finish() -> None:
    """Set aside all that tests and imports made: else the garbage collector goes over it again and again."""
    gc.collect()
    gc.freeze()


class DoctestNames:
    """Names that examples may use without importing them."""

    @pytest.fixture(autouse=True)
    def _names(self, doctest_namespace: dict[str, object]) -> None:
        doctest_namespace["np"] = np


class SkipsFail:
    """Turns every skipped test or module into a failure; expected failures stay what they are."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if not hasattr(report, "wasxfail"):
            _fail_if_skipped(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        _fail_if_skipped(report)
        return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} (a failure, because FIELDING_FAIL_ON_SKIP is set)"


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Let no test wait for the disk: a small run syncs a hundred times, and that takes longer than all else it does.

    What must reach the disk is proved by tests that put their own function there, and by processes of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real traces: the one that FIELDING_DATA names, else ``../shared/data``."""
    folder = Path(os.environ.get("FIELDING_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real traces in {folder}; name their folder with FIELDING_DATA")
    return folder


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of the installed Chromium."""
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here; install it (Debian: apt-get install chromium fonts-liberation)")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["Browser"]:
    """Start a browser for the tests of one file; while it runs, its thread cannot run another event loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
        yield running
        running.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """Open an empty page; the test fails if the page calls out, logs an error or throws one."""
    context = browser.new_context()
    complaints: list[str] = []

    def keep_inside(route: "Route", request: "Request") -> None:
        if is_inside(request.url):
            route.continue_()
        else:
            complaints.append(f"asks for {request.url}")
            route.abort()

    context.route("**/*", keep_inside)
    opened = context.new_page()
    opened.on("pageerror", lambda error: complaints.append(f"throws {error}"))
    opened.on("console", lambda said: complaints.append(f"logs {said.text}") if said.type == "error" else None)
    yield opened
    context.close()
    if complaints:
        pytest.fail("the page " + "; ".join(complaints), pytrace=False)


def is_inside(url: str) -> bool:
    """Return whether a page may ask for this address: its own files, itself, and servers on this machine."""
    parts = urlsplit(url)
    return parts.scheme in ("file", "data", "blob", "about") or parts.hostname == "127.0.0.1"
