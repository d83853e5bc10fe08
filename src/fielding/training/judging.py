"""How well scores of classes fit the labels of samples."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Mask
from fielding.training.trainer import Scores

Judged: TypeAlias = tuple[npt.NDArray[np.float32], Mask]
"""Loss and correctness of some samples."""


def judged(scores: Scores, labels: Codes) -> Judged:
    """Return loss and correctness of samples by the scores of their classes; ties: the lowest class.

    Examples
    --------
    >>> losses, right = judged(np.array([[0.0, 0.0], [0.0, 3.0]], dtype=np.float32), np.array([1, 1], dtype=np.int32))
    >>> losses.round(3).tolist(), right.tolist()
    ([0.6930000185966492, 0.04899999871850014], [False, True])
    """
    with np.errstate(invalid="ignore", over="ignore"):  # of a model that diverged
        exact = scores.astype(np.float64)
        exact -= exact.max(axis=1, keepdims=True, initial=-np.inf)
        losses = np.log(np.exp(exact).sum(axis=1)) - exact[np.arange(labels.size), labels]
    return losses.astype(np.float32), np.asarray(scores.argmax(axis=1) == labels)
