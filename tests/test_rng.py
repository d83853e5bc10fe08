import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.rng import client_key, stream

INDEX = st.integers(0, 2**64 - 1)
INDICES = st.lists(INDEX, max_size=3).map(tuple)


def first(seed: int, purpose: str, *indices: int) -> int:
    """Return the first raw 64 bits of a stream."""
    return int(stream(seed, purpose, *indices).bit_generator.random_raw())


@given(st.integers(0, 2**32), st.text(max_size=10), INDICES)
def test_equal_keys_give_equal_numbers(seed: int, purpose: str, indices: tuple[int, ...]) -> None:
    one, other = stream(seed, purpose, *indices), stream(seed, purpose, *indices)

    assert one is not other
    assert one.random(4).tolist() == other.random(4).tolist()


@given(INDICES, INDICES)
def test_other_indices_give_other_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert (first(1, "cluster", *one) == first(1, "cluster", *other)) == (one == other)


def test_a_large_index_is_not_two_small_ones() -> None:
    assert first(1, "cluster", 5 + 2**32) != first(1, "cluster", 5, 1)


def test_every_part_of_the_key_counts() -> None:
    drawn = [
        first(1, "cluster", 7),
        first(2, "cluster", 7),
        first(1, "select", 7),
        first(1, "cluster", 8),
        first(1, "cluster", 7, 0),
        first(1, "cluster"),
    ]

    assert len(set(drawn)) == len(drawn)


def test_drawing_from_one_stream_leaves_another_alone() -> None:
    expected = stream(1, "select").random(3).tolist()
    late = stream(1, "select")

    stream(1, "cluster").random(1000)

    assert late.random(3).tolist() == expected


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    stream(1, "cluster", 7).random(3)
    after = np.random.get_state(legacy=False)  # noqa: NPY002

    assert str(before) == str(after)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_draws_the_same(hash_seed: str) -> None:
    code = "from fielding.rng import *; print(stream(1, 'cluster', client_key('a')).bit_generator.random_raw())"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert int(done.stdout) == first(1, "cluster", client_key("a"))


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1)])
def test_negative_keys_are_refused(seed: int, index: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        stream(seed, "cluster", index)


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=20)))
def test_a_client_key_is_64_bits_that_fit_a_stream(client_id: int | str) -> None:
    key = client_key(client_id)

    assert 0 <= key < 2**64
    assert key == client_key(client_id)
    assert 0.0 <= stream(0, "deal", key).random() < 1.0


def test_clients_have_keys_of_their_own() -> None:
    assert len({client_key(number) for number in range(10_000)}) == 10_000


def test_a_number_and_its_text_are_two_clients() -> None:
    assert client_key(1) != client_key("1")


def test_a_client_is_the_same_whether_numpy_or_python_holds_its_id() -> None:
    assert client_key(np.int64(17)) == client_key(np.int32(17)) == client_key(17)  # type: ignore[arg-type]
    assert client_key(np.str_("a")) == client_key("a")
