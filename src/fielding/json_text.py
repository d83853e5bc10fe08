"""JSON that may be damaged, or written by somebody else."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return what a text describes; a :class:`ValueError` for all that describes nothing.

    Brackets in brackets end Python's stack: that is no :class:`RecursionError` of ours, but bad text.

    Examples
    --------
    >>> parse_json('{"a": [1]}')
    {'a': [1]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: it is nested too deeply to be read
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply to be read") from None
