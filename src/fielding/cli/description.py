"""A record of numbers as lines for people or as JSON."""

from datetime import UTC, datetime

from fielding.cli.console import say, say_json
from fielding.reporting.words import plain

_MOMENTS = ("first_time", "last_time")
_DAY = 86_400.0
_EARLIEST = 1e8
"""Numbers below this are no unix time that anybody means: 1973."""


def say_description(record: dict[str, object], *, as_json: bool) -> None:
    """Print a record of records, each under its name."""
    if as_json:
        say_json(record)
        return
    for title, values in record.items():
        say(title)
        if isinstance(values, dict):
            width = max(len(str(name)) for name in values)
            for name, value in values.items():
                say(f"  {str(name).replace('_', ' '):<{width}}  {_told(str(name), value)}")


def _told(name: str, value: object) -> str:
    if name in _MOMENTS and isinstance(value, float) and value > _EARLIEST:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M")
    if name in ("span", "interval") and isinstance(value, float):
        return f"{value / _DAY:.4g} days" if value >= _DAY else f"{value:.4g} seconds"
    return plain(value)
