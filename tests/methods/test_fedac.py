from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy
from fielding.errors import OptionError
from fielding.federation.aggregation import aggregator_named
from fielding.federation.evaluation import adjusted_rand_index
from fielding.methods import METHODS
from fielding.methods.fedac import FedAC, better_grouping, principal_directions, variance_ratio
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import run
from tests.methods.planted import MODEL_BYTES, N_NUMBERS, advanced, planted_clients, setting_of
from tests.simulation.run_cases import left_behind, small_pool, stop_and_resume, table

TWO, THREE = [at % 2 for at in range(24)], [at % 3 for at in range(24)]
N_HEAD = 3


def fedac_of(clients: SimulatedClients, *, participants: int = 12, k_max: int = 6, **options: Any) -> FedAC:
    setting = replace(
        setting_of(clients, participants=participants), policy=Policy(clusterer=Clusterer(k_max=k_max)), n_head=N_HEAD
    )
    return FedAC(setting, **{"mu": 0.0, "pca_every": 4, "tune_every": 4, **options})


def counts(clients: SimulatedClients, method: FedAC, n_rounds: int) -> list[int]:
    """Return the number of clusters after each round."""
    found = []
    for at in range(n_rounds):
        advanced(clients, method, range(at, at + 1))
        found.append(method.models.shape[0])
    return found


@pytest.mark.parametrize(("concepts", "n_groups"), [(TWO, 2), (THREE, 3)])
@pytest.mark.parametrize("clusters", [2, 4])
def test_planted_groups_and_their_number_are_found(concepts: list[int], n_groups: int, clusters: int) -> None:
    clients = planted_clients([concepts] * 20, reports_from="nobody")
    method = fedac_of(clients, clusters=clusters)

    advanced(clients, method, range(20))

    assert method.models.shape[0] == n_groups
    assert adjusted_rand_index(method.membership(), concepts) == 1.0


def test_the_number_of_clusters_changes_by_one_when_it_is_time() -> None:
    clients = planted_clients([THREE] * 20, reports_from="nobody")

    found = counts(clients, fedac_of(clients, clusters=4), 20)

    assert found[:4] == [1, 1, 1, 4]
    changed = [at for at in range(4, 20) if found[at] != found[at - 1]]
    assert changed == [7]
    assert found[7] == 3


def test_there_are_never_more_clusters_than_the_policy_allows() -> None:
    clients = planted_clients([THREE] * 12, reports_from="nobody")

    assert max(counts(clients, fedac_of(clients, k_max=2), 12)) == 2


def test_only_participants_change_their_cluster_between_tunings() -> None:
    clients = planted_clients([THREE] * 6, reports_from="nobody")
    method = fedac_of(clients, tune_every=100)
    advanced(clients, method, range(4))
    for at in range(4, 6):
        before = method.membership()
        done = advanced(clients, method, range(at, at + 1))[0]
        others = np.setdiff1d(np.arange(24), done.updates.clients)
        assert (method.membership()[others] == before[others]).all()
        assert (method.membership()[done.updates.clients] >= 0).all()


def test_answers_are_combined_in_the_cluster_that_they_are_most_like() -> None:
    clients = planted_clients([TWO] * 6, reports_from="nobody")
    method = fedac_of(clients, tune_every=100)
    advanced(clients, method, range(4))
    before = method.models

    done = advanced(clients, method, range(4, 5))[0]

    label = method.membership()[done.updates.clients]
    for row in range(method.models.shape[0]):
        own = done.updates.models[label == row]
        expected = own.mean(axis=0) if own.size else before[row]
        assert np.allclose(method.models[row], expected, atol=1e-6)


def test_newcomers_start_from_the_mean_of_all_clusters_and_are_served_by_it() -> None:
    clients = planted_clients([[*TWO[:16], *[-1] * 8]] * 4 + [TWO] * 2, reports_from="nobody")
    method = fedac_of(clients, tune_every=100)
    advanced(clients, method, range(4))
    is_new = method.membership() < 0
    clients.begin(4)

    plan = method.plan(clients)

    asked_new = is_new[plan.clients]
    assert is_new[16:].all()
    assert asked_new.any()
    assert (plan.start[asked_new] == method.models.shape[0]).all()
    assert (plan.start[~asked_new] == method.membership()[plan.clients[~asked_new]]).all()
    assert np.allclose(plan.models[-1], method.models.mean(axis=0), atol=1e-6)


def test_participants_are_pulled_toward_the_mean_embedding_and_pay_for_it() -> None:
    clients = planted_clients([TWO] * 4, reports_from="nobody")
    method = fedac_of(clients, mu=0.5)
    clients.begin(0)

    plan = method.plan(clients)

    assert plan.pull is not None
    assert plan.pull.strength.tolist() == [0.5] * (N_NUMBERS - N_HEAD) + [0.0] * N_HEAD
    assert (plan.pull.anchors[0, :-N_HEAD] == method.models[0, :-N_HEAD]).all()
    assert plan.downloads is not None
    assert (np.round(plan.downloads * MODEL_BYTES) == MODEL_BYTES + 4 * (N_NUMBERS - N_HEAD)).all()


def test_the_mean_embedding_is_that_of_all_participants() -> None:
    clients = planted_clients([TWO] * 4, reports_from="nobody")
    method = fedac_of(clients)

    done = advanced(clients, method, range(1))[0]

    embedding = method.snapshot()[1]["embedding"].astype(np.float64)
    assert np.allclose(embedding, done.updates.models[:, :-N_HEAD].mean(axis=0), atol=1e-6)


def test_without_a_pull_nothing_but_models_is_sent() -> None:
    clients = planted_clients([TWO] * 8, reports_from="nobody")
    method = fedac_of(clients)
    advanced(clients, method, range(8))

    assert clients.ledger.client_bytes_down().sum() == 8 * 12 * MODEL_BYTES
    assert clients.ledger.client_bytes_up().sum() == 8 * 12 * MODEL_BYTES


def test_with_a_pull_the_embedding_is_paid_for_in_every_round() -> None:
    clients = planted_clients([TWO] * 8, reports_from="nobody")
    method = fedac_of(clients, mu=0.1)
    advanced(clients, method, range(8))

    assert clients.ledger.client_bytes_down().sum() == 8 * 12 * (MODEL_BYTES + 4 * (N_NUMBERS - N_HEAD))
    assert clients.ledger.client_bytes_up().sum() == 8 * 12 * MODEL_BYTES


def test_a_strong_pull_keeps_embeddings_where_they_were() -> None:
    held, free = (planted_clients([TWO] * 1, reports_from="nobody") for _ in range(2))
    one, other = fedac_of(held, mu=3.0), fedac_of(free)
    start = one.models[0].copy()

    advanced(held, one, range(1))
    advanced(free, other, range(1))

    moved = [np.abs(method.models[0] - start)[:-N_HEAD].sum() for method in (one, other)]
    assert moved[0] < 0.5 * moved[1]


def test_a_round_without_answers_changes_nothing() -> None:
    clients = planted_clients([[-1] * 24, TWO], reports_from="nobody")
    method = fedac_of(clients)
    before = {name: array.copy() for name, array in method.snapshot()[1].items()}

    advanced(clients, method, range(1))

    after = method.snapshot()[1]
    assert all((before[name] == after[name]).all() for name in before)


@pytest.mark.parametrize("n_done", [1, 4, 7, 9])
def test_a_snapshot_goes_on_exactly_like_the_original(n_done: int) -> None:
    one, other = (planted_clients([THREE] * 12, reports_from="nobody") for _ in range(2))
    first, second = fedac_of(one), fedac_of(other)
    advanced(one, first, range(n_done))
    advanced(other, second, range(n_done))
    values, arrays = first.snapshot()
    restored = fedac_of(other)
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})

    advanced(one, first, range(n_done, 12))
    advanced(other, restored, range(n_done, 12))

    assert first.snapshot()[0] == restored.snapshot()[0]
    mine, theirs = first.snapshot()[1], restored.snapshot()[1]
    assert all((mine[name] == theirs[name]).all() for name in mine)
    assert first.cluster_ids() == restored.cluster_ids()


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    section: dict[str, Json] = {"name": "fedac", "pca_every": 2, "tune_every": 2, "clusters": 2}
    config = table(method=section)
    own = Own(samples=small_pool())

    straight = run(config, tmp_path / "straight", own=own, page=False)
    stop_and_resume(config, tmp_path / "stopped", [1, 5, 8], own)

    assert straight.rounds[-1]["n_clusters"] == 2
    assert left_behind(tmp_path / "straight") == left_behind(tmp_path / "stopped")


def test_memory_of_the_server_follows_when_clusters_begin() -> None:
    clients = planted_clients([TWO] * 6, reports_from="nobody")
    setting = replace(
        setting_of(clients, participants=12, aggregator=aggregator_named("fedyogi", {})),
        policy=Policy(clusterer=Clusterer(k_max=6)),
    )
    method = FedAC(setting, pca_every=4, tune_every=1)
    advanced(clients, method, range(6))

    n_rows = {array.shape[0] for name, array in method.snapshot()[1].items() if name.startswith("memory/")}

    assert n_rows == {method.models.shape[0]}
    assert n_rows != {1}
    assert len(set(method.cluster_ids())) == method.models.shape[0]


def test_the_ratio_prefers_the_planted_number_from_both_sides() -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(3), 12).astype(np.int32)
    points = 5.0 * np.eye(3)[truth] + 0.3 * rng.standard_normal((36, 3))
    halved = (2 * truth + (points[:, 0] > np.median(points[:, 0]))).astype(np.int32)
    halved = np.unique(halved, return_inverse=True)[1].astype(np.int32)

    for labels in (np.minimum(truth, 1), halved):
        while (change := better_grouping(points, labels, most=10, rng=rng)) is not None:
            assert abs(len(change.rows) - (labels.max() + 1)) == 1
            assert np.allclose(change.parents.sum(axis=1), 1.0)
            assert variance_ratio(points, change.labels) > variance_ratio(points, labels)
            labels = change.labels
        assert adjusted_rand_index(labels, truth) == 1.0


def test_directions_are_orthonormal_and_span_what_differs() -> None:
    rng = np.random.default_rng(2)
    rows = (rng.standard_normal((6, 2)) @ rng.standard_normal((2, 50))).astype(np.float32)

    directions = principal_directions(rows, 4)

    assert np.allclose(directions[:2] @ directions[:2].T, np.eye(2), atol=1e-5)
    assert not directions[2:].any()
    assert np.allclose((rows @ directions.T) @ directions, rows, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clusters": 0}, "clusters is 0"),
        ({"mu": -0.1}, "mu is -0.1"),
        ({"rank": 2.5}, "rank is 2.5"),
        ({"pca_every": 0}, "pca_every is 0"),
        ({"tune_every": "often"}, "tune_every is 'often'"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        fedac_of(planted_clients([TWO]), **options)


def test_it_says_that_it_is_reconstructed() -> None:
    assert METHODS["fedac"].summary.startswith("FedAC-style (reconstructed)")


def attacked(clients: SimulatedClients, method: FedAC, rounds: range, size: float) -> None:
    """Let answers be as large as this, with either sign in turn."""
    for at in rounds:
        clients.begin(at)
        updates = clients.train(method.plan(clients))
        signs = np.where(np.arange(updates.clients.size) % 2, size, -size).astype(np.float32)
        method.learn(replace(updates, models=np.tile(signs[:, np.newaxis], (1, N_NUMBERS))))


@pytest.mark.parametrize(
    ("n_done", "size"),
    [(0, 1e20), (0, 3e38), (3, 1e20), (3, 3e38), (6, 1e20), (6, 3e38)],
)
@pytest.mark.parametrize("aggregator", ["mean", "fedyogi"])
def test_uploads_as_large_as_float32_allows_leave_everything_finite(n_done: int, aggregator: str, size: float) -> None:
    clients = planted_clients([TWO] * 16, reports_from="nobody")
    setting = setting_of(clients, participants=12, aggregator=aggregator_named(aggregator))
    method = FedAC(replace(setting, n_head=N_HEAD), mu=0.5, pca_every=4, tune_every=4)
    advanced(clients, method, range(n_done))

    attacked(clients, method, range(n_done, n_done + 6), size)
    advanced(clients, method, range(n_done + 6, n_done + 9))

    assert np.isfinite(method.models).all()
    for name, array in method.snapshot()[1].items():
        assert np.isfinite(array.astype(np.float64)).all(), name
