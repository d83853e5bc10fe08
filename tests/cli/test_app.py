import pytest

from fielding import __version__
from fielding.engine.factors import parse_factor
from fielding.errors import OptionError
from tests.cli.invoke import fielding


@pytest.mark.parametrize(
    "command", [[], ["replay"], ["run"], ["demo"], ["show"], ["data"], ["data", "info"], ["bench"]]
)
def test_every_command_helps(command: list[str]) -> None:
    done = fielding(*command, "--help")

    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_the_version_is_told() -> None:
    assert fielding("--version").stdout == f"fielding {__version__}\n"


@pytest.mark.parametrize("arguments", [["replya"], ["replay"], ["replay", "x"], ["replay", "x", "--out", "y", "--no"]])
def test_wrong_use_exits_with_2_and_no_traceback(arguments: list[str]) -> None:
    done = fielding(*arguments)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_factors_are_numbers_fractions_or_infinity() -> None:
    assert [parse_factor(text) for text in ("0.5", "1/8", " inf ")] == [0.5, 0.125, float("inf")]
    for text in ("", "1/0", "a third", "nan"):
        with pytest.raises(OptionError, match="is not a number"):
            parse_factor(text)
