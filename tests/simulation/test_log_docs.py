"""docs/logs.md lists every field that runs write down, and no other."""

import re
from pathlib import Path
from typing import Any

import pytest

from fielding.simulation.experiment import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logs.md"
NATURAL_ONLY = {"prequential_accuracy"}
SOMETIMES = {"failed"}


def listed(heading: str) -> set[str]:
    """Return the fields in the table with a heading."""
    table = PAGE.read_text().partition(f"| field of `{heading}` |")[2].partition("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])}


@pytest.fixture(scope="module")
def small() -> Any:
    return run({"rounds": 6, "trace": {"clients": 8, "gap": 2, "window": 4}, "training": {"participants": 4}})


def test_fields_of_rounds_are_listed(small: Any) -> None:
    written = {name for row in small.rounds for name in row}

    assert written == listed("rounds.jsonl") - NATURAL_ONLY - SOMETIMES


def test_fields_of_the_summary_are_listed(small: Any) -> None:
    assert set(small.summary) == listed("summary.json")
