import numpy as np
import pytest

from fielding._typing import Matrix, Vector
from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import CenterShift, Clusterer, Coordinator, Decision, Policy
from fielding.coordinator.movement import Movement, Resampled
from fielding.coordinator.noise_floor import HISTOGRAM_FLOORS, Moments, Noise, noise_floors
from fielding.coordinator.points import Points
from fielding.coordinator.snapshot import Snapshot, restore_coordinator, snapshot
from fielding.distance import METRICS, Kind
from fielding.errors import OptionError, ReportError

FLOOR = CenterShift(tau=0.0, noise_floor=True)
CONCEPTS = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
GROUPS = np.repeat(CONCEPTS, 10, axis=0) + np.outer(np.arange(20) % 2, [0.01, -0.01, 0.0, 0.0])
"""Ten clients of each concept, nearly."""


def policy(trigger: CenterShift = FLOOR, *, kind: Kind = "histogram", metric: str = "l1") -> Policy:
    return Policy(kind=kind, metric=metric, trigger=trigger, clusterer=Clusterer(k_max=2, n_init=2), seed=1)


def told(rng: np.random.Generator, concepts: Matrix, n_samples: int) -> Matrix:
    """Return the histogram of a sample of each concept."""
    return np.stack([rng.multinomial(n_samples, concept) / n_samples for concept in concepts])


def batch(rows: Matrix, *, n_samples: int | None = 40, first: int = 0) -> ReportBatch:
    counts = None if n_samples is None else np.full(len(rows), n_samples)
    return ReportBatch(client_ids=list(range(first, first + len(rows))), representations=rows, n_samples=counts)


def movement(rows: Matrix, *, kind: Kind = "histogram", metric: str = "l1", before: Matrix | None = None) -> Movement:
    """One cluster of all these clients."""
    center = rows.mean(axis=0, keepdims=True)
    return Movement(
        before=center if before is None else before,
        after=center,
        since_global=center,
        stayed_live=np.array([True]),
        theta=1.0,
        points=Points(rows),
        membership=np.zeros(len(rows), dtype=np.int32),
        metric=METRICS[metric],
        kind=kind,
    )


def resampled(n_points: int, n_told: int, n_samples: int = 20) -> Resampled:
    counts = np.full(n_points, n_samples, dtype=np.int32)
    return Resampled(stayed=np.arange(n_points) < n_told, n_before=counts, n_after=counts)


@pytest.mark.parametrize(("n_free", "quantile"), [(1, 6.63), (3, 11.34), (10, 23.21), (60, 88.38)])
def test_the_gamma_quantile_is_that_of_tables_of_chi_squared(n_free: int, quantile: float) -> None:
    assert Moments(mean=n_free, variance=2.0 * n_free).quantile() == pytest.approx(quantile, rel=0.02)


def test_no_noise_has_the_floor_zero() -> None:
    assert Moments(mean=0.0, variance=0.0).quantile() == 0.0
    rows = np.array([[0.5, 0.5], [0.25, 0.75]])
    event = movement(rows)
    assert noise_floors(event, event.before, None).tolist() == [0.0]
    assert noise_floors(event, event.before, resampled(2, 0)).tolist() == [0.0]
    assert noise_floors(event, event.before, resampled(2, 2, n_samples=0)).tolist() == [0.0]
    certain = movement(np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert noise_floors(certain, certain.before, resampled(2, 2)).tolist() == [0.0]


def test_the_floor_under_l1_is_the_one_of_two_binomial_shares() -> None:
    event = movement(np.full((2, 2), 0.5))

    floor = noise_floors(event, event.before, resampled(2, 2, n_samples=50))[0]

    # A share has variance 1/4 (1/50 + 1/50) 2/4 = 0.005; L1 is twice its absolute value, 99 % below 2.576 of it.
    assert floor == pytest.approx(2.0 * 2.576 * np.sqrt(0.005), rel=0.15)


@pytest.mark.parametrize(("n_labels", "quantile"), [(2, 6.63), (4, 11.34), (11, 23.21)])
def test_the_floor_under_l2_is_a_chi_squared_one(n_labels: int, quantile: float) -> None:
    noise = Noise(factor=0.01, reported_share=1.0)

    floor = HISTOGRAM_FLOORS["l2"](np.full(n_labels, 1.0 / n_labels), noise)

    # Among even shares squared L2 is the noise over n, times a chi-squared number of n - 1 degrees of freedom.
    assert floor**2 == pytest.approx(0.01 / n_labels * quantile, rel=0.02)


def test_members_that_told_nothing_anew_add_no_noise() -> None:
    event = movement(np.full((4, 2), 0.5))
    floors = [noise_floors(event, event.before, resampled(4, n_told))[0] for n_told in (1, 2, 4)]

    assert floors[1] == pytest.approx(np.sqrt(2.0) * floors[0])
    assert floors[2] == pytest.approx(2.0 * floors[0])


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("shares", [np.full(10, 0.1), 1.0 / np.arange(1.0, 31.0)], ids=["uniform", "zipf"])
@pytest.mark.parametrize("n_told", [8, 2])
def test_a_shift_by_sampling_alone_goes_beyond_the_floor_about_once_in_a_hundred_times(
    metric: str, shares: Vector, n_told: int
) -> None:
    rng, n_members, n_samples, n_draws = np.random.default_rng(3), 8, 40, 500
    p = shares / shares.sum()
    still, before, after = (
        rng.multinomial(n_samples * size, p, size=n_draws) / (n_samples * n_members)
        for size in (n_members - n_told, n_told, n_told)
    )
    noise = Noise(factor=2.0 * n_told / (n_samples * n_members**2), reported_share=n_told / n_members)
    beyond = 0
    for old, new in zip(still + before, still + after, strict=True):
        middle = (old + new)[old + new > 0.0]
        floor = HISTOGRAM_FLOORS[metric](middle / middle.sum(), noise)
        beyond += METRICS[metric].between(old[np.newaxis], new[np.newaxis])[0, 0] > floor

    assert beyond / n_draws <= 0.03
    # Not so high that nothing goes beyond: half of it is passed often.
    assert METRICS[metric].between((still + before)[:1], (still + after)[:1])[0, 0] > 0.1 * floor


def test_null_reports_trigger_about_once_in_a_hundred_cluster_events_and_a_planted_shift_does_at_once() -> None:
    rng = np.random.default_rng(0)
    concepts = np.repeat(CONCEPTS, 10, axis=0)
    coordinator = Coordinator(policy())
    coordinator.update(batch(told(rng, concepts, 40)))
    events = [coordinator.update(batch(told(rng, concepts, 40))) for _ in range(300)]
    rate = sum(event.reclustered for event in events) / (2 * len(events))

    planted = coordinator.update(batch(told(rng, np.repeat(CONCEPTS[:, [1, 0, 2, 3]], 10, axis=0), 40)))

    assert 0.001 <= rate <= 0.03
    assert all(np.isfinite(event.threshold or np.inf) for event in events)
    assert planted.reclustered


def shifted(*, trigger: CenterShift, n_samples: int | None) -> Decision:
    """Ten of twenty clients lean a little more to one label than before."""
    coordinator = Coordinator(policy(trigger))
    coordinator.update(batch(GROUPS, n_samples=n_samples))
    return coordinator.update(batch(GROUPS[:10] + np.array([0.02, -0.02, 0.0, 0.0]), n_samples=n_samples))


def test_a_small_shift_is_noise_of_few_samples_and_none_of_many() -> None:
    assert not shifted(trigger=FLOOR, n_samples=20).reclustered
    assert shifted(trigger=FLOOR, n_samples=100_000).reclustered


@pytest.mark.parametrize("trigger", [FLOOR, CenterShift(tau=0.0)])
def test_without_numbers_of_samples_or_without_the_floor_the_rule_is_the_papers(trigger: CenterShift) -> None:
    decision = shifted(trigger=trigger, n_samples=None if trigger.noise_floor else 20)

    assert decision.reclustered
    assert decision.threshold == 0.0


def test_the_larger_of_factor_and_floor_is_the_threshold() -> None:
    decision = shifted(trigger=CenterShift(tau=10.0, noise_floor=True), n_samples=20)

    assert decision.theta is not None
    assert decision.threshold == pytest.approx(10.0 * decision.theta)


def test_a_move_is_no_noise() -> None:
    coordinator = Coordinator(policy())
    coordinator.update(batch(GROUPS, n_samples=5))

    decision = coordinator.update(batch(CONCEPTS[1:], n_samples=5))

    assert list(decision.moved) == [0]
    assert decision.reclustered
    assert decision.threshold == 0.0


def test_noise_since_the_last_global_clustering_adds_up_over_events() -> None:
    trigger = CenterShift(tau=0.0, reference="last-global", noise_floor=True)
    coordinator, rng = Coordinator(policy(trigger)), np.random.default_rng(1)
    coordinator.update(batch(told(rng, np.repeat(CONCEPTS, 10, axis=0), 40)))
    thresholds = []
    for first in (0, 1, 2):  # one more client of the first cluster each time
        decision = coordinator.update(batch(told(rng, CONCEPTS[:1], 40), first=first))
        assert not decision.reclustered
        thresholds.append(float(decision.threshold or 0.0))

    assert thresholds == pytest.approx(thresholds[0] * np.sqrt([1.0, 2.0, 3.0]), rel=0.05)


def test_one_report_at_a_time_tells_its_number_of_samples_too() -> None:
    rows = np.repeat(CONCEPTS, 10, axis=0)
    one, all_at_once = Coordinator(policy()), Coordinator(policy())
    for shares in (rows, rows[::-1], rows):
        for client, row in enumerate(shares):
            one.receive(ClientReport(client_id=client, representation=row, n_samples=30))
        singly, together = one.decide(), all_at_once.update(batch(shares, n_samples=30))
        assert (singly.shift, singly.threshold) == (together.shift, together.threshold)


@pytest.mark.parametrize("n_samples", [[1], [1, -1], [0.5, 1.0], "ab", np.ones((2, 1), dtype=np.int64)])
def test_numbers_of_samples_that_are_none_are_refused_and_change_nothing(n_samples: object) -> None:
    coordinator = Coordinator(policy())

    with pytest.raises(ReportError, match="n_samples is"):
        coordinator.update(
            ReportBatch(client_ids=["a", "b"], representations=np.eye(2), n_samples=n_samples)  # type: ignore[arg-type]
        )
    assert len(coordinator.registry) == 0


def test_a_restored_coordinator_knows_the_noise_and_one_of_an_earlier_version_knows_none() -> None:
    rng = np.random.default_rng(2)
    coordinator = Coordinator(policy())
    for _ in range(3):
        coordinator.update(batch(told(rng, np.repeat(CONCEPTS, 10, axis=0), 40)))
    coordinator.receive(ClientReport(client_id=3, representation=CONCEPTS[0], n_samples=7))
    state = snapshot(coordinator)
    copied = {name: array.copy() for name, array in state.arrays.items()}
    old = {name: array for name, array in copied.items() if name not in ("n_samples", "n_global", "origin", "heard")}
    old_values = {**state.values, "inbox": [[3, CONCEPTS[0].tolist()]]}

    twin = restore_coordinator(Snapshot(values=state.values, arrays=copied))
    elder = restore_coordinator(Snapshot(values=old_values, arrays=old))  # type: ignore[arg-type]
    decision = coordinator.decide()

    assert decision.threshold
    assert twin.decide().threshold == decision.threshold
    assert elder.decide().threshold == 0.0


@pytest.mark.parametrize("metric", ["l1", "l2", "cosine"])
def test_vectors_drawn_afresh_stay_below_their_floor_and_a_common_shift_goes_beyond(metric: str) -> None:
    rng, middle, beyond = np.random.default_rng(4), np.array([4.0, 4.0, 0.0]), 0
    for _ in range(300):
        before, after = middle + rng.normal(size=(2, 12, 3))
        after[6:] = before[6:]  # half of them told anew
        event = movement(after, kind="vector", metric=metric, before=before.mean(axis=0, keepdims=True))
        floor = noise_floors(event, event.before, resampled(12, 6))[0]
        beyond += METRICS[metric].between(event.before, event.after)[0, 0] > floor

    assert beyond / 300 <= 0.05
    moved = movement(after + np.array([0.0, 0.0, 3.0]), kind="vector", metric=metric, before=middle[np.newaxis])
    assert (
        METRICS[metric].between(moved.before, moved.after)[0, 0]
        > noise_floors(moved, moved.before, resampled(12, 6))[0]
    )


def test_a_lone_vector_has_no_scatter_and_one_that_told_anew_has_that_of_its_cluster() -> None:
    lone = movement(np.array([[1.0, 2.0]]), kind="vector", metric="l2")
    pair = movement(np.array([[0.0], [2.0]]), kind="vector", metric="l2")

    assert noise_floors(lone, lone.before, resampled(1, 1)).tolist() == [0.0]
    # Scatter 2, one of two told anew: variance 2 * 2 / 4 = 1; the 99 % point of a standard normal length is 2.576.
    assert noise_floors(pair, pair.before, resampled(2, 1))[0] == pytest.approx(2.576, rel=0.02)


def test_the_floor_is_a_flag() -> None:
    with pytest.raises(OptionError, match="noise_floor"):
        CenterShift(noise_floor=1)  # type: ignore[arg-type]
