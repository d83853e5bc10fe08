"""The config as a JSON Schema: editors complete and check a TOML file by it while it is typed."""

from collections.abc import Iterable
from inspect import Parameter, getdoc
from typing import Any

import msgspec

from fielding.config.keys import KEYS, OPTION_SECTIONS, SECTIONS, Config
from fielding.config.options import option_words
from fielding.config.parts import Family
from fielding.config.rules import Key

Schema = dict[str, Any]
DRAFT = "http://json-schema.org/draft-07/schema#"
"""The version of JSON Schema that editors for TOML know best."""


def config_schema() -> Schema:
    """Return the JSON Schema of a config: sections, keys, types, ranges, names, defaults and help as they are declared.

    Options of parts stand among the keys of their section, whatever part the config names; whether an option belongs to
    the part that is named is told when the config is read. Every part is imported.
    """
    properties = {path: _key_schema(one) for path, one in KEYS.items() if "." not in path}
    for name, family in SECTIONS.items():
        known = {one.name: _key_schema(one) for path, one in KEYS.items() if path.startswith(f"{name}.")}
        part, families = OPTION_SECTIONS.get(name, ("", ()))
        if name == "coordinator":
            families += ("sample rule",)
        known |= {option: schema for option, schema in _option_schemas(families).items() if option not in known}
        section: Schema = {"type": "object", "description": getdoc(family), "properties": known}
        if part and KEYS[f"{name}.{part}"].rule.is_open:  # a part of the user's own may have any option
            section["if"] = {"properties": {part: {"pattern": ":"}}, "required": [part]}
            section["else"] = {"propertyNames": {"enum": [*known]}}
        else:
            section["additionalProperties"] = False
        properties[name] = section
    return {
        "$schema": DRAFT,
        "title": "Config of a run of Fielding",
        "description": getdoc(Config),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _key_schema(key: Key) -> Schema:
    """Return the schema of a key; TOML has no null: a key without a value is left out."""
    found = msgspec.json.schema(key.checked_type(can_be_none=False))
    if key.rule.choices is not None:
        names: Schema = {"enum": [*key.rule.choices]}
        if int in key.kinds:
            number = next(one for one in found["anyOf"] if one["type"] == "integer")
            names = {"anyOf": [number, names]}
        found = {"anyOf": [names, {"type": "string", "pattern": ":"}]} if key.rule.is_open else names
    default = {} if key.default is None else {"default": key.default}
    return {**found, "description": key.rule.help, **default}


def _option_schemas(families: Iterable[str]) -> dict[str, Schema]:
    """Return the schemas of the options of all parts of some families; parts that share an option share its schema."""
    types: dict[str, list[Schema]] = {}
    words: dict[str, dict[str, list[str]]] = {}
    for name in families:
        family: Family[Any] = Family(name)
        for part in family:
            said = option_words(getdoc(family.builder(part)) or "")
            for option, one in family.parameters(part).items():
                schema = _type_schema(one.annotation)
                known = types.setdefault(option, [])
                known += [schema] if schema not in known else []
                words.setdefault(option, {}).setdefault(said.get(option, ""), []).append(part)
    return {
        option: {
            **(known[0] if len(known) == 1 else {"anyOf": known}),
            "description": "; ".join(
                f"{', '.join(parts)}: {text.rstrip('.')}" if text else ", ".join(parts)
                for text, parts in words[option].items()
            ),
        }
        for option, known in types.items()
    }


def _type_schema(annotation: object) -> Schema:
    """Return the schema of an option's annotation; of types that JSON does not have, anything goes."""
    try:
        return {} if annotation is Parameter.empty else msgspec.json.schema(annotation)
    except TypeError:
        return {}
