from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.report import ReportBatch
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import Policy
from fielding.coordinator.registry import UNASSIGNED
from fielding.coordinator.regrouping import merge_clusters, moved_membership, place_clients, rule_regrouping
from fielding.coordinator.snapshot import restore_coordinator, snapshot
from fielding.coordinator.trigger import Always, CenterShift, LearnedTau, Never
from fielding.errors import InputError

THREE = np.array([[1, 0, 0]] * 3 + [[0, 1, 0]] * 2 + [[0.1, 0, 0.9], [0, 0.1, 0.9]])
"""Seven clients in three clusters: 0 1 2, 3 4, 5 6."""


def batch(rows: np.ndarray, first: int = 0) -> ReportBatch:
    return ReportBatch(client_ids=list(range(first, first + len(rows))), representations=rows)


def report(client: int, row: list[float]) -> ReportBatch:
    return ReportBatch(client_ids=[client], representations=np.array([row]))


def three_clusters(**policy: object) -> Coordinator:
    coordinator = Coordinator(replace(Policy(clusterer=Clusterer(k_max=3), seed=1), **policy))  # type: ignore[arg-type]
    coordinator.update(batch(THREE))
    assert coordinator.registry.membership.tolist() == [0, 0, 0, 1, 1, 2, 2]
    return coordinator


def centers_of(coordinator: Coordinator) -> list[list[float]]:
    assert coordinator.clusters is not None
    return coordinator.clusters.centers.round(6).tolist()


def test_merged_models_count_by_their_members_and_the_others_stay() -> None:
    coordinator = three_clusters()

    mixing = merge_clusters(coordinator, np.array([0, 1, 0]))

    assert mixing.tolist() == [[0.6, 0.0, 0.4], [0.0, 1.0, 0.0]]
    assert coordinator.clusters is not None
    assert coordinator.clusters.ids == (0, 1)
    assert coordinator.clusters.live.tolist() == [True, True]
    assert coordinator.registry.membership.tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert centers_of(coordinator) == [[0.62, 0.02, 0.36], [0.0, 1.0, 0.0]]


def test_the_one_that_takes_others_in_keeps_its_id() -> None:
    coordinator = three_clusters()

    mixing = merge_clusters(coordinator, np.array([2, 2, 2]))

    assert mixing.round(6).tolist() == [[0.428571, 0.285714, 0.285714]]
    assert coordinator.clusters is not None
    assert coordinator.clusters.ids == (2,)
    assert coordinator.cluster_of(0) == 2


def test_silent_clients_go_along_but_do_not_count_and_new_ones_have_no_cluster() -> None:
    coordinator = three_clusters()
    coordinator.update(report(2, [0.0, 0.0, 0.0]))
    coordinator.registry.rows_for([7])

    mixing = merge_clusters(coordinator, np.array([0, 1, 0]))

    assert mixing.tolist() == [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    assert coordinator.registry.membership.tolist() == [0, 0, 0, 1, 1, 0, 0, UNASSIGNED]
    assert centers_of(coordinator)[0] == [0.525, 0.025, 0.45]


def test_dormant_clusters_stay_dormant_and_keep_their_model() -> None:
    coordinator = three_clusters(trigger=Never())
    coordinator.update(batch(np.zeros((2, 3)), first=5))

    mixing = merge_clusters(coordinator, np.array([0, 0, 2]))

    assert mixing.tolist() == [[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]]
    assert coordinator.clusters is not None
    assert coordinator.clusters.live.tolist() == [True, False]
    assert centers_of(coordinator)[1] == [0.05, 0.05, 0.9]


@given(st.lists(st.integers(0, 2), min_size=3, max_size=3), st.sets(st.integers(0, 6)))
def test_every_client_has_one_of_the_clusters_that_are_left_and_shares_sum_to_one(
    into: list[int], silent: set[int]
) -> None:
    coordinator = three_clusters(trigger=Never())
    if silent:
        names = sorted(silent)
        coordinator.update(ReportBatch(client_ids=names, representations=np.zeros((len(names), 3))))
    wanted = np.array(into)
    if not (wanted[wanted] == wanted).all():
        with pytest.raises(InputError, match="name one that is left"):
            merge_clusters(coordinator, wanted)
        return
    before = coordinator.registry.membership.copy()

    mixing = merge_clusters(coordinator, wanted)

    left = np.unique(wanted)
    clusters, membership = coordinator.clusters, coordinator.registry.membership
    assert clusters is not None
    assert mixing.shape == (left.size, 3)
    assert np.allclose(mixing.sum(axis=1), 1.0)
    assert (left[membership] == wanted[before]).all()
    assert len(clusters.ids) == clusters.live.size == left.size
    active = coordinator.registry.active
    assert clusters.live.tolist() == [bool(active[membership == at].any()) for at in range(left.size)]
    assert ((mixing > 0) <= (np.searchsorted(left, wanted) == np.arange(left.size)[:, np.newaxis])).all()


@pytest.mark.parametrize("into", [[0, 0], [0, 1, 3], [0, -1, 2], [1, 2, 2]])
def test_clusters_that_are_none_are_refused_and_nothing_changes(into: list[int]) -> None:
    coordinator = three_clusters()

    with pytest.raises(InputError, match="into is"):
        merge_clusters(coordinator, np.array(into))

    assert coordinator.registry.membership.tolist() == [0, 0, 0, 1, 1, 2, 2]
    with pytest.raises(InputError, match="no clusters yet"):
        merge_clusters(Coordinator(), np.array([0]))


def test_a_merge_is_what_later_shifts_are_measured_from() -> None:
    trigger = CenterShift(tau=1 / 3, reference="last-global", noise_floor=True)
    coordinator = three_clusters(trigger=trigger)
    merge_clusters(coordinator, np.array([0, 0, 0]))
    samples = coordinator.registry.samples
    rows = coordinator.registry.active_rows()

    assert coordinator.clusters is not None
    assert (coordinator.clusters.since_global == coordinator.clusters.centers).all()
    assert not samples.since_global(rows, coordinator.registry.membership).stayed.any(), "nobody told anew since"
    decision = coordinator.update(report(6, [0.0, 0.1, 0.9]))

    assert not decision.reclustered
    assert samples.since_global(rows, coordinator.registry.membership).stayed.tolist() == [False] * 6 + [True]


def test_a_merged_coordinator_is_restored_bit_for_bit() -> None:
    coordinator = three_clusters()
    merge_clusters(coordinator, np.array([0, 1, 0]))
    twin = restore_coordinator(snapshot(coordinator))

    drifted = report(1, [0.2, 0.5, 0.3])
    one, other = coordinator.update(drifted), twin.update(drifted)

    assert one.cluster_ids == other.cluster_ids
    assert one.shift == other.shift
    assert coordinator.registry.membership.tolist() == twin.registry.membership.tolist()
    assert snapshot(coordinator).values == snapshot(twin).values


def test_placed_clients_move_the_centers_and_may_wake_or_end_a_cluster() -> None:
    coordinator = three_clusters()

    place_clients(coordinator, [5, 6], np.array([0, 1]))

    assert coordinator.registry.membership.tolist() == [0, 0, 0, 1, 1, 0, 1]
    assert coordinator.clusters is not None
    assert coordinator.clusters.live.tolist() == [True, True, False]
    assert centers_of(coordinator)[0] == [0.775, 0.0, 0.225]
    assert centers_of(coordinator)[2] == [0.05, 0.05, 0.9], "dormant: kept"
    place_clients(coordinator, [6], np.array([2]))
    assert coordinator.clusters.live.tolist() == [True, True, True]


def test_moved_membership_is_that_between_the_moves_and_the_new_clusters() -> None:
    plain, regrouped = three_clusters(trigger=Never()), three_clusters(trigger=Always())
    before, stood = regrouped.clusters, regrouped.registry.membership.copy()
    drifted = ReportBatch(
        client_ids=[0, 4, 5, 9],
        representations=np.array([[0.0, 0.9, 0.1], [0.5, 0.4, 0.1], [0.0, 0.0, 0.0], [0.1, 0.1, 0.8]]),
    )
    assert before is not None
    plain.update(drifted)
    assert regrouped.update(drifted).reclustered

    found = moved_membership(regrouped, before, stood, [9, 0, 4, 5])

    assert found.tolist() == plain.registry.membership.tolist() == [1, 0, 0, 1, 0, 2, 2, 2]


def test_regrouping_can_be_held_back_and_asked_for_within_a_block_only() -> None:
    coordinator = three_clusters(trigger=CenterShift(tau=0.0))
    with rule_regrouping(coordinator, allowed=False):
        assert not coordinator.update(report(0, [0.9, 0.1, 0.0])).reclustered
    assert coordinator.update(report(0, [0.8, 0.2, 0.0])).reclustered

    coordinator = three_clusters(trigger=CenterShift(tau=2.0))
    with rule_regrouping(coordinator, allowed=True, wanted=True):
        assert coordinator.update(report(0, [0.9, 0.1, 0.0])).reclustered
    assert not coordinator.update(report(0, [0.8, 0.2, 0.0])).reclustered
    assert coordinator.policy.trigger == CenterShift(tau=2.0)


@pytest.mark.parametrize("trigger", [Never(), CenterShift(tau=np.inf)])
def test_those_who_never_regroup_are_not_made_to(trigger: Never | CenterShift) -> None:
    coordinator = three_clusters(trigger=trigger)

    with rule_regrouping(coordinator, allowed=True, wanted=True):
        assert not coordinator.update(report(0, [0.0, 0.9, 0.1])).reclustered


def test_the_rules_come_back_after_an_error() -> None:
    coordinator = three_clusters()
    policy = coordinator.policy

    with pytest.raises(ZeroDivisionError), rule_regrouping(coordinator, allowed=False, wanted=True):
        raise ZeroDivisionError

    assert coordinator.policy is policy
    assert coordinator.may_regroup


def test_a_firing_that_is_not_allowed_credits_no_arm() -> None:
    shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8]])
    coordinator = Coordinator(Policy(trigger=LearnedTau(arms=(0.0, 100.0)), seed=1))
    coordinator.update(ReportBatch(client_ids=[0, 1, 2, 3], representations=shares))
    moved = ReportBatch(client_ids=[0], representations=np.array([[0.6, 0.4]]))

    with rule_regrouping(coordinator, allowed=False):
        decision = coordinator.update(moved)

    assert not decision.reclustered
    assert coordinator.memory.credited == ()
