import pytest

from fielding.errors import OptionError
from fielding.traces.scenarios import DealRequest


@pytest.mark.parametrize("name", ["n_clients", "n_intervals", "n_first", "samples_per_interval"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3"])
def test_every_number_is_a_whole_one_of_at_least_one(name: str, value: object) -> None:
    numbers: dict = {"n_clients": 3, "n_intervals": 3, "n_first": 1, "samples_per_interval": 3, name: value}

    with pytest.raises(OptionError, match=f"{name} is .*; give a whole number of at least 1"):
        DealRequest(**numbers)


def test_training_starts_before_the_last_interval_is_over() -> None:
    with pytest.raises(OptionError, match="n_first is 4, but there are 3 intervals"):
        DealRequest(n_clients=1, n_intervals=3, n_first=4)

    assert DealRequest(n_clients=1, n_intervals=3, n_first=3).n_first == 3


def test_more_than_fits_is_refused_before_it_is_dealt() -> None:
    with pytest.raises(OptionError, match="1000000 clients times 1000 intervals of 20 samples are too many"):
        DealRequest(n_clients=1_000_000, n_intervals=1000)
