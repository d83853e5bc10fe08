import pytest

from fielding.config.options import check_whole
from fielding.errors import OptionError
from fielding.traces.scenarios.scenario import check_alpha, check_choice, check_share


@pytest.mark.parametrize("value", [1, 3])
def test_whole_numbers_in_the_range_pass(value: int) -> None:
    check_whole("places", value, low=1, high=3)


@pytest.mark.parametrize("value", [0, 4, 1.0, True, "2", None])
def test_other_values_name_the_option_and_the_range(value: object) -> None:
    with pytest.raises(OptionError, match=r"places is .*; give a whole number from 1 to 3"):
        check_whole("places", value, low=1, high=3)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.5", True])
def test_shares_lie_between_none_and_all(value: object) -> None:
    check_share("share", 0)
    check_share("share", 1.0)

    with pytest.raises(OptionError, match=r"share is .*; give a number from 0 to 1"):
        check_share("share", value)


@pytest.mark.parametrize("value", [-1, 1e-9, float("inf"), "a", False])
def test_alpha_is_positive_or_zero_where_zero_means_something(value: object) -> None:
    check_alpha(0.5)
    check_alpha(0, may_be_zero=True)
    check_alpha(0.0, may_be_zero=True)

    with pytest.raises(OptionError, match="alpha is"):
        check_alpha(value)
    with pytest.raises(OptionError, match=r"alpha is .*, or 0 for one label mix for all"):
        check_alpha(value, may_be_zero=True)


@pytest.mark.parametrize("value", ["Blur", 3, None, ["blur"]])
def test_choices_are_listed(value: object) -> None:
    check_choice("look", "blur", ("blur", "rotation"))

    with pytest.raises(OptionError, match=r"look is .*; give one of blur, rotation"):
        check_choice("look", value, ("blur", "rotation"))
