"""What one client draws is its own affair: a device draws what the simulator draws for it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.rng import client_key
from fielding.training.batches import draw_positions


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 8), st.integers(0, 9))
def test_a_client_alone_draws_what_it_draws_among_others(
    sizes: list[int], steps: int, batch: int, round_index: int
) -> None:
    keys = np.array([client_key(f"client-{at}") for at in range(len(sizes))], dtype=np.uint64)
    together = draw_positions(np.array(sizes), keys=keys, moment=(3, round_index), shape=(steps, batch))

    for at, size in enumerate(sizes):
        alone = draw_positions(np.array([size]), keys=keys[at : at + 1], moment=(3, round_index), shape=(steps, batch))
        assert alone.shape == (1, steps, batch)
        assert (alone[0] == together[at]).all()
        assert 0 <= alone.min() <= alone.max() < size
