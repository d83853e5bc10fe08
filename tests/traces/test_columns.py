import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import ClientId
from fielding.errors import InputError
from fielding.traces.csv_table import encode_ids, id_array, parse_ids, sort_classes, whole_numbers


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["9223372036854775807"], [2**63 - 1]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["01", "2"], ["01", "2"]),
        (["+1", "2"], ["+1", "2"]),
        (["-0", "2"], ["-0", "2"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1", "x"], ["1", "x"]),
        (["\u0661", "2"], ["\u0661", "2"]),
        ([" 1", "2"], [" 1", "2"]),
    ],
)
def test_ids_are_numbers_only_if_all_are_written_plainly(texts: list[str], ids: list[ClientId]) -> None:
    found = parse_ids(texts)

    assert found == ids
    assert {type(one) for one in found} == {type(ids[0])}


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_numbers_are_encoded_in_rising_order(values: list[int]) -> None:
    ids, codes = encode_ids(np.array(values, dtype=np.int64))

    assert ids == sorted(set(values))
    assert [ids[code] for code in codes] == values
    assert id_array(ids)[codes].tolist() == values


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1))
def test_texts_are_encoded_in_rising_order(values: list[str]) -> None:
    ids, codes = encode_ids(np.array(values))

    assert ids == sorted(set(values))
    assert [ids[code] for code in codes] == values
    assert id_array(ids)[codes].tolist() == values


def test_classes_are_listed_by_number_if_they_are_numbers() -> None:
    classes, codes = sort_classes(["b", "a10", "a9"], np.array([0, 1, 2]))
    assert classes == ("a10", "a9", "b")
    assert codes.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "array", [np.array([True]), np.array(["1"]), np.array([1j]), np.array([[1]]), np.array([0.5]), np.array([np.inf])]
)
def test_what_is_no_whole_number_is_refused(array: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"^count "):
        whole_numbers("count", array)


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert whole_numbers("count", np.array([1.0, 2.0], dtype=np.float32)).tolist() == [1, 2]
