"""Shared samples: what every client gets besides its own, and what it does to their histograms."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts, Matrix
from fielding.client.representation.label import shares_of
from fielding.coordinator.heterogeneity import mean_pairwise_distance
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.errors import OptionError
from fielding.rng import stream
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.scenarios import SCENARIOS, DealRequest, deal
from fielding.traces.scenarios.covariate import Covariate
from fielding.traces.scenarios.places import Places
from fielding.traces.scenarios.shared import add_shared, shared_samples
from fielding.traces.schedule import Schedule, sort_schedule
from fielding.traces.sliding import SlidingWindows

N_LABELS = 6
REQUEST = DealRequest(n_clients=8, n_intervals=9, n_first=3, samples_per_interval=10)
PLAN = WindowPlan(gap=2, window=6)
"""A window shows three intervals."""


def square_pool(n_samples: int = 300) -> Pool:
    rng = np.random.default_rng(1)
    y = rng.integers(0, N_LABELS, n_samples).astype(np.int32)
    return Pool(x=rng.random((n_samples, 3, 3), dtype=np.float32), y=y, classes=tuple("abcdef"))


POOL = square_pool()
IS_TEST = POOL.is_test()
OWN = Places().deal(POOL, REQUEST, seed=1)


def windows_with(n: int, *, plan: WindowPlan = PLAN, own: Schedule = OWN) -> SlidingWindows:
    return SlidingWindows(POOL, add_shared(own, POOL, n, n_visible=plan.n_visible, seed=1), plan)


def histograms(windows: SlidingWindows, round_index: int) -> Counts:
    """Return the label counts of all training windows."""
    ranges = windows.training(round_index)
    counts = np.zeros((windows.n_clients, N_LABELS), dtype=np.int64)
    rows, sizes = ranges.of(np.arange(windows.n_clients))
    np.add.at(counts, (np.repeat(np.arange(windows.n_clients), sizes), windows.schedule.y[rows]), 1)
    return counts


def test_sharing_nothing_changes_nothing() -> None:
    assert add_shared(OWN, POOL, 0, n_visible=3, seed=1) is OWN


@pytest.mark.parametrize("n", [1, 5, 6, 13])
@pytest.mark.parametrize("round_index", [0, 1, 2, 5, 11])
def test_every_window_shows_all_shared_samples_once_besides_the_own(n: int, round_index: int) -> None:
    own, both = SlidingWindows(POOL, OWN, PLAN), windows_with(n)
    shared = shared_samples(OWN, POOL, n, seed=1)

    for client in range(REQUEST.n_clients):
        before, after = (
            np.sort(windows.schedule.sample[windows.training(round_index).of(np.array([client]))[0]])
            for windows in (own, both)
        )
        assert after.tolist() == sorted([*before.tolist(), *shared.tolist()])


@pytest.mark.parametrize("round_index", [0, 5, 11])
def test_test_samples_are_as_they_were(round_index: int) -> None:
    own, both = SlidingWindows(POOL, OWN, PLAN), windows_with(12)
    everyone = np.arange(REQUEST.n_clients)
    before, after = (windows.testing(round_index).of(everyone) for windows in (own, both))

    assert after[1].tolist() == before[1].tolist()
    assert both.schedule.sample[after[0]].tolist() == own.schedule.sample[before[0]].tolist()
    assert (both.gather(after[0])[0] == own.gather(before[0])[0]).all()


def test_shared_samples_count_in_the_histogram() -> None:
    added = histograms(windows_with(2 * N_LABELS), 5) - histograms(SlidingWindows(POOL, OWN, PLAN), 5)

    assert added.tolist() == [[2] * N_LABELS] * REQUEST.n_clients


def test_the_more_is_shared_the_less_unlike_clients_are() -> None:
    levels = [mean_distance(shares_of(histograms(windows_with(n), 5))) for n in (0, 3, 6, 12, 60)]

    assert all(more < less for less, more in pairwise(levels))
    # 60 shared beside about 24 own samples: the distance shrinks to the share of the own ones.
    assert levels[-1] == pytest.approx(levels[0] * 24 / 84, rel=0.1)


def mean_distance(shares: Matrix) -> float:
    return mean_pairwise_distance(Points(shares), metric=metric_named("l1"), rng=stream(1, "measure"))


def test_those_that_come_together_have_all_labels_if_they_are_enough() -> None:
    both = add_shared(OWN, POOL, 3 * N_LABELS, n_visible=3, seed=1)
    added = np.array([np.bincount(one.y[one.interval == 4], minlength=N_LABELS) for one in (OWN, both)])

    assert (added[1] - added[0]).tolist() == [REQUEST.n_clients] * N_LABELS


def test_a_window_that_the_gap_does_not_divide_starts_with_the_share_of_its_intervals() -> None:
    plan = WindowPlan(gap=3, window=8)  # two intervals at the start, three from round 1 on

    assert [
        int((windows_with(12, plan=plan).training(at).sizes - SlidingWindows(POOL, OWN, plan).training(at).sizes)[0])
        for at in (0, 1, 4)
    ] == [8, 12, 12]


def test_a_trace_shorter_than_its_window_shows_all() -> None:
    short = Places().deal(POOL, DealRequest(n_clients=2, n_intervals=2, samples_per_interval=3), seed=1)
    both = add_shared(short, POOL, 7, n_visible=5, seed=1)

    assert both.client.size - short.client.size == 2 * 7


def test_the_papers_three_sets_are_half_the_labels_one_of_each_and_two_of_each() -> None:
    # Label 0 is seen once, label 1 twice and so on, backwards: the rarest come first.
    train = [np.flatnonzero((POOL.y == label) & ~IS_TEST)[0] for label in range(N_LABELS)]
    sample = np.repeat(train, np.arange(N_LABELS, 0, -1))
    zeros = np.zeros(sample.size, dtype=np.int64)
    own = sort_schedule((0,), 1, columns=(zeros, zeros, sample, POOL.y[sample], zeros))
    half, one, two = (shared_samples(own, POOL, n, seed=1) for n in (3, 6, 12))

    assert POOL.y[half].tolist() == [5, 4, 3]
    assert POOL.y[one].tolist() == [5, 4, 3, 2, 1, 0]
    assert POOL.y[two].tolist() == [5, 4, 3, 2, 1, 0] * 2


@given(st.integers(0, 239), st.integers(0, 50))
def test_shared_samples_are_distinct_and_for_training_and_small_sets_are_part_of_large_ones(n: int, seed: int) -> None:
    n = min(n, int((~IS_TEST).sum()))
    shared = shared_samples(OWN, POOL, n, seed=seed)

    assert np.unique(shared).size == n
    assert not IS_TEST[shared].any()
    assert shared_samples(OWN, POOL, n // 2, seed=seed).tolist() == shared[: n // 2].tolist()


def test_a_label_that_runs_out_leaves_its_turns_to_the_others() -> None:
    y = np.array([0] * 30 + [1] * 2, dtype=np.int32)
    pool = Pool(x=np.zeros((32, 1)), y=y, classes=("cat", "dog", "eel"))
    own = sort_schedule((0,), 1, columns=([0], [0], [0], [0], [0]))
    n_dogs = int((~pool.is_test()[30:]).sum())

    assert np.bincount(y[shared_samples(own, pool, 10, seed=1)]).tolist() == [10 - n_dogs, n_dogs]


def test_another_seed_shares_other_samples() -> None:
    assert shared_samples(OWN, POOL, 6, seed=1).tolist() != shared_samples(OWN, POOL, 6, seed=2).tolist()


def test_shared_samples_look_as_the_clients_own_do_there_and_then() -> None:
    both = add_shared(OWN, POOL, 9, n_visible=3, seed=1)
    assert OWN.concepts is not None

    assert len(OWN.looks) > 1
    assert (both.look == OWN.concepts[both.interval, both.client] % len(OWN.looks)).all()


def test_where_a_client_has_several_looks_its_shared_samples_share_them_out() -> None:
    half = Covariate(look="rotation", share=1.0, intensity=0.5).deal(POOL, REQUEST, seed=1)
    both = add_shared(half, POOL, 40, n_visible=2, seed=1)
    assert half.concepts is not None

    turned = (half.concepts > 0).T
    for client, interval in zip(*np.nonzero(turned), strict=True):
        own, all_looks = (
            one.look[(one.client == client) & (one.interval == interval)].astype(bool).mean() for one in (half, both)
        )
        assert all_looks == pytest.approx(own)  # 20 shared ones beside 10 of its own, in turns


def test_where_a_client_has_nothing_of_its_own_shared_samples_look_as_they_are() -> None:
    own = sort_schedule(
        ("a", "b"), 2, columns=([0, 1], [0, 1], [0, 1], POOL.y[:2], [1, 1]), looks=OWN.looks, concepts=None
    )
    both = add_shared(own, POOL, 1, n_visible=1, seed=1)

    assert both.look.tolist() == [1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_can_share_and_keeps_its_own_rows_and_concepts(name: str) -> None:
    own = deal(name, POOL, REQUEST, seed=2)
    both = add_shared(own, POOL, 5, n_visible=3, seed=2)
    shared = set(shared_samples(own, POOL, 5, seed=2).tolist())

    assert both.concepts is own.concepts
    assert both.looks is own.looks
    assert both.client.size == own.client.size + REQUEST.n_clients * 3 * 5
    place = both.client.astype(np.int64) * both.n_intervals + both.interval
    sizes = np.bincount(own.client.astype(np.int64) * own.n_intervals + own.interval, minlength=place.max() + 1)
    nth = np.arange(place.size) - np.searchsorted(place, place)
    is_own = nth < sizes[place]
    for column in ("client", "interval", "sample", "y", "look"):
        assert (getattr(both, column)[is_own] == getattr(own, column)).all()
    assert set(both.sample[~is_own].tolist()) == shared
    assert (both.y[~is_own] == POOL.y[both.sample[~is_own]]).all()


def test_more_than_there_are_cannot_be_shared() -> None:
    n_train = int((~IS_TEST).sum())

    assert shared_samples(OWN, POOL, n_train, seed=1).size == n_train
    with pytest.raises(OptionError, match=f"shared is {n_train + 1}, but there are {n_train} training samples"):
        add_shared(OWN, POOL, n_train + 1, n_visible=3, seed=1)


@pytest.mark.parametrize(("n", "n_visible"), [(-1, 3), (True, 3), (1.5, 3), (1, 0)])
def test_numbers_that_are_none_are_refused(n: int, n_visible: int) -> None:
    with pytest.raises(OptionError, match="whole number of at least"):
        add_shared(OWN, POOL, n, n_visible=n_visible, seed=1)
