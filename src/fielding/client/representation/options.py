"""The check of the numbers that representations are set up with."""

from fielding.errors import OptionError, echo


def check_number(name: str, value: object, *, low: float, high: float = float("inf")) -> None:
    """Raise unless the option is a finite number from ``low`` to ``high``, both included.

    Examples
    --------
    >>> check_number("shrink", -1, low=0.0, high=1e6)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: shrink is -1; give a number from 0 to 1e+06
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or value == float("inf"):  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from {low:g} to {high:g}")


def check_whole(name: str, value: object, *, low: int, high: int = 2**31) -> None:
    """Raise unless the option is a whole number from ``low`` to ``high``, both included."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{name} is {echo(value)}; give a whole number from {low} to {high}")


MOST_DIMS = 4096
"""A projection to more numbers would cost more than it saves."""

LARGEST_WEIGHT = 1e6
"""Samples that a reference may stand for; beyond, no client would ever be heard."""
