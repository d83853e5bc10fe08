"""What may reach an average: whatever clients send, only finite models of the right shape do."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fielding.federation.admission import admitted, finite_rows

LARGE = float(np.finfo(np.float32).max)
N_NUMBERS = 3

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**40), 10**40),
    st.booleans(),
    st.just(10**400),
    st.complex_numbers(),
)
scalars = st.one_of(numbers, st.none(), st.text(max_size=3), st.binary(max_size=3), st.dates(), st.timedeltas())
lists: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner, inner), max_leaves=8
)
shaped = arrays.arrays(
    dtype=st.one_of(
        arrays.floating_dtypes(),
        arrays.integer_dtypes(),
        arrays.unsigned_integer_dtypes(),
        arrays.complex_number_dtypes(),
        arrays.boolean_dtypes(),
        arrays.datetime64_dtypes(),
        arrays.unicode_string_dtypes(max_len=3),
    ),
    shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
anything = st.one_of(
    lists,
    shaped,
    st.dictionaries(st.text(max_size=2), numbers, max_size=3),
    st.sets(st.integers(), max_size=3),
    st.just(object()),
    st.just(range(N_NUMBERS)),
    st.just(np.ma.masked_array([1.0, np.nan, 3.0], mask=[False, True, False])),
    st.just(np.zeros(N_NUMBERS, dtype="f4,f4")),
)


def is_model(answer: object) -> bool:
    """Say one by one whether an answer is so many real numbers that float32 can hold."""
    if isinstance(answer, np.ndarray) and answer.dtype.kind not in "iuf":
        return False
    if not isinstance(answer, (list, tuple, np.ndarray)) or len(np.shape(answer)) != 1 or len(answer) != N_NUMBERS:
        return False
    with np.errstate(over="ignore"):
        return all(bool(np.isfinite(np.float32(number))) for number in answer)


@given(st.lists(anything, max_size=5))
def test_whatever_comes_nothing_is_raised_and_only_models_get_through(answers: list[object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept, models = admitted(answers, N_NUMBERS)

    assert models.shape == (kept.size, N_NUMBERS)
    assert models.dtype == np.float32
    assert np.isfinite(models).all()
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert all(0 <= at < len(answers) for at in kept.tolist())


@given(st.lists(arrays.arrays(np.float64, st.integers(0, 5), elements=st.floats(width=64)), max_size=5))
def test_of_real_numbers_exactly_the_finite_ones_of_the_right_shape_get_through(answers: list[np.ndarray]) -> None:
    kept, models = admitted(answers, N_NUMBERS)

    assert kept.tolist() == [at for at, answer in enumerate(answers) if is_model(answer)]
    for at, model in zip(kept.tolist(), models, strict=True):
        assert (model == answers[at].astype(np.float32)).all()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        1.0,
        "abc",
        b"abc",
        [1.0, 2.0],
        [[1.0, 2.0, 3.0]],
        [1.0, [2.0], 3.0],
        [1.0, None, 3.0],
        ["1", "2", "3"],
        [1.0, 2.0, np.nan],
        [1.0, 2.0, -np.inf],
        [1.0, 2.0, 1e39],
        [1, 2, 10**400],
        [1j, 2.0, 3.0],
        [True, False, True],
        {"a": 1.0},
        np.zeros((3, 1)),
        np.zeros((0, 3)),
        np.array(["1", "2", "3"]),
        np.array([1, 2, 3], dtype="M8[s]"),
        np.array([1.0, 2.0, 3.0], dtype=object),
    ],
)
def test_what_is_no_model_is_left_out_between_models(answer: object) -> None:
    kept, models = admitted([[1.0, 2.0, 3.0], answer, np.array([4, 5, 6])], N_NUMBERS)

    assert kept.tolist() == [0, 2]
    assert models.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_the_largest_numbers_are_numbers() -> None:
    kept, models = admitted([[LARGE, -LARGE, 0.0]], N_NUMBERS)

    assert kept.tolist() == [0]
    assert models[0].tolist() == [LARGE, -LARGE, 0.0]


def test_no_answers_are_no_models() -> None:
    kept, models = admitted([], 7)

    assert (kept.shape, models.shape) == ((0,), (0, 7))
    assert models.dtype == np.float32


class Hostile:
    """An answer that fails when it is looked at."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __array__(self, *_args: object, **_options: object) -> np.ndarray:
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyError("no"), MemoryError(), OverflowError("no")], ids=repr)
def test_an_answer_that_fails_when_it_is_read_is_left_out(error: Exception) -> None:
    assert admitted([Hostile(error), [1.0, 2.0, 3.0]], N_NUMBERS)[0].tolist() == [1]


class Endless:
    """An answer that claims to have more numbers than there is memory."""

    def __len__(self) -> int:
        return 10**15

    def __getitem__(self, _at: int) -> float:
        return 1.0


def test_an_answer_that_claims_to_be_endless_is_left_out() -> None:
    assert admitted([Endless(), [1.0, 2.0, 3.0]], N_NUMBERS)[0].tolist() == [1]


model_rows = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
    elements=st.one_of(st.floats(width=32, allow_nan=True), st.sampled_from([np.inf, -np.inf, LARGE, -LARGE])),
)


@given(model_rows)
def test_finite_rows_are_those_all_of_whose_numbers_are(models: np.ndarray) -> None:
    assert finite_rows(models).tolist() == np.isfinite(models).all(axis=1).tolist()


def test_many_large_numbers_are_finite() -> None:
    assert finite_rows(np.full((2, 10_000), LARGE, dtype=np.float32)).tolist() == [True, True]
