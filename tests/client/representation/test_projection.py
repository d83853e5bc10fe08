import numpy as np
import pytest

import fielding.client.representation.projection as projection_module
from fielding.client.representation.projection import orthonormal, project_features, shorten
from fielding.rng import stream


def test_columns_are_orthonormal_and_nothing_gets_longer() -> None:
    matrix = orthonormal(30, 7, 3, "test")
    vector = stream(0, "vector").standard_normal(30)

    assert np.allclose(matrix.T @ matrix, np.eye(7))
    assert np.linalg.norm(vector @ matrix) < np.linalg.norm(vector)


def test_seed_purpose_and_sizes_make_the_matrix() -> None:
    first = orthonormal(30, 7, 3, "test").copy()
    orthonormal.cache_clear()

    assert np.array_equal(orthonormal(30, 7, 3, "test"), first)
    assert not np.allclose(orthonormal(30, 7, 4, "test"), first)
    assert not np.allclose(orthonormal(30, 7, 3, "other"), first)


def test_matrix_is_the_one_with_a_positive_diagonal_whatever_the_library_prefers() -> None:
    normal = stream(3, "test", 30, 7).standard_normal((30, 7))

    assert (np.diagonal(orthonormal(30, 7, 3, "test").T @ normal) > 0.0).all()


def test_matrix_that_is_kept_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        orthonormal(5, 2, 0, "test")[0, 0] = 1.0


def test_few_features_keep_their_places() -> None:
    features = np.array([[1.0, 2.0]], dtype=np.float32)

    assert project_features(features, 4, 0).tolist() == [[1, 2, 0, 0]]


@pytest.mark.parametrize("dims", [0, 3, 9])
def test_short_rows_stay_as_they_are(dims: int) -> None:
    rows = np.arange(6.0).reshape(2, 3)

    assert np.array_equal(shorten(rows, dims, 0), rows)


def test_long_rows_are_projected_by_the_matrix() -> None:
    rows = stream(0, "rows").standard_normal((2, 50))

    assert np.allclose(shorten(rows, 5, 1), rows @ orthonormal(50, 5, 1, "project gradient"))


def hashing(rows: np.ndarray, dims: int, seed: int) -> np.ndarray:
    assert rows.shape[1] * dims > projection_module.DENSE_NUMBERS
    return shorten(rows, dims, seed)


def test_rows_of_a_whole_network_are_hashed_and_keep_their_angles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection_module, "DENSE_NUMBERS", 100)
    rng = stream(0, "rows")
    first, noise = rng.standard_normal((2, 20_000)) / np.sqrt(20_000)
    short = hashing(np.vstack([first, noise, 0.6 * first + 0.8 * noise]), 1024, 1)

    # The error of an inner product of unit vectors is about 1 / sqrt(1024) = 0.03.
    assert np.allclose(short @ short.T, [[1, 0, 0.6], [0, 1, 0.8], [0.6, 0.8, 1]], atol=0.12)
    assert not np.allclose(hashing(first[None], 1024, 2), short[0])


def test_signs_keep_positive_rows_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection_module, "DENSE_NUMBERS", 100)
    halves = np.kron(np.eye(2), np.full(5000, 1.0 / np.sqrt(5000)))
    short = hashing(halves, 1024, 0)

    assert np.allclose(short @ short.T, np.eye(2), atol=0.12)


def test_hashing_is_linear_and_does_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection_module, "DENSE_NUMBERS", 100)
    rows = stream(0, "rows").integers(-5, 6, (3, 1000)).astype(np.float64)
    whole = hashing(rows, 16, 0)
    monkeypatch.setattr(projection_module, "HASHED_AT_ONCE", 7)

    assert np.array_equal(hashing(rows, 16, 0), whole)
    assert np.array_equal(hashing(rows.sum(axis=0, keepdims=True), 16, 0)[0], whole.sum(axis=0))
