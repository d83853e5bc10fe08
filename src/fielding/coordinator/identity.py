"""Cluster ids that stay the same for the eye when all clients are grouped anew (A19)."""

from collections.abc import Sequence

from fielding._typing import Matrix


def inherited_ids(heads: Matrix, old_ids: Sequence[int], next_id: int) -> list[int]:
    """Give each new cluster the id of the old one it shares most clients with, or a fresh one.

    Parameters
    ----------
    heads
        Clients of each new cluster that come from each old one, shape ``(n_new, n_old)``.
    old_ids
        The id of each old cluster.
    next_id
        The first id that was never used.

    Returns
    -------
    One id per new cluster. The matching keeps as many clients as possible under their old id; an id is never used
    for two clusters, nor passed on where no client is shared.

    Examples
    --------
    >>> import numpy as np
    >>> inherited_ids(np.array([[1.0, 9.0], [8.0, 0.0], [3.0, 2.0]]), old_ids=[4, 7], next_id=8)
    [7, 4, 8]
    """
    from scipy.optimize import linear_sum_assignment

    new_rows, old_columns = linear_sum_assignment(heads, maximize=True)
    pairs = [(int(new), int(old)) for new, old in zip(new_rows, old_columns, strict=True)]
    matched = {new: old_ids[old] for new, old in pairs if heads[new, old] > 0.0}
    fresh = iter(range(next_id, next_id + heads.shape[0]))
    return [matched[new] if new in matched else next(fresh) for new in range(heads.shape[0])]
