import numpy as np

from fielding.coordinator.clustering.labels import in_order_of_appearance, leads_over, nearest_center, without_gaps


def test_a_tie_goes_to_the_lower_index() -> None:
    distances = np.array([[1.0, 1.0 - 5e-10, 2.0], [1.0, 1.0 - 5e-9, 2.0], [3.0, 2.0, 2.0 + 5e-10]])

    assert nearest_center(distances).tolist() == [0, 1, 1]


def test_of_a_chain_of_near_ties_the_lowest_within_reach_of_the_nearest_wins() -> None:
    assert nearest_center(np.array([[1.2e-9, 0.6e-9, 0.0]])).tolist() == [1]


def test_leads_say_how_much_farther_others_are() -> None:
    leads = leads_over(np.array([[1.0, 3.0], [5.0, 2.0]]), np.array([0, 1], dtype=np.int32))

    assert leads.tolist() == [[np.inf, 3.0], [2.0, np.inf]]


def test_gaps_close_in_order() -> None:
    labels = without_gaps(np.array([4, 0, 9, 4], dtype=np.int32))

    assert labels.tolist() == [1, 0, 2, 1]
    assert labels.dtype == np.int32


def test_labels_are_numbered_as_they_come() -> None:
    labels = in_order_of_appearance(np.array([4, 0, 9, 4, 0, 2], dtype=np.int32))

    assert labels.tolist() == [0, 1, 2, 0, 1, 3]
    assert labels.dtype == np.int32
