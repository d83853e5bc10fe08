"""Checks of the numbers that aggregators and paces are set up with."""

from fielding.errors import OptionError, echo


def check_above_zero(name: str, value: object) -> None:
    """Raise unless the option is a finite number above 0.

    Examples
    --------
    >>> check_above_zero("eta", "fast")
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: eta is 'fast'; give a number above 0
    """
    if not _is_number(value) or not 0.0 < value < float("inf"):  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number above 0")


def check_below(name: str, value: object, bound: float) -> None:
    """Raise unless the option is a number from 0 to below a bound."""
    if not _is_number(value) or not 0.0 <= value < bound:  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from 0 to below {bound:g}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
