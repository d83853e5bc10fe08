import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.methods.flexcfl import decomposed_cosines, group_by_direction
from fielding.rng import stream


@given(n_updates=st.integers(1, 6), n_numbers=st.integers(1, 8), k=st.integers(1, 6), seed=st.integers(0, 50))
def test_features_are_cosines_with_the_singular_vectors(n_updates: int, n_numbers: int, k: int, seed: int) -> None:
    updates = stream(seed, "updates").standard_normal((n_updates, n_numbers)).astype(np.float32)
    _, _, directions = np.linalg.svd(updates.astype(np.float64), full_matrices=False)
    expected = np.zeros((n_updates, k))
    found = updates @ directions[:k].T / np.linalg.norm(updates, axis=1, keepdims=True)
    expected[:, : found.shape[1]] = found

    assert np.allclose(np.abs(decomposed_cosines(updates, k)), np.abs(expected), atol=1e-4)


def test_a_row_of_zeros_has_no_direction() -> None:
    assert decomposed_cosines(np.zeros((3, 2), dtype=np.float32), 2).tolist() == [[0.0, 0.0]] * 3


def test_length_does_not_matter_for_a_group_but_sign_does() -> None:
    updates = np.array([[1.0, 0.1], [-1.0, 0.0], [50.0, 0.0], [-70.0, 1.0]], dtype=np.float32)

    assert group_by_direction(updates, 2, rng=stream(1, "groups")).tolist() == [0, 1, 0, 1]


def test_there_are_no_more_groups_than_directions() -> None:
    same = np.ones((4, 3), dtype=np.float32)

    assert group_by_direction(same, 3, rng=stream(1, "groups")).tolist() == [0, 0, 0, 0]
