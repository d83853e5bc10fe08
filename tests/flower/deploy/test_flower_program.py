"""What Flower's command line says about a run, and what that means."""

import json
from pathlib import Path

import pytest

from fielding.errors import InputError
from fielding.flower.deploy import flower_program
from fielding.flower.deploy.environment import clean_environment
from fielding.flower.deploy.flower_program import FlowerProgram, RunState
from fielding.flower.deploy.processes import Supervisor


def state_of(status: str, details: str) -> RunState:
    return RunState(status=status, bytes_to_nodes=0, bytes_from_nodes=0, details=details)


@pytest.mark.parametrize(
    ("status", "details", "own_error", "was_lost"),
    [
        ("finished:failed", "ServerApp failed with exception: no out", "no out", False),
        ("finished:failed", "No heartbeat received from the task", None, True),
        ("finished:failed", "", None, True),
        ("finished:stopped", "", None, False),
        ("finished:completed", "", None, False),
        ("running", "", None, False),
    ],
)
def test_a_run_failed_by_itself_or_was_lost(status: str, details: str, own_error: str | None, was_lost: bool) -> None:
    state = state_of(status, details)

    assert (state.own_error, state.was_lost) == (own_error, was_lost)


@pytest.mark.parametrize(("details", "read"), [("N/A", ""), ("No heartbeat", "No heartbeat")])
def test_the_state_of_a_run_is_read_from_flowers_list(
    details: str, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        {"run-id": "1", "status": "running", "status-details": "N/A"},
        {
            "run-id": "22",
            "status": "finished:failed",
            "status-details": details,
            "network-traffic": {"outbound-bytes": 70, "inbound-bytes": 50},
        },
    ]
    answer = flower_program._Call(code=0, out=f"Loading {json.dumps({'success': True, 'runs': runs})}", err="")
    monkeypatch.setattr(FlowerProgram, "_calls", lambda _program, _commands: [answer])
    program = FlowerProgram(
        supervisor=Supervisor(folder=tmp_path / "federation", environment=clean_environment(tmp_path))
    )

    assert program.state("22") == RunState(
        status="finished:failed", bytes_to_nodes=70, bytes_from_nodes=50, details=read
    )
    with pytest.raises(InputError, match="the SuperLink knows no run 3; give an id that run_app returned"):
        program.state("3")
