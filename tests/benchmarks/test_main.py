import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as commands
from benchmarks.__main__ import hidden_sizes
from benchmarks.traffic import ratio_of
from fielding._extras import EXTRAS
from fielding.cli.app import run_app
from fielding.errors import OptionError
from tests.benchmarks.exchange_logs import cost
from tests.cli.in_process import Command
from tests.cli.invoke import assert_one_line_error, benchmarks


def test_sizes_are_named_by_hidden_units() -> None:
    assert hidden_sizes("64") == [64]
    for wrong in ("", "64,64", "0", "many", "64,,5", "99999999999"):
        with pytest.raises(OptionError, match="give different numbers from 1 to 10000000, as 64,13333"):
            hidden_sizes(wrong)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return the command line, with figures made by hand in the place of a federation."""

    def compared(nodes: int, rounds: int, sizes: list[int], *, repeat: int, quiet: bool) -> dict[str, Any]:
        ours, peer = cost("Fielding"), cost("FedAvg")
        return {
            "nodes": nodes,
            "rounds": rounds,
            "repeat": repeat,
            "costs": [asdict(ours), asdict(peer)],
            "ratios": [asdict(ratio_of(ours, peer))],
        }

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "_compare_deployments", compared)
    monkeypatch.setattr("fielding._extras.require", lambda _extra: None)
    return Command(monkeypatch, capsys, partial(run_app, commands.app))


def test_the_command_prints_tables_and_json(command: Command) -> None:
    assert command("flower", "--nodes", "3") == 0
    assert "6 rounds on 3 nodes" in command.out
    assert "Fielding / FedAvg" in command.out

    assert command("flower", "--json") == 0
    assert json.loads(command.out)["ratios"][0]["flower_bytes"] == 1.0


def test_the_json_may_go_to_a_file(command: Command, tmp_path: Path) -> None:
    assert command("flower", "--out", "figures.json", "--quiet") == 0

    assert command.out == ""
    assert json.loads((tmp_path / "figures.json").read_text())["nodes"] == 4
    assert "cannot write no-such" in command.refuses("flower", "--out", "no-such/figures.json", code=1)


def test_ctrl_c_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_compare_deployments", interrupted)

    assert command("flower") == 130
    assert command.err == "stopped, and all that was started with it\n"


def test_the_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(EXTRAS, "flower", "no_such_flwr")

    assert "pip install 'fielding[flower]'" in Command(monkeypatch, capsys, partial(run_app, commands.app)).refuses(
        "flower"
    )


def test_wrong_use_of_the_command_is_named() -> None:
    assert_one_line_error(benchmarks("flower", "--hidden", "many"), "--hidden is 'many'")
