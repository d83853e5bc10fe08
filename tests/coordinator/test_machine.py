"""The coordinator under any sequence of reports, snapshots and growing class lists (hypothesis, stateful)."""

import copy

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fielding.client.report import ReportBatch
from fielding.coordinator import Clusterer, Coordinator, Decision, Pairwise, Policy, trigger_named
from fielding.coordinator.snapshot import restore_coordinator, snapshot
from fielding.distance import METRICS
from fielding.errors import ReportError

CLIENTS = [f"c{number:02d}" for number in range(14)]
SHARES = st.lists(st.integers(0, 4), min_size=3, max_size=3)
TRIGGERS: dict[str, tuple[str, dict[str, object]]] = {
    "paper": ("center-shift", {}),
    "creep": ("center-shift", {"reference": "last-global"}),
    "tau 0": ("center-shift", {"tau": 0.0}),
    "tau inf": ("center-shift", {"tau": float("inf")}),
    "floor": ("center-shift", {"tau": 0.1, "noise_floor": True}),
    "creep with floor": ("center-shift", {"tau": 0.0, "reference": "last-global", "noise_floor": True}),
    "learned": ("learned-tau", {"tries": 1, "revisit": 5, "noise_floor": True}),
    "pairwise": ("pairwise", {}),
    "always": ("always", {}),
    "never": ("never", {}),
}


class CoordinatorMachine(RuleBasedStateMachine):
    """Two coordinators get the same reports in different order; a third one is restored from snapshots."""

    @initialize(
        metric=st.sampled_from(sorted(METRICS)), rule=st.sampled_from(sorted(TRIGGERS)), k_max=st.integers(1, 5)
    )
    def begin(self, metric: str, rule: str, k_max: int) -> None:
        name, options = TRIGGERS[rule]
        self.rule = rule
        policy = Policy(metric=metric, trigger=trigger_named(name, options), clusterer=Clusterer(k_max=k_max), seed=5)
        self.first, self.second = Coordinator(policy), Coordinator(policy)
        self.width = 3

    @rule(counts=st.dictionaries(st.sampled_from(CLIENTS), SHARES, min_size=1))
    def report(self, counts: dict[str, list[int]]) -> None:
        rows = np.zeros((len(counts), self.width))
        rows[:, :3] = [np.array(count) / max(1, sum(count)) for count in counts.values()]
        before = None if self.first.clusters is None else self.first.clusters
        ids, n_samples = list(counts), np.array([sum(count) for count in counts.values()])

        decision = self.first.update(ReportBatch(client_ids=ids, representations=rows, n_samples=n_samples))
        mirrored = self.second.update(
            ReportBatch(client_ids=ids[::-1], representations=rows[::-1], n_samples=n_samples[::-1])
        )

        assert_same_decision(decision, mirrored)
        self.check_trigger(decision)
        assert decision.mixing.sum(axis=1) == pytest.approx(np.ones(decision.mixing.shape[0]))
        if before is not None and not decision.reclustered:
            assert decision.cluster_ids == before.ids

    @rule(gain=st.floats(-1.0, 1.0))
    def reward(self, gain: float) -> None:
        self.first.reward(gain)
        self.second.reward(gain)
        assert self.first.memory == self.second.memory

    def check_trigger(self, decision: Decision) -> None:
        if self.rule not in ("always", "pairwise") and decision.shift is not None and decision.threshold is not None:
            assert decision.reclustered == (decision.shift > decision.threshold + 1e-9)
        if self.rule in ("tau inf", "never"):
            assert not decision.reclustered
        if self.rule == "tau 0" and decision.shift is not None:
            assert decision.reclustered == (decision.shift > 1e-9)
        if self.rule == "paper" and decision.shift is not None and decision.theta is not None:
            assert decision.reclustered == (decision.shift > decision.theta / 3.0 + 1e-9)

    @rule()
    def no_report_changes_nothing(self) -> None:
        before = copy.deepcopy(snapshot(self.first))

        decision = self.first.decide()

        assert not decision.reclustered
        assert len(decision.moved) == 0
        assert_same_state(before, snapshot(self.first))

    @rule(bad=st.sampled_from(["nan", "negative", "sum", "width", "twice", "type", "count"]))
    def a_bad_batch_changes_nothing(self, bad: str) -> None:
        if bad == "width" and not self.first.registry.label_widths:
            return  # before anybody reported, any width will do
        before = copy.deepcopy(snapshot(self.first))

        with pytest.raises(ReportError):
            self.first.update(bad_batch(bad, self.width))

        assert_same_state(before, snapshot(self.first))

    @rule()
    def snapshot_and_restore(self) -> None:
        state = copy.deepcopy(snapshot(self.first))
        self.first = restore_coordinator(state)
        assert_same_state(state, snapshot(self.first))

    @rule()
    def grow_the_class_list(self) -> None:
        if 3 <= self.width < 6 and len(self.first.registry):
            self.width += 1
            assert self.first.grow_labels(self.width) == self.second.grow_labels(self.width)

    @invariant()
    def every_active_client_is_in_exactly_one_cluster(self) -> None:
        if not hasattr(self, "first") or self.first.clusters is None:
            return
        registry, clusters = self.first.registry, self.first.clusters
        assert (registry.membership[registry.active] >= 0).all()
        assert (registry.membership < len(clusters.ids)).all()
        assert len(set(clusters.ids)) == len(clusters.ids)
        assert list(clusters.ids) == sorted(clusters.ids)

    @invariant()
    def a_center_is_the_mean_of_its_active_members(self) -> None:
        if not hasattr(self, "first") or self.first.clusters is None:
            return
        registry, clusters = self.first.registry, self.first.clusters
        for position, center in enumerate(clusters.centers):
            members = registry.representations[registry.active & (registry.membership == position)]
            assert bool(clusters.live[position]) == bool(len(members))
            if len(members):
                assert center == pytest.approx(members.astype(np.float64).mean(axis=0), abs=1e-9)

    @invariant()
    def delta_stays_within_its_bounds(self) -> None:
        if hasattr(self, "first") and isinstance(self.first.policy.trigger, Pairwise):
            delta = self.first.memory.delta
            diameter = max(0.1, self.first.metric.diameter("histogram"))
            assert delta is None or 0.1 <= delta <= diameter

    @invariant()
    def both_orders_agree(self) -> None:
        if hasattr(self, "first"):
            assert list(self.first.registry.client_ids) == list(self.second.registry.client_ids)
            assert self.first.cluster_ids().tolist() == self.second.cluster_ids().tolist()


def bad_batch(bad: str, width: int) -> ReportBatch:
    row = np.full((1, width), 1.0 / width)
    ids: list[int | str] = ["c00"]
    if bad == "nan":
        row[0, 0] = np.nan
    elif bad == "negative":
        row[0, :2] = [-0.5, 1.0 - (width - 2) / width + 0.5]
    elif bad == "sum":
        row *= 2.0
    elif bad == "width":
        row = np.full((1, 9), 1.0 / 9)
        ids = ["c00"]
    elif bad == "twice":
        ids, row = ["c00", "c00"], np.vstack([row, row])
    elif bad == "type":
        ids, row = [3, "c00"], np.vstack([row, row])
    return ReportBatch(client_ids=ids, representations=row, n_samples=np.array([-1]) if bad == "count" else None)


def assert_same_decision(one: Decision, other: Decision) -> None:
    assert list(one.reported) == list(other.reported)
    assert list(one.moved) == list(other.moved)
    assert (one.shift, one.theta, one.reclustered) == (other.shift, other.theta, other.reclustered)
    assert one.cluster_ids == other.cluster_ids
    assert one.silhouettes == other.silhouettes
    assert one.mixing.tolist() == other.mixing.tolist()


def assert_same_state(one: object, other: object) -> None:
    assert one.values == other.values  # type: ignore[attr-defined]
    assert one.arrays.keys() == other.arrays.keys()  # type: ignore[attr-defined]
    for name, array in one.arrays.items():  # type: ignore[attr-defined]
        assert array.dtype == other.arrays[name].dtype  # type: ignore[attr-defined]
        assert array.tolist() == other.arrays[name].tolist()  # type: ignore[attr-defined]


TestCoordinatorMachine = CoordinatorMachine.TestCase


def test_the_width_case_is_bad_at_the_start_too() -> None:
    coordinator = Coordinator()
    coordinator.update(ReportBatch(client_ids=["a"], representations=np.array([[1.0, 0.0]])))

    with pytest.raises(ReportError, match="9 numbers but 2 are expected"):
        coordinator.update(bad_batch("width", 2))
    assert coordinator.registry.representations.tolist() == [[1.0, 0.0]]
