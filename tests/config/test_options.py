from functools import partial

import pytest

from fielding.config.options import check_flag, check_options, options_of
from fielding.errors import OptionError


def made(rule: str, *, eta: float = 0.1, name: str | None = None) -> tuple[str, float, str | None]:
    return rule, eta, name


def test_options_are_what_is_not_hidden_with_the_defaults_that_count() -> None:
    assert options_of(partial(made, rule="adam", eta=0.5), hidden=["rule"]) == {"eta": 0.5, "name": None}


def test_known_options_pass() -> None:
    check_options("pace 'steady'", [], {})
    check_options("pace 'fast'", {"eta": "whatever"}, {"eta": 0.1, "name": None})


@pytest.mark.parametrize(
    ("given", "known", "words"),
    [
        (["eta", "nam"], ["eta", "name"], "unknown option of pace 'fast' 'nam'; did you mean 'name'? Known: eta, name"),
        (["eta"], [], "eta has no effect: pace 'fast' has no options; leave it out"),
    ],
)
def test_other_options_are_refused(given: list[str], known: list[str], words: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_options("pace 'fast'", given, dict.fromkeys(known))

    assert str(refused.value) == words


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_flags_are_true_or_false(value: object) -> None:
    check_flag("looks", value=True)

    with pytest.raises(OptionError, match=r"looks is .*; give true or false"):
        check_flag("looks", value)
