"""Ready-made metrics, against scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.metrics import auc, f1, mae, rmse


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 30))
def test_they_are_what_scikit_learn_says(seed: int, n_classes: int, n_samples: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((3, n_classes))[rng.integers(0, 3, n_samples)]  # with ties
    labels = rng.integers(0, n_classes, n_samples)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = shares @ np.arange(n_classes)
    curves = [
        metrics.roc_auc_score(labels == label, shares[:, label])
        for label in np.unique(labels)
        if (labels != label).any()
    ]

    assert f1(scores, labels) == pytest.approx(
        metrics.f1_score(labels, scores.argmax(1), average="macro", zero_division=0)
    )
    assert auc(scores, labels) == pytest.approx(np.mean(curves) if curves else np.nan, nan_ok=True)
    assert mae(scores, labels) == pytest.approx(metrics.mean_absolute_error(labels, expected))
    assert rmse(scores, labels) == pytest.approx(np.sqrt(metrics.mean_squared_error(labels, expected)))
