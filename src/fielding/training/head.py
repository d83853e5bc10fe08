"""Where the last layer of a model lies among its numbers."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Mask, Models, Vector
from fielding.training.layout import Layout
from fielding.training.trainer import Gather, Scores, Trainer

SampleScores: TypeAlias = tuple[npt.NDArray[np.float32], Mask]  # loss and correctness of some samples


def score_samples(scores: Scores, labels: Codes) -> SampleScores:
    """Return loss and correctness of samples by the scores of their classes; ties: the lowest class.

    Examples
    --------
    >>> scores = np.array([[0.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    >>> losses, right = score_samples(scores, np.array([1, 1], dtype=np.int32))
    >>> losses.round(3).tolist(), right.tolist()
    ([0.6930000185966492, 0.04899999871850014], [False, True])
    """
    with np.errstate(invalid="ignore", over="ignore"):  # of a model that diverged
        exact = scores.astype(np.float64)
        exact -= exact.max(axis=1, keepdims=True, initial=-np.inf)
        losses = np.log(np.exp(exact).sum(axis=1)) - exact[np.arange(labels.size), labels]
    return losses.astype(np.float32), np.asarray(scores.argmax(axis=1) == labels)


def features_of(
    trainer: Trainer, model: Models, rows: Counts, gather: Gather
) -> tuple[npt.NDArray[np.float32], Scores]:
    """Return what goes into the last layer, and the scores of classes, of at least one sample, chunk by chunk.

    float32, shapes ``(n_rows, n_features)`` and ``(n_rows, n_classes)``.
    """
    chunk = trainer.path.eval_chunk
    done = [trainer.features(model, gather(rows[at : at + chunk])[0]) for at in range(0, rows.size, chunk)]
    return np.concatenate([one[0] for one in done]), np.concatenate([one[1] for one in done])


def gradient_of(trainer: Trainer, model: Models, rows: Counts, gather: Gather) -> Vector:
    """Return the gradient of the summed loss of some samples by all parameters, shape ``(n_parameters,)``.

    The parameters are those of :func:`features_of`; without samples it is zero.
    """
    chunk, found = trainer.path.eval_chunk, np.zeros(trainer.layout.parameter_size)
    for at in range(0, rows.size, chunk):
        found += trainer.gradient(model, *gather(rows[at : at + chunk]))
    return found


NO_HEAD = "the parameters of the model do not end in a last layer with weights and a bias for each class"
"""Why something that needs the last layer is refused."""


def head_size(layout: Layout, n_classes: int) -> int:
    """Return how many parameters, at their end, are the last layer: weights and a bias for each class.

    Modules may declare their layers in any order, and layers without biases: 0 if the last two tensors of parameters
    have other shapes than ``(n_classes, n_features)`` and ``(n_classes,)``.

    Examples
    --------
    >>> layout = Layout(names=("0.weight", "1.weight", "1.bias"), shapes=((3, 5), (2, 3), (2,)), n_parameters=3)
    >>> head_size(layout, 2), head_size(layout, 3)
    (8, 0)
    """
    match layout.shapes[max(0, layout.n_parameters - 2) : layout.n_parameters]:
        case ((rows, n_features), (biases,)) if rows == biases == n_classes:
            return n_classes * (n_features + 1)
        case _:
            return 0
