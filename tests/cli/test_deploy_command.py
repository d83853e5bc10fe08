"""`fielding deploy --local`, with a stand-in for the federation."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, Self

import pytest
import typer
from typer.testing import CliRunner

from fielding._extras import EXTRAS
from fielding.cli import deploy as deploy_module
from fielding.cli.console import Bar
from fielding.cli.deploy import deploy, followed
from fielding.flower import local_federation
from fielding.flower.flower_program import RunState
from fielding.flower.processes import ProcessError

DONE = RunState(status="finished:completed", bytes_to_nodes=700, bytes_from_nodes=500)
RUNNING = RunState(status="running", bytes_to_nodes=0, bytes_from_nodes=0)
FAILED = RunState(status="finished:failed", bytes_to_nodes=0, bytes_from_nodes=0)


class StandIn:
    """A federation that runs nothing and keeps account of what it was asked."""

    states: ClassVar[list[RunState | BaseException]] = []
    asked: ClassVar[list[object]] = []

    address = "127.0.0.1:7"
    supervisor = SimpleNamespace(environment={"FLWR_HOME": "/home/flwr"})

    def __init__(self, folder: Path, n_nodes: int) -> None:
        self.asked.append((folder, n_nodes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
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
    monkeypatch.setitem(EXTRAS, "flower", "json")
    monkeypatch.setattr(local_federation, "LocalFederation", StandIn)
    monkeypatch.setattr(deploy_module, "_LOOK_S", 0.0)
    monkeypatch.setattr(deploy_module, "_ASK_S", 0.0)
    monkeypatch.setattr(StandIn, "states", [RUNNING, DONE])
    monkeypatch.setattr(StandIn, "asked", [])
    return StandIn


def invoke(*words: str) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()
    app.command()(deploy)
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output, result.exception


def test_an_app_is_run_on_as_many_nodes_as_asked_for(stand_in: type[StandIn], tmp_path: Path) -> None:
    code, text, _ = invoke("--local", "3", "--app", "my-app", "--rounds", "4", "--out", str(tmp_path))

    assert code == 0
    assert stand_in.asked == [
        (tmp_path / "federation", 3),
        (Path("my-app"), {"out": str(tmp_path / "run"), "rounds": 4}),
        "stopped",
    ]
    assert f"results: {tmp_path / 'run'}\ntraffic: 700 bytes to the nodes, 500 bytes from them\n" in text


def test_the_rounds_are_those_of_the_app_unless_told(stand_in: type[StandIn], tmp_path: Path) -> None:
    invoke("--local", "1", "--out", str(tmp_path), "--quiet")

    assert stand_in.asked[1] == (Path("examples/flower"), {"out": str(tmp_path / "run")})


def test_a_run_that_fails_is_told_with_its_last_words_and_everything_is_stopped(
    stand_in: type[StandIn], tmp_path: Path
) -> None:
    stand_in.states[:] = [RUNNING, FAILED]

    code, _, error = invoke("--local", "1", "--out", str(tmp_path))

    assert code == 1
    assert isinstance(error, ProcessError)
    assert str(error) == "the run ended as finished:failed; it said: first / the model does not fit"
    assert stand_in.asked[-1] == "stopped"


def test_ctrl_c_stops_everything_and_says_how_to_go_on(stand_in: type[StandIn], tmp_path: Path) -> None:
    stand_in.states[:] = [RUNNING, KeyboardInterrupt()]

    code, text, _ = invoke("--local", "2", "--out", str(tmp_path))

    assert code == 130
    assert f"go on with: fielding deploy --local 2 --app examples/flower --out {tmp_path}" in text
    assert stand_in.asked[-1] == "stopped"


def test_a_federation_that_is_kept_ends_with_ctrl_c_and_that_is_no_failure(
    stand_in: type[StandIn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.states[:] = [DONE]

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fielding.cli.deploy.time.sleep", interrupt)
    code, text, _ = invoke("--local", "2", "--out", str(tmp_path), "--keep")

    assert code == 0
    assert "the SuperLink stays at 127.0.0.1:7; use it with: FLWR_HOME=/home/flwr flwr list here" in text
    assert f"results: {tmp_path / 'run'}" in text
    assert stand_in.asked[-1] == "stopped"


def test_no_nodes_are_refused(stand_in: type[StandIn]) -> None:
    assert invoke("--local", "0")[0] == 2
    assert stand_in.asked == []


def test_every_round_moves_the_bar(stand_in: type[StandIn], tmp_path: Path) -> None:
    rows = [{"round": 0, "n_clusters": 2}, {"round": 1, "n_clusters": 3, "accuracy": 0.25}]
    (tmp_path / "rounds.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    moved: list[int] = []
    said: list[str] = []

    state = followed(
        StandIn(tmp_path, 1),  # type: ignore[arg-type]
        "17",
        tmp_path,
        Bar(advance=moved.append, describe=said.append),
    )

    assert state == DONE
    assert moved == [2]
    assert said == ["round 2, accuracy 0.250, 3 clusters"]
