import pytest

from fielding.config.options import check_number, check_whole
from fielding.errors import OptionError


@pytest.mark.parametrize("value", [0, 0.5, 2])
def test_numbers_within_the_bounds_pass(value: float) -> None:
    check_number("shrink", value, low=0.0, high=2.0)


@pytest.mark.parametrize("value", [-0.1, 2.1, float("nan"), float("inf"), True, "1", None])
def test_other_numbers_are_refused(value: object) -> None:
    with pytest.raises(OptionError, match=r"shrink is .*; give a number from 0 to 2"):
        check_number("shrink", value, low=0.0, high=2.0)


@pytest.mark.parametrize("value", [0, 5, 1.0, True, "1", None])
def test_what_is_no_whole_number_within_the_bounds_is_refused(value: object) -> None:
    check_whole("dims", 1, low=1, high=4)
    check_whole("dims", 4, low=1, high=4)
    with pytest.raises(OptionError, match=r"dims is .*; give a whole number from 1 to 4"):
        check_whole("dims", value, low=1, high=4)
