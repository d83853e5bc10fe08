"""Checks of single settings of an order: every one has a type and a range, or the order is refused."""

from fielding._typing import Json
from fielding.errors import InputError, echo
from fielding.serving.correction import CALIBRATED, CORRECTIONS

_SIZES = ("classes", "hidden", "batch_size")
_TEXTS = ("model", "trainer", "device")
_FLAGS = ("balanced", "rehearsal")


def checked_setting(name: str, value: Json) -> Json:
    """Return a setting, or raise.

    Examples
    --------
    >>> checked_setting("mix_rate", 2.0)
    Traceback (most recent call last):
    fielding.errors.InputError: mix_rate in the settings of an order is 2.0; look at the server's config
    """
    if not _fits(name, value):
        raise InputError(f"{name} in the settings of an order is {echo(value)}; look at the server's config")
    return value


def _fits(name: str, value: Json) -> bool:
    if name == "client":
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    if name in _SIZES:
        return type(value) is int and 1 <= value < 2**31
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _FLAGS:
        return isinstance(value, bool)
    if name == "fine_tune":
        return type(value) is int and 0 <= value < 2**31
    if name == "correction":
        return value in CORRECTIONS
    return _is_number(name, value) or (name == "smoothing" and value == CALIBRATED)


def _is_number(name: str, value: Json) -> bool:
    """Return whether a setting is a number in its range."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if name == "moon_temperature":
        return 0 < value < float("inf")
    return 0 <= value <= 1 if name == "mix_rate" else 0 <= value < float("inf")
