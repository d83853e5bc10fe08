"""A TOML file, or a table of the same shape, turned into a config; every mistake is named by its key."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from fielding._typing import Json
from fielding.config.keys import OPTION_FAMILIES, OPTION_SECTIONS, Config
from fielding.config.parts import Family
from fielding.config.presets import defaults_of
from fielding.config.rules import checked, rule_of
from fielding.errors import LONGEST_ECHO, FileFormatError, InputError, OptionError, echo

Section = TypeVar("Section")
OPTIONS = "options"


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read a config file.

    Parameters
    ----------
    path
        The file.
    changes
        Values that count instead of those in the file, each as ``key=value`` with a dotted key.

    Raises
    ------
    InputError
        The message names the file, the key, the value, what is allowed, and the nearest key.
    """
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # of which TOMLDecodeError and UnicodeDecodeError are two
        raise FileFormatError(f"{path} is no TOML: {error}") from error
    table = changed(table, changes)
    try:
        return config_from(table)
    except InputError as error:
        raise located(error, path, changes) from None


def located(error: InputError, path: Path, changes: Sequence[str]) -> OptionError:
    """Return an error about a config with where it comes from: the change that it speaks of, else the file.

    Examples
    --------
    >>> print(located(OptionError("unknown key ruonds; did you mean rounds?"), Path("a.toml"), ["ruonds=3"]))
    --set ruonds=3: unknown key ruonds; did you mean rounds?
    >>> print(located(OptionError("rounds is 0; give more"), Path("a.toml"), ["seed=3"]))
    a.toml: rounds is 0; give more
    """
    got = str(error).partition(";")[0]
    for change in changes:
        name, _, value = (part.strip() for part in change.partition("="))
        section, _, inner = name.rpartition(".")
        is_named = re.search(rf"(^|[\s:]){re.escape(name)}([\s:]|$)", got)
        # Parts name their section and what is wrong: "model: unknown model 'mlq'", "trace: share is 7".
        is_part = section and got.startswith(f"{section}: ") and (f" {inner} " in got or repr(value) in got)
        if is_named or is_part:
            is_short = change.isprintable() and len(change) <= LONGEST_ECHO
            return OptionError(f"--set {change if is_short else echo(change)}: {error}")
    return OptionError(f"{path}: {error}")


def config_from(table: Mapping[str, Any]) -> Config:
    """Return the config that a table describes; keys that are missing have the default of the preset or of Fielding.

    Examples
    --------
    >>> config_from({"rounds": 10, "training": {"prox": 0}}).training.prox
    0.0
    >>> config_from({"training": {"learing_rate": 0.1}})
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: unknown key training.learing_rate; did you mean training.learning_rate?
    """
    _check_keys(table)
    merged = dict(table)
    for section, defaults in defaults_of(table).items():
        own = merged.get(section, {})
        merged[section] = {**defaults, **own} if isinstance(own, dict) else own
    return _section(Config, merged, "")


def changed(table: Mapping[str, Json], changes: Sequence[str]) -> dict[str, Json]:
    """Return a table with some values changed, each given as ``section.key=value``.

    Examples
    --------
    >>> changed({"seed": 1}, ["training.prox=0.5", "trace.name=digits", "seed=2"])
    {'seed': 2, 'training': {'prox': 0.5}, 'trace': {'name': 'digits'}}
    """
    new = {name: dict(value) if isinstance(value, dict) else value for name, value in table.items()}
    for change in changes:
        path, equals, text = change.partition("=")
        section, _, name = path.strip().rpartition(".")
        if not equals or not name or "." in section:
            raise OptionError(f"--set {echo(change)} says nothing; write key=value or section.key=value")
        target = new.setdefault(section, {}) if section else new
        if not isinstance(target, dict):
            raise OptionError(f"--set {echo(change)}: {section} is no section")
        target[name] = _value(text.strip())
    return new


def config_table(config: Config) -> dict[str, Json]:
    """Return a config as the table that it could be read from; keys without a value are left out."""
    table: dict[str, Json] = {}
    for name, value in asdict(config).items():
        if isinstance(value, dict):
            flat = {**value, **value.get(OPTIONS, {})}
            table[name] = {inner: one for inner, one in flat.items() if inner != OPTIONS and one is not None}
        elif value is not None:
            table[name] = value
    return table


def config_text(config: Config) -> str:
    """Return a config as TOML."""
    import tomli_w

    return tomli_w.dumps(config_table(config))


def config_keys() -> list[tuple[str, Json, str]]:
    """Return every key with its default and a line of help, for people: first those without a section."""
    config = Config()
    found = _keys_of(config, "")
    for one in fields(config):
        if is_dataclass(section := getattr(config, one.name)):
            found += _keys_of(section, f"{one.name}.")
    return found


def _keys_of(section: object, prefix: str) -> list[tuple[str, Json, str]]:
    return [
        (f"{prefix}{one.name}", getattr(section, one.name), rule_of(one).help)
        for one in fields(section)  # type: ignore[arg-type]
        if "rule" in one.metadata
    ]


def _section(family: type[Section], table: Mapping[str, Json], prefix: str) -> Section:
    """Return one section; keys that it does not know are options of its parts."""
    hints = get_type_hints(family)
    values: dict[str, Any] = {}
    for one in fields(family):  # type: ignore[arg-type]
        path = f"{prefix}{one.name}"
        if one.name == OPTIONS:
            known = {other.name for other in fields(family)} - {OPTIONS}  # type: ignore[arg-type]
            values[OPTIONS] = {name: value for name, value in table.items() if name not in known}
        elif one.name in table:
            value = table[one.name]
            if is_dataclass(hints[one.name]):
                if not isinstance(value, dict):
                    raise OptionError(f"{path} is {echo(value)}; it is a section, write [{path}]")
                values[one.name] = _section(hints[one.name], value, f"{path}.")
            else:
                values[one.name] = checked(path, value, one, hints[one.name])
    return family(**values)


def _check_keys(table: Mapping[str, Json]) -> None:
    """Raise if a key is unknown; an option of the wrong scenario or detector is told by whoever makes those."""
    known = [path for path, _, _ in config_keys()]
    sections = {path.partition(".")[0] for path in known if "." in path}
    for name, value in table.items():
        if name in sections and isinstance(value, dict):
            if name in OPTION_SECTIONS:
                _check_options(name, value, known)
            else:
                for inner in value:
                    _check_key(f"{name}.{inner}", known)
        elif name not in sections:
            _check_key(name, [*known, *sections])


def _check_options(section: str, table: Mapping[str, Json], known: list[str]) -> None:
    """Raise if a key of a section is neither one of its own nor an option of any of its parts."""
    part = OPTION_SECTIONS[section]
    if isinstance(table.get(part), dict):
        raise OptionError(f"{section}.{part} is a table; give its name, and its options beside it in [{section}]")
    if ":" in str(table.get(part)):  # whoever imports a part of one's own knows its options
        return
    own = {path.partition(".")[2] for path in known if path.startswith(f"{section}.")}
    if not table.keys() - own:
        return  # and no part is imported
    parts = [part for name in OPTION_FAMILIES[section] for part in Family[Any](name).values()]
    options = {name for part in parts for name in signature(getattr(part, "build", part)).parameters}
    for inner in table:
        if inner not in options:
            _check_key(f"{section}.{inner}", [*known, *(f"{section}.{name}" for name in sorted(options))])


def _check_key(path: str, known: Sequence[str]) -> None:
    if path not in known:
        raise unknown_key(path, known)


def unknown_key(path: str, known: Iterable[str]) -> OptionError:
    """Return the error for a key that does not exist, with the nearest one that does.

    Examples
    --------
    >>> print(unknown_key("training.rounds", ["rounds", "training.prox"]))
    unknown key training.rounds; did you mean rounds (it stands before all sections)?
    """
    near = _nearest(path, list(known))
    if near is None:
        return OptionError(f"unknown key {path}; see docs/config.md")
    where = " (it stands before all sections)" if "." in path and "." not in near else ""
    return OptionError(f"unknown key {path}; did you mean {near}{where}?")


def _nearest(path: str, known: list[str]) -> str | None:
    """Return the same key of another section, else one like it of the same, else of another, else what looks alike."""
    section, _, name = path.rpartition(".")
    same = [one for one in known if one.rpartition(".")[2] == name]
    within = {one.rpartition(".")[2]: one for one in known if one.rpartition(".")[0] == section}
    anywhere = {one.rpartition(".")[2]: one for one in known}
    if same:
        return get_close_matches(path, same, n=1, cutoff=0.0)[0]
    for candidates, cutoff in ((within, 0.6), (anywhere, 0.75)):
        if near := get_close_matches(name, candidates, n=1, cutoff=cutoff):
            return candidates[near[0]]
    return next(iter(get_close_matches(path, known, n=1, cutoff=0.5)), None)


def _value(text: str) -> Json:
    """Return what a value on the command line means: TOML if it is, else the text itself."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text
