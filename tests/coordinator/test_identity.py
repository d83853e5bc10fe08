import numpy as np

from fielding.coordinator.coordinator import inherit_ids


def test_a_split_keeps_the_id_with_the_larger_part() -> None:
    assert inherit_ids(np.array([[2.0], [5.0]]), old_ids=[3], next_id=9) == [9, 3]


def test_a_merge_keeps_the_id_of_the_larger_part() -> None:
    assert inherit_ids(np.array([[2.0, 5.0]]), old_ids=[0, 4], next_id=5) == [4]


def test_an_id_is_not_passed_on_where_no_client_is_shared() -> None:
    assert inherit_ids(np.array([[4.0, 0.0], [3.0, 0.0]]), old_ids=[0, 1], next_id=2) == [0, 2]


def test_as_many_clients_as_possible_keep_their_id() -> None:
    # Greedy would give the first its 6 and leave the second with nothing: 6 + 0 < 5 + 5.
    assert inherit_ids(np.array([[6.0, 5.0], [5.0, 0.0]]), old_ids=[0, 1], next_id=2) == [1, 0]
