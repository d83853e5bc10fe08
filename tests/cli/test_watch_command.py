"""`fielding watch` as users type it: where it listens, what it refuses, how it ends."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.in_process import Command
from tests.cli.invoke import CODE
from tests.reporting.run_folders import round_rows, run_folder

pytest.importorskip("starlette", reason="the extra watch is not installed")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command line."""
    monkeypatch.delenv("FIELDING_WATCH_TOKEN", raising=False)
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_other_machines_are_let_in_only_with_a_token(command: Command, tmp_path: Path, host: str) -> None:
    said = command.refuses("watch", tmp_path, "--host", host, "--port", "0")

    assert "can be reached by other machines; give a --token" in said


def test_a_token_that_can_be_guessed_is_refused_and_not_repeated(command: Command, tmp_path: Path) -> None:
    said = command.refuses("watch", tmp_path, "--token", "hunter2", "--port", "0")

    assert said == "error: the token has 7 characters; give at least 16\n"


def test_a_token_may_come_from_the_environment(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FIELDING_WATCH_TOKEN", "short")

    assert "the token has 5 characters" in command.refuses("watch", tmp_path, "--port", "0")


def test_a_port_that_is_taken_is_said_in_one_line(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        said = command.refuses("watch", tmp_path, "--port", str(port), code=1)

    assert said.startswith(f"error: cannot listen on '127.0.0.1', port {port}: ")
    assert "name another --port" in said


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 80])
def test_a_host_that_is_none_is_said_in_one_line(command: Command, tmp_path: Path, host: str) -> None:
    said = command.refuses("watch", tmp_path, "--host", host, "--token", "t" * 16, "--port", "0", code=1)

    assert said.startswith("error: cannot listen on ")


def test_a_missing_package_is_named_with_how_to_get_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)

    said = command.refuses("watch", tmp_path, "--port", "0")

    hint = "pip install 'fielding[watch]' (in a clone: pip install -e '.[watch]')"
    assert said == f"error: starlette is not installed; run: {hint}\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_listens_on_this_machine_until_a_signal_comes_and_leaves_the_folder_alone(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.1, 0.2]))
    before = sorted(folder.iterdir())
    typed = [sys.executable, "-c", CODE, "watch", str(folder), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "FIELDING_WATCH_TOKEN"}
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}record", timeout=20) as answer:
            assert b"What the run gave" in answer.read()
        server.send_signal(number)
        _, said = server.communicate(timeout=20)

    assert server.returncode == code
    assert "Traceback" not in said
    assert said.splitlines()[0] == "open this address in a browser; Ctrl-C ends it"
    assert sorted(folder.iterdir()) == before
