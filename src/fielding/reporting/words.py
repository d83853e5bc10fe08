"""Values as people write them, for pages and for the terminal."""

from collections.abc import Sequence

SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0}
"""Units of time, longest first."""


def plain(value: object) -> str:
    """Return a value as people write it: few digits, a dash for nothing, records in one line.

    Examples
    --------
    >>> plain({"tau": 1 / 3, "reference": "previous", "least": None})
    'tau 0.3333, reference previous, least -'
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def digits(value: object, places: int = 3) -> str:
    """Return a number with so many digits after the point, a dash for nothing.

    Examples
    --------
    >>> digits(0.97654), digits(None), digits(float("nan"))
    ('0.977', '-', '-')
    """
    if not isinstance(value, (int, float)) or value != value:
        return "-"
    return f"{value:,.{places}f}"


def megabytes(value: object) -> str:
    """Return a number of bytes in megabytes.

    Examples
    --------
    >>> megabytes(46_176_000), megabytes(1_234_567_890), megabytes(40_000), megabytes(0)
    ('46.2 MB', '1,235 MB', '0.040 MB', '0 MB')
    """
    amount = float(value) / 1e6 if isinstance(value, (int, float)) else float("nan")
    return f"{digits(amount, 0 if amount >= 1000 or not amount else 1 if amount >= 1 else 3)} MB"


def counterpart_words(names: Sequence[str], most: int = 3) -> str:
    """Return whom something is held against: the one, or of several the one that it agrees with.

    Parameters
    ----------
    names
        Of all that anything is held against.
    most
        How many of them are named.

    Examples
    --------
    >>> counterpart_words(["global"])
    'global'
    >>> counterpart_words(["global gap=2", "global gap=5", "global gap=9"], 2)
    'whichever of global gap=2, global gap=5 and 1 more has the same settings'
    """
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"whichever of {', '.join(names[:most])}{more} has the same settings"


def as_time(seconds: float) -> str:
    """Return a span of time in words.

    Examples
    --------
    >>> as_time(75), as_time(7260), as_time(200_000)
    ('1m15s', '2h01m', '2d07h')
    """
    minutes, hours, days = (int(seconds // SECONDS[unit]) for unit in ("minutes", "hours", "days"))
    if days:
        return f"{days}d{hours % 24:02d}h"
    return f"{hours}h{minutes % 60:02d}m" if hours else f"{minutes}m{int(seconds) % 60:02d}s"


def time_unit(seconds: float) -> str:
    """Return the longest unit of ``SECONDS`` of which there are at least three, else minutes.

    Examples
    --------
    >>> time_unit(4 * 86_400.0), time_unit(5 * 3_600.0), time_unit(90.0)
    ('days', 'hours', 'minutes')
    """
    return next((unit for unit, length in SECONDS.items() if seconds >= 3 * length), "minutes")
