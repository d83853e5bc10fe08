import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs_and_groups_follow_the_drift() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "embed_coordinator.py"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "round  0: 40 reported,  0 moved, 3 clusters" in done.stdout
    moved = sum(int(line.split(" moved")[0].split(",")[-1]) for line in done.stdout.splitlines() if " moved" in line)
    assert moved >= 8
