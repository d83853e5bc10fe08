"""Every example runs as its docstring says, from the command line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fielding.config.reader import read_config

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def printed(name: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_clusters_are_ahead_of_one_model_in_the_notebook_example() -> None:
    lines = re.findall(r"fielding (\S+)  one model (\S+)", printed("experiment.py"))

    assert len(lines) == 9
    assert all(float(ours) > float(theirs) for ours, theirs in lines)


def test_the_notebook_example_is_short() -> None:
    code = [
        line for line in (EXAMPLES / "experiment.py").read_text().splitlines() if line and not line.startswith('"""')
    ]

    assert len(code) < 15


def test_a_trace_of_ones_own_finds_the_two_hemispheres() -> None:
    output = printed("own_trace.py")

    assert "2 clusters" in output
    clusters = re.findall(r"thermometer \d is in cluster (\d)", output)
    assert clusters[0] != clusters[2]  # client 0 moved to the south, client 2 stayed in the north


def test_a_representation_of_ones_own_sees_what_labels_cannot() -> None:
    agreement = re.findall(r"places (\S+)", printed("own_representation.py"))

    assert float(agreement[1]) > float(agreement[0]) + 0.2


def test_a_model_of_ones_own_learns() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    accuracy = re.findall(r"\d+: (0\.\d+)", printed("own_model.py"))

    assert float(accuracy[-1]) > float(accuracy[0]) > 0.3


@pytest.mark.parametrize("path", sorted((EXAMPLES / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_config_can_be_read(path: Path) -> None:
    assert read_config(path).rounds > 0
