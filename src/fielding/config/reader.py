"""A TOML file, or a table of the same shape, turned into a config; every mistake is named by its key."""

import re
import tomllib
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any

from fielding._typing import Json
from fielding.config.keys import KEYS, OPTION_SECTIONS, SECTIONS, Config
from fielding.config.parts import Family
from fielding.config.presets import defaults_of
from fielding.errors import LONGEST_ECHO, FileFormatError, InputError, OptionError, echo, printable

OPTIONS = "options"  # the field of a section that holds the options of its parts


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read a config file.

    ``changes``: values that count instead of those in the file, each as ``key=value`` with a dotted key. InputError:
    the message names the file, the key, the value, what is allowed, and the nearest key.
    """
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # of which TOMLDecodeError and UnicodeDecodeError are two
        raise FileFormatError(f"{path} is no TOML: {error}{_toml_hint(path, str(error))}") from error
    table = apply_changes(table, changes)
    try:
        return config_from(table)
    except InputError as error:
        raise locate_error(error, path, changes) from None


def _toml_hint(path: Path, words: str) -> str:
    """Return the line that the words of the parser speak of, and what is wrong with its value if that is plain."""
    found = re.search(r"\(at line (\d+), ", words)
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if found is None or int(found[1]) > len(lines):
        return ""
    line = printable(lines[int(found[1]) - 1])
    value, told = line.partition("=")[2].partition("#")[0].strip(), f": {line[:LONGEST_ECHO]}"
    try:
        tomllib.loads(f"value = {value}")
    except ValueError:
        if re.fullmatch(r"[-+]?\d[^\s\"'\]]*", value):
            return f"{told}; {echo(value)} is not a number"
        if value.lower() in ("true", "false"):
            return f"{told}; write {value.lower()} in small letters"
        if re.fullmatch(r"[^\W\d][\w-]*", value):
            return f'{told}; write texts in quotes: "{value}"'
    return told


def locate_error(error: InputError, path: Path, changes: Sequence[str]) -> OptionError:
    """Return an error about a config with where it comes from: the change that it speaks of, else the file.

    Examples
    --------
    >>> print(locate_error(OptionError("unknown key ruonds; did you mean rounds?"), Path("a.toml"), ["ruonds=3"]))
    --set ruonds=3: unknown key ruonds; did you mean rounds?
    >>> print(locate_error(OptionError("rounds is 0; give more"), Path("a.toml"), ["seed=3"]))
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
    table = _respell(table)
    _check_names(table)
    merged = dict(table)
    for section, defaults in defaults_of(table).items():
        own = merged.get(section, {})
        merged[section] = {**defaults, **own} if isinstance(own, dict) else own
    found: dict[str, Any] = _read_keys(merged, "")
    for name, section in SECTIONS.items():
        if name not in merged:
            continue
        own = merged[name]
        if not isinstance(own, dict):
            raise OptionError(f"{name} is {echo(own)}; it is a section, write [{name}]")
        values = _read_keys(own, f"{name}.")
        if name in OPTION_SECTIONS:
            values[OPTIONS] = {inner: value for inner, value in own.items() if f"{name}.{inner}" not in KEYS}
        found[name] = section(**values)
    return Config(**found)


def _respell(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table without spellings of the release before, each of which is told."""
    own = table.get("aggregation")
    if not isinstance(own, dict) or own.get("name") != "norm-clipping":
        return table
    clip = own.get("factor", 1.0)
    words = (
        f'aggregation.name = "norm-clipping" goes away; write aggregation.name = "mean" and aggregation.clip = {clip}'
    )
    warnings.warn(words, FutureWarning, stacklevel=2)  # once, wherever it is read
    rest = {name: value for name, value in own.items() if name != "factor"}
    return {**table, "aggregation": {**rest, "name": "mean", "clip": clip}}


def _read_keys(table: Mapping[str, Json], prefix: str) -> dict[str, Any]:
    """Return the values of a section's keys, in the order in which they are declared."""
    return {
        one.name: one.check(table[one.name])
        for path, one in KEYS.items()
        if path == f"{prefix}{one.name}" and one.name in table
    }


def apply_changes(table: Mapping[str, Json], changes: Sequence[str]) -> dict[str, Json]:
    """Return a table with some values changed, each given as ``section.key=value``.

    Examples
    --------
    >>> apply_changes({"seed": 1}, ["training.prox=0.5", "trace.name=digits", "seed=2"])
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
        text = text.strip()
        try:
            given = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):  # no TOML: a text without quotes
            given = {}
        target[name] = given["value"] if len(given) == 1 else text
    return new


def config_table(config: Config) -> dict[str, Json]:
    """Return a config as the table that it could be read from; keys and sections without a value are left out."""
    table: dict[str, Json] = {}
    for name, value in asdict(config).items():
        if isinstance(value, dict):
            flat = {**value, **value.get(OPTIONS, {})}
            section: dict[str, Json] = {
                inner: list(one) if isinstance(one, tuple) else one  # as files have it, which it is compared with
                for inner, one in flat.items()
                if inner != OPTIONS and one is not None
            }
            if section:
                table[name] = section
        elif value is not None:
            table[name] = value
    return table


def config_text(config: Config) -> str:
    """Return a config as TOML."""
    import tomli_w

    return tomli_w.dumps(config_table(config))


def _check_names(table: Mapping[str, Json]) -> None:
    """Raise if a key is unknown; an option of another part than the chosen one is told by the code that makes that."""
    for name, value in table.items():
        if name not in SECTIONS:
            if name not in KEYS:
                raise unknown_key(name, [*KEYS, *SECTIONS])
        elif isinstance(value, dict):
            left = [inner for inner in value if f"{name}.{inner}" not in KEYS]
            options = _known_options(name, value, left) if name in OPTION_SECTIONS else set()
            for inner in left:
                if options is not None and inner not in options:
                    raise unknown_key(f"{name}.{inner}", [*KEYS, *(f"{name}.{one}" for one in sorted(options))])


def _known_options(section: str, table: Mapping[str, Json], given: Collection[str]) -> set[str] | None:
    """Return options of the parts of a section: at least all that are given and known; None if only a part knows.

    No part is imported if no option is given, and only those that the section names if these have all of them.
    """
    part, families = OPTION_SECTIONS[section]
    if not families:
        return None
    if isinstance(table.get(part), dict):
        raise OptionError(f"{section}.{part} is a table; give its name, and its options beside it in [{section}]")
    if ":" in str(table.get(part)):  # the options of a part of the user's own are known when it is imported
        return None
    names = {value for value in (KEYS[f"{section}.{part}"].default, *table.values()) if isinstance(value, str)}
    found: set[str] = set()
    for is_named in (True, False):
        if set(given) <= found:
            break
        for family in families:
            parts: Family[Any] = Family(family)
            for name in parts:
                if (name in names) is is_named:
                    found |= signature(parts.builder(name)).parameters.keys()
    return found


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
