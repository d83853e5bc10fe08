import numpy as np

from fielding.rng import stream
from fielding.traces.scenarios.dealing import number_contents


def test_equal_contents_have_equal_numbers_and_others_do_not() -> None:
    contents = stream(1, "contents").integers(0, 2, (7, 9, 3), dtype=np.int32)

    numbers, table = number_contents(contents)

    assert (table[numbers] == contents).all()
    assert len({tuple(row) for row in table.tolist()}) == len(table)


def test_numbers_follow_the_clients_and_then_the_intervals() -> None:
    contents = np.array([[[5], [9]], [[6], [5]]], dtype=np.uint8)

    numbers, table = number_contents(contents)

    assert numbers.tolist() == [[0, 2], [1, 0]]
    assert table.tolist() == [[5], [6], [9]]


def test_more_clients_leave_the_numbers_of_others_alone() -> None:
    contents = stream(2, "contents").integers(0, 4, (5, 20, 2), dtype=np.int32)

    assert (number_contents(contents)[0][:, :8] == number_contents(contents[:, :8])[0]).all()
