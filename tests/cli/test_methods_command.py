import json
import sys
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


class Picky(Mine):
    def __init__(self, setting, *, eye: float = 0.5) -> None:
        if eye > 1:
            raise ValueError("eye must be at most 1")
        super().__init__(setting, eye=round(eye, int("two" if eye < 0 else 2)))


class Unready(Mine):
    def __init__(self, setting) -> None:
        setting.nothing


class Alone:
    def __init__(self) -> None:
        pass
'''


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    (tmp_path / "mine_and_only_mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_and_only_mine", raising=False)  # of the test before
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
    assert command.err == (
        "error: mine_and_only_mine:Faulty fails with RuntimeError: out of order "
        "(mine_and_only_mine.py, line 30; in the check: honest)\n"
    )
    assert command("methods", "mine_and_only_mine:Unready", "--check", "--quiet") == 1
    assert command.err.count("\n") == 1
    assert "(mine_and_only_mine.py, line 42; when it is made)" in command.err


def test_what_a_constructor_refuses_is_one_line_with_its_place(command: Command) -> None:
    picky = ("methods", "mine_and_only_mine:Picky", "--check", "--set")
    assert command.refuses(*picky, "eye=7") == "error: method: eye must be at most 1 (mine_and_only_mine.py, line 36)\n"
    assert "invalid literal for int()" in command.refuses(*picky, "eye=-1")
    assert "line 37)" in command.err
    assert "takes 1 positional argument but 2 were given" in command.refuses(
        "methods", "mine_and_only_mine:Alone", "--check"
    )


def test_a_run_tells_what_a_constructor_refuses_in_one_line(command: Command) -> None:
    Path("mine.toml").write_text('rounds = 2\n[method]\nname = "mine_and_only_mine:Picky"\neye = 7\n')

    assert "eye must be at most 1 (mine_and_only_mine.py, line 36)" in command.refuses("run", "mine.toml")


def test_wrong_use_is_refused_in_one_line(command: Command) -> None:
    assert "did you mean 'fielding'" in command.refuses("methods", "fieldin")
    assert "need the name of a method" in command.refuses("methods", "--check")
    assert "eye" in command.refuses("methods", "mine_and_only_mine:Mine", "--check", "--set", "ey=1")
    assert "says nothing" in command.refuses("methods", "mine_and_only_mine:Mine", "--check", "--set", "eye")
    assert "no module 'nowhere'" in command.refuses("methods", "nowhere:Mine")
    near = command.refuses("methods", "mine_and_only_mine:Resltess")
    assert "module mine_and_only_mine has no 'Resltess'; did you mean 'Restless'?" in near
    assert "has no 'zzz'\n" in command.refuses("methods", "mine_and_only_mine:zzz")
    assert "name a function or a class" in command.refuses("methods", "mine_and_only_mine:__name__")
    assert "need --check" in command.refuses("methods", "flash", "--set", "eta=1")
