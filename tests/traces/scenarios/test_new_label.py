import numpy as np
import pytest

from fielding.errors import InputError, OptionError
from fielding.traces.scenarios.new_label import NewLabel
from tests.traces.scenarios.pools import concepts_of, histograms, image_pool, request_for

POOL = image_pool()


def test_label_is_unseen_until_it_appears_in_the_middle_of_the_training() -> None:
    schedule = NewLabel().deal(POOL, request_for(60, 8, n_first=2, samples=50), seed=1)
    old = set(schedule.y[schedule.interval < 5].tolist())
    new = set(schedule.y[schedule.interval == 5].tolist()) - old

    assert len(old) == 5
    assert len(new) == 1


def test_it_takes_its_share_of_the_samples_of_those_who_see_it() -> None:
    schedule = NewLabel(at=3, intensity=0.4, labels=2).deal(POOL, request_for(100, 5, n_first=2, samples=500), seed=1)
    hidden = sorted(set(range(6)) - set(schedule.y[schedule.interval < 3].tolist()))
    is_in = concepts_of(schedule)[3] >= 4
    shares = histograms(schedule, 6)[3:][:, :, hidden]

    assert 0.2 < is_in.mean() < 0.4
    assert np.abs(shares[:, is_in] - 0.2).max() < 0.1
    assert not shares[:, ~is_in].any()


def test_concept_tells_the_first_mix_and_whether_the_label_is_seen() -> None:
    states = concepts_of(NewLabel(at=3).deal(POOL, request_for(100, 5), seed=1))

    assert (states[:3] == states[0]).all()
    assert (states[3:] == states[3]).all()
    assert set((states[3] - states[0]).tolist()) == {0, 4}


def test_without_intensity_or_time_nothing_appears() -> None:
    for scenario, request in (
        (NewLabel(intensity=0.0), request_for()),
        (NewLabel(share=1.0), request_for(n_intervals=2, n_first=2)),
    ):
        schedule = scenario.deal(POOL, request, seed=1)
        assert (concepts_of(schedule) == concepts_of(schedule)[0]).all()
        assert np.unique(schedule.y).size == 5


def test_at_least_one_label_must_be_left() -> None:
    with pytest.raises(InputError, match="labels is 6, but the pool has samples of 6"):
        NewLabel(labels=6).deal(POOL, request_for(), seed=1)

    assert np.unique(NewLabel(labels=5, at=5).deal(POOL, request_for(n_first=5), seed=1).y).size == 6


def test_it_must_appear_before_the_end() -> None:
    with pytest.raises(OptionError, match="at is 6, but there are 6 intervals"):
        NewLabel(at=6).deal(POOL, request_for(n_intervals=6), seed=1)


def test_knobs_out_of_range_are_errors() -> None:
    with pytest.raises(OptionError, match="labels is 0"):
        NewLabel(labels=0)
    with pytest.raises(OptionError, match="at is -1"):
        NewLabel(at=-1)
