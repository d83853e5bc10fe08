import json
from pathlib import Path

import pytest

from fielding.methods import METHODS, method_options
from tests.cli.in_process import Command

OWN = '''
from fielding.methods.global_model import GlobalModel


class Mine(GlobalModel):
    """Keep one model, and an eye on it.

    Parameters
    ----------
    setting
        What it is made of.
    eye, ear
        How closely
        to look.
    """

    sends = "its regards"

    def __init__(self, setting, *, eye: float = 0.5, ear: bool = True) -> None:
        super().__init__(setting)


class Restless(Mine):
    def learn(self, updates) -> None:
        self._cluster_models.models = self._cluster_models.models + 1


class Faulty(Mine):
    def plan(self, clients):
        raise RuntimeError("out\\nof order")
'''


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    (tmp_path / "mine_and_only_mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # taken back afterwards, unlike the path of the command
    monkeypatch.setenv("NO_COLOR", "1")
    return Command(monkeypatch, capsys)


def test_the_table_tells_every_method_and_its_options(command: Command) -> None:
    assert command("methods") == 0

    lines = command.out.splitlines()
    names = [line.split()[0] for line in lines[1:-1] if line and not line.startswith(" ")]
    assert names == list(METHODS)
    assert "eta 0.01, beta1 0.9" in command.out
    assert "a representation of the window, once" in command.out


def test_the_list_is_there_for_programs(command: Command) -> None:
    assert command("methods", "--json") == 0

    told = {one["name"]: one for one in json.loads(command.out)}
    assert list(told) == list(METHODS)
    assert told["selected"]["hears"] == "participants"
    assert told["fielding"]["sends"] == METHODS["fielding"].sends
    assert set(told["flash"]["options"]) == set(method_options(METHODS["flash"]))
    assert all(one["summary"] for one in told.values())


def test_one_method_is_told_in_full(command: Command) -> None:
    assert command("methods", "flash") == 0

    assert "hears: no reports" in command.out
    assert "  eta = 0.01  The server's learning rate." in command.out.splitlines()
    assert command("methods", "oracle") == 0
    assert "options: none" in command.out
    assert command("methods", "flash", "--json") == 0
    assert json.loads(command.out)["options"]["beta2"] == 0.99


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_told_of(command: Command, name: str) -> None:
    assert command("methods", name) == 0
    assert METHODS[name].summary in command.out


def test_a_method_of_ones_own_is_told_of_and_checked(command: Command) -> None:
    assert command("methods", "mine_and_only_mine:Mine") == 0
    assert command.out.splitlines() == [
        "mine_and_only_mine:Mine: Keep one model, and an eye on it.",
        "sends beside models: its regards",
        "hears: no reports",
        "options:",
        "  eye = 0.5  How closely to look.",
        "  ear = true  How closely to look.",
    ]

    assert command("methods", "mine_and_only_mine:Mine", "--check", "--set", "eye=0.1") == 0
    assert command.out == "mine_and_only_mine:Mine passed all checks\n"
    assert "mine_and_only_mine:Mine is resumable" in command.err.splitlines()
    assert command("methods", "mine_and_only_mine:Mine", "--check", "--quiet") == 0
    assert (command.out, command.err) == ("", "")


def test_a_method_that_fails_a_check_is_an_error_of_one_line(command: Command) -> None:
    assert command("methods", "mine_and_only_mine:Restless", "--check", "--quiet") == 1
    assert command.err.count("\n") == 1
    assert "Restless is not calm when nobody answers: a model changed in round 0" in command.err

    assert command("methods", "mine_and_only_mine:Faulty", "--check", "--quiet") == 1
    assert command.err == ("error: mine_and_only_mine:Faulty is not honest: it fails with RuntimeError: out of order\n")


def test_wrong_use_is_refused_in_one_line(command: Command) -> None:
    assert "did you mean 'fielding'" in command.refuses("methods", "fieldin")
    assert "need the name of a method" in command.refuses("methods", "--check")
    assert "eye" in command.refuses("methods", "mine_and_only_mine:Mine", "--check", "--set", "ey=1")
    assert "says nothing" in command.refuses("methods", "mine_and_only_mine:Mine", "--check", "--set", "eye")
    assert "no module 'nowhere'" in command.refuses("methods", "nowhere:Mine")
    assert "need --check" in command.refuses("methods", "flash", "--set", "eta=1")
