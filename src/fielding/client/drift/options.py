"""The check of the numbers that drift tests are set up with."""

import numpy as np

from fielding.errors import OptionError, echo


def check_number(name: str, value: object, *, low: float, high: float) -> None:
    """Raise unless the option is a number from ``low`` to ``high``, both included.

    Examples
    --------
    >>> check_number("eps", 3, low=0, high=2)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: eps is 3; give a number from 0 to 2
    """
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from {low:g} to {high:g}")


def check_whole(name: str, value: object) -> None:
    """Raise unless the option is a whole number of at least 1."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise OptionError(f"{name} is {echo(value)}; give a whole number of at least 1")
