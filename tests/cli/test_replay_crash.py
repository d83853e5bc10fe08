"""A replay that is killed with -9 at random moments and resumed ends exactly as one that was never disturbed."""

import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoke import CODE, fielding, start_fielding
from tests.cli.test_replay_command import write_stream

FILES = ("decisions.jsonl", "events.jsonl", "memberships.jsonl", "coordinator.ckpt", "summary.json", "membership.npz")
EAGER = f"import fielding.engine.replay as r; r.COMMIT_EVERY_S = 0.0; {CODE}"


@pytest.mark.parametrize("seed", range(2))
def test_kill_9_costs_nothing_that_was_committed(tmp_path: Path, seed: int) -> None:
    kill_until_done(tmp_path, seed, n_kills=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_kill_9_many_times(tmp_path: Path, seed: int) -> None:
    kill_until_done(tmp_path, seed, n_kills=50)


def kill_until_done(folder: Path, seed: int, n_kills: int) -> None:
    """Commit at every step, kill at random moments, resume until it ends; compare with an undisturbed run."""
    rng = np.random.default_rng(seed)
    reports = write_stream(folder / "reports.npz", n_steps=150, n_clients=60)
    assert fielding("replay", reports, "--out", folder / "whole", "--quiet", "--no-page").returncode == 0

    cut, kills = folder / "cut", 0
    arguments = ("replay", reports, "--out", cut, "--quiet", "--no-page", "--resume")
    while kills < n_kills:
        running = start_fielding(*arguments, code=EAGER)
        time.sleep(float(rng.uniform(0.4, 1.6)))
        if running.poll() is not None:
            running.communicate()
            break
        running.kill()
        running.communicate()
        kills += 1

    done = fielding(*arguments)
    assert done.returncode == 0, done.stderr
    for name in FILES:
        assert (cut / name).read_bytes() == (folder / "whole" / name).read_bytes()
