import pytest

from fielding.errors import OptionError
from fielding.traces.scenarios import SCENARIOS, deal, scenario_named, scenario_options
from fielding.traces.scenarios.covariate import Covariate
from fielding.traces.scenarios.places import Places
from tests.traces.scenarios.pools import image_pool, request_for


def test_scenario_is_found_by_its_name() -> None:
    assert scenario_named("places") == Places()
    assert scenario_named("covariate", {"look": "blur", "share": 0.1}) == Covariate(look="blur", share=0.1)


def test_unknown_scenario_names_the_nearest_known_one() -> None:
    with pytest.raises(OptionError, match="unknown scenario 'place'; did you mean 'places'"):
        scenario_named("place")
    with pytest.raises(OptionError, match="unknown scenario 'natural'"):
        scenario_options("natural")


def test_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"unknown option of scenario 'places' 'shares'; did you mean 'share'\?"):
        scenario_named("places", {"shares": 0.5})


def test_value_out_of_range_names_the_option() -> None:
    with pytest.raises(OptionError, match="share is 'half'; give a number from 0 to 1"):
        scenario_named("places", {"share": "half"})


@pytest.mark.parametrize("name", SCENARIOS)
def test_options_are_listed_with_the_defaults_that_a_scenario_has(name: str) -> None:
    options = scenario_options(name)

    assert options
    assert scenario_named(name, options) == scenario_named(name)


def test_dealing_by_name_is_dealing_with_the_scenario() -> None:
    by_name = deal("places", image_pool(), request_for(), seed=3, options={"share": 0.5})

    assert (by_name.sample == Places(share=0.5).deal(image_pool(), request_for(), seed=3).sample).all()
