"""Keys that would change nothing are refused, and no others."""

from typing import Any

import pytest

from fielding.config.keys import KEYS, Config, ServingSection, TraceSection
from fielding.config.reader import config_from
from fielding.errors import OptionError
from fielding.simulation.config_check import _missing_of_others as others_lack
from fielding.simulation.config_check import _missing_of_trace as trace_lacks
from fielding.simulation.config_check import check_effects
from fielding.traces.catalog import Source
from tests.simulation.run_cases import small_pool, small_trace

REFUSED: list[tuple[str, dict[str, Any], Source | None]] = [
    ("interval", {"interval": "1d"}, None),
    ("align", {"align": "client"}, small_pool()),
    ("last", {"last": "9d"}, None),
    ("samples", {"name": "zephyr", "samples": 7}, None),
    ("samples", {"name": "zephyr", "scenario": "natural", "samples": 7}, None),
    ("interval", {"name": "zephyr", "scenario": "static", "interval": "1d"}, None),
    ("features", {"name": "zephyr", "features": "a,b"}, None),
    ("image_size", {"image_size": 8}, None),
    ("image_size", {"file": "mine.npz", "image_size": 8}, None),
    ("image_size", {"file": "mine.csv.gz", "image_size": 8, "features": "a,b"}, None),
    ("label", {"label": "kind"}, small_trace()),
    ("lie", {"lie": "one-hot"}, None),
    ("lie", {"lie": "flip-flop", "liars": 0.0}, small_trace()),
    ("spoil", {"spoil": "nan"}, small_pool()),
]
TAKEN: list[tuple[dict[str, Any], Source | None]] = [
    ({}, None),
    ({"samples": 7, "clients": 3, "gap": 2}, None),
    ({"name": "zephyr", "interval": "1d", "align": "client", "last": "9d"}, None),
    ({"name": "zephyr", "scenario": "static", "last": "9d", "samples": 7}, None),
    ({"file": "mine.npz", "interval": "1d", "samples": 7}, None),
    ({"file": "mine.csv", "text": "words", "label": "kind", "interval": "1d"}, None),
    ({"file": "list.csv", "image_size": 8}, None),
    ({"file": "mine.npz", "label": "kind", "text": "words"}, None),
    ({"file": "pictures", "image_size": 8, "interval": "1d"}, None),
    ({"interval": "1d", "samples": 7}, small_trace()),
    ({"name": "no such", "interval": "1d"}, None),
    ({"lie": "one-hot", "liars": 0.1}, None),
    ({"spoil": "nan", "liars": 0.1}, small_trace()),
    ({"lie": "permute", "spoil": "none"}, None),
]


@pytest.mark.parametrize(("name", "keys", "source"), REFUSED)
def test_a_key_without_effect_is_named(name: str, keys: dict[str, Any], source: Source | None) -> None:
    with pytest.raises(OptionError, match=rf"^trace\.{name} is .*, but it has no effect: .*; leave it out$"):
        check_effects(Config(trace=TraceSection(**keys)), source=source)


@pytest.mark.parametrize(("keys", "source"), TAKEN)
def test_keys_that_may_have_an_effect_are_taken(keys: dict[str, Any], source: Source | None) -> None:
    check_effects(Config(trace=TraceSection(**keys)), source=source)


@pytest.mark.parametrize(("name", "value"), [("smoothing", 5.0), ("mix_rate", 0.5)])
def test_what_belongs_to_a_correction_is_refused_without_one(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}

    with pytest.raises(OptionError, match=rf"serving\.{name} is {value}, but it has no effect: serving.correction"):
        check_effects(Config(serving=ServingSection(**changed)))

    check_effects(Config(serving=ServingSection(correction="prior", **changed)))
    check_effects(Config(serving=ServingSection(fine_tune=3)))


LONELY: list[tuple[str, dict[str, dict[str, Any]]]] = [
    ("training.moon_temperature is 0.7, but it has no effect: training.moon", {"training": {"moon_temperature": 0.7}}),
    (
        "coordinator.shared_model is 'global', but .* no shared model is needed",
        {"coordinator": {"shared_model": "global"}},
    ),
    ("coordinator.shared_epochs is 9, but .* no shared model is needed", {"coordinator": {"shared_epochs": 9}}),
    ("coordinator.shared_rounds is 9, but .* no shared model is needed", {"coordinator": {"shared_rounds": 9}}),
    (
        "coordinator.shared_epochs is 9, but .* the shared model is global",
        {"coordinator": {"representation": "embedding", "shared_model": "global", "shared_epochs": 9}},
    ),
    (
        "coordinator.shared_rounds is 9, but .* the shared model is pool, not global",
        {"coordinator": {"representation": "embedding", "shared_rounds": 9}},
    ),
    (
        "aggregation.shared_body is True, but .* without a body",
        {"model": {"name": "softmax"}, "aggregation": {"shared_body": True}},
    ),
]
PAIRED: list[dict[str, dict[str, Any]]] = [
    {},
    {"training": {"moon": 1.0, "moon_temperature": 0.7}},
    {"coordinator": {"representation": "embedding", "shared_model": "mine.safetensors"}},
    {"coordinator": {"representation": "label", "detector": "ks", "shared_epochs": 9}},
    {"coordinator": {"representation": "auto", "shared_model": "global", "shared_rounds": 9}},
    {"coordinator": {"representation": "auto"}, "model": {"name": "softmax"}},
    {"method": {"name": "local"}, "aggregation": {"shared_body": True}},
    {"method": {"name": "global"}, "coordinator": {"representation": "embedding", "shared_epochs": 9}},
    {"model": {"name": "softmax", "factory": "mine:build"}, "aggregation": {"shared_body": True}},
    {"trace": {"held_out": 50}},
]


@pytest.mark.parametrize(("message", "table"), LONELY)
def test_a_key_without_what_it_belongs_to_is_named(message: str, table: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"^{message}.*; leave it out$"):
        check_effects(config_from(table))


@pytest.mark.parametrize("table", PAIRED)
def test_keys_that_another_method_or_the_data_may_need_are_taken(table: dict[str, Any]) -> None:
    check_effects(config_from(table))


def test_a_function_of_the_callers_own_needs_no_shared_model() -> None:
    table = {"representation": "embedding", "detector": "any-change", "shared_epochs": 9}

    check_effects(config_from({"coordinator": table}))
    with pytest.raises(OptionError, match=r"coordinator\.shared_epochs is 9, but it has no effect"):
        check_effects(config_from({"coordinator": {**table, "representation": "my_module:describe"}}))


def test_every_word_that_a_key_is_used_with_is_known() -> None:
    """A word that is never missing would mean that the key is never refused."""
    words = {word for key in KEYS.values() for word in key.rule.used_with}
    section = TraceSection(file="a.npz", scenario="static")
    lonely = config_from({"model": {"name": "softmax"}, "coordinator": {"shared_model": "mine.safetensors"}})
    known = {word for one in (TraceSection(), TraceSection(name="zephyr"), section) for word in trace_lacks(one, None)}
    known |= set(others_lack(lonely, None))
    for mode in ("record", "client"):
        known |= set(others_lack(config_from({"privacy": {"mode": mode, "epsilon": 1}}), None))

    assert known == words
