import numpy as np
import pytest

from fielding.client.representation.gradient import ClassDirections
from fielding.client.representation.representation import MOST_DIMS
from fielding.errors import OptionError

# By class: samples, gradient by the one weight, by the bias.
OWN = ClassDirections(dims=1)


def directions(tally: list[float], reference: list[float]) -> np.ndarray:
    return OWN.vectors(np.array([tally]), np.array(reference))[0, :-1].reshape(2, 2) * np.sqrt(2.0)


def test_every_class_has_a_direction_of_its_own_however_long() -> None:
    found = directions([5.0, 30.0, 40.0, 1.0, 0.0, -0.1], [1.0, 1.0, 0.0, 1.0, 1.0, 0.0])

    assert np.allclose(found, [[0.6, 0.8], [0.0, -1.0]])


def test_absent_class_points_where_it_does_for_everybody() -> None:
    found = directions([5.0, 30.0, 40.0, 0.0, 9.0, 9.0], [1.0, 1.0, 0.0, 4.0, -8.0, 0.0])

    assert np.allclose(found, [[0.6, 0.8], [-1.0, 0.0]])


def test_direction_that_vanishes_is_not_silence() -> None:
    assert OWN.vectors(np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), np.zeros(6)).tolist() == [[0, 0, 0, 0, 1]]


def test_opposite_directions_lie_a_scale_apart() -> None:
    vectors = OWN.vectors(np.array([[1.0, 1.0, 0.0, 1.0, 0.0, 1.0], [1.0, -1.0, 0.0, 1.0, 0.0, -1.0]]), np.zeros(6))

    assert np.isclose(np.linalg.norm(vectors[0] - vectors[1]), OWN.scale(np.zeros(6)))


@pytest.mark.parametrize("dims", [0, -1, MOST_DIMS + 1, 1.5, True])
def test_features_are_projected_to_at_least_one_number(dims: int) -> None:
    with pytest.raises(OptionError, match="dims"):
        ClassDirections(dims=dims)
