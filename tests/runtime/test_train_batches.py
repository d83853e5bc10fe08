from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.ranges import Ranges
from fielding.rng import client_key
from fielding.runtime.train import draw_batches as drawn_batches

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=6)


def ranges_of(sizes: list[int]) -> Ranges:
    ends = np.cumsum(sizes)
    return Ranges(start=ends - np.array(sizes), stop=ends, entries=1000 + np.arange(int(ends[-1])))


def drawn(
    sizes: list[int], clients: list[int], *, steps: int = 4, batch: int = 5, moment: tuple[int, int] = (1, 2)
) -> np.ndarray:
    keys = np.array([client_key(client) for client in clients], dtype=np.uint64)
    return drawn_batches(ranges_of(sizes), np.array(clients), keys=keys, moment=moment, shape=(steps, batch))


@given(SIZES, st.integers(1, 5), st.integers(1, 8))
def test_everyone_draws_from_its_own_window(sizes: list[int], steps: int, batch: int) -> None:
    everyone = list(range(len(sizes)))

    draws = drawn(sizes, everyone, steps=steps, batch=batch)

    ranges = ranges_of(sizes)
    assert draws.shape == (len(sizes), steps, batch)
    for client in everyone:
        own = set(ranges.of(np.array([client]))[0].tolist())
        assert set(draws[client].ravel().tolist()) <= own


@given(SIZES, st.integers(1, 5), st.integers(1, 8))
def test_a_window_of_at_least_a_batch_is_gone_through_epoch_by_epoch(sizes: list[int], steps: int, batch: int) -> None:
    draws = drawn(sizes, list(range(len(sizes))), steps=steps, batch=batch)

    for client, size in enumerate(sizes):
        if size >= batch:
            row = draws[client].ravel()
            for start in range(0, row.size, size):
                assert max(Counter(row[start : start + size].tolist()).values()) == 1


@given(SIZES, st.data())
def test_what_a_client_draws_does_not_depend_on_who_else_draws(sizes: list[int], data: st.DataObject) -> None:
    everyone = list(range(len(sizes)))
    some = data.draw(st.lists(st.sampled_from(everyone), unique=True, min_size=1))

    alone, together = drawn(sizes, some), drawn(sizes, everyone)

    assert (alone == together[some]).all()


def test_rounds_and_seeds_draw_differently() -> None:
    first = drawn([30], [0])

    assert (first != drawn([30], [0], moment=(1, 3))).any()
    assert (first != drawn([30], [0], moment=(2, 2))).any()


def test_all_orders_of_three_samples_are_equally_likely() -> None:
    orders = Counter(tuple(drawn([3], [0], steps=1, batch=3, moment=(0, at)).ravel().tolist()) for at in range(6000))

    assert len(orders) == 6
    assert all(850 < count < 1150 for count in orders.values())
