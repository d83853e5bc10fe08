import numpy as np
import numpy.typing as npt
import pytest

from fielding.federation.clients import Updates
from fielding.federation.models import COLUMNS
from fielding.methods.update_geometry import cosines, norms, products, scale_to_unit, update_deltas
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


def answer(models: np.ndarray[tuple[int, ...], np.dtype[np.float32]], start: list[int]) -> Updates:
    n_answers = models.shape[0]
    return Updates(
        clients=np.arange(n_answers),
        groups=np.zeros(n_answers, dtype=np.int64),
        start=np.array(start),
        models=models,
        n_samples=np.ones(n_answers, dtype=np.int64),
        loss=np.ones(n_answers),
        square_loss=np.ones(n_answers),
        n_parameters=2,
        learning_rate=0.1,
    )


def test_changes_are_those_of_parameters_from_the_model_of_each_answer() -> None:
    models = np.array([[1.0, 2.0, 9.0], [5.0, 5.0, 9.0]], dtype=np.float32)

    moved = update_deltas(answer(models, [1, 0]), models)

    assert moved.tolist() == [[-4.0, -3.0], [4.0, 3.0]]


def test_changes_of_extreme_answers_stay_finite() -> None:
    most = np.finfo(np.float32).max

    moved = update_deltas(
        answer(np.full((1, 3), most, dtype=np.float32), [0]), np.full((1, 3), -most, dtype=np.float32)
    )

    assert moved.tolist() == [[most, most]]
