"""The example of a method of one's own is short, runs from a config, and passes the checks that it tells of."""

import subprocess
import sys
from pathlib import Path

import pytest

from fielding.conformance.method_checks import CHECKS, check_method

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def started_there(*arguments: str) -> str:
    """Return what a command prints that is started in the folder of the examples."""
    done = subprocess.run([sys.executable, *arguments], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_has_fewer_than_seventy_lines() -> None:
    assert len((EXAMPLES / "own_method.py").read_text().splitlines()) < 70


def test_a_config_names_it(tmp_path: Path) -> None:
    command = "from fielding.cli import main; main()"
    started_there(
        "-c",
        command,
        "run",
        "configs/own_method.toml",
        "--no-page",
        "--out",
        str(tmp_path / "run"),
        "--set",
        "rounds=3",
    )

    assert 'name = "own_method:MostFrequentLabel"' in (tmp_path / "run" / "config.toml").read_text()
    assert len((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()) == 3


def test_it_passes_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    passed: list[str] = []

    check_method("own_method:MostFrequentLabel", {"groups": 2}, on_check=passed.append)

    assert passed == list(CHECKS)
