import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fielding.client.representation.representation as sums_module
from fielding.client.representation.representation import (
    Seen,
    as_reported,
    client_sums,
    labelled,
    means_of,
    one_hot,
    outer_sums,
    pair_counts,
    spread_of,
)
from fielding.rng import stream


def seen_of(labels: list[int], sizes: list[int]) -> Seen:
    columns = np.arange(len(labels), dtype=np.float32)[:, None]
    return Seen(labels=np.array(labels), features=columns, scores=np.tile(columns, 3), sizes=np.array(sizes))


def test_samples_without_a_label_are_left_out_and_clients_stay() -> None:
    known = labelled(seen_of([-1, 2, -1, 0], [2, 1, 1]))

    assert known.labels.tolist() == [2, 0]
    assert known.features[:, 0].tolist() == [1.0, 3.0]
    assert known.scores[:, 2].tolist() == [1.0, 3.0]
    assert known.sizes.tolist() == [1, 0, 1]


def test_pairs_are_counted_by_client() -> None:
    seen = seen_of([2, 2, 0], [2, 0, 1])

    assert pair_counts(seen, seen.labels, 3).tolist() == [[0, 0, 2], [0, 0, 0], [1, 0, 0]]


def test_one_hot_marks_the_label() -> None:
    assert one_hot(np.array([1, 0]), 2).tolist() == [[0, 1], [1, 0]]


@given(st.lists(st.integers(0, 9), max_size=6))
@settings(deadline=None, max_examples=50)
def test_sums_of_outer_products_equal_those_added_one_by_one(sizes: list[int]) -> None:
    rng, n_samples = stream(0, "outer", *sizes), sum(sizes)
    left, right = rng.standard_normal((n_samples, 2)), rng.standard_normal((n_samples, 3)).astype(np.float32)
    expected = np.zeros((len(sizes), 2, 3))
    np.add.at(expected, np.repeat(np.arange(len(sizes)), sizes), left[:, :, None] * right[:, None, :])

    assert np.allclose(outer_sums(left, right, np.array(sizes, dtype=np.int64)), expected, atol=1e-12)


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values, sizes = stream(0, "values").standard_normal((40, 4)), np.array([3, 0, 20, 1, 2, 14])
    whole = client_sums(values, sizes)
    monkeypatch.setattr(sums_module, "BLOCK_NUMBERS", 1)

    assert np.array_equal(client_sums(values, sizes), whole)


def test_means_of_nothing_are_zero_whatever_rounding_left() -> None:
    assert means_of(np.array([[6.0, 3.0], [1e-17, 0.0]]), np.array([[3.0], [0.0]])).tolist() == [[2, 1], [0, 0]]


@pytest.mark.parametrize(
    ("mean_square", "square_of_means", "spread"), [(13.0, 4.0, 3.0), (0.0, 0.0, 1.0), (1e12, 1e12 * (1 - 1e-15), 1.0)]
)
def test_spread_is_one_where_nothing_varies(mean_square: float, square_of_means: float, spread: float) -> None:
    assert spread_of(mean_square, square_of_means) == spread


def test_reports_fit_into_float32_and_say_who_is_silent() -> None:
    sent = as_reported(np.array([[1e300, -1e300], [5.0, 5.0]]), np.array([True, False]))

    assert sent.dtype == np.float32
    assert np.isfinite(sent).all()
    assert sent[1].tolist() == [0, 0, 0]
    assert as_reported(np.ones((1, 2)), np.array([True]), constant=False).tolist() == [[1, 1]]
