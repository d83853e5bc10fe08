import numpy as np
import numpy.typing as npt
import pytest

from fielding.federation.models import COLUMNS
from fielding.methods.update_geometry import cosines, norms, products, scale_to_unit
from fielding.rng import stream


def test_rows_longer_than_a_chunk_are_summed_to_their_end() -> None:
    rows = np.ones((2, COLUMNS + 3), dtype=np.float32)

    assert products(rows, rows[:1]).tolist() == [[COLUMNS + 3.0]] * 2
    assert norms(rows)[0] == np.sqrt(COLUMNS + 3.0)


def test_products_of_rows_with_themselves_are_symmetric_to_the_last_digit() -> None:
    rows = stream(1, "rows").standard_normal((7, 501)).astype(np.float32)

    inner = products(rows, rows)

    assert np.array_equal(inner, inner.T)
    assert np.allclose(inner, products(rows, rows.copy()), rtol=1e-12)


def test_a_row_of_zeros_has_no_direction() -> None:
    rows = np.array([[0.0, 0.0], [0.0, 3.0]], dtype=np.float32)

    assert cosines(rows, rows).tolist() == [[0.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rows_at_length_one_stay_as_precise_as_they_were(precision: npt.DTypeLike) -> None:
    units = scale_to_unit(np.array([[0.0, 0.0], [-3.0, 4.0]], dtype=precision))

    assert units.dtype == precision
    assert units.tolist() == np.array([[0.0, 0.0], [-0.6, 0.8]], dtype=precision).tolist()


def test_lengths_beyond_float32_do_not_overflow() -> None:
    huge = np.full((2, 4), np.finfo(np.float32).max, dtype=np.float32)

    assert np.allclose(cosines(huge, huge), 1.0)
    assert np.isfinite(norms(huge)).all()
