"""A replay that is killed with -9 at random moments and resumed ends exactly as one that was never disturbed."""

import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoke import CODE, fielding, start_fielding
from tests.cli.test_replay_command import write_stream

FILES = ("decisions.jsonl", "events.jsonl", "memberships.jsonl", "coordinator.ckpt", "summary.json", "membership.npz")
EAGER = f"import fielding.engine.replay as r; r.COMMIT_EVERY_S = 0.0; {CODE}"


def test_kill_9_costs_nothing_that_was_committed(tmp_path: Path) -> None:
    kill_until_done(tmp_path, seed=0, n_kills=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_kill_9_many_times(tmp_path: Path, seed: int) -> None:
    kill_until_done(tmp_path, seed, n_kills=50, n_steps=600)


def kill_until_done(folder: Path, seed: int, n_kills: int, n_steps: int = 100) -> None:
    """Commit at every step, kill at random moments, resume until it ends; compare with an undisturbed run."""
    rng = np.random.default_rng(seed)
    reports = write_stream(folder / "reports.npz", n_steps=n_steps, n_clients=60)
    assert fielding("replay", reports, "--out", folder / "whole", "--quiet", "--no-page").returncode == 0

    cut, kills = folder / "cut", 0
    arguments = ("replay", reports, "--out", cut, "--quiet", "--no-page", "--resume")
    while kills < n_kills:
        running, before = start_fielding(*arguments, code=EAGER), committed(cut)
        # A kill before it begins to write proves little: wait for the next checkpoint, mostly.
        while running.poll() is None and committed(cut) == before and rng.random() > 0.002:
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.0, 0.2)))
        running.kill()
        _, complaint = running.communicate()
        assert complaint == ""
        if running.returncode == 0:
            break
        kills += 1

    done = fielding(*arguments)
    assert done.returncode == 0, done.stderr
    for name in FILES:
        assert (cut / name).read_bytes() == (folder / "whole" / name).read_bytes()
    assert kills > 1


def committed(folder: Path) -> int:
    """Return when a replay committed its last step, 0 for never."""
    path = folder / "coordinator.ckpt"
    return path.stat().st_mtime_ns if path.exists() else 0
