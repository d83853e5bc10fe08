"""docs/logs.md lists every field that runs write down, and no other."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fielding.simulation.experiment import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logs.md"
SAMPLED = {"n_testable", "accuracy_ci95", "newest_accuracy_ci95", "next_accuracy_ci95"}
ON_FLOWER = {"n_failing", "failing", "n_delivered", "delivered_bytes"}
SOMETIMES = {"failed", "first_time_s", "by_cluster", "note", "shared_accuracy", "shared_baseline", *SAMPLED, *ON_FLOWER}
RARE = {"guard", "merged"}


def listed(heading: str) -> set[str]:
    """Return the fields in the lists under a heading: what stands before the first colon of each item."""
    part = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    items = re.findall(r"^- (.*?):", part, re.MULTILINE | re.DOTALL)
    return {name for item in items for name in re.findall(r"`([a-z_0-9]+)`", item)}


@pytest.fixture(scope="module")
def small() -> Any:
    return run({"rounds": 6, "trace": {"clients": 8, "gap": 2, "window": 4}, "training": {"participants": 4}})


def test_fields_of_rounds_are_listed(small: Any) -> None:
    written = {name for row in small.rounds for name in row}

    assert written == listed("`rounds.jsonl`") - SOMETIMES


def test_fields_of_events_are_listed(tmp_path: Path) -> None:
    trace = {"clients": 12, "gap": 2, "window": 4, "scenario": "concept-swap", "held_out": 20}
    config = {"rounds": 16, "trace": trace, "training": {"participants": 6}, "coordinator": {"representation": "auto"}}
    run(config, tmp_path / "run", page=False)

    lines = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    written = {name for line in lines for name in json.loads(line)}
    assert written | RARE == listed("`events.jsonl`")
    assert "kinds" in written


def test_fields_of_corrected_and_tuned_models_are_listed() -> None:
    trace = {"clients": 8, "gap": 2, "window": 4}
    small = {"rounds": 6, "trace": trace, "training": {"participants": 4}}
    result = run({**small, "serving": {"correction": "prior", "fine_tune": 1, "experts": "auto"}})

    more = {name for row in result.rounds for name in row} - listed("`rounds.jsonl`")
    more |= set(result.summary or ()) - listed("`summary.json`")
    in_clients = {"corrected", "tuned", "served", "expert_weights", "expert_losses"}
    assert more == listed("More with `serving`") - in_clients


@pytest.mark.parametrize("name", ["memberships.jsonl", "concepts.jsonl", "clients.jsonl", "timings.jsonl"])
def test_fields_of_other_logs_are_listed(name: str, tmp_path: Path) -> None:
    run({"rounds": 3, "trace": {"clients": 8, "gap": 2, "window": 4}}, tmp_path / "run", page=False)

    lines = (tmp_path / "run" / name).read_text().splitlines()
    assert {field for line in lines for field in json.loads(line)} == listed(f"`{name}`")


def test_fields_of_the_summary_are_listed(small: Any) -> None:
    assert set(small.summary) == listed("`summary.json`") - {"final_accuracy_ci95"}  # of a sample of the clients
