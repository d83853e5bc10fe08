from dataclasses import replace  # noqa: I001
import numpy as np
import pytest
from fielding.coordinator.movement import Movement, TriggerMemory, largest_shift
from fielding.coordinator.points import Points
from fielding.coordinator.trigger import center_spacing, TRIGGERS, Always, CenterShift, Never, Pairwise
from fielding.distance import metric_named
from fielding.errors import OptionError
from hypothesis import given
from hypothesis import strategies as st
from fielding.coordinator.trigger import holds_pair_beyond
from fielding.distance import METRICS, TIE


L1 = metric_named("l1")


def movement(shift: float, *, theta: float = 0.6, points: list[list[float]] | None = None) -> Movement:
    """Two clusters; the first one moved by ``shift`` in L1 since the previous event, twice that since the start."""
    before = np.array([[1.0, 0.0], [0.0, 1.0]])
    step = np.array([[shift / 2, -shift / 2], [0.0, 0.0]])
    rows = np.array(points if points is not None else [[1.0, 0.0], [0.0, 1.0]])
    after = before + step
    if points is not None:
        after[0] = rows.mean(axis=0)
    return Movement(
        before=before,
        after=after,
        since_global=before - step,
        stayed_live=np.array([True, True]),
        theta=theta,
        points=Points(rows),
        membership=np.zeros(rows.shape[0], dtype=np.int32),
        metric=L1,
        kind="histogram",
    )


def test_center_shift_fires_beyond_a_third_of_theta_and_not_at_it() -> None:
    trigger = CenterShift()

    assert not trigger.assess(movement(0.2), TriggerMemory()).fires
    assert trigger.assess(movement(0.2001), TriggerMemory()).fires


def test_shift_since_the_last_global_clustering_adds_up() -> None:
    verdict = CenterShift(reference="last-global").assess(movement(0.15), TriggerMemory())

    assert verdict.shift == pytest.approx(0.3)
    assert verdict.fires


def test_tau_zero_fires_at_every_real_movement_and_infinity_never() -> None:
    assert CenterShift(tau=0.0).assess(movement(1e-6), TriggerMemory()).fires
    assert not CenterShift(tau=0.0).assess(movement(0.0), TriggerMemory()).fires
    assert not CenterShift(tau=np.inf).assess(movement(2.0, theta=0.0), TriggerMemory()).fires


def test_dormant_clusters_do_not_count() -> None:
    before, after = np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])

    assert largest_shift(before, after, np.array([True, False]), metric=L1) == 0.0
    assert largest_shift(before, after, np.array([False, False]), metric=L1) == 0.0


def test_theta_is_the_mean_over_unordered_pairs_of_centers() -> None:
    centers = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])

    theta = center_spacing(centers, Points(centers), metric=L1, rng=np.random.default_rng(0))

    assert theta == pytest.approx((1.0 + 2.0 + 1.0) / 3.0)


def test_theta_of_a_lone_cluster_is_the_mean_distance_between_its_clients() -> None:
    clients = Points(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]))

    theta = center_spacing(np.array([[0.5, 0.5]]), clients, metric=L1, rng=np.random.default_rng(0))

    assert theta == pytest.approx(4.0 / 3.0)


def test_pairwise_fires_when_two_members_lie_farther_apart_than_delta() -> None:
    near, far = [[0.5, 0.5], [0.54, 0.46]], [[0.5, 0.5], [0.56, 0.44]]

    assert not Pairwise().assess(movement(0.0, points=near), TriggerMemory()).fires
    assert Pairwise().assess(movement(0.0, points=far), TriggerMemory()).fires


def test_delta_doubles_after_two_firings_in_a_row_and_falls_otherwise() -> None:
    far, near = movement(0.0, points=[[1.0, 0.0], [0.0, 1.0]]), movement(0.0, points=[[0.5, 0.5], [0.5, 0.5]])
    memory, deltas = TriggerMemory(), []
    for event in (far, far, far, far, far, far, far, near, near):
        memory = Pairwise().assess(event, memory).memory
        deltas.append(memory.delta)

    assert deltas == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 1.9, 1.8, 1.7])


def test_by_the_letter_of_the_paper_delta_falls_below_zero_and_every_event_fires() -> None:
    near = movement(0.0, points=[[0.5, 0.5], [0.5, 0.5]])
    memory, fired, deltas = TriggerMemory(), [], []
    for _ in range(1200):
        verdict = Pairwise(rule="min").assess(near, memory)
        memory = verdict.memory
        fired.append(verdict.fires)
        deltas.append(memory.delta)

    assert deltas[:3] == pytest.approx([0.0, -0.1, -0.2])
    assert fired[:2] == [False, False]
    assert all(fired[2:]), "equal clients are re-clustered for ever"
    assert deltas[-1] == -2.0, "it stays a number"


def test_delta_stays_between_its_step_and_the_diameter() -> None:
    rng, memory = np.random.default_rng(1), TriggerMemory()
    for _ in range(200):
        points = rng.dirichlet([0.2, 0.2], size=3).tolist()
        memory = Pairwise(step=0.3).assess(movement(0.0, points=points), memory).memory
        assert memory.delta is not None
        assert 0.3 <= memory.delta <= 2.0


def test_delta_of_vectors_goes_no_farther_than_their_clients_lie_apart() -> None:
    far = replace(movement(0.0, points=[[0.0, 0.0], [30.0, 0.0], [30.0, 40.0]]), kind="vector")
    memory, trigger, deltas = TriggerMemory(), Pairwise(step=10.0), []
    for _ in range(5):
        memory = trigger.assess(far, memory).memory
        deltas.append(memory.delta)

    # 70 apart in L1; at 70 nothing lies farther apart, so Delta falls again.
    assert deltas == pytest.approx([10.0, 20.0, 40.0, 70.0, 60.0])


def test_delta_of_vectors_comes_down_when_clients_come_together() -> None:
    near = replace(movement(0.0, points=[[0.0, 0.0], [3.0, 0.0]]), kind="vector")

    assert Pairwise(step=1.0).assess(near, TriggerMemory(delta=500.0)).memory.delta == pytest.approx(3.0)


def test_always_and_never_are_what_they_say() -> None:
    assert Always().assess(movement(0.0), TriggerMemory()).fires
    assert not Never().assess(movement(2.0), TriggerMemory()).fires


@pytest.mark.parametrize("tau", [-0.1, float("nan")])
def test_a_tau_that_is_no_factor_is_refused(tau: float) -> None:
    with pytest.raises(OptionError, match="tau is"):
        CenterShift(tau=tau)


def test_a_wrong_reference_or_step_is_refused() -> None:
    with pytest.raises(OptionError, match="use 'previous' or 'last-global'"):
        CenterShift(reference="yesterday")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="positive number"):
        Pairwise(step=0.0)


def test_every_trigger_stands_under_its_own_name() -> None:
    assert all(kind.name == name for name, kind in TRIGGERS.items())


# ---- spread ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(METRICS)), st.floats(0.01, 1.9))
def test_short_cuts_never_change_the_answer(seed: int, name: str, delta: float) -> None:
    rng = np.random.default_rng(seed)
    metric = METRICS[name]
    n = int(rng.integers(1, 25))
    rows = rng.dirichlet(np.full(4, float(rng.choice([0.2, 1.0, 20.0]))), size=n)
    labels = rng.integers(0, 3, size=n).astype(np.int32)
    centers = np.array([rows[labels == k].mean(axis=0) if (labels == k).any() else rows[0] for k in range(3)])

    distances = metric.between(rows, rows)
    together = labels[:, np.newaxis] == labels[np.newaxis]

    answer = holds_pair_beyond(delta, Points(rows), labels, centers=centers, metric=metric)
    assert answer == bool((distances[together] > delta + TIE).any())
