"""Stage 12 in the simulator: the test samples of one cluster run through its model together, not client by client."""

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Models
from fielding.federation.evaluation import ClientScores
from fielding.simulation.segments import segment_means, segment_sums
from fielding.traces.sliding import Ranges

Score: TypeAlias = Callable[[Models, Counts], tuple[npt.NDArray[np.float32], Mask]]
"""Returns loss and correctness of schedule rows under a model."""


def scored_clients(models: Models, row: Counts, *, ranges: Ranges, tested: Counts, score: Score) -> ClientScores:
    """Score clients on the samples of their windows.

    Parameters
    ----------
    models
        shape ``(n_models, n_numbers)``.
    row
        Which of them serves each client, shape ``(n_clients,)``.
    ranges
        The samples of each client.
    tested
        Who is tested, rising; each has a sample.
    score
        Scores the samples of one model.
    """
    order = tested[np.argsort(row[tested], kind="stable")]
    entries, sizes = ranges.of(order)
    ends = np.cumsum(np.bincount(row[order], weights=sizes, minlength=models.shape[0])).astype(np.int64)
    pieces = [
        score(model, entries[start:end])
        for model, (start, end) in zip(models, pairwise([0, *ends.tolist()]), strict=True)
    ]
    losses = np.concatenate([np.empty(0, dtype=np.float32), *(piece[0] for piece in pieces)])
    right = np.concatenate([np.empty(0, dtype=np.bool_), *(piece[1] for piece in pieces)])
    back = np.argsort(order, kind="stable")
    return ClientScores(
        clients=order[back],
        n_test=sizes[back],
        correct=segment_sums(right, sizes)[back],
        loss=segment_means(losses, sizes)[back],
    )
