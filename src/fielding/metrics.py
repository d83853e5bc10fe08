"""Measures of how well scores of classes fit labels, for ``Own(metrics=...)``; each is computed client by client.

All take ``scores``, shape ``(n_samples, n_classes)``, as a model gives them before softmax, and ``labels``, positions
of classes, shape ``(n_samples,)``; at least one sample. NaN: it cannot be said of these samples.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["auc", "f1", "mae", "rmse"]

Scores = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]


def f1(scores: Scores, labels: Labels) -> float:
    """Return the macro F1: the mean over the classes that occur, in labels or in what is predicted.

    Examples
    --------
    >>> f1(np.array([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]]), np.array([0, 1])).__round__(4)
    0.3333
    """
    predicted, n_classes = scores.argmax(axis=1), scores.shape[1]
    n_right = np.bincount(labels[predicted == labels], minlength=n_classes)
    n_said = np.bincount(predicted, minlength=n_classes) + np.bincount(labels, minlength=n_classes)
    occurs = n_said > 0
    return float((2.0 * n_right[occurs] / n_said[occurs]).mean())


def auc(scores: Scores, labels: Labels) -> float:
    """Return the macro AUC: the mean over the classes among the labels of the area under the ROC of each against all.

    Ties count half; NaN if all labels are the same.

    Examples
    --------
    >>> auc(np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 1, 1]))
    1.0
    """
    shares, found = _softmax(scores), list[float]()
    for label in np.unique(labels).tolist():
        of_class, of_others = shares[labels == label, label], np.sort(shares[labels != label, label])
        if of_others.size:
            below, not_above = (np.searchsorted(of_others, of_class, side=side) for side in ("left", "right"))
            found.append(float((below + not_above).mean() / (2.0 * of_others.size)))
    return float(np.mean(found)) if found else float("nan")


def mae(scores: Scores, labels: Labels) -> float:
    """Return the mean absolute error of the expected class, for classes that are steps of a scale: 0, 1, 2, ...

    Examples
    --------
    >>> mae(np.array([[0.0, 0.0, 0.0]]), np.array([2]))
    1.0
    """
    return float(np.abs(_errors(scores, labels)).mean())


def rmse(scores: Scores, labels: Labels) -> float:
    """Return the root of the mean squared error of the expected class; otherwise as :func:`mae`."""
    return float(np.sqrt((_errors(scores, labels) ** 2).mean()))


def _errors(scores: Scores, labels: Labels) -> npt.NDArray[np.float64]:
    return np.asarray(_softmax(scores) @ np.arange(scores.shape[1]) - labels, dtype=np.float64)


def _softmax(scores: Scores) -> npt.NDArray[np.float64]:
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
