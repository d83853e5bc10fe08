import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.invoke import CODE, assert_one_line_error, fielding, start_fielding
from tests.comparing.forked import FORKING
from tests.comparing.test_demo import SMALL

SMALLER = f"from fielding.comparing.demo import SETTINGS; SETTINGS.update({ {**SMALL, 'rounds': 24}!r})\n"


def demo(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Return what the demo says on one seed, with fewer clients and rounds."""
    return fielding("demo", "--out", folder, "--seeds", "1", *more, code=SMALLER + FORKING)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """Return the folder of a demo that was asked to stop after some rounds, its exit code, and its last words."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    running = start_fielding("demo", "--out", folder, "--seeds", "1", code=SMALLER + CODE)
    log = folder / "fielding-1" / "checkpoints"
    until = time.monotonic() + 60
    while running.poll() is None and time.monotonic() < until and not list(log.glob("*.ckpt")):
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    return folder, running.returncode, said


def test_a_signal_stops_the_demo_cleanly_and_it_says_how_to_go_on(stopped: tuple[Path, int, str]) -> None:
    folder, code, said = stopped

    assert code == 143
    assert said.splitlines()[-1].endswith(f"fielding demo --out {folder} --seeds 1")
    assert "Traceback" not in said
    assert not (folder / "summary.json").exists()


def test_the_same_command_goes_on_where_it_stopped_and_tells_the_result(stopped: tuple[Path, int, str]) -> None:
    folder, _, _ = stopped
    log = folder / "fielding-1" / "rounds.jsonl"
    before = log.read_bytes()

    again = demo(folder)
    told = again.stdout

    assert again.returncode == 0, again.stderr
    assert log.read_bytes().startswith(before)
    heads = [line.split() for line in told.splitlines()[:4]]
    assert heads[0] == ["method", "auto", "fielding", "moves", "static", "global"]
    assert [words[:-5] for words in heads[1:]] == [["final", "accuracy"], ["newest"], ["next"]]
    assert "minus global" in told
    assert f"page:    {folder / 'report.html'}" in told
    assert json.loads(demo(folder, "--json").stdout) == json.loads((folder / "summary.json").read_text())


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")

    assert_one_line_error(fielding("demo", "--out", tmp_path), str(tmp_path))
