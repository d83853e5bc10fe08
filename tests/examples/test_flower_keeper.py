"""The script that submits an app again when the server of its run was lost, with a stand-in for Flower's program."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KEEPER = Path(__file__).resolve().parents[2] / "examples" / "flower" / "keep_running.py"

# Runs are numbered; what becomes of each is a line of the file "fates": status and details. All calls are kept.
FLWR = """#!{python}
import json, sys
from pathlib import Path
here = Path({folder!r})
words = sys.argv[1:]
with (here / "calls").open("a") as file:
    file.write(" ".join(words) + "\\n")
calls = (here / "calls").read_text().splitlines()
if (here / "away").exists():
    (here / "away").unlink()
    sys.exit("no SuperLink")
n_runs = sum(call.startswith("run ") for call in calls)
if words[0] == "run":
    print("Using SuperLink", json.dumps({{"success": True, "run-id": str(n_runs)}}))
elif words[0] == "list":
    fates = [line.partition(" ") for line in (here / "fates").read_text().splitlines()]
    runs = [{{"run-id": str(at), "status": one[0], "status-details": one[2]}} for at, one in enumerate(fates, 1)]
    print(json.dumps({{"success": True, "runs": runs}}))
else:
    print(json.dumps({{"success": True}}))
"""
LOST = "finished:failed No heartbeat received from the task"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "flwr"
    program.parent.mkdir()
    program.write_text(FLWR.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o755)
    return tmp_path


def keeper(folder: Path, *fates: str) -> "subprocess.Popen[str]":
    (folder / "fates").write_text("\n".join(fates))
    hurried = "import runpy, time; wait = time.sleep; time.sleep = lambda _seconds: wait(0.05)"
    code = f"{hurried}; runpy.run_path({str(KEEPER)!r}, run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", code, "app", "prod", str(folder / "note"), "-c", 'out="/run"'],
        env={**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def calls(folder: Path, verb: str) -> list[str]:
    path = folder / "calls"
    return [line for line in path.read_text().splitlines() if line.startswith(verb)] if path.exists() else []


def test_a_run_that_was_lost_is_submitted_again_with_the_same_words(folder: Path) -> None:
    running = keeper(folder, LOST, LOST, "finished:completed")
    out, _ = running.communicate(timeout=60)

    assert running.returncode == 0
    assert calls(folder, "run") == ['run app prod -c out="/run" --format json'] * 3
    assert "run 2: finished:failed No heartbeat received from the task" in out
    assert not (folder / "note").exists()


@pytest.mark.parametrize("fate", ["finished:stopped", "finished:failed ServerApp failed with exception: no out"])
def test_an_app_that_failed_or_was_stopped_is_not_submitted_again(fate: str, folder: Path) -> None:
    running = keeper(folder, fate)
    out, _ = running.communicate(timeout=60)

    assert running.returncode == 1
    assert len(calls(folder, "run")) == 1
    assert fate in out


def test_a_keeper_that_was_killed_follows_its_run_and_a_superlink_that_is_away_is_waited_for(folder: Path) -> None:
    (folder / "note").write_text("1")
    (folder / "away").write_text("")
    running = keeper(folder, "finished:completed")
    _, err = running.communicate(timeout=60)

    assert running.returncode == 0
    assert calls(folder, "run") == []
    assert "flwr list: no SuperLink" in err


def test_a_run_that_the_superlink_does_not_know_is_begun_again(folder: Path) -> None:
    (folder / "note").write_text("99")
    running = keeper(folder, "finished:completed")
    running.communicate(timeout=60)

    assert running.returncode == 0
    assert len(calls(folder, "run")) == 1


def test_who_stops_the_keeper_stops_the_run(folder: Path) -> None:
    running = keeper(folder, "running")
    end = time.monotonic() + 60
    while len(calls(folder, "list")) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)

    assert running.returncode == 143
    assert calls(folder, "stop") == ["stop 1 prod --format json"]
    assert not (folder / "note").exists()  # or the next keeper would find its run stopped, and end
