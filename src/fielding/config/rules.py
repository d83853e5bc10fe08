"""How a key of the config is declared, and how a value is checked against its declaration."""

import math
from collections.abc import Collection
from dataclasses import Field, dataclass, field
from fractions import Fraction
from types import UnionType
from typing import Any, get_args

from fielding._typing import Json
from fielding.errors import OptionError, echo, unknown_name


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a key may be.

    Parameters
    ----------
    help
        One line for people.
    low, above, high
        Least value, value that must be exceeded, largest value.
    choices
        The known names.
    is_open
        Whether ``module:name`` of the user's own will do, too.
    """

    help: str
    low: float | None = None
    above: float | None = None
    high: float | None = None
    choices: Collection[str] | None = None
    is_open: bool = False


def key(default: Json, text: str, **rule: Any) -> Any:
    """Declare a key of a section: its default, a line of help, and its :class:`Rule`."""
    return field(default=default, metadata={"rule": Rule(help=text, **rule)})


def rule_of(declared: "Field[Any]") -> Rule:
    """Return the rule of a key."""
    rule = declared.metadata["rule"]
    if not isinstance(rule, Rule):
        raise TypeError(f"{declared.name} has no rule")
    return rule


def checked(name: str, value: Json, declared: "Field[Any]", annotation: object) -> Json:
    """Return the value of a key in the type of its annotation, or raise naming the key, the value and what is allowed.

    Examples
    --------
    >>> from dataclasses import fields
    >>> @dataclass
    ... class Section:
    ...     rate: float = key(0.1, "a rate", above=0.0)
    >>> checked("training.rate", 1, fields(Section)[0], float)
    1.0
    >>> checked("training.rate", -1, fields(Section)[0], float)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: training.rate is -1; give a number above 0
    """
    rule, kinds, given = rule_of(declared), _kinds(annotation), value
    if value is None and type(None) in kinds:
        return None
    if rule.choices is not None and isinstance(value, str):
        known = rule.choices
        if value not in known and not (rule.is_open and ":" in value):
            raise OptionError(f"{name}: {unknown_name(name.rpartition('.')[2], value, known)}")
        return value
    if float in kinds and isinstance(value, int) and not isinstance(value, bool) and int not in kinds:
        value = float(value) if abs(value) < 2**53 else value
    if value == math.inf and float in kinds and str in kinds:
        return "inf"  # the text, since JSON knows no infinity
    is_right = any(isinstance(value, kind) for kind in kinds if isinstance(kind, type))
    if isinstance(value, bool) and bool not in kinds:
        is_right = False
    if not is_right or (isinstance(value, (int, float)) and not _is_within(value, rule)):
        raise OptionError(f"{name} is {echo(given)}; give {allowed(declared, annotation)}")
    return value


def _is_within(value: float, rule: Rule) -> bool:
    return (
        (isinstance(value, int) or math.isfinite(value))
        and (rule.low is None or value >= rule.low)
        and (rule.above is None or value > rule.above)
        and (rule.high is None or value <= rule.high)
    )


_KINDS: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "a table",
}


def _kinds(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)


def allowed(declared: "Field[Any]", annotation: object) -> str:
    """Return in words what a key may be.

    Examples
    --------
    >>> from dataclasses import fields
    >>> @dataclass
    ... class Section:
    ...     rate: float = key(0.1, "a rate", above=0.0, high=1.0)
    >>> allowed(fields(Section)[0], float)
    'a number above 0 and of at most 1'
    """
    rule = rule_of(declared)
    if rule.choices is not None:
        return f"one of {', '.join(sorted(rule.choices))}{' or my_module:Name' if rule.is_open else ''}"
    words = " or ".join(_KINDS[kind] for kind in _kinds(annotation) if kind in _KINDS)
    if rule.low is not None and rule.high is not None:
        return f"{words} from {rule.low} to {rule.high}"
    bounds = [
        f"above {rule.above:g}" if rule.above is not None else "",
        f"of at least {rule.low:g}" if rule.low is not None else "",
        f"of at most {rule.high:g}" if rule.high is not None else "",
    ]
    return " ".join([words, " and ".join(filter(None, bounds))]).strip()
