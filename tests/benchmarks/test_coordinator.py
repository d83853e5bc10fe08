import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from benchmarks import coordinator
from benchmarks.__main__ import app
from benchmarks.coordinator import (
    ImportCost,
    compare_adjusting,
    compare_clustering,
    measure_scaling,
    planted_histograms,
)
from benchmarks.timing import in_turns
from fielding.cli.app import run_app
from fielding.rng import stream
from tests.cli.in_process import Command


def test_contenders_take_turns() -> None:
    order: list[str] = []

    timed = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeat=2)

    assert order == ["a", "b", "a", "b"]
    assert all(len(timing.seconds) == 2 and timing.spread >= 1.0 for timing in timed.values())


def test_planted_histograms_are_shares_with_as_many_groups_as_asked() -> None:
    shares = planted_histograms(300, 20, n_groups=2, rng=stream(3, "test"))

    assert shares.sum(axis=1) == pytest.approx(np.ones(300), abs=1e-5)
    distances = np.abs(shares[:, np.newaxis] - shares[np.newaxis]).sum(axis=2)
    assert 0.3 < float((distances < 0.6).mean()) < 0.7


def test_ours_and_scikit_learn_choose_the_planted_number_of_clusters() -> None:
    for row in compare_clustering(600, 30, k_max=8, repeat=1):
        assert (row.k_ours, row.k_peer) == (6, 6)


def test_all_ways_to_adjust_agree() -> None:
    assert all(row.same_answer for row in compare_adjusting(300, 20, repeat=1))


def test_each_size_is_measured_in_a_process_of_its_own() -> None:
    row = measure_scaling(5000, 20, "l1")

    assert row.n_clients == 5000
    assert row.n_clusters == 6
    assert min(row.start_s, row.adjust_s, row.report_us, row.lookup_us, row.memory_ratio) > 0


def _once(measure: Callable[[int], ImportCost], repeat: int) -> ImportCost:
    return measure(1)


def test_the_command_prints_tables_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(coordinator, "import_seconds", partial(_once, coordinator.import_seconds))
    command = Command(monkeypatch, capsys, partial(run_app, app))

    assert command("coordinator", "--clients", "200", "--labels", "10", "--repeat", "1", "--largest", "10000") == 0

    record = json.loads(command.out[command.out.index("\n{") :])
    assert "KMeans(n_init=10)" in command.out
    assert "The paper, on its server" in command.out
    assert {row["metric"] for row in record["clustering"]} == {"l1", "l2", "hellinger"}
    assert record["import"]["heavy_loaded"] == "none"
