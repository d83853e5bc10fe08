"""Checks of the options that configs give to methods; messages say what was got and what to give."""

from collections.abc import Collection

from fielding._options import check_flag
from fielding.errors import OptionError, echo, unknown_name


def one_of(name: str, value: object, known: Collection[str]) -> str:
    """Return a word that is one of some, or raise.

    Examples
    --------
    >>> one_of("start", "each", ("common", "each"))
    'each'
    """
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known)
    return value


def whole(name: str, value: object, *, least: int = 1, most: int = 2**31) -> int:
    """Return a whole number from ``least`` to ``most``, or raise.

    Examples
    --------
    >>> whole("k", 4)
    4
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{name} is {echo(value)}; give a whole number from {least} to {most}")
    return value


def number(name: str, value: object, *, least: float = 0.0, most: float = 1.0) -> float:
    """Return a number from ``least`` to ``most``, or raise; NaN is none.

    Examples
    --------
    >>> number("delta", 1)
    1.0
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and least <= value <= most):  # type: ignore[operator]
        raise OptionError(f"{name} is {echo(value)}; give a number from {least:g} to {most:g}")
    return float(value)  # type: ignore[arg-type]


def flag(name: str, value: object) -> bool:
    """Return true or false, or raise.

    Examples
    --------
    >>> flag("train_all", False)
    False
    """
    check_flag(name, value)
    return bool(value)
