"""A key of the config that is varied, and its values, from what users typed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fielding._typing import Json
from fielding.engine.config_reader import changed, config_keys
from fielding.errors import OptionError, echo

METHOD = "method.name"
"""The key that names the method."""
ELSEWHERE = {
    "seed": "the number of seeds is an option of its own",
    METHOD: "methods are an option of their own",
    "workers": "it changes nothing but the time",
    "checkpoint.every": "it changes nothing but the time",
}
"""Keys that cannot be varied, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A key of the config that is varied.

    Parameters
    ----------
    key
        Dotted.
    values
        What it is set to, by the text that people gave.
    """

    key: str
    values: Mapping[str, Json]

    @property
    def words(self) -> str:
        """How it is typed."""
        return f"--vary {self.key}={','.join(self.values)}"


def axis_from(text: str) -> Axis:
    """Return the axis that ``key=value,value,...`` describes; values are read as ``--set`` reads them.

    Commas within quotes or brackets belong to a value.

    Raises
    ------
    OptionError
        If there is no key, an empty value or one twice, or the key cannot be varied or is a section.

    Examples
    --------
    >>> axis_from("coordinator.tau=0,1/3,inf").values
    {'0': 0, '1/3': '1/3', 'inf': 'inf'}
    """
    key, _, rest = (part.strip() for part in text.partition("="))
    texts = [part.strip() for part in _parts(rest)]
    if not key.rpartition(".")[2] or key.count(".") > 1 or not all(texts):
        raise OptionError(f"--vary {echo(text)} says nothing; write key=value,value or section.key=value,value")
    if key in ELSEWHERE:
        raise OptionError(f"--vary {echo(text)}: {key} cannot be varied, {ELSEWHERE[key]}")
    if key in section_names():
        raise OptionError(f"--vary {echo(text)}: {key} is a section; vary its keys, each as {key}.KEY=value,value")
    values = {one: _value(key, one) for one in texts}
    for one in texts:
        if texts.count(one) > 1 or list(values.values()).count(values[one]) > 1:
            raise OptionError(f"--vary {echo(text)} names {one} twice; give each value once")
    return Axis(key=key, values=values)


def _parts(text: str) -> Iterator[str]:
    """Yield a text split at its commas, but not within quotes or brackets."""
    part, quote, depth = "", "", 0
    for letter in text:
        if letter == "," and not quote and not depth:
            yield part
            part = ""
            continue
        part += letter
        if letter in "\"'" and quote in ("", letter):
            quote = "" if quote else letter
        elif not quote:
            depth += (letter in "[{") - (letter in "]}")
    yield part


def _value(key: str, text: str) -> Json:
    table = changed({}, [f"{key}={text}"])
    section, _, name = key.rpartition(".")
    inner = table[section] if section else table
    value = inner[name] if isinstance(inner, dict) else None
    if value == float("inf"):
        return "inf"  # the text, since JSON knows no infinity
    return value if isinstance(value, (bool, int, float, str, list, dict)) else text  # nor dates


def section_names() -> set[str]:
    """Return the names of all sections of a config.

    Examples
    --------
    >>> "coordinator" in section_names(), "rounds" in section_names()
    (True, False)
    """
    return {section for path, _, _ in config_keys() if (section := path.rpartition(".")[0])}
