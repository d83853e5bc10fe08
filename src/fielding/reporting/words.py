"""Values as people write them, for pages and for the terminal."""


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
