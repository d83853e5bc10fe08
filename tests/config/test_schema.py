"""`fielding config schema` says of a config what the reader says."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from fielding.config.keys import KEYS, OPTION_SECTIONS, SECTIONS, Config
from fielding.config.parts import Family
from fielding.config.presets import PRESETS
from fielding.config.reader import config_from, config_table
from fielding.config.schema import config_schema
from fielding.errors import OptionError
from tests.cli.invoke import fielding

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = config_schema()
VALIDATOR = Draft7Validator(SCHEMA)
EXAMPLES = sorted((ROOT / "examples" / "configs").glob("*.toml"))
MISTAKES: list[dict[str, Any]] = [
    {"ruonds": 3},
    {"rounds": 0},
    {"rounds": "many"},
    {"rounds": True},
    {"training": 5},
    {"training": {"learing_rate": 0.1}},
    {"training": {"momentum": 1.5}},
    {"training": {"weighted": 1}},
    {"training": {"trainer": "jax"}},
    {"trace": {"gap": 1_000_001}},
    {"trace": {"shares": 0.1}},
    {"coordinator": {"metric": "l3"}},
    {"coordinator": {"tau": [1]}},
    {"coordinator": {"alhpa": 0.1}},
    {"method": {"name": "ifcaa"}},
    {"method": {"name": "ifca", "kk": 3}},
    {"method": {"kk": 3}},
    {"selection": {"name": "oort", "clipp": 0.9}},
    {"preset": "papers"},
]
TAKEN: list[dict[str, Any]] = [
    {},
    config_table(Config()),
    *(config_table(config_from({"preset": name})) for name in PRESETS),
    {"coordinator": {"tau": "1/3", "alpha": 0.01, "representation": "embedding+2*confusion", "dims": 8}},
    {"coordinator": {"detector": "mmd", "deals": 199, "min_fresh": 20}},
    {"method": {"name": "my_module:MyMethod", "anything": 3}},
    {"method": {"name": "ifca", "k": 3}},
    {"selection": {"name": "pyramidfl", "beta": 0.2, "clip": 0.9}},
    {"training": {"prox": 1}},
]


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid(path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize("table", TAKEN)
def test_what_the_reader_takes_is_valid(table: dict[str, Any]) -> None:
    config_from(table)

    assert [error.message for error in VALIDATOR.iter_errors(table)] == []


@pytest.mark.parametrize("table", MISTAKES)
def test_a_mistake_is_invalid_and_refused(table: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(table)
    with pytest.raises(OptionError):
        config_from(table)


def test_every_key_is_there_as_it_is_declared() -> None:
    for path, key in KEYS.items():
        section, _, name = path.rpartition(".")
        known = SCHEMA["properties"][section]["properties"] if section else SCHEMA["properties"]

        assert known[name]["description"] == key.rule.help
        assert known[name].get("default") == key.default
    assert set(SCHEMA["properties"]) == {path for path in KEYS if "." not in path} | set(SECTIONS)


def test_every_option_of_every_part_is_there() -> None:
    for section, (_, families) in OPTION_SECTIONS.items():
        known = SCHEMA["properties"][section]["properties"]
        for name in families:
            family: Family[Any] = Family(name)
            for part in family:
                assert family.options(part).keys() <= known.keys()


def test_the_command_prints_it() -> None:
    result = fielding("config", "schema")

    assert result.returncode == 0
    assert json.loads(result.stdout) == SCHEMA
