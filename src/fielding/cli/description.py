"""A record of numbers as lines for people or as JSON."""

from fielding.cli.console import say, say_json


def say_description(record: dict[str, object], *, as_json: bool) -> None:
    """Print a record; nested ones in one line."""
    if as_json:
        say_json(record)
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        say(f"{name.replace('_', ' '):<{width}}  {_plain(value)}")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
