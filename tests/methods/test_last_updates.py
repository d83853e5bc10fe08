import numpy as np

from fielding.methods.cfl import LastUpdates


def change(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([[value, value] for value in values], dtype=np.float32)


def test_a_new_update_replaces_the_old_one_of_the_same_client() -> None:
    last = LastUpdates(5)

    last.note(np.array([3, 1]), change(3.0, 1.0), 0)
    last.note(np.array([3, 0]), change(4.0, 0.5), 2)

    assert last.clients.tolist() == [0, 1, 3]
    assert last.rounds.tolist() == [2, 0, 2]
    assert last.changes[:, 0].tolist() == [0.5, 1.0, 4.0]


def test_an_update_is_kept_up_to_its_greatest_age_and_no_longer() -> None:
    last = LastUpdates(2)
    last.note(np.array([7]), change(7.0), 0)

    last.note(np.array([1]), change(1.0), 2)
    assert last.clients.tolist() == [1, 7]
    last.note(np.array([2]), change(2.0), 3)

    assert last.clients.tolist() == [1, 2]


def test_what_is_forgotten_or_restored_goes_on_as_it_should() -> None:
    last, other = LastUpdates(2), LastUpdates(2)
    last.note(np.array([7, 2]), change(7.0, 2.0), 0)

    other.restore(last.arrays())
    last.forget()
    other.note(np.array([4]), change(4.0), 1)
    last.note(np.array([4]), change(4.0), 1)

    assert other.clients.tolist() == [2, 4, 7]
    assert last.clients.tolist() == [4]
