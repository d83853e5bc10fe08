"""The options of parts that configs name: what a constructor takes by keyword."""

from collections.abc import Callable, Collection, Mapping
from inspect import signature

from fielding._typing import Json
from fielding.errors import OptionError, echo, unknown_name


def options_of(build: Callable[..., object], *, hidden: Collection[str] = ()) -> dict[str, Json]:
    """Return what a constructor takes, with the defaults.

    Parameters
    ----------
    build
        A class, or a function that makes one of its kind.
    hidden
        Parameters that no config sets.

    Examples
    --------
    >>> options_of(lambda rule, eta=0.1: None, hidden=["rule"])
    {'eta': 0.1}
    """
    return {option: knob.default for option, knob in signature(build).parameters.items() if option not in hidden}


def check_options(what: str, given: Collection[str], known: Mapping[str, Json]) -> None:
    """Raise if an option is given that does not exist; the message names the nearest one that does.

    Parameters
    ----------
    what
        Whose options these are, for the message.
    given
        Names of options.
    known
        As :func:`options_of` gives them.

    Raises
    ------
    OptionError
        If a name is not among the known ones.

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


def check_flag(name: str, value: object) -> None:
    """Raise unless the option is true or false; 1 and 0 are neither.

    Examples
    --------
    >>> check_flag("reset", 1)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: reset is 1; give true or false
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {echo(value)}; give true or false")
