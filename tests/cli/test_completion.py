"""What a shell completes, asked as a shell asks; and names that may be written in more than one way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fielding import __version__
from fielding.config.reader import config_from
from fielding.errors import OptionError
from tests.cli.in_process import CONFIG, Command
from tests.cli.invoke import fielding
from tests.comparing.forked import forked_runs as forked_runs

pytestmark = pytest.mark.usefixtures("forked_runs")


def completed(*words: str) -> list[str]:
    """Return what bash is told to offer for the last word."""
    asked = {
        "_FIELDING_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("fielding", *words)),
        "COMP_CWORD": str(len(words)),
    }
    return fielding(env=asked).stdout.split()


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (("compare", "c.toml", "--methods", "fielding,fl"), ["fielding,flash", "fielding,flexcfl"]),
        (("compare", "c.toml", "--methods", "feda"), ["fedac", "fedavg"]),
        (("run", "c.toml", "--set", "coordinator.tr"), ["coordinator.trigger="]),
        (("data", "info", "fash"), ["fashion_mnist"]),
        (("data", "fetch", "cif"), ["cifar100"]),
        (("methods", "if"), ["ifca"]),
        (("new", "--example", "dig"), ["digits_auto", "digits_places"]),
    ],
)
def test_the_shell_knows_methods_data_sets_keys_and_examples(words: tuple[str, ...], offers: list[str]) -> None:
    assert completed(*words) == offers


@pytest.mark.parametrize("name", ["global", "Global", "FedAvg", "fedavg", "FEDAVG"])
def test_methods_are_known_in_capitals_and_by_their_other_names(name: str) -> None:
    assert config_from({"method": {"name": name}}).method.name == "global"


def test_other_names_of_a_config_may_be_in_capitals_too() -> None:
    config = config_from({"aggregation": {"name": "FedYogi"}, "training": {"trainer": "NumPy"}})

    assert (config.aggregation.name, config.training.trainer) == ("fedyogi", "numpy")
    with pytest.raises(OptionError, match="unknown name 'FedAverage'"):
        config_from({"method": {"name": "FedAverage"}})


def test_commands_take_methods_as_papers_write_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(CONFIG)
    fielding = Command(monkeypatch, capsys)

    assert fielding("methods", "FedAvg", "--json") == 0
    assert json.loads(fielding.out)["name"] == "global"
    options = ("--methods", "FedAvg,IFCA", "--seeds", "1", "--jobs", "1", "--no-page", "--out", "out", "--json")
    assert fielding("compare", "small.toml", *options, "--reference", "FedAvg") == 0, fielding.err
    assert list(json.loads(fielding.out)["methods"]) == ["global", "ifca"]


def test_the_package_is_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", "fielding", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"fielding {__version__}\n"
