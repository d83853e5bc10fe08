"""What is compared: methods, crossed with values of keys of the config, each with a name that people can read."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from typing import Any, TypeAlias

import numpy as np

from fielding._typing import Json
from fielding.config.keys import KEYS, SECTIONS, Config
from fielding.config.parts import OWN, named_parts
from fielding.config.presets import PRESETS
from fielding.config.reader import apply_changes, config_from
from fielding.errors import InputError, OptionError, echo, unknown_name
from fielding.methods import METHODS, kind_named, method_options
from fielding.ray_cluster import LOCAL
from fielding.records.plan import Variant
from fielding.simulation.config_check import check_config
from fielding.traces.catalog import Source

METHOD = "method.name"  # the key that names the method
OURS = "fielding"  # the method that presets are of
OF_METHODS = ("coordinator", "aggregation", "serving")  # sections in which a preset is a method; all others are shared
ELSEWHERE = {
    "seed": "the number of seeds is an option of its own",
    METHOD: "methods are an option of their own",
    "workers": "it changes nothing but the time",
    "checkpoint.every": "it changes nothing but the time",
}
"""Keys that cannot be varied, and why."""
LONGEST_FOLDER = 80
FREE_SELECTION = "uniform"
"""The selection that needs no reports of clients; others may ask for some that the method itself would not hear."""
Table: TypeAlias = Mapping[str, Json]
Settings: TypeAlias = Mapping[str, Json]  # values by dotted key; None leaves a key out
Variants: TypeAlias = Sequence[Any] | Mapping[str, Any] | Callable[..., Any]
"""What stands for variants: they themselves, methods (names, classes, functions), or settings or methods by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A key of the config that is varied, dotted, and what it is set to, by the text that was typed."""

    key: str
    values: Mapping[str, Json]

    @property
    def words(self) -> str:
        """How it is typed."""
        return f"--vary {self.key}={','.join(self.values)}"


def parse_axis(text: str) -> Axis:
    """Return the axis that ``key=value,value,...`` describes; values are read as ``--set`` reads them.

    Commas within quotes or brackets belong to a value.

    OptionError if there is no key, an empty value or one twice, or the key cannot be varied or is a section.

    Examples
    --------
    >>> parse_axis("coordinator.tau=0,1/3,inf").values
    {'0': 0, '1/3': '1/3', 'inf': 'inf'}
    """
    key, _, rest = (part.strip() for part in text.partition("="))
    texts = [part.strip() for part in _split_at_commas(rest)]
    if not key.rpartition(".")[2] or key.count(".") > 1 or not all(texts):
        raise OptionError(f"--vary {echo(text)} says nothing; write key=value,value or section.key=value,value")
    if key in ELSEWHERE:
        raise OptionError(f"--vary {echo(text)}: {key} cannot be varied, {ELSEWHERE[key]}")
    if key in SECTIONS:
        raise OptionError(f"--vary {echo(text)}: {key} is a section; vary its keys, each as {key}.KEY=value,value")
    values = {one: _parse_value(key, one) for one in texts}
    for one in texts:
        if texts.count(one) > 1 or list(values.values()).count(values[one]) > 1:
            raise OptionError(f"--vary {echo(text)} names {one} twice; give each value once")
    return Axis(key=key, values=values)


def _split_at_commas(text: str) -> Iterator[str]:
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


def _parse_value(key: str, text: str) -> Json:
    table = apply_changes({}, [f"{key}={text}"])
    section, _, name = key.rpartition(".")
    inner = table[section] if section else table
    value = inner[name] if isinstance(inner, dict) else None
    if value == float("inf"):
        return "inf"  # the text, since JSON knows no infinity
    return value if isinstance(value, (bool, int, float, str, list, dict)) else text  # nor dates


def cross_variants(table: Table, methods: Sequence[str] = (), axes: Sequence[Axis] = ()) -> tuple[Variant, ...]:
    """Return every method with every combination of values.

    A key that a method does not use makes no variants of it: ``global`` runs once, whatever the values of
    ``coordinator.tau``. Options in ``[method]``, in the base config or varied, count for the methods that have them.

    ``table``: the base config, as a table; its own method is compared if none are named. ``methods``: names of methods,
    or ``my_module:MyMethod``, or of presets: Fielding as the preset has it, with everybody's training. OptionError if a
    name, a key or a value is unknown or given twice, or no method uses a key.

    Examples
    --------
    >>> axes = [parse_axis("coordinator.tau=1/6,1/3")]
    >>> [one.name for one in cross_variants({}, ["fielding", "global"], axes)]
    ['fielding tau=1/6', 'fielding tau=1/3', 'global']
    """
    names = list(methods) or [config_from(table).method.name]
    runs = {name: OURS if name in PRESETS else name for name in names}
    for name in names:
        kind_named(runs[name])
        if names.count(name) > 1:
            raise OptionError(f"method {echo(name)} is named twice; name each once")
    if repeated := [key for key, n_times in Counter(one.key for one in axes).items() if n_times > 1]:
        raise OptionError(f"{repeated[0]} is varied twice; give all its values at once")
    varied = [value for axis in axes if axis.key == "selection.name" for value in axis.values.values()]
    selections = varied or [config_from(table).selection.name]
    used = {
        method: [
            axis
            for axis in axes
            if uses_key(runs[method], axis.key, values=axis.values.values(), selections=selections)
        ]
        for method in names
    }
    for axis in axes:
        _check_axis(table, list(runs.values()), axis)
        if not any(axis in mine for mine in used.values()):
            raise OptionError(f"{axis.words}: {axis.key} changes nothing for {', '.join(names)}; leave it out")
    section = table.get("method")
    options = [name for name in section if name != "name"] if isinstance(section, Mapping) else []
    known = {name: method_options(kind_named(name)) for name in (*runs.values(), config_from(table).method.name)}
    every = {option for mine in known.values() for option in mine}
    for option in options:
        if option not in every:
            raise OptionError(f"method: {unknown_name('option of these methods', option, every)}")
    # The last part of each key, or the whole where that could be another key of the config.
    keys = [axis.key for axis in axes]
    lasts = Counter(path.rpartition(".")[2] for path in {*keys, *KEYS})
    words = {key: last if lasts[last := key.rpartition(".")[2]] == 1 else key for key in keys}
    found: dict[str, Settings] = {}
    for method in names:
        left_out = {f"method.{option}": None for option in options if option not in known[runs[method]]}
        preset = preset_settings(table, method) if method in PRESETS else {}
        choices = [[(axis.key, text, value) for text, value in axis.values.items()] for axis in used[method]]
        for chosen in product(*choices):
            name = f"{method.removeprefix(f'{OWN}:')}{''.join(f' {words[key]}={text}' for key, text, _ in chosen)}"
            found[name] = {METHOD: runs[method], **preset, **left_out, **{key: value for key, _, value in chosen}}
    return named_variants(found)


def preset_settings(table: Table, name: str) -> dict[str, Json]:
    """Return the settings by which a config becomes one of a preset, but for what all methods share, as training."""
    config, found = config_from(table), dict[str, Json](preset=name)
    for section, keys in PRESETS[name].items():
        theirs = {key: None if section in OF_METHODS else getattr(getattr(config, section), key) for key in keys}
        found |= {f"{section}.{key}": value for key, value in theirs.items()}
    return found


def _check_axis(table: Table, methods: Sequence[str], axis: Axis) -> None:
    # Of options of one's own methods only these know, so one of them stands for all.
    method = next((name for name in methods if ":" in name), methods[0])
    for value in axis.values.values():
        try:
            config_from(with_settings(table, {METHOD: method, axis.key: value}))
        except OptionError as error:
            raise OptionError(f"{axis.words}: {error}") from None


def uses_key(
    method: str, key: str, *, values: Collection[Json] = (), selections: Collection[Json] = (FREE_SELECTION,)
) -> bool:
    """Return whether a key may change anything for a method; in doubt it may.

    ``method``: its name; nothing is known of what methods of one's own do with ``[coordinator]``. ``selections``: what
    ``selection.name`` is, or may be.

    Examples
    --------
    >>> [uses_key(name, "coordinator.tau") for name in ("fielding", "moves", "global")]
    [True, False, False]
    >>> uses_key("ifca", "method.k"), uses_key("global", "method.k")
    (True, False)
    """
    section, _, name = key.rpartition(".")
    if section == "method":
        return name in method_options(kind_named(method))
    if section != "coordinator" or method not in METHODS:
        return True
    if key in KEYS and (methods := KEYS[key].rule.used_by) is not None:
        return method in methods
    # With auto come other keys, of serving among others, which all methods use.
    return METHODS[method].reports_from != "nobody" or set(selections) != {FREE_SELECTION} or "auto" in values


def named_variants(settings: Mapping[str, Settings]) -> tuple[Variant, ...]:
    """Return variants by their names, each with a folder of its own.

    InputError if there is none, a name is empty or not printable, two have the same settings, or settings are no values
    by dotted key.

    Examples
    --------
    >>> [one.folder for one in named_variants({"a b": {"rounds": 1}, "A/B": {"rounds": 2}, "a-b": {"rounds": 3}})]
    ['a-b', 'A_B', 'a-b-2']
    """
    if not settings:
        raise InputError("there is nothing to compare; name a method or give settings")
    found: list[Variant] = []
    for name, own in settings.items():
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"a variant is named {echo(name)}; give it a name of printable letters")
        plain = _plain_settings(name, own)
        if same := [one.name for one in found if one.settings == plain]:
            raise InputError(f"{same[0]} and {name} have the same settings; leave one out")
        taken = {one.folder.casefold() for one in found}
        found.append(Variant(name=name, folder=folder_name(name, taken), settings=plain))
    return tuple(found)


def axis_of(key: str, values: Iterable[Any]) -> Axis:
    """Return the axis of a key and values of any kind, named as they are written.

    Examples
    --------
    >>> axis_of("coordinator.tau", [0, 1 / 4, "inf"]).values
    {'0': 0, '0.25': 0.25, 'inf': 'inf'}
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise OptionError(f"vary {key} is {echo(values)}; give a list of values")
    named = [named_parts(one) for one in values]
    texts = [str(plain_value(one)) for one in named]
    parse_axis(f"{key}={','.join(repr(text) for text in texts)}")  # which tells what cannot be varied
    return Axis(key=key, values={text: plain_value(one) for text, one in zip(texts, named, strict=True)})


def variants_from(table: Table, given: Variants | str, axes: Sequence[Axis] = ()) -> tuple[Variant, ...]:
    """Return variants from methods (names, classes, functions), settings or methods by name, or variants themselves.

    InputError if it is none of them, there is none, or two have the same name.
    """
    if isinstance(given, Mapping):
        if axes:
            raise InputError("settings by name are compared as they are; leave vary out, or name methods alone")
        return named_variants({name: {METHOD: one} if callable(one) else one for name, one in given.items()})
    if callable(given):
        given = [given]
    if not isinstance(given, str) and isinstance(given, Iterable):
        given = [named_parts(one) if callable(one) else one for one in given]
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if found and all(isinstance(one, str) for one in found):
        return cross_variants(table, [str(one) for one in found], axes)
    own = tuple(one for one in found if isinstance(one, Variant))
    if len(own) < len(found):
        raise InputError(f"variants are {echo(given)}; give names of methods, or settings by name")
    for of, texts in (("named", [one.name for one in own]), ("kept in", [one.folder for one in own])):
        if repeated := [text for text, n_times in Counter(texts).items() if n_times > 1]:
            raise InputError(f"two variants are {of} {echo(repeated[0])}; give each a name of its own")
    return tuple(replace(one, settings=_plain_settings(one.name, one.settings)) for one in own)


def _plain_settings(name: str, given: Any) -> dict[str, Json]:
    """Return settings as a plan can keep them, or raise if they are none."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        example = "{'coordinator.tau': 0.5}"
        raise InputError(f"the settings of {name} are {echo(given)}; give values by dotted key, such as {example}")
    if sections := given.keys() & SECTIONS.keys():
        section = min(sections)
        raise InputError(f"{name}: {section} is a section; set its keys one by one, each as '{section}.KEY'")
    return {key: plain_value(named_parts(value)) for key, value in given.items()}


def plain_value(value: Any) -> Json:
    """Return a value as JSON can hold it; infinity is a text in configs, too.

    Examples
    --------
    >>> plain_value({"tau": float("inf"), "k": np.int64(3), "sizes": (1, 2)})
    {'tau': 'inf', 'k': 3, 'sizes': [1, 2]}
    """
    if isinstance(value, np.generic | np.ndarray):
        return plain_value(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def folder_name(name: str, taken: Iterable[str] = ()) -> str:
    """Return how the run folders of a variant begin: fit for any file system, unlike all that are taken.

    Examples
    --------
    >>> folder_name("fielding tau=1/3"), folder_name("my_module:Own"), folder_name("..", {"variant"})
    ('fielding-tau-1_3', 'my_module-Own', 'variant-2')
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name.replace("/", "_")).strip("-.")[:LONGEST_FOLDER] or "variant"
    others = set(taken)
    candidates = (plain if at == 1 else f"{plain}-{at}" for at in count(1))
    return next(one for one in candidates if one.casefold() not in others)


def with_settings(table: Table, settings: Settings) -> dict[str, Json]:
    """Return a config table with some keys set or, where the value is None, left out."""
    new = {name: dict(value) if isinstance(value, dict) else value for name, value in table.items()}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        target = new.setdefault(section, {}) if section else new
        if not isinstance(target, dict) or "." in section:
            raise OptionError(f"unknown key {key}; {section} is no section")
        if value is None:
            target.pop(name, None)
        else:
            target[name] = value
    return new


def variant_config(
    table: Table, variant: Variant, seed: int, *, source: Source | None = None, on: str = LOCAL
) -> Config:
    """Return the config of a variant on a seed; ``source`` holds samples of the caller's own.

    OptionError if it cannot be run ``on`` a place, as far as that is known before data are read; the message begins
    with the variant's name. Whether a Ray cluster has a GPU is not known here.
    """
    if "seed" in variant.settings:
        raise OptionError(f"{variant.name}: its settings name a seed; leave it out, seeds are given for all variants")
    try:
        config = config_from(with_settings(table, {**variant.settings, "seed": seed}))
        device = config.training.device
        if on != LOCAL and device.startswith("cuda:"):
            raise OptionError(f"training.device is {echo(device)}, but on Ray a run sees one GPU alone; give cuda")
        is_elsewhere = on != LOCAL and device == "cuda"
        here = replace(config, training=replace(config.training, device="cpu")) if is_elsewhere else config
        check_config(here, source=source)
    except InputError as error:
        raise OptionError(f"{variant.name}: {error}") from None
    return config
