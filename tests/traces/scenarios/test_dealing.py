import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.rng import stream
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import View, deal_view, draw_labels, draw_samples
from tests.traces.scenarios.pools import request_for, vector_pool


@given(seed=st.integers(0, 1000), n_mixes=st.integers(1, 50), n_labels=st.integers(1, 8))
def test_labels_are_found_as_by_a_search_in_each_mix_alone(seed: int, n_mixes: int, n_labels: int) -> None:
    rng = stream(seed, "labels")
    mixes = rng.dirichlet(np.full(n_labels, 0.3), size=n_mixes)
    mix_of, drawn = rng.integers(0, n_mixes, 40), rng.random(40)

    alone = [
        int(np.searchsorted(np.cumsum(mixes[at]) / mixes[at].sum(), draw, side="right"))
        for at, draw in zip(mix_of, drawn, strict=True)
    ]

    assert draw_labels(mixes, mix_of, drawn).tolist() == alone


def test_the_highest_draw_is_a_label_with_a_share_in_every_mix() -> None:
    mixes = np.tile([[0.0, 0.7, 0.3, 0.0]], (5000, 1))
    highest = np.full(5000, 1.0 - 2.0**-53)

    assert (draw_labels(mixes, np.arange(5000), highest) == 2).all()
    assert (draw_labels(mixes, np.arange(5000), np.zeros(5000)) == 1).all()


def test_labels_come_as_often_as_the_mix_says() -> None:
    drawn = stream(1, "labels").random(20_000)

    labels = draw_labels(np.array([[0.1, 0.0, 0.6, 0.3]]), np.zeros(1, dtype=np.int64), drawn)

    assert np.abs(np.bincount(labels, minlength=4) / 20_000 - [0.1, 0.0, 0.6, 0.3]).max() < 0.02


def test_every_sample_of_a_label_is_drawn_equally_often_and_no_other() -> None:
    y = np.array([2, 0, 2, 2, 0], dtype=np.int32)
    pool = Pool(x=np.eye(5), y=y, classes=("a", "b", "c"))
    labels = np.full(9000, 2)

    samples = draw_samples(pool, labels, stream(1, "samples").random(9000))

    assert np.abs(np.bincount(samples, minlength=5) / 9000 - [1 / 3, 0, 1 / 3, 1 / 3, 0]).max() < 0.02
    assert draw_samples(pool, np.array([0, 2]), np.full(2, 1.0 - 2.0**-53)).tolist() == [4, 3]


def test_meanings_change_the_label_that_is_seen_and_not_the_sample() -> None:
    pool, request = vector_pool(n_classes=2), request_for(4, 3)
    concepts = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 0, 0]], dtype=np.int32)
    true = View(concepts=concepts, mixes=np.array([[0.5, 0.5]]), mix_of=np.zeros(1, dtype=np.int64))
    swapped = View(concepts=concepts, mixes=true.mixes, mix_of=true.mix_of, meanings=np.array([[0, 1], [1, 0]]))

    before, after = (deal_view(pool, request, view, seed=1) for view in (true, swapped))

    assert (before.sample == after.sample).all()
    assert (before.y == pool.y[before.sample]).all()
    is_swapped = concepts[after.interval, after.client] == 1
    assert ((after.y != before.y) == is_swapped).all()
