import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator.registry import UNASSIGNED, UNKNOWN, IdIndex, Registry
from fielding.errors import ReportError


def registry_of(**shares: list[float]) -> Registry:
    registry = Registry()
    rows = registry.rows_for(list(shares))
    registry.record(rows, np.array(list(shares.values())), step=0)
    return registry


def test_new_clients_get_rows_in_the_order_of_their_ids() -> None:
    registry = registry_of(c=[1.0, 0.0], a=[0.0, 1.0], b=[0.5, 0.5])

    assert list(registry.client_ids) == ["a", "b", "c"]
    assert registry.representations.tolist() == [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]


def test_a_known_client_keeps_its_row() -> None:
    registry = registry_of(m=[1.0, 0.0])

    rows = registry.rows_for(["a", "m"])

    assert rows.tolist() == [1, 0]


def test_a_silent_client_keeps_its_representation_but_is_not_active() -> None:
    registry = registry_of(a=[0.25, 0.75])

    speaks = registry.record(registry.rows_for(["a"]), np.zeros((1, 2)), step=3)

    assert speaks.tolist() == [False]
    assert registry.representations.tolist() == [[0.25, 0.75]]
    assert registry.active.tolist() == [False]
    assert registry.last_step.tolist() == [3]


def test_growing_keeps_rows_and_views() -> None:
    registry = registry_of(a=[1.0, 0.0])
    view = registry.representations

    rows = registry.rows_for([f"b{number}" for number in range(1000)])
    registry.record(rows, np.full((1000, 2), 0.5), step=1)

    assert view.tolist() == [[1.0, 0.0]]
    assert registry.representations[:2].tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert registry.membership.tolist() == [UNASSIGNED] * 1001


def test_without_views_growing_moves_no_memory_twice() -> None:
    registry = Registry()
    rng = np.random.default_rng(0)
    for start in range(0, 5000, 7):
        ids = list(range(start, start + 7))
        registry.record(registry.rows_for(ids), np.full((7, 3), start + 1.0), step=start)

    sample = rng.integers(5000, size=50)
    assert all(registry.representations[one, 0] == one // 7 * 7 + 1 for one in sample)


def test_the_class_list_can_only_grow_and_pads_with_zeros() -> None:
    registry = registry_of(a=[0.25, 0.75])

    assert registry.grow_labels(4) == 1
    assert registry.representations.tolist() == [[0.25, 0.75, 0.0, 0.0]]
    assert (registry.expected_width(None), registry.expected_width(0), registry.expected_width(1)) == (4, 2, 4)
    with pytest.raises(ReportError, match="can only grow to more; got 4"):
        registry.grow_labels(4)
    with pytest.raises(ReportError, match="label version 2 is not known"):
        registry.expected_width(2)


def test_a_shorter_report_of_an_older_version_is_padded() -> None:
    registry = registry_of(a=[0.0, 1.0])
    registry.grow_labels(3)
    registry.record(registry.rows_for(["a"]), np.array([[0.0, 0.0, 1.0]]), step=1)

    registry.record(registry.rows_for(["a"]), np.array([[1.0, 0.0]]), step=2)

    assert registry.representations.tolist() == [[1.0, 0.0, 0.0]]


def test_ids_of_another_type_are_refused_and_change_nothing() -> None:
    registry = registry_of(a=[1.0])

    with pytest.raises(ReportError, match="client id 7 is of type int"):
        registry.rows_for([7])
    assert len(registry) == 1


def test_looking_up_an_unknown_client_says_so() -> None:
    with pytest.raises(ReportError, match="client 'nobody' is not known"):
        Registry().row_of("nobody")


# ---- id index -------------------------------------------------------------------------------------------------


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
