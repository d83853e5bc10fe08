"""The check of the numbers that selectors are set up with."""

from fielding.errors import OptionError, echo


def check_between(name: str, value: object, low: float, high: float = float("inf")) -> None:
    """Raise unless the option is a number from ``low`` to ``high``, both included.

    Examples
    --------
    >>> check_between("clip", 2, 0.0, 1.0)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: clip is 2; give a number from 0 to 1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise OptionError(f"{name} is {echo(value)}; give a number from {low:g} to {high:g}")


def check_whole(name: str, value: object, low: int) -> None:
    """Raise unless the option is a whole number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise OptionError(f"{name} is {echo(value)}; give a whole number of at least {low}")
