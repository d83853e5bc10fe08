"""How a key of the config is declared, and how a value is checked against its declaration.

msgspec checks types and ranges. Its messages are not passed on: every mistake is told in the words of :class:`Key`.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, get_args

import msgspec

from fielding._typing import Json
from fielding.errors import OptionError, echo, unknown_name

LARGEST_EXACT = 2**53  # whole numbers beyond it have no exact floating-point number


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a key may be, and what it has an effect on."""

    help: str  # one line for people
    # Least value, value that must be exceeded, largest value.
    low: float | None = None
    above: float | None = None
    high: float | None = None
    choices: Collection[str] | None = None  # the known names, which may be written in capitals
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names for some of them
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # names that belong to another key, and what to write
    is_open: bool = False  # whether module:name of the user's own will do, too
    # What the key has an effect with; fielding.simulation.config_check knows when there is none of that.
    used_with: tuple[str, ...] = ()
    used_by: Collection[str] | None = None  # of the known methods, those that use it; None for all


def key(default: Json, text: str, **rule: Any) -> Any:
    """Declare a key of a section: its default, a line of help, and its :class:`Rule`."""
    return field(default=default, metadata={"rule": Rule(help=text, **rule)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the config as it was declared."""

    path: str  # its name after that of its section: coordinator.tau
    default: Json
    type: Any
    rule: Rule

    @property
    def name(self) -> str:
        """Its name in its section."""
        return self.path.rpartition(".")[2]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have."""
        return get_args(self.type) if isinstance(self.type, UnionType) else (self.type,)

    def checked_type(self, *, can_be_none: bool = True) -> Any:
        """Return its type with its range, as msgspec checks values and writes schemas."""
        given: dict[str, Any] = {"ge": self.rule.low, "gt": self.rule.above, "le": self.rule.high}
        bounds = msgspec.Meta(**given)
        kinds = [kind for kind in self.kinds if can_be_none or kind is not type(None)]
        return reduce(or_, [Annotated[kind, bounds] if kind in (int, float) else kind for kind in kinds])

    @property
    def allowed(self) -> str:
        """In words what it may be."""
        rule = self.rule
        if rule.choices is not None and int not in self.kinds:
            return f"one of {', '.join(sorted(rule.choices))}{' or my_module:Name' if rule.is_open else ''}"
        words = " or ".join(
            _WORDS[kind] for kind in self.kinds if kind in _WORDS and not (rule.choices and kind is str)
        )
        names = "" if rule.choices is None else f" or {', '.join(sorted(rule.choices))}"
        if rule.low is not None and rule.high is not None:
            number, is_text, _ = words.partition(" or a text")
            return f"{number} from {rule.low} to {rule.high}{is_text}{names}"
        bounds = [
            f"above {rule.above:g}" if rule.above is not None else "",
            f"of at least {rule.low:g}" if rule.low is not None else "",
            f"of at most {rule.high:g}" if rule.high is not None else "",
        ]
        return " ".join([words, " and ".join(filter(None, bounds))]).strip() + names

    def check(self, value: Json) -> Json:
        """Return a value in the type of the key, or raise naming the key, the value and what is allowed.

        Examples
        --------
        >>> rate = Key(path="training.rate", default=0.1, type=float, rule=Rule(help="a rate", above=0.0, high=1.0))
        >>> rate.check(1)
        1.0
        >>> rate.check(-1)
        Traceback (most recent call last):
        ...
        fielding.errors.OptionError: training.rate is -1; give a number above 0 and of at most 1
        """
        rule, kinds = self.rule, self.kinds
        if rule.choices is not None and isinstance(value, str):
            plain = value.lower()
            if value not in rule.choices and (found := rule.aliases.get(plain, plain)) in rule.choices:
                return found
            if value not in rule.choices and plain in rule.elsewhere:
                raise OptionError(f"{self.path}: {rule.elsewhere[plain]}")
            if value not in rule.choices and int in kinds:
                raise OptionError(f"{self.path} is {echo(value)}; give {self.allowed}")
            if value not in rule.choices and not (rule.is_open and ":" in value):
                raise OptionError(f"{self.path}: {unknown_name(self.name, value, rule.choices)}")
            return value
        if value == math.inf and float in kinds and str in kinds:
            return "inf"  # the text, since JSON knows no infinity
        is_exact = abs(value) < LARGEST_EXACT if isinstance(value, int) else _is_finite(value)
        try:
            if is_exact or float not in kinds:
                exact = float(value) if isinstance(value, float) else value  # msgspec does not know NumPy's floats
                checked: Json = msgspec.convert(exact, self.checked_type())
                return checked
        except msgspec.ValidationError:
            pass
        raise OptionError(f"{self.path} is {echo(value)}; give {self.allowed}")


_WORDS: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple[str, ...]: "a list of texts",
    dict[str, str]: "a table of texts",
}


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def declared_keys(section: type, prefix: str = "") -> list[Key]:
    """Return the keys that a section declares."""
    declared = [one for one in fields(section) if "rule" in one.metadata]
    defaults: dict[str, Any] = {one.name: one.default for one in declared}
    return [
        Key(path=f"{prefix}{one.name}", default=defaults[one.name], type=one.type, rule=one.metadata["rule"])
        for one in declared
    ]


def parse_factor(text: float | str) -> float:
    """Return a number, or one written as a decimal, a fraction or ``inf``.

    Examples
    --------
    >>> parse_factor("1/4"), parse_factor("inf"), parse_factor(2)
    (0.25, inf, 2.0)
    """
    if not isinstance(text, str):
        return float(text)
    try:
        if len(text) > 40:  # a fraction of a thousand digits is a mistake, and slow to compute
            raise ValueError
        return float("inf") if text.strip().lower() in ("inf", "infinity") else float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise OptionError(f"{echo(text)} is not a number; write for example 0.5, 1/3 or inf") from None
