"""What every trigger, partitioner and way to inherit must do alike."""

import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest

from fielding.coordinator.clustering import PARTITIONERS, Clusterer
from fielding.coordinator.movement import Movement, Resampled, TriggerMemory
from fielding.coordinator.points import Points
from fielding.coordinator.policy import Policy, policy_from, policy_record, trigger_named
from fielding.coordinator.trigger import TRIGGERS
from fielding.coordinator.warm_start import INHERIT
from fielding.distance import METRICS, metric_named
from fielding.errors import OptionError
from fielding.rng import stream

every_trigger = pytest.mark.parametrize("name", sorted(TRIGGERS))
every_partitioner = pytest.mark.parametrize("name", sorted(PARTITIONERS))
every_metric = pytest.mark.parametrize("metric", sorted(METRICS))


def random_movement(seed: int) -> Movement:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet([0.5] * 4, size=30).astype(np.float32)
    membership = rng.integers(0, 3, size=30).astype(np.int32)
    after = np.array([rows[membership == k].astype(np.float64).mean(axis=0) for k in range(3)])
    return Movement(
        before=rng.dirichlet([0.5] * 4, size=3),
        after=after,
        since_global=rng.dirichlet([0.5] * 4, size=3),
        stayed_live=np.array([True, True, False]),
        theta=0.8,
        points=Points(rows),
        membership=membership,
        metric=metric_named("l1"),
        kind="histogram",
    )


@every_trigger
def test_equal_movements_get_equal_verdicts_and_are_not_edited(name: str) -> None:
    trigger, movement, twin = trigger_named(name), random_movement(3), random_movement(3)

    assert trigger.assess(movement, TriggerMemory()) == trigger.assess(movement, TriggerMemory())
    for field in ("before", "after", "since_global", "stayed_live", "membership"):
        assert getattr(movement, field).tolist() == getattr(twin, field).tolist()


@every_trigger
def test_shift_counts_only_clusters_that_stayed_live(name: str) -> None:
    movement = random_movement(4)
    verdict = trigger_named(name).assess(movement, TriggerMemory())

    distances = np.abs(movement.before - movement.after).sum(axis=1)
    assert verdict.shift == pytest.approx(distances[:2].max())


@every_trigger
def test_a_trigger_survives_a_checkpoint_and_a_pickle_and_refuses_unknown_options(name: str) -> None:
    policy = Policy(trigger=trigger_named(name))

    assert policy_from(policy_record(policy)) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    with pytest.raises(OptionError, match="unknown option of trigger"):
        trigger_named(name, {"taus": 1})


@pytest.mark.parametrize("name", [name for name in sorted(TRIGGERS) if hasattr(TRIGGERS[name], "noise_floor")])
@pytest.mark.parametrize("reference", ["previous", "last-global"])
def test_a_noise_floor_only_ever_raises_the_threshold(name: str, reference: str) -> None:
    counts = np.full(30, 4, dtype=np.int32)
    told = Resampled(stayed=np.ones(30, dtype=np.bool_), n_before=counts, n_after=counts)
    for seed in range(10):
        movement = replace(random_movement(seed), resampled=told, resampled_since_global=told)
        plain, floored = (
            trigger_named(name, {"reference": reference, "noise_floor": floor}).assess(movement, TriggerMemory())
            for floor in (False, True)
        )

        assert floored.threshold > 0.0
        assert floored.threshold >= plain.threshold
        assert plain.fires or not floored.fires


@every_partitioner
@every_metric
def test_partitions_have_the_clusters_asked_for_and_leave_points_alone(name: str, metric: str) -> None:
    rows = np.random.default_rng(1).dirichlet([0.5] * 5, size=40)
    before = rows.copy()
    clusterer = Clusterer(partitioner=name, k_max=6)

    found = [
        clusterer.cluster(Points(rows), metric=METRICS[metric], rng=stream(1, "conformance")).labels for _ in range(2)
    ]

    assert found[0].tolist() == found[1].tolist()
    assert sorted(set(found[0].tolist())) == list(range(int(found[0].max()) + 1))
    assert 2 <= int(found[0].max()) + 1 <= 6
    assert rows.tolist() == before.tolist()


@every_partitioner
@every_metric
@pytest.mark.parametrize("n_clients", [1, 2, 3])
def test_a_handful_of_clients_breaks_nothing(name: str, metric: str, n_clients: int) -> None:
    rows = np.eye(3)[:n_clients]

    found = Clusterer(partitioner=name).cluster(Points(rows), metric=METRICS[metric], rng=stream(1, "few"))

    assert found.n_clusters == (2 if n_clients == 3 else 1)


@pytest.mark.parametrize("name", sorted(INHERIT))
def test_inheritance_gives_weights(name: str) -> None:
    heads = np.array([[3.0, 0.0, 2.0], [0.0, 5.0, 0.0]])

    mixing = INHERIT[name](heads, np.array([[0.4, 0.2, 0.9], [0.1, 0.5, 0.3]]))

    assert mixing.shape == (2, 3)
    assert mixing.sum(axis=1).tolist() == [1.0, 1.0]
    assert asdict(Policy(inherit=name))["inherit"] == name
