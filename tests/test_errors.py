import re

import numpy as np
import pytest

from fielding import errors
from fielding.errors import FieldingError, InputError, OptionError, ReportError, echo, unknown_name


def classes() -> list[type[FieldingError]]:
    return [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, FieldingError)]


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = re.findall(r"^ +([│├└─ ]*)(\w+Error)(?: \((\w+)\))?", str(errors.__doc__), re.MULTILINE)
    drawn_parents = {}
    path: list[str] = []
    for branches, name, builtin in drawn:
        path[len(branches) // 4 :] = [name]
        drawn_parents[name] = {*path[-2:-1], *([builtin] if builtin else [])}

    true_parents = {one.__name__: {base.__name__ for base in one.__bases__} for one in classes()}

    assert drawn_parents | {"FieldingError": {"Exception"}} == true_parents


@pytest.mark.parametrize("kind", classes())
def test_every_error_is_caught_as_a_fielding_error(kind: type[FieldingError]) -> None:
    with pytest.raises(FieldingError, match=r"^got 3, want 2$"):
        raise kind("got 3, want 2")


@pytest.mark.parametrize("kind", [InputError, OptionError, ReportError])
def test_a_mistake_in_the_input_is_a_value_error_too(kind: type[FieldingError]) -> None:
    assert issubclass(kind, ValueError)


def test_short_values_are_echoed_as_python_writes_them() -> None:
    assert [echo("zone-17"), echo(3), echo(None), echo([1.5])] == ["'zone-17'", "3", "None", "[1.5]"]


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, b"x" * 1_000_000, list(range(100_000)), "\n" * 500, {"a": "y" * 500}, 10**4000],
    ids=["text", "bytes", "list", "newlines", "dict", "number"],
)
def test_long_values_are_cut_to_one_short_line(value: object) -> None:
    assert len(echo(value)) < 160
    assert "\n" not in echo(value)


def test_a_cut_text_tells_how_long_it_was() -> None:
    assert echo("x" * 1000).endswith("... (1000 characters)")


def test_a_text_at_the_limit_is_not_cut() -> None:
    assert echo("x" * 58) == repr("x" * 58)


def test_a_value_written_over_several_lines_is_echoed_on_one() -> None:
    assert echo(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"


def test_a_number_too_long_for_python_to_write_is_still_echoed() -> None:
    assert echo(10**5000).startswith("a whole number of ")


def test_an_unknown_name_comes_with_the_nearest_and_with_all_known() -> None:
    error = unknown_name("metric", "helinger", ["l2", "hellinger", "l1"])

    assert isinstance(error, OptionError)
    assert str(error) == "unknown metric 'helinger'; did you mean 'hellinger'? Known: hellinger, l1, l2"


@pytest.mark.parametrize("got", ["zzz", 3, None, ""])
def test_a_name_like_no_other_comes_without_a_guess(got: object) -> None:
    assert str(unknown_name("metric", got, ["l1"])) == f"unknown metric {got!r}; Known: l1"
