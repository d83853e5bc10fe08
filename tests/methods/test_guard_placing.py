import numpy as np

from fielding.client.report import UNEXPLAINED, ReportBatch
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import Never
from fielding.methods.guard import place_by_loss
from tests.methods.judging import Tastes, models_of


def coordinator_of(n_clients: int = 6) -> Coordinator:
    """Return one with two clusters, of even and of odd clients."""
    coordinator = Coordinator(Policy(clusterer=Clusterer(k_max=2), trigger=Never(), seed=1))
    rows = np.array([[0.9, 0.1], [0.1, 0.9]])[np.arange(n_clients) % 2] + 0.01 * np.arange(n_clients)[:, np.newaxis]
    rows /= rows.sum(axis=1, keepdims=True)
    coordinator.update(ReportBatch(client_ids=list(range(n_clients)), representations=rows))
    assert coordinator.registry.membership.tolist() == [0, 1] * (n_clients // 2)
    return coordinator


def told(kinds: dict[int, int]) -> ReportBatch:
    return ReportBatch(
        client_ids=list(kinds),
        representations=np.full((len(kinds), 2), 0.5),
        kinds=np.array(list(kinds.values()), dtype=np.int8),
    )


def test_clients_that_nothing_explains_go_where_they_are_served_best_and_only_they_are_asked() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0, 4.0, 0.0, 1.0, 4.0, 9.0])
    reports = told({5: UNEXPLAINED, 0: UNEXPLAINED, 2: UNEXPLAINED, 3: UNEXPLAINED, 4: 1})

    moved = place_by_loss(coordinator, models_of(0.0, 4.0), reports, clients.api)

    assert clients.asked == [[0, 2, 3, 5]]
    assert clients.about == ["newest"]
    assert moved == [0, 3]
    assert coordinator.registry.membership.tolist() == [1, 1, 0, 0, 0, 1]


def test_what_clients_kept_aside_before_nothing_explained_their_errors_does_not_place_them() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0] * 6)
    clients.off = -4.0

    assert place_by_loss(coordinator, models_of(0.0, 4.0), told({0: UNEXPLAINED}), clients.api) == [0]


def test_a_tie_stays_where_it_is() -> None:
    coordinator, clients = coordinator_of(), Tastes([0.0] * 6)

    assert place_by_loss(coordinator, models_of(2.0, 2.0), told({1: UNEXPLAINED, 0: UNEXPLAINED}), clients.api) == []
    assert coordinator.registry.membership.tolist() == [0, 1] * 3


def test_who_does_not_answer_stays_and_a_broken_model_takes_nobody_in() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0] * 6)
    clients.silent = [0]

    assert place_by_loss(coordinator, models_of(0.0, 4.0), told({0: UNEXPLAINED}), clients.api) == []
    assert place_by_loss(coordinator, models_of(0.0, np.nan), told({2: UNEXPLAINED}), clients.api) == []
    assert place_by_loss(coordinator, models_of(np.inf, 4.0), told({4: UNEXPLAINED}), clients.api) == [4]


def test_without_such_reports_or_with_one_cluster_nobody_is_asked() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0] * 6)
    untold = ReportBatch(client_ids=[0], representations=np.full((1, 2), 0.5))

    assert place_by_loss(coordinator, models_of(0.0, 4.0), told({0: 3}), clients.api) == []
    assert place_by_loss(coordinator, models_of(0.0, 4.0), untold, clients.api) == []
    assert place_by_loss(coordinator, models_of(0.0), told({0: UNEXPLAINED}), clients.api) == []
    assert clients.asked == []
