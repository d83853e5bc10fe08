import pytest

from fielding.client.drift.sample_tests import RIVER_TESTS, SAMPLE_TESTS, sample_test_named
from fielding.client.drift.two_sample import ClassShift
from fielding.errors import OptionError


def test_options_reach_the_test() -> None:
    assert sample_test_named("class-shift", {"within": "predicted", "deals": 19}) == ClassShift(
        within="predicted", deals=19
    )


def test_unknown_options_are_refused_by_name() -> None:
    with pytest.raises(OptionError, match="did you mean 'deals'"):
        sample_test_named("mmd", {"deal": 3})
    with pytest.raises(OptionError, match="no options"):
        sample_test_named("bbsd", {"alpha": 0.1})


def test_names_are_sorted_and_those_of_river_among_them() -> None:
    assert list(SAMPLE_TESTS) == sorted(SAMPLE_TESTS)
    assert set(RIVER_TESTS) < set(SAMPLE_TESTS)
