"""What may reach an average: models of the right shape, all of whose numbers are finite."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Counts, Mask, Models


def finite_rows(models: Models) -> Mask:
    """Return which models are finite, shape ``(n_models,)``.

    Examples
    --------
    >>> finite_rows(np.array([[1.0, 2.0], [np.nan, 0.0], [np.inf, -np.inf]], dtype=np.float32)).tolist()
    [True, False, False]
    """
    # One sum per model instead of a mask of all numbers; in float64 it cannot overflow.
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.asarray(np.isfinite(models.sum(axis=1, dtype=np.float64)))


def is_finite(model: Models) -> bool:
    """Return whether all numbers of one model are finite.

    Examples
    --------
    >>> is_finite(np.array([1.0, 2.0], dtype=np.float32)), is_finite(np.array([np.nan], dtype=np.float32))
    (True, False)
    """
    return bool(finite_rows(model[np.newaxis])[0])


def admitted(answers: Sequence[object], n_numbers: int) -> tuple[Counts, Models]:
    """Return which answers are models, and these as rows; whatever else came is left out, never repaired.

    It is for drivers that receive answers over a network; in a simulation all answers have the right shape.

    Parameters
    ----------
    answers
        What came back: arrays of real numbers, or anything.
    n_numbers
        How many numbers a model has.

    Examples
    --------
    >>> sent = [np.ones(2), np.ones(3), "ones", None, np.array([np.nan, 1.0]), [3.0, 4.0]]
    >>> kept, models = admitted(sent, 2)
    >>> kept.tolist(), models.tolist()
    ([0, 5], [[1.0, 1.0], [3.0, 4.0]])
    """
    kept: list[int] = []
    rows: list[Models] = []
    for at, answer in enumerate(answers):
        row = _numbers(answer)
        if row is not None and row.shape == (n_numbers,) and np.isfinite(row).all():
            kept.append(at)
            rows.append(row)
    matrix = np.stack(rows) if rows else np.empty((0, n_numbers), dtype=np.float32)
    return np.array(kept, dtype=np.int64), matrix


def _numbers(answer: object) -> Models | None:
    """Return an answer as float32 numbers, None if it is none; a number too large for float32 becomes infinite."""
    try:
        array = np.asarray(answer)
    except Exception:  # whatever an object does that poses as an array
        return None
    if array.dtype.kind not in "iuf":
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float32)
