"""`fielding deploy --local`, with a stand-in for the federation."""

import json
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import typer
from typer.testing import CliRunner

from fielding.cli import deploy as deploy_module
from fielding.cli import deploy as following
from fielding.cli.console import Bar
from fielding.cli.deploy import deploy, round_viewer
from fielding.errors import InputError, OptionError, OutputError
from fielding.flower.deploy import environment
from fielding.flower.deploy import federation as local_federation
from fielding.flower.deploy.app_folder import shipped_app
from fielding.flower.deploy.flower_program import RunState
from fielding.flower.deploy.processes import ProcessError

APP = """
[tool.flwr.app.components]
serverapp = "mine.server:app"
clientapp = "mine.client:app"
[tool.flwr.app.config]
out = "run"
rounds = 6
min-nodes = 2
"""


def ended(status: str, details: str = "") -> RunState:
    return RunState(status=status, bytes_to_nodes=700, bytes_from_nodes=500, details=details)


DONE, RUNNING = ended("finished:completed"), ended("running")
KILLED = ended("finished:failed", "No heartbeat received from the task")
FAILED = ended("finished:failed", "ServerApp failed with exception: classes of the run config is 0; give one")


class StandIn:
    """A federation that runs nothing and keeps account of what it was asked."""

    states: ClassVar[list[RunState | BaseException]] = []
    asked: ClassVar[list[object]] = []

    address = "127.0.0.1:7"
    supervisor = SimpleNamespace(environment={"FLWR_HOME": "/home/flwr"})

    def __init__(self, folder: Path, n_nodes: int) -> None:
        self.folder = folder
        self.asked.append((folder, n_nodes))
        (folder / "logs").mkdir(parents=True)

    def start(self) -> None:
        self.asked.append("started")

    def stop(self) -> None:
        signal.raise_signal(signal.SIGINT)  # somebody is impatient
        self.asked.append("stopped")

    def run_app(self, app: Path, config: Mapping[str, object]) -> str:
        self.asked.append((app, dict(config)))
        return "17"

    def state(self, run_id: str) -> RunState:
        assert run_id == "17"
        state = self.states.pop(0)
        if isinstance(state, BaseException):
            raise state
        return state

    def log_lines(self, run_id: str) -> list[str]:
        return ["first", "the model does not fit"] if run_id == "17" else []


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    monkeypatch.setattr(environment, "check_installation", lambda _home: None)
    monkeypatch.setattr(local_federation, "LocalFederation", StandIn)
    monkeypatch.setattr(deploy_module, "_LOOK_S", 0.0)
    monkeypatch.setattr(following, "_LOOK_S", 0.0)
    monkeypatch.setattr(following, "_ASK_S", 0.0)
    monkeypatch.setattr(StandIn, "states", [RUNNING, DONE])
    monkeypatch.setattr(StandIn, "asked", [])
    return StandIn


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "my-app"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(APP)
    return folder


def invoke(*words: str | Path) -> tuple[int, str, BaseException | None]:
    command = typer.Typer()
    command.command()(deploy)
    result = CliRunner().invoke(command, [str(word) for word in words])
    return result.exit_code, result.output, result.exception


def submissions(stand_in: type[StandIn]) -> int:
    return sum(isinstance(one, tuple) and isinstance(one[1], dict) for one in stand_in.asked)


def test_an_app_is_run_on_as_many_nodes_as_asked_for(stand_in: type[StandIn], app: Path, tmp_path: Path) -> None:
    code, text, _ = invoke("--local", "3", "--app", app, "--rounds", "4", "--out", tmp_path)

    assert code == 0
    assert stand_in.asked == [
        (tmp_path / "federation", 3),
        "started",
        (app, {"out": str(tmp_path / "run"), "rounds": 4}),
        "stopped",
    ]
    assert f"results: {tmp_path / 'run'}\ntraffic: 700 bytes to the nodes, 500 bytes from them\n" in text


def test_what_nodes_failed_with_is_told_in_a_line(
    stand_in: type[StandIn], app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "client 'ab'... (64 characters), train: failed (error 2: InputError: train gave loss = nan (of 3))"
    log = ["INFO : one joined", f"\x1b[93mWARNING \x1b[0m: {said}", f"WARNING : {said}"]
    monkeypatch.setattr(StandIn, "log_lines", lambda *_: log)

    _, text, _ = invoke("--local", "2", "--app", app, "--out", tmp_path)

    kept = tmp_path / "federation" / "logs" / "run-17.log"
    assert f"2 answers of nodes failed; the first: {said} (all in {kept})" in text
    assert kept.read_text().splitlines() == log


def test_the_example_is_run_unless_another_app_is_named(stand_in: type[StandIn], tmp_path: Path) -> None:
    code, text, _ = invoke("--local", "2", "--out", tmp_path)

    assert code == 0
    assert stand_in.asked[2] == (shipped_app(), {"out": str(tmp_path / "run"), "min-nodes": 2})
    assert "note: the app waits for 4 nodes; here it waits for 2" in text


@pytest.mark.parametrize(
    ("text", "words", "kind"),
    [
        (None, "holds no pyproject.toml", InputError),
        (APP.replace("serverapp", "server"), "names no serverapp", InputError),
        (APP.replace("out =", "folder ="), "has no out under", OptionError),
        (APP.replace("rounds =", "turns ="), "has no rounds under", OptionError),
    ],
)
def test_an_app_that_cannot_be_run_is_refused_before_anything_is_started(
    text: str | None, words: str, kind: type[Exception], stand_in: type[StandIn], app: Path, tmp_path: Path
) -> None:
    (app / "pyproject.toml").unlink() if text is None else (app / "pyproject.toml").write_text(text)

    _, _, error = invoke("--local", "2", "--app", app, "--rounds", "3", "--out", tmp_path / "out")

    assert isinstance(error, kind)
    assert words in str(error)
    assert stand_in.asked == []


def test_a_run_that_is_complete_or_another_one_is_told_before_anything_is_started(
    stand_in: type[StandIn], app: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "00000005.ckpt").touch()
    (run / "manifest.json").write_text(json.dumps({"config": {"rounds": 6}, "engine": "flower"}))

    other = invoke("--local", "2", "--app", app, "--rounds", "5", "--out", tmp_path)[2]
    (run / "summary.json").write_text("{}")
    complete = invoke("--local", "2", "--app", app, "--out", tmp_path)[2]

    assert str(other) == f"cannot resume {run}: rounds was 6, now it is 5: 6 are done"
    assert str(complete).startswith(f"{run} holds a complete run; look at it with: fielding report {run}, give more")
    assert stand_in.asked == []


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_started(
    stand_in: type[StandIn], app: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    error = invoke("--local", "2", "--app", app, "--out", tmp_path / "file")[2]

    assert str(error) == f"cannot write into {tmp_path / 'file'}: File exists; name another folder"
    assert stand_in.asked == []


def test_a_full_disk_is_told_before_the_start_and_afterwards_whatever_else_is_said(
    stand_in: type[StandIn], app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [1000, 10**9, 1000]
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free.pop(0)))
    stand_in.states[:] = [RUNNING, FAILED]

    before = invoke("--local", "2", "--app", app, "--out", tmp_path)[2]
    asked_before = list(stand_in.asked)
    later = invoke("--local", "2", "--app", app, "--out", tmp_path)[2]

    for error in (before, later):
        assert isinstance(error, OutputError)
        assert f"the disk of {tmp_path} has 1,000 bytes left, and a federation needs 16,000,000; make room" in str(
            error
        )
    assert asked_before == []
    assert stand_in.asked[-1] == "stopped"


def test_an_app_that_fails_is_told_in_its_own_words_and_not_tried_again(
    stand_in: type[StandIn], app: Path, tmp_path: Path
) -> None:
    stand_in.states[:] = [RUNNING, FAILED]

    code, _, error = invoke("--local", "2", "--app", app, "--out", tmp_path)

    kept = tmp_path / "federation" / "logs" / "run-17.log"
    assert code == 1
    assert isinstance(error, ProcessError)
    assert str(error) == f"the app failed: classes of the run config is 0; give one (more in {kept})"
    assert kept.read_text() == "first\nthe model does not fit\n"
    assert submissions(stand_in) == 1
    assert stand_in.asked[-1] == "stopped"


def test_an_app_whose_server_was_killed_is_submitted_again(stand_in: type[StandIn], app: Path, tmp_path: Path) -> None:
    stand_in.states[:] = [RUNNING, KILLED, RUNNING, DONE]

    code, text, _ = invoke("--local", "2", "--app", app, "--out", tmp_path)

    assert code == 0
    assert "the server of the run is gone (No heartbeat received from the task); the app is submitted again" in text
    assert "traffic: 1400 bytes to the nodes, 1000 bytes from them" in text  # of both
    assert submissions(stand_in) == 2


def test_an_app_whose_server_always_dies_is_given_up(stand_in: type[StandIn], app: Path, tmp_path: Path) -> None:
    stand_in.states[:] = [KILLED] * 9

    error = invoke("--local", "2", "--app", app, "--out", tmp_path)[2]

    assert str(error).startswith("the server of the run died 4 times: No heartbeat received from the task")
    assert submissions(stand_in) == 4


def test_a_run_that_somebody_stopped_is_not_begun_again(stand_in: type[StandIn], app: Path, tmp_path: Path) -> None:
    stand_in.states[:] = [ended("finished:stopped")]

    error = invoke("--local", "2", "--app", app, "--out", tmp_path)[2]

    assert str(error).startswith("the run ended as finished:stopped; it said: first / the model does not fit")
    assert submissions(stand_in) == 1


def test_ctrl_c_stops_everything_however_often_and_says_how_to_go_on(
    stand_in: type[StandIn], app: Path, tmp_path: Path
) -> None:
    stand_in.states[:] = [RUNNING, KeyboardInterrupt()]

    code, text, _ = invoke("--local", "2", "--app", app, "--out", tmp_path)

    assert code == 130
    assert f"go on with: fielding deploy --local 2 --app {app} --out {tmp_path}" in text
    assert "all that was started is being stopped, a moment" in text
    assert stand_in.asked[-1] == "stopped"


def test_a_federation_that_is_kept_ends_with_ctrl_c_and_that_is_no_failure(
    stand_in: type[StandIn], app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.states[:] = [DONE]

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fielding.cli.deploy.time.sleep", interrupt)
    code, text, _ = invoke("--local", "2", "--app", app, "--out", tmp_path, "--keep")

    assert code == 0
    assert "the SuperLink stays at 127.0.0.1:7; use it with: FLWR_HOME=/home/flwr flwr list here" in text
    assert f"results: {tmp_path / 'run'}" in text
    assert stand_in.asked[-1] == "stopped"


def test_no_nodes_are_refused(stand_in: type[StandIn]) -> None:
    assert invoke("--local", "0")[0] == 2
    assert stand_in.asked == []


@pytest.mark.parametrize(("n_participants", "is_noted"), [(0, True), (2, False)])
def test_a_run_in_which_nobody_trained_is_not_passed_over(
    n_participants: int, is_noted: bool, app: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rounds.jsonl").write_text(json.dumps({"round": 0, "n_participants": n_participants}) + "\n")

    code, text, _ = invoke("--local", "2", "--app", app, "--out", tmp_path)

    assert code == 0
    assert (f"note: no node ever trained; what they say is in {tmp_path / 'federation' / 'logs'}" in text) == is_noted


def test_every_round_moves_the_bar_once(tmp_path: Path) -> None:
    rows = [{"round": 0, "n_clusters": 2}, {"round": 1, "n_clusters": 3, "accuracy": 0.25}]
    (tmp_path / "rounds.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    moved: list[int] = []
    said: list[str] = []
    look = round_viewer(tmp_path, Bar(advance=moved.append, describe=said.append))

    look()
    look()

    assert moved == [2]
    assert said == ["round 2, accuracy 0.250, 3 clusters"]


def test_a_federation_may_fail_to_tell_how_a_run_is_three_times_in_a_row(
    stand_in: type[StandIn], app: Path, tmp_path: Path
) -> None:
    silence = ProcessError("flwr list failed")
    stand_in.states[:] = [silence, silence, silence, RUNNING, silence, silence, silence, DONE]

    assert invoke("--local", "2", "--app", app, "--out", tmp_path / "patient")[0] == 0

    stand_in.states[:] = [RUNNING, silence, silence, silence, silence, DONE]
    code, _, error = invoke("--local", "2", "--app", app, "--out", tmp_path / "silent")
    assert code != 0
    assert error is silence
    assert stand_in.states == [DONE]
