"""A whole federation where there is no network but loopback."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ALONE = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""Runs a command in a network of its own, in which nobody else is."""


def alone_words() -> list[str]:
    """Return the words that run a command without a network, or skip."""
    if find_spec("flwr") is None:
        pytest.skip("flwr is not installed; run: pip install 'fielding[flower]'")
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("no unshare or no ip here; install util-linux and iproute2")
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let users make networks of their own")
    return ALONE


@pytest.mark.slow
def test_a_federation_needs_no_network(tmp_path: Path) -> None:
    words = alone_words()
    outside = "import socket; socket.create_connection(('192.0.2.1', 443), timeout=5)"
    reached = subprocess.run([*words, sys.executable, "-c", outside], capture_output=True, text=True, check=False)
    code = "from fielding.cli import main; main()"
    order = [sys.executable, "-c", code, "deploy", "--local", "2", "--rounds", "2", "--out", str(tmp_path / "out")]

    done = subprocess.run(
        [*words, *order], capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "120"}
    )

    assert "Network is unreachable" in reached.stderr
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [row["n_participants"] for row in rows] == [2, 2]
