"""How well clusters agree with the truth, where the truth is known."""

import numpy as np
import numpy.typing as npt

from fielding._typing import Matrix


def adjusted_rand_index(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the adjusted Rand index of two groupings: 1 if they agree, about 0 if they are unrelated.

    Parameters
    ----------
    first, second
        A group per client, whole numbers, shape ``(n_clients,)``. Two groupings that both say nothing (all in one, or
        all apart) agree.

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    >>> round(adjusted_rand_index([0, 0, 1, 1], [0, 0, 0, 1]), 4)
    0.0
    """
    rows, row_of = np.unique(first, return_inverse=True)
    columns, column_of = np.unique(second, return_inverse=True)
    counts = np.bincount(row_of * columns.size + column_of, minlength=rows.size * columns.size)
    table = counts.reshape(rows.size, columns.size).astype(np.float64)
    together, in_rows, in_columns = _pairs(table), _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    all_pairs = _pairs(np.array([table.sum()]))
    expected = in_rows * in_columns / all_pairs if all_pairs else 0.0
    most = (in_rows + in_columns) / 2.0
    return 1.0 if most == expected else float((together - expected) / (most - expected))


def _pairs(counts: Matrix) -> float:
    return float((counts * (counts - 1.0) / 2.0).sum())
