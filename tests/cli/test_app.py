import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from fielding import __version__
from fielding.cli import main
from fielding.config.rules import parse_factor
from fielding.errors import OptionError
from tests.cli.invoke import assert_one_line_error, fielding


@pytest.mark.parametrize(
    "command", [[], ["replay"], ["run"], ["demo"], ["show"], ["data"], ["data", "info"], ["bench"]]
)
def test_every_command_helps(command: list[str]) -> None:
    done = fielding(*command, "--help")

    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_help_says_what_arguments_are() -> None:
    assert "The folder of a run, the ledger of a device" in fielding("privacy", "--help").stdout


def test_benchmarks_are_named_and_not_run() -> None:
    for arguments in ([], ["coordinator", "--repeat", "1"]):
        assert_one_line_error(fielding("bench", *arguments), "make bench")


def test_the_version_is_told() -> None:
    assert fielding("--version").stdout == f"fielding {__version__}\n"


@pytest.mark.parametrize("arguments", [["replya"], ["replay"], ["replay", "x"], ["replay", "x", "--out", "y", "--no"]])
def test_wrong_use_exits_with_2_and_no_traceback(arguments: list[str]) -> None:
    done = fielding(*arguments)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [["run", "c.toml"], ["replay", "r.npz"], ["compare", "c.toml"], ["demo"], ["report", "r"], ["new", "d.csv"]],
)
def test_an_empty_place_to_write_is_wrong_use(tmp_path: Path, words: list[str]) -> None:
    done = fielding(*words, "--out", "", cwd=tmp_path)

    assert done.returncode == 2
    assert "--out is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_factors_are_numbers_fractions_or_infinity() -> None:
    assert [parse_factor(text) for text in ("0.5", "1/8", " inf ")] == [0.5, 0.125, float("inf")]
    for text in ("", "1/0", "a third", "nan"):
        with pytest.raises(OptionError, match="is not a number"):
            parse_factor(text)


@pytest.mark.parametrize(("words", "near"), [(["runn"], "run"), (["data", "infoo"], "info")])
def test_the_nearest_command_is_named_once(words: list[str], near: str) -> None:
    done = fielding(*words)

    assert done.returncode == 2
    assert done.stderr.count(f"Did you mean '{near}'?") == 1


def test_an_interrupt_while_commands_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def __getattr__(self, _name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "fielding.cli.app", cast(ModuleType, Interrupted()))

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "stopped\n")


def test_help_is_wrapped_where_the_terminal_ends_and_says_what_a_config_is() -> None:
    lines = [line.strip() for line in fielding("run", "--help").stdout.splitlines()]

    assert "CONFIG is a TOML file; docs/config.md lists all keys." in lines
    written = next(at for at, line in enumerate(lines) if line.startswith("Writes config.toml"))
    assert all(len(line) > 80 for line in lines[written : written + 2]), "a line is broken where its source is"
