from contextlib import suppress

import numpy as np
import pytest

from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import Coordinator, Decision, Policy, trigger_named
from fielding.coordinator.coordinator import MOST_REPORTS, inherit_ids
from fielding.coordinator.snapshot import restore_coordinator, snapshot
from fielding.errors import OptionError, ReportError

TWO_GROUPS = {"ann": [0.9, 0.1], "bob": [0.8, 0.2], "cid": [0.1, 0.9], "dan": [0.2, 0.8]}


def update(coordinator: Coordinator, **shares: list[float]) -> Decision:
    return coordinator.update(ReportBatch(client_ids=list(shares), representations=np.array(list(shares.values()))))


def grouped(**options: object) -> Coordinator:
    coordinator = Coordinator(Policy(seed=1, **options))  # type: ignore[arg-type]
    update(coordinator, **TWO_GROUPS)
    return coordinator


def test_the_first_reports_make_clusters_that_all_start_from_one_model() -> None:
    coordinator = Coordinator(Policy(seed=1))

    decision = update(coordinator, **TWO_GROUPS)

    assert decision.started
    assert not decision.reclustered
    assert decision.cluster_ids == (0, 1)
    assert decision.mixing.tolist() == [[1.0], [1.0]]
    assert sorted(decision.silhouettes) == [2, 3]
    assert [coordinator.cluster_of(client) for client in TWO_GROUPS] == [0, 0, 1, 1]


def test_a_small_drift_moves_one_client_and_mixes_nothing() -> None:
    coordinator = grouped(trigger=trigger_named("center-shift", {"tau": 0.6}))

    decision = update(coordinator, bob=[0.3, 0.7])

    assert list(decision.moved) == ["bob"]
    assert not decision.reclustered
    assert decision.mixing.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_large_drift_groups_everyone_anew_and_mixes_by_head_count() -> None:
    coordinator = grouped()

    decision = update(coordinator, ann=[0.0, 1.0], bob=[0.5, 0.5], cid=[0.5, 0.5], dan=[0.0, 1.0])

    assert decision.reclustered
    assert decision.shift is not None
    assert decision.theta is not None
    assert decision.shift > decision.theta / 3.0
    assert decision.mixing.sum(axis=1).tolist() == [1.0] * len(decision.cluster_ids)


def test_a_cluster_that_lost_all_members_is_dormant_and_can_be_joined_again() -> None:
    coordinator = grouped(trigger=trigger_named("never"))

    emptied = update(coordinator, ann=[0.1, 0.9], bob=[0.1, 0.9])
    returned = update(coordinator, ann=[0.9, 0.1])

    assert emptied.n_live == 1
    assert emptied.cluster_ids == (0, 1)
    assert returned.n_live == 2
    assert coordinator.cluster_of("ann") == 0


def test_a_dormant_cluster_is_dropped_at_the_next_global_clustering() -> None:
    coordinator = grouped(trigger=trigger_named("never"))
    update(coordinator, ann=[0.1, 0.9], bob=[0.1, 0.9], cid=[0.1, 0.9], dan=[0.1, 0.9])
    assert coordinator.clusters is not None
    assert coordinator.clusters.live.tolist() == [False, True]
    coordinator.policy = Policy(seed=1, trigger=trigger_named("always"))

    decision = update(coordinator, ann=[0.11, 0.89])

    assert decision.reclustered
    assert decision.cluster_ids == (1,)
    assert decision.mixing.tolist() == [[0.0, 1.0]]


def test_a_silent_client_leaves_the_center_keeps_its_cluster_and_alone_never_triggers() -> None:
    coordinator = grouped(trigger=trigger_named("always"))

    decision = update(coordinator, ann=[0.0, 0.0])

    assert list(decision.silenced) == ["ann"]
    assert not decision.reclustered
    assert coordinator.cluster_of("ann") == 0
    assert coordinator.clusters is not None
    assert coordinator.clusters.centers[0] == pytest.approx([0.8, 0.2], abs=1e-6)


def test_a_silent_client_gets_the_nearest_new_cluster_when_all_are_grouped_anew() -> None:
    coordinator = grouped(trigger=trigger_named("always"))
    update(coordinator, ann=[0.0, 0.0])

    decision = update(coordinator, cid=[0.12, 0.88])

    assert decision.reclustered
    assert coordinator.cluster_of("ann") == coordinator.cluster_of("bob")


def test_a_client_without_data_is_known_but_in_no_cluster() -> None:
    coordinator = grouped()

    update(coordinator, eve=[0.0, 0.0])
    assert coordinator.cluster_of("eve") is None

    joined = update(coordinator, eve=[0.9, 0.1])
    assert list(joined.joined) == ["eve"]
    assert coordinator.cluster_of("eve") == coordinator.cluster_of("ann")


def test_nothing_starts_before_somebody_has_data() -> None:
    coordinator = Coordinator()

    assert not update(coordinator, ann=[0.0, 0.0]).started
    assert update(coordinator, ann=[1.0, 0.0]).started


def test_one_client_is_one_cluster() -> None:
    coordinator = Coordinator()

    decision = update(coordinator, ann=[0.3, 0.7])

    assert (decision.n_live, decision.theta, decision.silhouettes) == (1, 0.0, {})


def test_identical_clients_are_one_cluster() -> None:
    coordinator = Coordinator()

    assert update(coordinator, **{name: [0.5, 0.5] for name in "abcdefgh"}).n_live == 1


def test_received_reports_act_together_and_the_newest_of_a_client_counts() -> None:
    waiting, batched = grouped(), grouped()
    waiting.receive(ClientReport(client_id="bob", representation=np.array([0.7, 0.3])))
    waiting.receive(ClientReport(client_id="dan", representation=np.array([0.3, 0.7])))
    waiting.receive(ClientReport(client_id="bob", representation=np.array([0.3, 0.7])))

    decision = waiting.decide()

    assert list(decision.moved) == list(update(batched, bob=[0.3, 0.7], dan=[0.3, 0.7]).moved) == ["bob"]
    assert waiting.cluster_ids().tolist() == batched.cluster_ids().tolist()
    assert list(waiting.decide().reported) == []


def test_a_flood_of_one_client_is_refused_until_the_next_decision() -> None:
    coordinator = Coordinator(Policy())
    accepted = 0
    for at in range(10_000):
        with suppress(ReportError):
            coordinator.receive(ClientReport(client_id="loud", representation=np.array([1.0, 0.0]), n_samples=at))
            accepted += 1

    assert accepted == MOST_REPORTS
    with pytest.raises(ReportError, match="client 'loud' has sent 100 reports since the last decision"):
        coordinator.receive(ClientReport(client_id="loud", representation=np.array([0.0, 1.0])))
    coordinator.receive(ClientReport(client_id="quiet", representation=np.array([0.0, 1.0])))
    assert sorted(coordinator.decide().reported) == ["loud", "quiet"]
    coordinator.receive(ClientReport(client_id="loud", representation=np.array([0.0, 1.0])))


def test_a_flood_of_unknown_ids_ends_at_the_most_clients_and_known_ones_are_heard() -> None:
    coordinator = Coordinator(Policy(), most_clients=50)
    coordinator.receive(ClientReport(client_id=0, representation=np.array([1.0, 0.0])))
    coordinator.decide()
    refused = 0
    for at in range(5_000):
        try:
            coordinator.receive(ClientReport(client_id=at, representation=np.array([0.0, 1.0])))
        except ReportError as error:
            refused += 1
            said = str(error)

    assert refused == 5_000 - 50
    assert said.startswith("client 4999 is new, and there are 50 already; ")
    assert len(coordinator.inbox) == 50
    coordinator.decide()
    assert len(coordinator.registry) == 50
    coordinator.receive(ClientReport(client_id=49, representation=np.array([1.0, 0.0])))


def test_how_many_clients_are_let_in_stays_after_a_restart_with_those_who_wait() -> None:
    coordinator = Coordinator(Policy(), most_clients=2)
    coordinator.receive(ClientReport(client_id="ann", representation=np.array([1.0, 0.0])))
    restarted = restore_coordinator(snapshot(coordinator))

    restarted.receive(ClientReport(client_id="bob", representation=np.array([0.0, 1.0])))
    with pytest.raises(ReportError, match="client 'cid' is new, and there are 2 already"):
        restarted.receive(ClientReport(client_id="cid", representation=np.array([0.0, 1.0])))


def test_update_refuses_to_overtake_received_reports() -> None:
    coordinator = grouped()
    coordinator.receive(ClientReport(client_id="bob", representation=np.array([0.7, 0.3])))

    with pytest.raises(ReportError, match="1 received reports wait"):
        update(coordinator, bob=[0.3, 0.7])


@pytest.mark.parametrize(
    ("client_id", "row", "message"),
    [
        ("bob", [0.5, np.nan], "nan at position 1; every number must be finite"),
        ("bob", [0.5, np.inf], "inf at position 1"),
        ("bob", [1.2, -0.2], "negative share -0.2"),
        ("bob", [0.5, 0.6], "sums to 1.1, not to 1"),
        ("bob", [0.2, 0.3, 0.5], "3 numbers but 2 are expected"),
        ("bob", [], "shape"),
        ("bob", 0.5, "shape"),
        ("bob", ["a", "b"], "send numbers"),
        ("bob", [[0.5, 0.5]], "must be (n_features,)"),
        ("bob", None, "shape"),
        ("bob", [1e308, 0.0], "1e+308 at position 0"),
        (3, [0.5, 0.5], "use one type for all clients"),
        (3.5, [0.5, 0.5], "use a whole number or a text"),
        (None, [0.5, 0.5], "use a whole number or a text"),
        (True, [0.5, 0.5], "use a whole number or a text"),
        ("", [0.5, 0.5], "give it 1 to 1024"),
        ("x" * 1_000_000, [0.5, 0.5], "has 1000000 characters; give it 1 to 1024"),
        ("a\nb", [0.5, 0.5], "control characters"),
        (2**80, [0.5, 0.5], "does not fit 64 bits"),
    ],
)
def test_a_bad_report_gets_one_clear_line_and_changes_nothing(client_id: object, row: object, message: str) -> None:
    coordinator = grouped()

    with pytest.raises(ReportError) as caught:
        coordinator.receive(ClientReport(client_id=client_id, representation=row))  # type: ignore[arg-type]

    assert message in str(caught.value)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)
    assert coordinator.inbox == {}
    assert len(coordinator.registry) == 4


def test_first_reports_that_do_not_fit_each_other_are_refused() -> None:
    coordinator = Coordinator()
    coordinator.receive(ClientReport(client_id="a", representation=np.array([0.5, 0.5])))

    with pytest.raises(ReportError, match="3 numbers but 2 are expected"):
        coordinator.receive(ClientReport(client_id="b", representation=np.array([0.5, 0.5, 0.0])))
    with pytest.raises(ReportError, match="differ in type"):
        coordinator.receive(ClientReport(client_id=7, representation=np.array([0.5, 0.5])))


def test_a_longer_class_list_needs_its_version_and_changes_no_distance() -> None:
    coordinator = grouped()
    with pytest.raises(ReportError, match="a longer class list needs a new label version"):
        update(coordinator, bob=[0.3, 0.3, 0.4])

    version = coordinator.grow_labels(3)
    coordinator.receive(ClientReport(client_id="ann", representation=np.array([0.85, 0.15]), label_version=0))
    coordinator.receive(ClientReport(client_id="bob", representation=np.array([0.7, 0.2, 0.1]), label_version=version))
    decision = coordinator.decide()

    assert list(decision.moved) == []
    assert coordinator.registry.representations[0].tolist() == pytest.approx([0.85, 0.15, 0.0])


def test_a_metric_for_shares_refuses_vectors() -> None:
    with pytest.raises(OptionError, match="use it with kind 'histogram'"):
        Policy(metric="hellinger", kind="vector")


@pytest.mark.parametrize("options", [{"metric": "l7"}, {"kind": "text"}, {"inherit": "luck"}, {"seed": -1}])
def test_a_policy_of_unknown_names_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Policy(**options)  # type: ignore[arg-type]


def test_vectors_of_any_sign_can_be_grouped() -> None:
    coordinator = Coordinator(Policy(kind="vector", metric="l2", seed=1))

    decision = update(coordinator, a=[-5.0, 1e6], b=[-5.1, 1e6], c=[5.0, 0.0], d=[5.1, 0.0])

    assert decision.n_live == 2


@pytest.mark.parametrize("step", [1.5, "a", float("nan"), 2**63, True])
def test_a_step_that_is_no_whole_number_is_refused_and_changes_nothing(step: object) -> None:
    coordinator = grouped()
    batch = ReportBatch(client_ids=["eve"], representations=np.array([[0.5, 0.5]]))

    with pytest.raises(ReportError, match="step is"):
        coordinator.update(batch, step=step)  # type: ignore[arg-type]
    with pytest.raises(ReportError, match="step is"):
        coordinator.decide(step)  # type: ignore[arg-type]

    assert len(coordinator.registry) == 4
    assert coordinator.update(batch, step=-5).step == -5


@pytest.mark.parametrize(
    "options", [{"trigger": "always"}, {"clusterer": "kmeans"}, {"metric": ["l1"]}, {"inherit": []}, {"seed": 1.5}]
)
def test_a_policy_of_the_wrong_parts_is_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Policy(**options)  # type: ignore[arg-type]


def test_ids_of_numpy_are_plain_ids() -> None:
    coordinator = Coordinator(Policy(seed=1))
    rows = np.array(list(TWO_GROUPS.values()))
    coordinator.update(ReportBatch(client_ids=np.arange(4), representations=rows))  # type: ignore[arg-type]

    assert coordinator.cluster_of(np.int64(2)) == coordinator.cluster_of(2) == 1  # type: ignore[arg-type]
    with pytest.raises(ReportError, match="use a whole number or a text"):
        coordinator.cluster_of(True)


def test_the_first_received_report_decides_the_width_whatever_its_version() -> None:
    coordinator = Coordinator()
    coordinator.receive(ClientReport(client_id="a", representation=np.array([0.5, 0.5]), label_version=0))

    with pytest.raises(ReportError, match="3 numbers but 2 are expected"):
        coordinator.receive(ClientReport(client_id="b", representation=np.eye(3)[0], label_version=0))
    with pytest.raises(ReportError, match="can only grow to more"):
        coordinator.grow_labels(2)
    coordinator.grow_labels(3)
    coordinator.receive(ClientReport(client_id="b", representation=np.eye(3)[0]))
    assert coordinator.decide().started
    assert coordinator.registry.representations.tolist() == [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("version", ["1", [0], 1.0, True, 7, -1])
def test_an_unknown_label_version_is_refused(version: object) -> None:
    with pytest.raises(ReportError, match="is not known; known versions: 0 to 0"):
        grouped().receive(
            ClientReport(client_id="ann", representation=np.array([0.5, 0.5]), label_version=version)  # type: ignore[arg-type]
        )


def test_re_clustering_into_the_same_partition_leaves_every_model_alone() -> None:
    coordinator = grouped(trigger=trigger_named("always"))

    decision = update(coordinator, ann=[0.88, 0.12])

    assert decision.reclustered
    assert decision.cluster_ids == (0, 1)
    assert decision.mixing.tolist() == [[1.0, 0.0], [0.0, 1.0]]


# ---- identity -------------------------------------------------------------------------------------------------


def test_a_split_keeps_the_id_with_the_larger_part() -> None:
    assert inherit_ids(np.array([[2.0], [5.0]]), old_ids=[3], next_id=9) == [9, 3]


def test_a_merge_keeps_the_id_of_the_larger_part() -> None:
    assert inherit_ids(np.array([[2.0, 5.0]]), old_ids=[0, 4], next_id=5) == [4]


def test_an_id_is_not_passed_on_where_no_client_is_shared() -> None:
    assert inherit_ids(np.array([[4.0, 0.0], [3.0, 0.0]]), old_ids=[0, 1], next_id=2) == [0, 2]


def test_as_many_clients_as_possible_keep_their_id() -> None:
    # Greedy would give the first its 6 and leave the second with nothing: 6 + 0 < 5 + 5.
    assert inherit_ids(np.array([[6.0, 5.0], [5.0, 0.0]]), old_ids=[0, 1], next_id=2) == [1, 0]
