"""The checks of the knobs that scenarios are set up with."""

import numpy as np

from fielding.client.drift.options import check_number
from fielding.errors import OptionError, echo

LEAST_ALPHA, MOST_ALPHA = 1e-3, 1e6
MOST_CONCEPTS = 1000


def check_whole(name: str, value: object, *, low: int, high: int = 2**31 - 1) -> None:
    """Raise unless the option is a whole number from ``low`` to ``high``.

    Examples
    --------
    >>> check_whole("places", 2.5, low=1)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: places is 2.5; give a whole number of at least 1
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not low <= value <= high:
        allowed = f"of at least {low}" if high == 2**31 - 1 else f"from {low} to {high}"
        raise OptionError(f"{name} is {echo(value)}; give a whole number {allowed}")


def check_share(name: str, value: object) -> None:
    """Raise unless the option is a number from 0 to 1."""
    check_number(name, value, low=0.0, high=1.0)


def check_alpha(value: object, *, may_be_zero: bool = False) -> None:
    """Raise unless the option can be the parameter of a Dirichlet distribution, or 0 where that means no distribution.

    Examples
    --------
    >>> check_alpha(0)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: alpha is 0; give a number from 0.001 to 1e+06
    """
    if may_be_zero and not isinstance(value, bool) and value == 0:
        return
    try:
        check_number("alpha", value, low=LEAST_ALPHA, high=MOST_ALPHA)
    except OptionError as error:
        raise OptionError(f"{error}{', or 0 for one label mix for all' if may_be_zero else ''}") from None


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless the option is one of the choices."""
    if value not in choices:
        raise OptionError(f"{name} is {echo(value)}; give one of {', '.join(choices)}")
