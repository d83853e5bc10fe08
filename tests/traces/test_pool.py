import numpy as np
import pytest

from fielding.errors import InputError
from fielding.traces.pool import Pool, Scaling


def pool_of(x: np.ndarray, y: np.ndarray | None = None) -> Pool:
    labels = np.zeros(x.shape[0], dtype=np.int32) if y is None else y
    return Pool(x=x, y=labels, classes=("cat", "dog"))


def test_about_a_fifth_of_the_samples_is_for_testing_and_more_samples_change_nothing() -> None:
    small, large = pool_of(np.zeros((1000, 1))), pool_of(np.zeros((50_000, 1)))

    assert (large.is_test()[:1000] == small.is_test()).all()
    assert 0.19 < large.is_test().mean() < 0.21


def test_bytes_become_numbers_from_0_to_1_and_other_numbers_stay() -> None:
    rows = np.array([[0], [255]], dtype=np.uint8)

    assert pool_of(rows).features(np.array([0, 1])).tolist() == [[0.0], [1.0]]
    assert pool_of(rows.astype(np.float16)).features(np.array([1])).tolist() == [[255.0]]
    scaled = Pool(x=rows, y=np.zeros(2, dtype=np.int32), classes=("a",), scaling=Scaling(shift=5.0, factor=2.0))
    assert scaled.features(np.array([1])).tolist() == [[500.0]]


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((0, 2)), None, "no samples"),
        (np.zeros(3), None, "at least one feature"),
        (np.array([[1.0], [np.nan], [2.0]]), None, "row 1 holds NaN"),
        (np.array([["a"]]), None, "must be numbers"),
        (np.zeros((2, 1)), np.array([0, 2], dtype=np.int32), "row 1 is 2"),
        (np.zeros((2, 1)), np.array([0], dtype=np.int32), "one row of each per sample"),
        (np.array([[1], [2, 3]], dtype=object), None, "must be numbers"),
    ],
)
def test_samples_that_cannot_be_used_are_refused(x: np.ndarray, y: np.ndarray | None, words: str) -> None:
    if x.ndim == 1 and x.dtype == object:
        x = x[:, np.newaxis]
    with pytest.raises(InputError, match=words):
        pool_of(x, y)


def test_features_stored_by_column_are_stored_by_row_once_and_stay_what_they_are() -> None:
    by_column = np.asfortranarray(np.arange(6, dtype=np.float16).reshape(3, 2))

    pool = Pool(x=by_column, y=np.zeros(3, dtype=np.int32), classes=("a",))

    assert pool.x.flags.c_contiguous
    assert pool.features(np.array([2, 0])).tolist() == [[4.0, 5.0], [0.0, 1.0]]
