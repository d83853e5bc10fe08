from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts
from fielding.errors import OptionError
from fielding.rng import stream
from fielding.traces import statistics as windows
from fielding.traces.statistics import dealt_distance, measure_drift
from fielding.traces.trace import Trace


def trace_of(*clients: list[list[int]]) -> tuple[Trace, Counts]:
    """Return a trace and its windows: per client, per window, the number of samples of labels a and b."""
    rows = [
        (client, window, label, count)
        for client, histograms in enumerate(clients)
        for window, histogram in enumerate(histograms)
        for label, count in enumerate(histogram)
        if count
    ]
    client, window, label, count = (np.array(column) for column in zip(*rows, strict=True))
    trace = Trace(
        client_ids=tuple(range(len(clients))),
        client=client,
        time=window.astype(np.float64),
        y=label,
        classes=("a", "b"),
        count=count,
    )
    return trace, trace.interval_of(1.0)


def test_drift_is_the_mean_distance_of_adjacent_windows_per_client() -> None:
    moving, steady = [[20, 0], [0, 20], [0, 20]], [[10, 10], [10, 10]]

    measured = measure_drift(*trace_of(moving, steady))

    assert measured.drift == pytest.approx(((2.0 + 0.0) / 2 + 0.0) / 2)
    assert measured.n_pairs == 3
    assert measured.n_clients == 2


def test_windows_with_few_samples_and_windows_apart_are_not_compared() -> None:
    thin, apart = [[20, 0], [0, 19]], [[20, 0], [0, 0], [0, 20]]

    assert measure_drift(*trace_of(thin, apart)).drift is None
    assert measure_drift(*trace_of(thin), min_samples=19).drift == pytest.approx(2.0)


def test_the_last_window_of_a_client_is_not_compared_with_the_first_of_the_next() -> None:
    assert measure_drift(*trace_of([[0, 0], [20, 0]], [[0, 20], [0, 0]])).n_pairs == 0


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = stream(1, "test")
    trace, window_of = trace_of(*rng.integers(5, 30, (7, 9, 2)).tolist())
    whole = measure_drift(trace, window_of)

    monkeypatch.setattr(windows, "CHUNK_CELLS", 6)
    in_chunks = measure_drift(trace, window_of)

    assert in_chunks.n_pairs == whole.n_pairs
    assert in_chunks.drift == pytest.approx(whole.drift)
    assert in_chunks.noise == pytest.approx(whole.noise)


def test_without_drift_all_there_is_is_noise() -> None:
    rng = stream(2, "test")
    shares = [0.5, 0.3, 0.1, 0.05, 0.05]
    samples = rng.choice(5, p=shares, size=(200, 10, 25))
    client, window, _ = np.indices(samples.shape)
    trace = Trace(
        client_ids=tuple(range(200)),
        client=client.ravel().astype(np.int32),
        time=window.ravel().astype(np.float64),
        y=samples.ravel().astype(np.int32),
        classes=tuple("abcde"),
    )

    measured = measure_drift(trace, trace.interval_of(1.0))

    assert measured.drift == pytest.approx(measured.noise, rel=0.01)


histograms = st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any)


@given(histograms, histograms)
def test_the_noise_is_the_mean_over_all_ways_to_deal_the_samples(first: list[int], second: list[int]) -> None:
    pooled = np.repeat(np.arange(3), np.add(first, second))
    n, total = sum(first), sum(first) + sum(second)
    distances = []
    for hand in combinations(range(total), n):
        left = np.bincount(pooled[list(hand)], minlength=3)
        right = np.add(first, second) - left
        distances.append(np.abs(left / n - right / (total - n)).sum())

    found = dealt_distance(np.array([first]), np.array([second]))

    assert found[0] == pytest.approx(np.mean(distances), abs=1e-12)


def test_a_window_without_samples_cannot_be_asked_for() -> None:
    with pytest.raises(OptionError, match="min_samples is 0"):
        measure_drift(*trace_of([[1, 0]]), min_samples=0)
