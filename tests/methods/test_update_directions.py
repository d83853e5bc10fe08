import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.models import COLUMNS
from fielding.methods.update_directions import (
    cosines,
    decomposed_cosines,
    grouped_by_direction,
    norms,
    products,
    unit_rows,
)
from fielding.rng import stream


@given(n_updates=st.integers(1, 6), n_numbers=st.integers(1, 8), k=st.integers(1, 6), seed=st.integers(0, 50))
def test_features_are_cosines_with_the_singular_vectors(n_updates: int, n_numbers: int, k: int, seed: int) -> None:
    updates = stream(seed, "updates").standard_normal((n_updates, n_numbers)).astype(np.float32)
    _, _, directions = np.linalg.svd(updates.astype(np.float64), full_matrices=False)
    expected = np.zeros((n_updates, k))
    found = updates @ directions[:k].T / np.linalg.norm(updates, axis=1, keepdims=True)
    expected[:, : found.shape[1]] = found

    assert np.allclose(np.abs(decomposed_cosines(updates, k)), np.abs(expected), atol=1e-4)


def test_rows_longer_than_a_chunk_are_summed_to_their_end() -> None:
    rows = np.ones((2, COLUMNS + 3), dtype=np.float32)

    assert products(rows, rows[:1]).tolist() == [[COLUMNS + 3.0]] * 2
    assert norms(rows)[0] == np.sqrt(COLUMNS + 3.0)


def test_a_row_of_zeros_has_no_direction() -> None:
    rows = np.array([[0.0, 0.0], [0.0, 3.0]], dtype=np.float32)

    assert cosines(rows, rows).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert unit_rows(rows).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert decomposed_cosines(np.zeros((3, 2), dtype=np.float32), 2).tolist() == [[0.0, 0.0]] * 3


def test_length_does_not_matter_for_a_group_but_sign_does() -> None:
    updates = np.array([[1.0, 0.1], [-1.0, 0.0], [50.0, 0.0], [-70.0, 1.0]], dtype=np.float32)

    assert grouped_by_direction(updates, 2, rng=stream(1, "groups")).tolist() == [0, 1, 0, 1]


def test_there_are_no_more_groups_than_directions() -> None:
    same = np.ones((4, 3), dtype=np.float32)

    assert grouped_by_direction(same, 3, rng=stream(1, "groups")).tolist() == [0, 0, 0, 0]


def test_lengths_beyond_float32_do_not_overflow() -> None:
    huge = np.full((2, 4), np.finfo(np.float32).max, dtype=np.float32)

    assert np.allclose(cosines(huge, huge), 1.0)
    assert np.isfinite(norms(huge)).all()
