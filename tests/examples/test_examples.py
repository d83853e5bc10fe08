"""Every example runs as its docstring says, from the command line."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fielding.config.reader import read_config
from tests.rotation import some_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def clusters_are_ahead_of_one_model(said: str) -> None:
    lines = re.findall(r"fielding (\S+)  one model (\S+)", said)

    assert len(lines) == 9
    assert all(float(ours) > float(theirs) for ours, theirs in lines)


def the_two_hemispheres_are_found(said: str) -> None:
    assert "2 clusters" in said
    clusters = re.findall(r"thermometer \d is in cluster (\d)", said)
    assert clusters[0] != clusters[2]  # client 0 moved to the south, client 2 stayed in the north


def a_representation_sees_what_labels_cannot(said: str) -> None:
    agreement = re.findall(r"places (\S+)", said)

    assert float(agreement[1]) > float(agreement[0]) + 0.2


def a_model_learns(said: str) -> None:
    accuracy = re.findall(r"\d+: (0\.\d+)", said)

    assert float(accuracy[-1]) > float(accuracy[0]) > 0.3


def a_method_is_ahead_of_one_model_where_labels_differ(said: str) -> None:
    theirs, ours = re.findall(r"(?:global|MostFrequentLabel) (0\.\d+)", said)

    assert float(ours) > float(theirs) + 0.05


PROMISES: dict[str, Callable[[str], None]] = {
    "experiment.py": clusters_are_ahead_of_one_model,
    "own_trace.py": the_two_hemispheres_are_found,
    "own_representation.py": a_representation_sees_what_labels_cannot,
    "own_model.py": a_model_learns,
    "own_method.py": a_method_is_ahead_of_one_model_where_labels_differ,
}


@pytest.mark.parametrize("name", some_of(PROMISES, 1, always=["experiment.py"]))
def test_an_example_shows_what_it_promises(name: str) -> None:
    if name == "own_model.py":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    PROMISES[name](done.stdout)


def test_the_notebook_example_is_short() -> None:
    code = [
        line for line in (EXAMPLES / "experiment.py").read_text().splitlines() if line and not line.startswith('"""')
    ]

    assert len(code) < 15


@pytest.mark.parametrize("path", sorted((EXAMPLES / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_config_can_be_read(path: Path) -> None:
    assert read_config(path).rounds > 0
