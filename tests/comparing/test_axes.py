"""What is varied is read as users typed it, and what cannot be varied is refused."""

import pytest

from fielding._typing import Json
from fielding.comparing.variants import parse_axis
from fielding.errors import OptionError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("coordinator.tau=0,1/6, inf", {"0": 0, "1/6": "1/6", "inf": "inf"}),
        ("training.weighted=true,false", {"true": True, "false": False}),
        ("rounds=5", {"5": 5}),
        ("trace.features='a,b','c'", {"'a,b'": "a,b", "'c'": "c"}),
        ("method.sizes=[1, 2],[3]", {"[1, 2]": [1, 2], "[3]": [3]}),
        ("trace.last=2020-01-01,30d", {"2020-01-01": "2020-01-01", "30d": "30d"}),
    ],
)
def test_values_are_read_as_set_reads_them(text: str, values: dict[str, Json]) -> None:
    assert parse_axis(text).values == values


@pytest.mark.parametrize("text", ["", "rounds", "rounds=", "rounds=1,", "rounds=1,,2", "=1", "a.=1", "a.b.c=1"])
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"--vary .* says nothing; write key=value"):
        parse_axis(text)


@pytest.mark.parametrize("text", ["rounds=1,2,1", "training.prox=0.5,0.50"])
def test_a_value_twice_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="twice"):
        parse_axis(text)


@pytest.mark.parametrize("text", ["seed=1,2", "method.name=global,local", "workers=1,2", "checkpoint.every=1,2"])
def test_keys_that_are_given_elsewhere_or_change_nothing_are_not_varied(text: str) -> None:
    with pytest.raises(OptionError, match="cannot be varied"):
        parse_axis(text)


def test_a_section_is_not_varied_as_a_whole() -> None:
    with pytest.raises(OptionError, match=r"coordinator is a section; vary its keys, each as coordinator\.KEY="):
        parse_axis("coordinator={tau=1},{tau=2}")
