"""`fielding report` as users type it: pages, figures for a paper, and one line about what cannot be done."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.in_process import Command
from tests.reporting.run_folders import compared, round_rows, run_folder

CURVE = [0.1, 0.2, 0.3, 0.4]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return the command line, in a folder with a comparison and a single run."""
    monkeypatch.chdir(tmp_path)
    compared(tmp_path / "runs", {"global": {1: CURVE, 2: CURVE}, "fielding": {1: CURVE, 2: CURVE}})
    run_folder(tmp_path / "single", round_rows(CURVE))
    return Command(monkeypatch, capsys)


def test_the_page_goes_into_the_folder_that_it_is_about(command: Command, tmp_path: Path) -> None:
    assert command("report", "runs") == 0
    assert command.out == f"page:    {Path('runs') / 'report.html'}\n"
    assert (tmp_path / "runs" / "report.html").read_text().startswith("<!doctype html>")


def test_the_page_about_several_folders_goes_where_one_is(command: Command, tmp_path: Path) -> None:
    assert command("report", "runs/global-1", "runs/fielding-1") == 0
    assert "2 methods compared" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("out", ["new/deep/page.html", "single"])
def test_the_page_may_go_elsewhere(command: Command, tmp_path: Path, out: str) -> None:
    assert command("report", "runs", "--out", out, "--quiet") == 0
    assert (command.out, command.err) == ("", "")
    path = tmp_path / out
    assert (path if path.suffix else path / "report.html").exists()


def test_programs_get_the_figures(command: Command) -> None:
    assert command("report", "runs", "--json", "--reference", "fielding") == 0
    assert json.loads(command.out)["reference"] == "fielding"


def test_what_is_missing_is_noted_and_the_rest_is_drawn(command: Command, tmp_path: Path) -> None:
    (tmp_path / "single" / "clients.jsonl").unlink()
    with (tmp_path / "single" / "rounds.jsonl").open("a") as file:
        file.write("no round\n")

    assert command("report", "single") == 0
    assert "note: rounds.jsonl: 1 of 5 lines cannot be read\n" in command.err
    assert "note: clients.jsonl is missing\n" in command.err
    assert (tmp_path / "single" / "report.html").exists()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["none"], "none is no folder; give the folder of a run or of a comparison"),
        (["empty"], "empty holds no run"),
        (["runs", "--reference", "glboal"], "unknown reference 'glboal'; did you mean 'global'"),
        (["runs", "--export", "gif"], "figures cannot be exported as 'gif'; give png, pdf or svg"),
    ],
)
def test_wrong_use_is_one_line_and_nothing_is_written(
    command: Command, tmp_path: Path, typed: list[str], words: str
) -> None:
    (tmp_path / "empty").mkdir()

    assert words in command.refuses("report", *typed)
    assert not (tmp_path / "runs" / "report.html").exists()


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="nothing is read-only for this user")
def test_a_place_that_cannot_be_written_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for out in ("file/page.html", "/proc/page.html", "/proc/new/page.html"):
        said = command.refuses("report", "single", "--out", out, code=1)
        assert said.startswith(f"error: cannot write {out}: ")


def test_what_an_export_lacks_is_named_before_anything_is_read(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "kaleido", None)
        assert "run: pip install 'fielding[export]'" in command.refuses("report", "none", "--export", "png")
    pytest.importorskip("kaleido", reason="the extra export is not installed")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "apt-get install chromium" in command.refuses("report", "none", "--export", "pdf")


@pytest.mark.browser
def test_figures_for_a_paper_go_beside_the_page(command: Command, tmp_path: Path, chromium: str) -> None:
    pytest.importorskip("kaleido", reason="the extra export is not installed")

    assert command("report", "single", "--export", "png") == 0

    figures = sorted((tmp_path / "single" / "figures").iterdir())
    assert command.out.splitlines()[1] == f"figures: {Path('single') / 'figures'} ({len(figures)} files)"
    assert {path.read_bytes()[:4] for path in figures} == {b"\x89PNG"}
    assert {"accuracy-over-rounds.png", "head.png"} <= {path.name for path in figures}
