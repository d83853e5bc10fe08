import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.drift import Evidence, FlexcflOriginal, drift_test_named
from fielding.errors import OptionError


def evidence_of(reported: list[int], current: list[int]) -> Evidence:
    return Evidence(
        reported=np.array([reported]),
        current=np.array([current]),
        fresh=np.array([current]),
        before=np.array([reported]),
        age=np.array([1]),
        arrived=np.array([sum(current)]),
        is_mixed=np.array([False]),
    )


def fires(reported: list[int], current: list[int], share: float = 0.2) -> bool:
    return bool(FlexcflOriginal(share=share).drifted(evidence_of(reported, current))[0])


def test_labels_that_trade_places_go_unnoticed() -> None:
    assert not fires([90, 10, 0], [0, 10, 90])
    assert fires([90, 10, 0], [60, 40, 0])


def test_the_boundary_is_a_fifth_of_the_samples_last_reported() -> None:
    assert not fires([60, 40], [70, 30])  # 10 + 10 of 100
    assert fires([60, 40], [71, 29])


def test_more_samples_of_the_same_mix_count_as_drift() -> None:
    assert not fires([60, 40], [72, 48])
    assert fires([60, 40], [73, 48])


def test_a_client_with_one_label_never_drifts() -> None:
    assert not fires([0, 10], [0, 90])


@given(
    reported=st.lists(st.integers(0, 20), min_size=2, max_size=6).filter(any),
    seed=st.integers(0, 100),
    current=st.lists(st.integers(0, 20), min_size=6, max_size=6).filter(any),
)
def test_it_is_the_wasserstein_distance_of_the_counts_taken_as_samples(
    reported: list[int], current: list[int], seed: int
) -> None:
    from scipy.stats import wasserstein_distance

    n_labels = len(reported)
    now = np.random.default_rng(seed).permutation(current)[:n_labels].tolist()
    has_choice = np.count_nonzero(np.add(reported, now)) > 1
    limit = 0.2 * sum(reported) / n_labels
    distance = wasserstein_distance(reported, now)

    if any(now) and abs(distance - limit) > 1e-6:
        assert fires(reported, now) == (has_choice and distance > limit)


def test_a_share_beyond_two_is_refused() -> None:
    with pytest.raises(OptionError, match="share is 3; give a number from 0 to 2"):
        drift_test_named("flexcfl-original", {"share": 3})
