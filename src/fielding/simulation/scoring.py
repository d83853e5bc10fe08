"""Stage 12 in the simulator: the test samples of one cluster run through its model together, not client by client."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from fielding._typing import Counts, Models
from fielding.federation.evaluation import ClientScores
from fielding.simulation.segments import segment_means, segment_sums
from fielding.traces.sliding import Ranges
from fielding.training.head import Judged

Score: TypeAlias = Callable[[Models, Counts], Judged]
"""Returns loss and correctness of schedule rows under a model."""
Judge: TypeAlias = Callable[[Models, Counts], Sequence[Judged]]
"""Returns loss and correctness of schedule rows under a model in each of several ways, always in the same order."""

NO_SAMPLES: Judged = (np.empty(0, dtype=np.float32), np.empty(0, dtype=np.bool_))
"""What is said of no samples."""


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
    found = scored_ways(models, row, ranges=ranges, tested=tested, judge=lambda *asked: (score(*asked),))
    return found[0]


def scored_ways(
    models: Models, row: Counts, *, ranges: Ranges, tested: Counts, judge: Judge
) -> tuple[ClientScores, ...]:
    """Score clients on the samples of their windows in several ways at once; otherwise as :func:`scored_clients`.

    Parameters
    ----------
    models, row, ranges, tested
        Whose samples are scored by what.
    judge
        Scores the samples of one model in each way.

    Returns
    -------
    One per way.
    """
    order = tested[np.argsort(row[tested], kind="stable")]
    entries, sizes = ranges.of(order)
    ends = np.cumsum(np.bincount(row[order], weights=sizes, minlength=models.shape[0])).astype(np.int64)
    pieces = [
        judge(model, entries[start:end])
        for model, (start, end) in zip(models, pairwise([0, *ends.tolist()]), strict=True)
    ]
    back = np.argsort(order, kind="stable")
    found = []
    for parts in zip(*pieces, strict=True):
        losses, right = (np.concatenate([NO_SAMPLES[at], *(part[at] for part in parts)]) for at in (0, 1))
        found.append(
            ClientScores(
                clients=order[back],
                n_test=sizes[back],
                correct=segment_sums(right, sizes)[back],
                loss=segment_means(losses, sizes)[back],
            )
        )
    return tuple(found)
