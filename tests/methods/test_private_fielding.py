"""Fielding over noised sums: it finds groups, follows them, and stops where its budget ends."""

from unittest import mock

import numpy as np
import pytest

from fielding._typing import Counts, Matrix, Membership
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.sums import Asked, SumRule, SumSchedule, choose_clusters, parts_of
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy
from fielding.federation.evaluation import adjusted_rand_index
from fielding.federation.noised_sums import NoisedSums
from fielding.methods import private_fielding
from fielding.methods.method import MethodSetting, Parts
from fielding.methods.private_fielding import PrivateFielding, merge_path, project

N_LABELS, N_GROUPS = 10, 4
ROUNDS = 40


class Answering:
    """Clients with these label counts; what is heard of them is all that the method can know."""

    def __init__(self, counts: Counts, rule: SumRule) -> None:
        self.counts, self.round_index = counts, 0
        self.heard = list[Counts]()
        ledger = PrivacyLedger(None, rule)
        self._sums = NoisedSums(rule, ledger, lambda at: repeatable_words(np.random.default_rng(at)))

    def noised_sum(self, asked: Asked, candidates: tuple[Matrix, ...]) -> Counts | None:
        if not self._sums.grant(self.round_index):
            return None
        self.heard.append(self._sums.noised(parts_of(asked, self.counts, candidates).sum(axis=0), self.round_index))
        return self.heard[-1]

    def choose(self, clients: Counts, centers: Matrix) -> Membership:
        return choose_clusters(self.counts[clients], centers)


def population(n_clients: int, seed: int = 0) -> tuple[Counts, Counts]:
    """Return label counts of clients in four groups of two labels each and a bit of all, and the group of each."""
    rng = np.random.default_rng(seed)
    group = rng.integers(N_GROUPS, size=n_clients)
    shares = np.full((N_GROUPS, N_LABELS), 0.02)
    for one in range(N_GROUPS):
        shares[one, 2 * one : 2 * one + 2] = 0.42
    return rng.multinomial(100, shares[group]), group


def method_of(n_clients: int, epsilon: float, *, k_max: int = 8) -> tuple[PrivateFielding, SumRule, SumSchedule]:
    schedule = SumSchedule(rounds=ROUNDS, gap=10, window=50, chooses_k=True)
    rule = SumRule(epsilon=epsilon, delta=1e-5, releases=schedule.n_releases)
    setting = MethodSetting(
        initial=np.zeros(3, dtype=np.float32),
        client_ids=tuple(range(n_clients)),
        policy=Policy(clusterer=Clusterer(k_max=k_max)),
        parts=Parts(participants=20, n_classes=N_LABELS),
        seed=3,
    )
    return PrivateFielding(setting, rule=rule, schedule=schedule), rule, schedule


def follow(method: PrivateFielding, clients: Answering, rounds: range) -> None:
    for at in rounds:
        clients.round_index = at
        method.follow(clients)


@pytest.mark.parametrize(("n_clients", "epsilon", "least"), [(300, 500.0, 0.99), (1000, 4.0, 0.95), (5000, 1.0, 0.95)])
def test_groups_are_found_where_clients_are_many_enough(n_clients: int, epsilon: float, least: float) -> None:
    counts, group = population(n_clients)
    method, rule, _ = method_of(n_clients, epsilon)

    follow(method, Answering(counts, rule), range(ROUNDS))

    assert len(method.models) == N_GROUPS
    assert adjusted_rand_index(group, method.membership()) > least


def test_centers_follow_clients_and_clients_move_by_themselves() -> None:
    counts, group = population(2000)
    method, rule, _ = method_of(2000, 20.0)
    clients = Answering(counts, rule)
    follow(method, clients, range(8))
    before = method.membership()
    is_drifted = group == 0
    clients.counts = counts.copy()
    clients.counts[is_drifted] = counts[group == 1][np.arange(is_drifted.sum()) % (group == 1).sum()]
    clients.round_index = 10

    decision = method.follow(clients)

    assert len(decision.moved) == pytest.approx(int(is_drifted.sum()), abs=5)
    assert decision.shift is not None
    assert decision.threshold is not None
    assert decision.n_live == N_GROUPS - 1  # the emptied one stays, with its model, for those who come back
    assert len(method.models) == N_GROUPS
    clients.counts, clients.round_index = counts, 20
    method.follow(clients)
    assert adjusted_rand_index(before, method.membership()) > 0.99


def test_dp_fedavg_knows_the_sizes_of_clusters_by_noised_sums_alone() -> None:
    counts, _ = population(1000)
    method, rule, _ = method_of(1000, 20.0)
    follow(method, Answering(counts, rule), range(8))
    planned = []
    for moved in (0, 1):
        method._membership[0] = moved  # a client that moves changes no sum here, and so nothing that anybody sees
        with mock.patch.object(private_fielding, "plan_by_cluster") as plan:
            method.plan(mock.Mock())
        planned.append(plan.call_args.kwargs["sizes"])

    np.testing.assert_array_equal(*planned)
    exact = np.bincount(method.membership(), minlength=N_GROUPS)
    np.testing.assert_allclose(planned[0], exact, atol=40)
    assert planned[0].tolist() != exact.tolist()


def test_sums_of_several_releases_are_pooled_until_a_center_moves_farther_than_noise() -> None:
    counts, group = population(1000)
    method, rule, _ = method_of(1000, 2.0)
    clients = Answering(counts, rule)
    truth = np.stack([counts[group == one].mean(axis=0) / 100 for one in range(N_GROUPS)])

    def error() -> float:
        near = np.sqrt(np.square(method.centers[:, np.newaxis] - truth).sum(axis=2)).min(axis=1)
        return float(near.mean())

    follow(method, clients, range(6))
    first = error()
    follow(method, clients, range(6, ROUNDS))

    assert error() < first  # four times the sums, half the noise


def test_no_more_is_released_than_the_rule_allows_and_centers_stay_then() -> None:
    counts, _ = population(500)
    method, rule, schedule = method_of(500, 8.0)
    clients = Answering(counts, rule)

    follow(method, clients, range(ROUNDS + 50))

    assert len(clients.heard) == schedule.n_releases
    centers = method.centers
    clients.round_index = 200
    assert method.follow(clients).shift is None
    np.testing.assert_array_equal(method.centers, centers)


def test_a_snapshot_goes_on_as_the_method_did() -> None:
    counts, _ = population(600)
    (method, rule, _), (other, _, _) = method_of(600, 8.0), method_of(600, 8.0)
    clients = Answering(counts, rule)
    follow(method, clients, range(12))

    other.restore(*method.snapshot())
    follow(other, Answering(counts, rule), range(12, ROUNDS))
    follow(method, clients, range(12, ROUNDS))

    np.testing.assert_array_equal(method.centers, other.centers)
    np.testing.assert_array_equal(method.membership(), other.membership())


def test_clients_that_join_ask_for_a_cluster_at_once() -> None:
    counts, group = population(800)
    method, rule, _ = method_of(800, 50.0)
    clients = Answering(counts, rule)
    follow(method, clients, range(12))
    clients.counts, clients.round_index = np.concatenate([counts, counts[:5]]), 12

    method.grow(tuple(range(805)))
    decision = method.follow(clients)

    assert list(decision.joined) == [800, 801, 802, 803, 804]
    assert adjusted_rand_index(np.concatenate([group, group[:5]]), method.membership()) > 0.99


def test_projections_are_label_shares_and_the_nearest_ones() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(0.2, 0.5, (50, 6))
    found = project(rows)

    assert found.min() >= 0.0
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for other in rng.dirichlet(np.ones(6), 200):
        assert (np.square(rows - found).sum(axis=1) <= np.square(rows - other).sum(axis=1) + 1e-12).all()


def test_merging_keeps_all_sums() -> None:
    shares, counts = np.random.default_rng(1).random((5, 3)), np.arange(1.0, 6.0)

    path = merge_path(shares, counts)

    assert [len(one[1]) for one in path] == [5, 4, 3, 2, 1]
    for one, others in path:
        np.testing.assert_allclose(one.sum(axis=0), shares.sum(axis=0))
        assert others.sum() == pytest.approx(15.0)
