"""A run of many clients is measured whole: stopped, resumed, drawn."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.population import ROUNDS, Population, exponents, measure_run


def test_a_population_is_run_stopped_and_resumed(tmp_path: Path) -> None:
    found = measure_run(60, tmp_path / "run")

    assert all(value > 0 for value in found.values())
    assert len((tmp_path / "run/rounds.jsonl").read_text().splitlines()) == ROUNDS


def test_exponents_are_those_between_the_largest_sizes() -> None:
    names = [name for name in Population.__dataclass_fields__ if name != "n_clients"]
    small = Population(n_clients=1000, **dict.fromkeys(names, 2.0))
    large = replace(small, n_clients=10_000, setup_s=20.0, arrival_s=2.0, peak_gb=200.0)

    assert exponents([small, small, large]) == pytest.approx(
        {"setup_s": 1.0, "arrival_s": 0.0, "checkpoint_s": 0.0, "resume_s": 0.0, "peak_gb": 2.0}
    )
    assert exponents([small]) == {}
