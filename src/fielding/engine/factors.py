"""Numbers that people write as fractions."""

from fractions import Fraction

from fielding.errors import OptionError, echo


def parse_factor(text: str) -> float:
    """Return a number written as a decimal, a fraction or ``inf``.

    Examples
    --------
    >>> parse_factor("1/4"), parse_factor("inf")
    (0.25, inf)
    """
    try:
        if len(text) > 40:  # a fraction of a thousand digits is a mistake, and slow to compute
            raise ValueError
        return float("inf") if text.strip().lower() in ("inf", "infinity") else float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise OptionError(f"{echo(text)} is not a number; write for example 0.5, 1/3 or inf") from None
