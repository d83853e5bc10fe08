"""A federation on this machine: with stand-ins for Flower's programs, and once with the real ones."""

import os
import stat
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fielding.errors import InputError, OptionError
from fielding.flower.deploy import access, reaper
from fielding.flower.deploy import federation as local_federation
from fielding.flower.deploy.access import HEADER, can_tell_users
from fielding.flower.deploy.certificates import issue_certificates
from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.deploy.flower_program import FlowerProgram, Link, RunState
from fielding.flower.deploy.processes import ProcessError
from fielding.records.lock import lock_folder
from tests.flower.strangers import OTHER_USER, ask

pytest.importorskip("cryptography", reason="cryptography is not installed; it comes with fielding[flower]")

# A stand-in for a SuperNode: does at each start what the next line of its script says.
NODE = """
import sys, time
from pathlib import Path
script = Path(sys.argv[1])
line, *rest = script.read_text().splitlines() or ["SuperNode ID: 7"]
script.write_text("\\n".join(rest))
print(line, flush=True)
if "ID" in line:
    time.sleep(60)
raise SystemExit(1)
"""
ONLINE, REFUSED, TAKEN = "SuperNode ID: 7", "Failed to activate SuperNode.", "Errno 98: Address already in use"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins in the place of Flower's programs, and return the script that nodes follow."""
    path = tmp_path / "script"
    path.write_text("")

    def node(*_link_and_key: Any, **_more: Any) -> list[str]:
        return [sys.executable, "-c", NODE, str(path)]

    monkeypatch.setattr(Link, "command", lambda _link: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(Link, "is_healthy", lambda _link: True)
    monkeypatch.setattr(FlowerProgram, "register", lambda _program, _keys: None)
    monkeypatch.setattr(local_federation, "node_command", node)
    monkeypatch.setattr(local_federation, "_RETRY_S", 0.01)
    return path


@pytest.fixture
def federation(tmp_path: Path, script: Path) -> Iterator[LocalFederation]:
    with LocalFederation(tmp_path / "federation", 1) as running:
        yield running


def test_a_killed_node_is_tried_again_while_it_is_refused(federation: LocalFederation, script: Path) -> None:
    federation.kill_node(0)
    script.write_text("\n".join([REFUSED, REFUSED, ONLINE]))

    federation.restart_node(0)

    assert federation.supervisor.processes["node-0"].is_running
    assert script.read_text() == ""


def test_patience_with_a_refused_node_has_an_end(federation: LocalFederation, script: Path) -> None:
    federation.kill_node(0)
    script.write_text("\n".join([REFUSED] * 1000))

    with pytest.raises(ProcessError, match="node-0 was refused by the SuperLink: its key is not registered, or"):
        federation.restart_node(0, patience_s=0.1)


def test_a_node_whose_port_was_taken_gets_another(federation: LocalFederation, script: Path) -> None:
    script.write_text("\n".join([TAKEN, TAKEN, ONLINE]))

    assert federation.add_node() == 1
    assert federation.supervisor.processes["node-1"].is_running


def test_a_node_that_fails_for_another_reason_is_not_tried_again(federation: LocalFederation, script: Path) -> None:
    script.write_text("\n".join(["out of memory", ONLINE]))

    with pytest.raises(ProcessError, match="node-1 ended with 1; it said: out of memory"):
        federation.add_node()

    assert script.read_text() == ONLINE


def test_a_start_that_fails_leaves_nothing_running(tmp_path: Path, script: Path) -> None:
    federation = LocalFederation(tmp_path / "federation", 1)
    script.write_text("out of memory")

    try:
        with pytest.raises(ProcessError, match="out of memory"):
            federation.start()
        assert sorted(federation.supervisor.processes) == ["node-0", "superlink"]
        assert not any(process.is_running for process in federation.supervisor.processes.values())
        assert reaper.marked_processes(federation.supervisor.mark) == []
        lock_folder(tmp_path / "federation").close()  # free for the next
    finally:
        federation.stop()


def test_whoever_comes_back_is_the_same_client(tmp_path: Path, script: Path) -> None:
    with LocalFederation(tmp_path / "federation", 2) as first:
        assert sorted(first.client_ids) == [0, 1]
    database = tmp_path / "federation" / "link-0" / "state.db"
    database.write_text("runs and leases of the first start")
    with LocalFederation(tmp_path / "federation", 2) as second:
        assert second.client_ids == first.client_ids

    assert len(set(first.client_ids.values())) == 2
    assert (tmp_path / "federation" / "link-1" / "server.crt").is_file()
    assert not database.exists()


def test_two_federations_do_not_share_a_folder(tmp_path: Path, script: Path) -> None:
    with LocalFederation(tmp_path / "federation", 1) as first:
        second = LocalFederation(tmp_path / "federation", 1)
        with pytest.raises(InputError, match="another process is writing"):
            second.start()
        second.stop()

        assert all(process.is_running for process in first.supervisor.processes.values())


def test_a_stop_that_was_interrupted_can_be_called_again(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = LocalFederation(tmp_path / "federation", 1)
    federation.start()
    with monkeypatch.context() as patched:
        patched.setattr(reaper, "end_marked", _interrupted)
        patched.setattr(federation.supervisor.__class__, "stop", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            federation.stop()

    federation.stop()

    assert not any(process.is_running for process in federation.supervisor.processes.values())
    lock_folder(tmp_path / "federation").close()


def _interrupted(*_arguments: object, **_more: object) -> None:
    raise KeyboardInterrupt


def test_wrong_numbers_of_nodes_are_named(federation: LocalFederation, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="n_nodes is 0; give at least 1"):
        LocalFederation(tmp_path / "none", 0)
    with pytest.raises(OptionError, match=r"no node 5 here; there are \[0\]"):
        federation.kill_node(5)


def test_a_folder_without_an_app_is_named(federation: LocalFederation, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no pyproject\.toml; name the folder of a Flower app"):
        federation.run_app(tmp_path)


@pytest.mark.parametrize(
    ("status", "is_ended", "is_completed"),
    [("running", False, False), ("finished:failed", True, False), ("finished:completed", True, True)],
)
def test_a_run_has_ended_or_not(status: str, is_ended: bool, is_completed: bool) -> None:
    state = RunState(status=status, bytes_to_nodes=0, bytes_from_nodes=0)

    assert (state.is_ended, state.is_completed) == (is_ended, is_completed)


@pytest.mark.skipif(find_spec("flwr") is None, reason="flwr is not installed; run: pip install 'fielding[flower]'")
def test_a_real_superlink_takes_registered_nodes_only_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalFederation(tmp_path / "federation", 1) as federation:
        stranger = issue_certificates(tmp_path / "stranger")
        link = federation._started_link
        impostor = Link(port=link.port, certificates=stranger, database=link.database)
        running = [name for name, process in federation.supervisor.processes.items() if process.is_running]

        with pytest.raises(ProcessError, match="node-1 was refused by the SuperLink"):
            federation.add_node(is_registered=False)

        assert running == ["superlink", "node-0"]
        assert link.is_healthy()
        assert not impostor.is_healthy()  # whoever trusts another authority does not talk to it
        assert_own_user_alone(federation)
        with monkeypatch.context() as patched:
            patched.setattr(access, "HEADER", "x-none")  # as if Flower served in another way
            with pytest.raises(ProcessError, match="answers every user of this machine"):
                link.is_healthy()
        federation.register([1])
        federation.restart_node(1, patience_s=0.0)  # only its key was missing

    pids = [process.pid for process in federation.supervisor.processes.values()]
    assert reaper.marked_processes(federation.supervisor.mark) == []
    assert len(pids) == 3
    assert stat.S_IMODE(federation.folder.stat().st_mode) == 0o700


def assert_own_user_alone(federation: LocalFederation) -> None:
    """Nobody else on this machine gets an answer from the SuperLink or from a node, on whatever path."""
    link, node = federation._started_link, federation.supervisor.processes["node-0"].running.args
    assert isinstance(node, list)
    node_port = int(node[node.index("--port") + 1])
    authority = link.certificates.authority
    if can_tell_users():
        only = f"{HEADER}: {os.getuid()}"
        assert only in ask(link.port, "/health", method="GET", authority=authority).head
        assert only in ask(node_port, "/health", method="GET").head
    if can_tell_users() and os.geteuid() == 0:  # who else could take the place of another?
        for path in ("/v1/control/list-runs", "/v1/runtime/acquire-task", "/v1/fleet/pull-messages", "/health"):
            assert ask(link.port, path, authority=authority, user=OTHER_USER).status == 403
            assert ask(node_port, path, user=OTHER_USER).status == 403
