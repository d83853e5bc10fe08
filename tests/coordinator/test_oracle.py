"""The fast coordinator against the slow transcription of METHODS.md 1.4, on random streams of reports."""

import numpy as np
import pytest

from fielding.client.report import ReportBatch
from fielding.coordinator import Clusterer, Coordinator, Decision, Policy, trigger_named
from fielding.distance import METRICS
from fielding.rng import stream
from tests.coordinator.streams import ScriptedPartitioner, propose, random_stream
from tests.coordinator.transcription import Event, Row, Transcription

N_STREAMS = 10_000
N_CHUNKS, N_QUICK = 50, 2


@pytest.mark.parametrize(
    "chunk", [*range(N_QUICK), *(pytest.param(at, marks=pytest.mark.slow) for at in range(N_QUICK, N_CHUNKS))]
)
def test_fast_code_decides_as_the_transcription_does(chunk: int) -> None:
    for index in range(chunk, N_STREAMS, N_CHUNKS):
        compare_on_stream(index)


def compare_on_stream(index: int) -> None:
    rng = np.random.default_rng([2024, index])
    rules = {
        "metric": str(rng.choice(sorted(METRICS))),
        "trigger": str(rng.choice(["center-shift"] * 4 + ["pairwise", "always", "never"])),
        "tau": float(rng.choice([0.0, 1 / 6, 1 / 3, 1 / 3, 1.0, np.inf])),
        "reference": str(rng.choice(["previous", "last-global"])),
        "inherit": str(rng.choice(["average", "majority", "nearest"])),
        "k_max": int(rng.integers(1, 6)),
    }
    if rules["trigger"] != "center-shift":
        rules["reference"] = "previous"
    fast = fast_coordinator(rules, seed=index)

    def same_partitions(rows: list[Row], ks: list[int], event: int) -> dict[int, list[int]]:
        labels = propose(np.array(rows), ks, stream(index, "cluster", event))
        return {k: labels[k].tolist() for k in ks}

    slow = Transcription(**rules, propose=same_partitions)  # type: ignore[arg-type]
    for reports in random_stream(rng):
        decision = updated(fast, reports, rng)
        slow.hint = clusters_by_members(fast)
        expected = slow.update(reports)
        check_decision(decision, expected, f"stream {index}: {rules}")
        check_state(fast, slow, f"stream {index}: {rules}")


def fast_coordinator(rules: dict[str, object], seed: int) -> Coordinator:
    options = {"tau": rules["tau"], "reference": rules["reference"]} if rules["trigger"] == "center-shift" else {}
    return Coordinator(
        Policy(
            metric=str(rules["metric"]),
            trigger=trigger_named(str(rules["trigger"]), options),
            clusterer=Clusterer(partitioner=ScriptedPartitioner(), k_max=int(str(rules["k_max"]))),
            inherit=str(rules["inherit"]),
            seed=seed,
        )
    )


def updated(fast: Coordinator, reports: dict[str, Row], rng: np.random.Generator) -> Decision:
    """Send the reports in random order: it must not matter."""
    ids = [str(client) for client in rng.permutation(sorted(reports))]
    width = len(next(iter(reports.values()), (0.0,)))
    rows = np.array([reports[client] for client in ids]).reshape(len(ids), width)
    return fast.update(ReportBatch(client_ids=ids, representations=rows)) if ids else fast.decide()


def clusters_by_members(fast: Coordinator) -> dict[frozenset[str], int]:
    groups: dict[int, list[str]] = {}
    rows = fast.registry.active_rows()
    for row, cluster in zip(rows, fast.cluster_ids()[rows], strict=True):
        groups.setdefault(int(cluster), []).append(str(fast.registry.client_ids[row]))
    return {frozenset(members): cluster for cluster, members in groups.items()}


def check_decision(decision: Decision, expected: Event, case: str) -> None:
    assert list(decision.moved) == expected.moved, case
    assert decision.reclustered == expected.fired, case
    assert decision.started == expected.started, case
    assert list(decision.joined) == expected.joined, case
    assert list(decision.silenced) == expected.silenced, case
    assert (decision.shift is None) == (expected.shift is None), case
    if expected.shift is not None:
        assert decision.shift == pytest.approx(expected.shift, abs=1e-9), case
        assert decision.theta == pytest.approx(expected.theta, abs=1e-9), case
    assert decision.silhouettes == pytest.approx(expected.silhouettes, abs=1e-7), case
    if expected.mixing:
        assert decision.mixing == pytest.approx(np.array(expected.mixing), abs=1e-12), case


def check_state(fast: Coordinator, slow: Transcription, case: str) -> None:
    assert list(fast.registry.client_ids) == slow.order, case
    for client in slow.order:
        assert fast.cluster_of(client) == slow.cluster.get(client), case
    if fast.clusters is None:
        assert not slow.centers, case
        return
    assert list(fast.clusters.ids) == list(slow.centers), case
    assert int(fast.clusters.live.sum()) == len(slow.centers) - len(slow.dormant), case
    if slow.trigger == "pairwise" and fast.memory.delta is not None:
        assert fast.memory.delta == pytest.approx(slow.delta), case
    assert fast.clusters.centers == pytest.approx(np.array(list(slow.centers.values())), abs=1e-12), case
    assert [bool(live) for live in fast.clusters.live] == [one not in slow.dormant for one in slow.centers], case
