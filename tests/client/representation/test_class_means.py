import numpy as np
import pytest

from fielding.client.representation.embedding import ClassMeans

# Two classes, one dim: 4 samples of class 0 (sum 4) and 4 of class 1 (sum 12); the squares sum to 64, so that the
# overall mean is 2 and the spread sqrt(8 - 4) = 2.
EVERYWHERE = np.array([4.0, 4.0, 4.0, 12.0, 64.0])


def vector(tally: list[float], *, shrink: float, reference: np.ndarray = EVERYWHERE) -> list[float]:
    vectors = ClassMeans(dims=1, shrink=shrink).vectors(np.array([tally]), reference)
    return [float(number) for number in vectors[0]]


def test_displacement_is_in_units_of_the_spread_and_weighted_by_the_share() -> None:
    # Class 0 at 5 instead of 1, class 1 at 3 as for everybody; both shares are a half.
    assert vector([2.0, 10.0, 2.0, 6.0, 0.0], shrink=0.0) == pytest.approx([(5 - 1) / 2 * np.sqrt(0.5), 0.0, 1.0])


def test_few_samples_show_less_of_it() -> None:
    assert vector([2.0, 10.0, 2.0, 6.0, 0.0], shrink=2.0)[0] == pytest.approx(np.sqrt(0.5))


def test_absent_class_is_not_displaced() -> None:
    assert vector([2.0, 2.0, 0.0, 0.0, 0.0], shrink=0.0) == [0.0, 0.0, 1.0]


def test_new_class_is_held_against_the_mean_of_all_and_counts_a_little() -> None:
    reference = np.array([3.0, 3.0, 0.0, 0.0, 3.0 + 12.0])

    # Spread sqrt(5 - 1) = 2; the share of the new class is (0 + 1/2) / (3 + 1).
    assert vector([0.0, 0.0, 1.0, 9.0, 0.0], shrink=0.0, reference=reference)[1] == pytest.approx(4 * np.sqrt(1 / 8))


def test_without_a_reference_all_classes_count_alike() -> None:
    assert vector([1.0, 3.0, 1.0, 3.0, 0.0], shrink=0.0, reference=np.zeros(5)) == pytest.approx(
        [3 * np.sqrt(0.5), 3 * np.sqrt(0.5), 1.0]
    )


def test_features_that_never_vary_are_not_divided_by_nothing() -> None:
    reference = np.array([2.0, 4.0, 2.0, 4.0, 16.0])

    assert vector([1.0, 3.0, 0.0, 0.0, 9.0], shrink=0.0, reference=reference) == pytest.approx([np.sqrt(0.5), 0, 1])
