"""Groups behind far clients: a sample of the adversary matrix; all of it is ``experiments/lying.py --matrix``."""

from itertools import product

import numpy as np
import pytest

from fielding._typing import Floats, Mask, Membership
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.clustering.structure import near_copies
from fielding.coordinator.points import Points
from fielding.distance import METRICS
from fielding.federation.evaluation import adjusted_rand_index

LABELS, SAMPLES = 10, 300


def reports(seed: int, sizes: tuple[int, ...], n_liars: int, lie: str) -> tuple[Floats, Membership, Mask]:
    """Return label histograms of clients in places of these sizes, their places, and who tells the truth."""
    rng = np.random.default_rng(seed)
    mixes = rng.dirichlet(np.full(LABELS, 5.0), size=len(sizes))
    places = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(np.int32)
    told = rng.multinomial(SAMPLES, mixes[places]) / SAMPLES
    liars = np.arange(places.size) < n_liars
    targets = {"collude": [3], "collude-two": [3, 7], "one-hot": list(range(LABELS))}.get(lie)
    if targets:
        told[liars] = np.eye(LABELS)[rng.choice(targets, size=n_liars)]
    elif lie == "permute":
        told[liars] = rng.permuted(told[liars], axis=1)
    else:
        told[liars] = told[rng.choice(np.flatnonzero(~liars), size=n_liars)]
    return told.astype(np.float32), places, ~liars


def labels_of(told: Floats, metric: str, *, robust: bool, k_max: int = 10) -> Membership:
    rng = np.random.default_rng(0)
    found = Clusterer(k_max=k_max).cluster(Points(told), metric=METRICS[metric], rng=rng, robust=robust)
    assert found.n_clusters <= k_max
    return found.labels


def agreement(labels: Membership, places: Membership, honest: Mask) -> float:
    return adjusted_rand_index(labels[honest], places[honest])


@pytest.mark.parametrize(
    ("lie", "n_liars", "metric"),
    [
        *product(["collude", "collude-two"], [3, 20], ["l1", "hellinger"]),
        ("one-hot", 20, "hellinger"),
        ("permute", 10, "l1"),
        ("mimic", 20, "hellinger"),
    ],
)
def test_honest_clients_keep_their_clusters_whatever_a_fifth_reports(lie: str, n_liars: int, metric: str) -> None:
    told, places, honest = reports(21, (25, 25, 25, 25), n_liars, lie)

    assert agreement(labels_of(told, metric, robust=True), places, honest) >= 0.95


def test_by_the_published_choice_three_colluders_are_enough() -> None:
    told, places, honest = reports(21, (25, 25, 25, 25), 3, "collude")

    assert agreement(labels_of(told, "hellinger", robust=False), places, honest) < 0.05


def test_without_liars_small_groups_stay_and_groups_without_parts_are_not_split() -> None:
    told, places, honest = reports(22, (24, 24, 24, 24, 4), 0, "collude")
    published, robust = (labels_of(told, "hellinger", robust=one) for one in (False, True))

    assert adjusted_rand_index(published, places) == 1.0
    assert robust.tolist() == published.tolist()
    assert honest.all()


def test_liars_are_thrown_together_where_clusters_are_few() -> None:
    told, places, honest = reports(23, (25, 25, 25, 25), 20, "collude-two")

    assert agreement(labels_of(told, "hellinger", robust=True, k_max=5), places, honest) >= 0.95


def test_copies_of_one_report_count_once() -> None:
    told, _, _ = reports(24, (25,), 0, "collude")
    told[:4] = told[4]
    metric = METRICS["l1"]

    first = near_copies(metric.between(told, told))

    assert first[:5].tolist() == [0] * 5
    assert first[5:].tolist() == list(range(5, 25))


def test_where_all_report_one_of_two_labels_copies_are_no_copies() -> None:
    told = np.repeat(np.eye(2), 10, axis=0)

    assert near_copies(METRICS["l1"].between(told, told)).tolist() == list(range(20))
