"""Clients that report back and forth to have all grouped anew (QUALITY.md R12), and members that are far out."""

import numpy as np
import pytest

from fielding.client.report import ReportBatch
from fielding.coordinator import Coordinator, Policy
from fielding.coordinator.clustering import Clusterer

N_CLIENTS, N_LABELS, N_SAMPLES = 100, 10, 300
MIXES = np.random.default_rng(5).dirichlet(np.full(N_LABELS, 10.0), size=4)
PLACES = np.repeat(np.arange(4), 25)


def reclusterings(*, robust: bool, n_events: int, n_liars: int, metric: str = "l1") -> int:
    """Return how often all are grouped anew while the first clients, all of one place, tell a lie and the truth."""
    rng = np.random.default_rng(1)
    coordinator, count = Coordinator(Policy(metric=metric, robust=robust)), 0
    for event in range(n_events):
        told = rng.multinomial(N_SAMPLES, MIXES[PLACES]) / N_SAMPLES
        if event % 2:
            told[:n_liars] = np.eye(N_LABELS)[0]
        count += coordinator.update(ReportBatch(client_ids=range(N_CLIENTS), representations=told)).reclustered
    return count


@pytest.mark.parametrize("n_events", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("metric", ["l1", "hellinger"])
def test_fewer_than_a_sixth_of_a_cluster_never_force_a_reclustering(metric: str, n_events: int) -> None:
    assert reclusterings(robust=True, n_events=n_events, n_liars=4, metric=metric) == 0


def test_by_the_published_rule_two_of_a_hundred_do() -> None:
    assert reclusterings(robust=False, n_events=40, n_liars=2) > 5


def test_what_many_report_still_counts() -> None:
    coordinator = Coordinator(Policy(robust=True))
    told = np.repeat(np.eye(3)[:2], 10, axis=0)
    coordinator.update(ReportBatch(client_ids=range(20), representations=told))
    drifted = told[:10].copy()
    drifted[:6] = [0.0, 0.0, 1.0]

    assert coordinator.update(ReportBatch(client_ids=range(10), representations=drifted)).reclustered


def test_members_far_out_do_not_count_for_a_robust_center() -> None:
    told = np.array([[0.5, 0.5], [0.52, 0.48], [0.48, 0.52], [0.54, 0.46], [0.46, 0.54], [0.0, 1.0]])
    centers = []
    for robust in (False, True):
        coordinator = Coordinator(Policy(robust=robust, clusterer=Clusterer(k_max=1)))
        coordinator.update(ReportBatch(client_ids=range(6), representations=told))
        assert coordinator.clusters is not None
        centers.append(coordinator.clusters.centers[0, 0])

    assert centers == pytest.approx([2.5 / 6, 0.5], abs=1e-6)
