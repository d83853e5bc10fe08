import math
from dataclasses import dataclass

import pytest

from fielding._typing import Json
from fielding.config.rules import Key, declared_keys, key
from fielding.errors import OptionError


@dataclass(frozen=True)
class Section:
    name: str = key("mlp", "a name", choices=("mlp", "softmax"))
    rate: float = key(0.1, "a rate", above=0.0, high=1.0)
    steps: int = key(3, "steps", low=1)
    text: str = key("", "any text")
    flag: bool = key(False, "yes or no")
    size: int | None = key(None, "a size", low=1)
    tau: float | str = key(0.5, "a factor")
    method: str = key("mean", "a name, or one's own", choices=("mean", "median"), is_open=True)


KEYS: dict[str, Key] = {one.name: one for one in declared_keys(Section, "section.")}


def check(name: str, value: Json) -> Json:
    return KEYS[name].check(value)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("name", "softmax", "softmax"),
        ("rate", 1, 1.0),
        ("rate", 0.25, 0.25),
        ("steps", 1, 1),
        ("steps", 10**400, 10**400),
        ("text", "anything", "anything"),
        ("flag", True, True),
        ("size", None, None),
        ("size", 7, 7),
        ("tau", 2, 2.0),
        ("tau", "1/3", "1/3"),
        ("tau", math.inf, "inf"),
        ("method", "median", "median"),
        ("method", "my_module:Mine", "my_module:Mine"),
    ],
)
def test_values_that_fit_are_taken_in_the_type_of_their_key(name: str, value: Json, wanted: Json) -> None:
    got = check(name, value)

    assert got == wanted
    assert type(got) is type(wanted)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("name", "softmex", "section.name: unknown name 'softmex'; did you mean 'softmax'? Known: mlp, softmax"),
        ("name", 3, "section.name is 3; give one of mlp, softmax"),
        ("rate", 0, "section.rate is 0; give a number above 0 and of at most 1"),
        ("rate", 1.5, "section.rate is 1.5; give a number above 0 and of at most 1"),
        ("rate", math.nan, "section.rate is nan; give a number above 0 and of at most 1"),
        ("rate", math.inf, "section.rate is inf; give a number above 0 and of at most 1"),
        ("rate", 10**400, "section.rate is 1000000000"),
        ("rate", "fast", "section.rate is 'fast'; give a number above 0 and of at most 1"),
        ("rate", True, "section.rate is True; give a number above 0 and of at most 1"),
        ("steps", 0, "section.steps is 0; give a whole number of at least 1"),
        ("steps", 2.0, "section.steps is 2.0; give a whole number of at least 1"),
        ("steps", True, "section.steps is True; give a whole number of at least 1"),
        ("steps", None, "section.steps is None; give a whole number of at least 1"),
        ("text", 5, "section.text is 5; give a text"),
        ("text", math.inf, "section.text is inf; give a text"),
        ("text", ["a"], "section.text is ['a']; give a text"),
        ("flag", 1, "section.flag is 1; give true or false"),
        ("flag", "yes", "section.flag is 'yes'; give true or false"),
        ("size", 0, "section.size is 0; give a whole number of at least 1"),
        ("size", {"a": 1}, "section.size is {'a': 1}; give a whole number of at least 1"),
        ("tau", False, "section.tau is False; give a number or a text"),
        ("tau", -math.inf, "section.tau is -inf; give a number or a text"),
        ("name", "my_module:Mine", "section.name: unknown name 'my_module:Mine'"),
        ("method", "medium", "section.method: unknown method 'medium'; did you mean 'median'? Known: mean, median"),
        ("method", 3, "section.method is 3; give one of mean, median or my_module:Name"),
    ],
)
def test_values_that_do_not_fit_are_named_with_what_would(name: str, value: Json, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        check(name, value)

    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_a_key_declares_its_help_and_default() -> None:
    declared = KEYS["rate"]

    assert (declared.default, declared.rule.help, declared.rule.above) == (0.1, "a rate", 0.0)


def test_a_field_that_is_no_key_is_not_listed() -> None:
    @dataclass(frozen=True)
    class Plain:
        one: int = 1

    assert declared_keys(Plain) == []


@pytest.mark.parametrize(
    ("name", "words"), [("name", "one of mlp, softmax"), ("method", "one of mean, median or my_module:Name")]
)
def test_only_an_open_key_offers_a_name_of_ones_own(name: str, words: str) -> None:
    assert KEYS[name].rule.is_open == (name == "method")
    assert KEYS[name].allowed == words
