"""Processes that become ready, die, do not want to end, or outlive those who started them."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fielding.errors import InputError, OptionError
from fielding.flower.deploy import reaper
from fielding.flower.deploy.environment import clean_environment, free_port, program
from fielding.flower.deploy.processes import ProcessError, Supervisor

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no process groups")
needs_marks = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system shows no environments")

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session={far})"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def eventually(is_so: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Return whether something comes true; the bound is for broken code only."""
    give_up = time.monotonic() + within_s
    while not is_so() and time.monotonic() < give_up:
        time.sleep(0.05)
    return is_so()


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    folder = tmp_path / "private"
    with Supervisor(folder=folder, environment=clean_environment(folder), patience_s=0.5) as running:
        yield running


def test_a_process_is_waited_for_until_it_is_ready(supervisor: Supervisor) -> None:
    process = supervisor.start("one", python(f"print('ready', flush=True); {SLEEP}"))

    supervisor.wait_until(process, lambda: "ready" in process.words(), within_s=20)

    assert process.is_running
    supervisor.stop("one")
    assert not process.is_running
    assert process.running.returncode == -signal.SIGTERM


def test_a_process_that_dies_before_it_is_ready_is_told_with_its_last_words(supervisor: Supervisor) -> None:
    process = supervisor.start("one", python("print('\\x1b[91mno luck\\x1b[0m today'); raise SystemExit(3)"))

    with pytest.raises(ProcessError, match=r"one ended with 3; it said: no luck today \(more in .*one\.log\)"):
        supervisor.wait_until(process, lambda: False, within_s=20)


def test_a_process_that_is_never_ready_is_ended(supervisor: Supervisor) -> None:
    process = supervisor.start("one", python(SLEEP))

    with pytest.raises(ProcessError, match=r"one was not ready after 0\.2 s; it said: nothing"):
        supervisor.wait_until(process, lambda: False, within_s=0.2)

    assert not process.is_running


def test_a_process_that_ignores_the_polite_signal_is_killed(supervisor: Supervisor) -> None:
    process = supervisor.start("one", python(STUBBORN))
    supervisor.wait_until(process, lambda: "up" in process.words(), within_s=20)

    supervisor.stop("one")

    assert process.running.returncode == -signal.SIGKILL


def test_a_killed_process_may_start_again_and_its_words_are_told_apart(supervisor: Supervisor) -> None:
    first = supervisor.start("one", python(f"print('first', flush=True); {SLEEP}"))
    supervisor.wait_until(first, lambda: "first" in first.words(), within_s=20)
    with pytest.raises(ProcessError, match="one is running already"):
        supervisor.start("one", python(SLEEP))
    supervisor.kill("one")

    second = supervisor.start("one", python("print('second')"))
    supervisor.wait_until(second, lambda: "second" in second.words(), within_s=20)

    assert first.running.returncode == -signal.SIGKILL
    assert second.words() == "second\n"
    assert second.log.read_text() == "first\nsecond\n"


def test_a_program_that_is_not_there_is_told(supervisor: Supervisor) -> None:
    with pytest.raises(ProcessError, match="cannot start /no/such/program: No such file"):
        supervisor.start("one", ["/no/such/program"])


@needs_marks
@pytest.mark.parametrize("far", [False, True], ids=["same session", "session of its own"])
@pytest.mark.parametrize("child", [SLEEP, STUBBORN], ids=["polite", "stubborn"])
def test_what_a_dead_process_started_ends_with_the_rest(tmp_path: Path, far: bool, child: str) -> None:
    folder = tmp_path / "private"
    with Supervisor(folder=folder, environment=clean_environment(folder), patience_s=0.5) as supervisor:
        process = supervisor.start("one", python(PARENT.format(child=child, far=far)))
        assert eventually(lambda: not process.is_running)
        assert eventually(lambda: len(supervisor.find_marked("time.sleep")) == 1)
        assert process.pid not in supervisor.find_marked()

    assert reaper.marked_processes(supervisor.mark) == []


@needs_marks
def test_processes_of_another_folder_and_without_a_mark_are_spared(supervisor: Supervisor, tmp_path: Path) -> None:
    other = tmp_path / "private-too"  # begins like ours
    stranger = subprocess.Popen(python(SLEEP))
    try:
        with Supervisor(folder=other, environment=clean_environment(other)) as neighbor:
            process = neighbor.start("one", python(SLEEP))
            supervisor.signal(stranger.pid, signal.SIGKILL)
            supervisor.signal(process.pid, signal.SIGKILL)
            supervisor.close()

            assert process.is_running
            assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_error_in_the_block_ends_the_processes(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    supervisor = Supervisor(folder=folder, environment=clean_environment(folder))

    def start_and_fail() -> None:
        with supervisor:
            supervisor.start("one", python(SLEEP))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        start_and_fail()

    assert not supervisor.processes["one"].is_running


@needs_marks
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["int", "term", "kill"])
def test_nothing_outlives_an_owner_who_is_signaled(tmp_path: Path, number: int) -> None:
    """Ctrl-C leaves the block; SIGTERM and SIGKILL leave it to the guard."""
    folder = tmp_path / "private"
    owner = subprocess.Popen(
        python(
            textwrap.dedent(f"""
            import signal, sys, time
            from pathlib import Path
            from fielding.flower.deploy.environment import clean_environment
            from fielding.flower.deploy.processes import Supervisor
            signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests may ignore it
            folder = Path({str(folder)!r})
            with Supervisor(folder=folder, environment=clean_environment(folder)) as supervisor:
                supervisor.start("one", [sys.executable, "-c", {PARENT.format(child=SLEEP, far=True)!r}])
                supervisor.start("two", [sys.executable, "-c", {SLEEP!r}])
                time.sleep(60)
            """)
        ),
        stderr=subprocess.DEVNULL,
    )
    mark = str(folder.resolve())
    try:
        assert eventually(lambda: _sleepers(mark) == 2)

        owner.send_signal(number)

        owner.wait(timeout=20)
        assert eventually(lambda: reaper.marked_processes(mark) == [])
    finally:
        owner.kill()
        owner.wait()


def _sleepers(mark: str) -> int:
    return sum(SLEEP in reaper.command_of(pid) for pid in reaper.marked_processes(mark))


def test_a_second_interrupt_shortens_the_wait_and_ends_the_process_all_the_same(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = supervisor.start("one", python(STUBBORN))
    supervisor.wait_until(process, lambda: "up" in process.words(), within_s=20)

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fielding.flower.deploy.processes.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        supervisor.stop("one")
    monkeypatch.undo()

    assert process.running.returncode == -signal.SIGKILL


def test_processes_know_only_what_they_are_told(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "xyzzy")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    process = supervisor.start("one", python("import os; print(sorted(os.environ)); print(os.getcwd())"))
    assert eventually(lambda: not process.is_running)

    assert "SECRET_TOKEN" not in process.words()
    assert "HTTPS_PROXY" not in process.words()
    assert "FLWR_TELEMETRY_ENABLED" in process.words()
    assert process.words().splitlines()[-1] == str(supervisor.folder)


def test_words_for_the_environment_may_be_added(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path, {"FIELDING_DATA": "/data", "OMP_NUM_THREADS": "2"})

    assert environment["FIELDING_DATA"] == "/data"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["FLWR_HOME"] == str(tmp_path / "flwr")


def test_logs_are_for_the_owner_only(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)

    with pytest.raises(InputError, match="open to others"):
        Supervisor(folder=tmp_path / "open", environment={})


def test_a_program_that_was_not_installed_is_told_with_the_command_that_installs_it() -> None:
    assert program(Path(sys.executable).name) == sys.executable
    with pytest.raises(OptionError, match=r"no program no-such-flower beside .*pip install 'fielding\[flower\]'"):
        program("no-such-flower")


def test_a_free_port_can_be_listened_on() -> None:
    import socket

    with socket.create_server(("127.0.0.1", free_port())) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
