import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator.points import Points
from fielding.coordinator.trigger import holds_pair_beyond
from fielding.distance import METRICS, TIE


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(METRICS)), st.floats(0.01, 1.9))
def test_short_cuts_never_change_the_answer(seed: int, name: str, delta: float) -> None:
    rng = np.random.default_rng(seed)
    metric = METRICS[name]
    n = int(rng.integers(1, 25))
    rows = rng.dirichlet(np.full(4, float(rng.choice([0.2, 1.0, 20.0]))), size=n)
    labels = rng.integers(0, 3, size=n).astype(np.int32)
    centers = np.array([rows[labels == k].mean(axis=0) if (labels == k).any() else rows[0] for k in range(3)])

    distances = metric.between(rows, rows)
    together = labels[:, np.newaxis] == labels[np.newaxis]

    answer = holds_pair_beyond(delta, Points(rows), labels, centers=centers, metric=metric)
    assert answer == bool((distances[together] > delta + TIE).any())
