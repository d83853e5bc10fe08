import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator.registry import UNKNOWN, IdIndex

DENSE = st.integers(0, 3000)
ANY = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(min_size=1, max_size=3)


@given(st.one_of(*(st.lists(st.lists(ids, max_size=30), max_size=6) for ids in (DENSE, ANY, TEXT, DENSE | ANY))))
def test_the_index_answers_as_a_dictionary_would(batches: list[list[int | str]]) -> None:
    index, plain = IdIndex(), dict[int | str, int]()
    for batch in batches:
        new = [one for one in dict.fromkeys(batch) if one not in plain]
        plain |= {one: len(plain) + at for at, one in enumerate(new)}
        index.add_all(new)
        asked = [*batch, *plain]
        assert index.rows(asked).tolist() == [plain[one] for one in asked]

    assert index.ids == list(plain)
    assert len(index) == len(plain)
    for stranger in (-5, 10**6 + 1, 2**62, "stranger"):
        assert index.row(stranger) == plain.get(stranger, UNKNOWN)


def test_dense_ids_take_a_table_and_one_far_id_a_dictionary() -> None:
    index = IdIndex()
    index.add_all(list(range(5000)))
    assert index._row_of is None

    index.add_all([10**12])

    assert index._row_of is not None
    assert index.rows([10**12, 4999, 5000]).tolist() == [5000, 4999, UNKNOWN]


def test_growing_one_by_one_keeps_all_rows() -> None:
    index = IdIndex()
    order = np.random.default_rng(1).permutation(3000).tolist()
    for client_id in order:
        index.add_all([client_id])

    assert index.rows(order).tolist() == list(range(3000))
