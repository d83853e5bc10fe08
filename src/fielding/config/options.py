"""The options of parts that configs name: what a constructor takes by keyword."""

from collections.abc import Callable, Collection, Mapping
from inspect import signature

import numpy as np

from fielding._typing import Json
from fielding.errors import OptionError, echo, unknown_name


def options_of(build: Callable[..., object], *, hidden: Collection[str] = ()) -> dict[str, Json]:
    """Return what a constructor takes, with the defaults.

    ``hidden``: parameters that no config sets.
    """
    return {option: knob.default for option, knob in signature(build).parameters.items() if option not in hidden}


def check_options(what: str, given: Collection[str], known: Mapping[str, Json]) -> None:
    """Raise if an option is given that does not exist; the message names the nearest one that does.

    Examples
    --------
    >>> check_options("selection 'nearest'", {"pol": 3.0}, {"pool": 2.0})
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: unknown option of selection 'nearest' 'pol'; did you mean 'pool'? Known: pool
    >>> check_options("selection 'uniform'", {"pool": 3.0}, {})
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: pool has no effect: selection 'uniform' has no options; leave it out
    """
    for option in given:
        if not known:
            raise OptionError(f"{option} has no effect: {what} has no options; leave it out")
        if option not in known:
            raise unknown_name(f"option of {what}", option, known)


def option_words(docstring: str) -> dict[str, str]:
    """Return what the parameters section of a docstring says of each parameter.

    Parameters
    ----------
    docstring
        Whose first line
        may be anything.

    Examples
    --------
    >>> from inspect import getdoc
    >>> option_words(getdoc(option_words))
    {'docstring': 'Whose first line may be anything.'}
    """
    words: dict[str, str] = {}
    names: list[str] = []
    _, _, section = docstring.partition("Parameters\n----------\n")
    for line in section.splitlines():
        if line.startswith("---"):  # the next section has begun
            break
        if line and not line.startswith(" "):
            names = [one.strip() for one in line.split(",")]
        else:
            words |= {one: f"{words.get(one, '')} {line.strip()}".strip() for one in names}
    return words


def check_flag(name: str, value: object) -> None:
    """Raise unless the option is true or false; 1 and 0 are neither."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {echo(value)}; give true or false")


def one_of(name: str, value: object, known: Collection[str]) -> str:
    """Return a word that is one of some, or raise."""
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)
    return value


def whole(name: str, value: object, *, least: int = 1, most: int = 2**31) -> int:
    """Return a whole number from ``least`` to ``most``, or raise."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{name} is {echo(value)}; give a whole number from {least} to {most}")
    return value


def number(name: str, value: object, *, least: float = 0.0, most: float = 1.0) -> float:
    """Return a number from ``least`` to ``most``, or raise; NaN is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and least <= value <= most):  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from {least:g} to {most:g}")
    return float(value)  # type: ignore[arg-type]


def flag(name: str, value: object) -> bool:
    """Return true or false, or raise."""
    check_flag(name, value)
    return bool(value)


def check_number(name: str, value: object, *, low: float, high: float) -> None:
    """Raise unless the option is a number from ``low`` to ``high``, both included."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from {low:g} to {high:g}")


def check_whole(name: str, value: object, *, low: int = 1, high: int | None = None) -> None:
    """Raise unless the option is a whole number from ``low`` to ``high``, by default the largest of 32 bits."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not low <= value <= (2**31 - 1 if high is None else high):  # type: ignore[operator]
        wanted = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise OptionError(f"{name} is {echo(value)}; give a whole number {wanted}")
