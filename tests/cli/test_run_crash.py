"""A run that is killed, stopped, starved of disk or damaged goes on and ends exactly as one never disturbed."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fielding.config.reader import read_config
from fielding.errors import FieldingError
from fielding.records.run_checkpoint import load_run
from fielding.simulation.experiment import run
from tests.cli.invoke import CODE, assert_one_line_error, fielding, start_fielding
from tests.simulation.run_cases import left_behind

ROOT = Path(__file__).resolve().parents[2]
# Every sync takes a while, so that kills and signals come while a checkpoint is being written.
SLOW_DISK = f"""
import os, time
real = os.fsync
def fsync(file):
    time.sleep(0.004)
    real(file)
    time.sleep(0.004)
os.fsync = fsync
{CODE}"""
CONFIG = """
rounds = 30
[trace]
clients = 12
gap = 3
window = 6
samples = 12
[model]
hidden = 8
[training]
participants = 8
local_steps = 2
batch_size = 5
[coordinator]
detector = "any-change"
[checkpoint]
every = 1
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


def run_arguments(config: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    return ("run", config, "--out", out, "--no-page", "--quiet", *more)


def test_kill_9_costs_nothing_that_was_committed(config: Path, tmp_path: Path) -> None:
    assert kill_until_done(config, tmp_path, seed=0, n_kills=4) == 4


def test_kill_9_costs_a_torch_module_nothing(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # BatchNorm keeps statistics and counters, dropout draws numbers.
    own = 'factory = "tests.training.modules:noisy"'
    config.write_text(CONFIG.replace("hidden = 8", own))
    run(config, tmp_path / "whole", page=False)
    running = start_fielding(*run_arguments(config, tmp_path / "cut"), code=SLOW_DISK)
    wait_for_round(tmp_path / "cut", 2, running)

    running.kill()
    running.communicate()
    done = fielding(*run_arguments(config, tmp_path / "cut", "--resume"))

    assert running.returncode == -signal.SIGKILL
    assert done.returncode == 0, done.stderr
    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


def test_kill_9_costs_no_change_of_settings(config: Path, tmp_path: Path) -> None:
    changes = ("--resume", "--set", "rounds=40", "--set", "training.learning_rate=0.01")
    for name in ("whole", "cut"):
        run(config, tmp_path / name, page=False)
    assert fielding(*run_arguments(config, tmp_path / "whole", *changes)).returncode == 0
    running = start_fielding(*run_arguments(config, tmp_path / "cut", *changes), code=SLOW_DISK)
    wait_for_round(tmp_path / "cut", 32, running)

    running.kill()
    running.communicate()
    done = fielding("run", tmp_path / "cut", "--no-page", "--quiet", "--resume")  # with the settings that it has now

    assert running.returncode == -signal.SIGKILL
    assert done.returncode == 0, done.stderr
    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
    changed = json.loads((tmp_path / "cut" / "manifest.json").read_text())["changes"]
    assert [(one["round"], one["key"]) for one in changed] == [(30, "rounds"), (30, "training.learning_rate")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 105))
def test_kill_9_many_times(config: Path, tmp_path: Path, seed: int) -> None:
    config.write_text(CONFIG.replace("rounds = 30", "rounds = 400"))

    assert kill_until_done(config, tmp_path, seed=seed, n_kills=50) == 50


def kill_until_done(config: Path, folder: Path, *, seed: int, n_kills: int) -> int:
    """Kill at random moments, resume until it ends, compare with an undisturbed run; return the number of kills."""
    rng = np.random.default_rng(seed)
    run(config, folder / "whole", page=False)
    cut, kills, committed = folder / "cut", 0, -1
    while kills < n_kills:
        running = start_fielding(*run_arguments(config, cut, "--resume"), code=SLOW_DISK)
        # A kill before it begins to write proves little: wait for the next checkpoint, mostly.
        while running.poll() is None and newest_round(cut) <= committed and rng.random() > 0.002:
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.2)))
        running.kill()
        _, complaint = running.communicate()
        assert complaint == ""
        if running.returncode == 0:
            break
        kills += 1
        assert newest_round(cut) >= committed
        committed = newest_round(cut)

    done = fielding(*run_arguments(config, cut, "--resume"))
    assert done.returncode == 0, done.stderr
    assert left_behind(cut) == left_behind(folder / "whole")
    return kills


def newest_round(folder: Path) -> int:
    """Return the last round that is committed, -1 for none."""
    for path in sorted((folder / "checkpoints").glob("*.ckpt"), reverse=True):
        try:
            return load_run(path).round_index
        except FieldingError:  # it was removed meanwhile, because there are two newer ones
            continue
    return -1


@pytest.mark.parametrize("step", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_before_or_after_any_write_costs_nothing(tmp_path: Path, step: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.kill_sites", str(tmp_path), str(step)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    *problems, last = done.stdout.splitlines()
    assert problems == []
    assert int(last.split()[0]) >= 10


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_round_and_says_how_to_go_on(config: Path, tmp_path: Path, number: int, code: int) -> None:
    changes = ("--set", "seed=5")
    run(read_config(config, ["seed=5"]), tmp_path / "whole", page=False)
    cut = tmp_path / "a folder"
    running = start_fielding(*run_arguments(config, cut, *changes), code=SLOW_DISK)
    wait_for_round(cut, 2, running)

    running.send_signal(number)
    _, complaint = running.communicate()

    assert running.returncode == code
    assert complaint.startswith("stopping after this round; once more to stop now\nstopped after ")
    assert complaint.count("\n") == 2
    assert not (cut / "summary.json").exists()
    command = shlex.split(complaint.partition("go on with: ")[2])
    assert command[:2] == ["fielding", "run"]
    again = fielding(*command[1:], "--no-page", "--quiet")
    assert again.returncode == 0, again.stderr
    assert left_behind(cut) == left_behind(tmp_path / "whole")


def wait_for_round(folder: Path, round_index: int, running: subprocess.Popen[str]) -> None:
    while newest_round(folder) < round_index:
        assert running.poll() is None, "it ended before it could be disturbed"
        time.sleep(0.01)


def test_a_folder_has_one_writer_at_a_time(config: Path, tmp_path: Path) -> None:
    running = start_fielding(*run_arguments(config, tmp_path / "cut"), code=SLOW_DISK)
    wait_for_round(tmp_path / "cut", 1, running)

    second = fielding(*run_arguments(config, tmp_path / "cut", "--resume"))
    running.kill()
    running.communicate()
    third = fielding(*run_arguments(config, tmp_path / "cut", "--resume"))

    assert_one_line_error(second, "another process is writing", str(tmp_path / "cut"))
    assert third.returncode == 0, third.stderr


def test_a_full_disk_is_one_line_and_costs_nothing_that_was_committed(config: Path, tmp_path: Path) -> None:
    run(config, tmp_path / "whole", page=False)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "whole").glob("*.jsonl")}
    largest = max(path.stat().st_size for path in (tmp_path / "whole" / "checkpoints").iterdir())
    limit = (largest + max(sizes.values())) // 2
    assert largest < limit < max(sizes.values()), "the largest log must hit the limit before a checkpoint does"
    # No file may grow beyond the limit: to the program it looks as if the disk were full.
    starved = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); {CODE}"

    running = start_fielding(*run_arguments(config, tmp_path / "cut"), code=starved)
    _, complaint = running.communicate()

    assert running.returncode == 1
    assert complaint.startswith("error: cannot write ")
    assert complaint.count("\n") == 1
    assert newest_round(tmp_path / "cut") > 0
    assert fielding(*run_arguments(config, tmp_path / "cut", "--resume")).returncode == 0
    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
