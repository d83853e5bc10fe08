"""Keys that would change nothing are refused, and no others."""

from typing import Any

import pytest

from fielding.engine.config import Config, ServingSection, TraceSection
from fielding.errors import OptionError
from fielding.simulation.unused_keys import check_effects, check_partners
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
        check_effects(TraceSection(**keys), source)


@pytest.mark.parametrize(("keys", "source"), TAKEN)
def test_keys_that_may_have_an_effect_are_taken(keys: dict[str, Any], source: Source | None) -> None:
    check_effects(TraceSection(**keys), source)


@pytest.mark.parametrize(("name", "value"), [("smoothing", 5.0), ("mix_rate", 0.5)])
def test_what_belongs_to_a_correction_is_refused_without_one(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}

    with pytest.raises(OptionError, match=rf"serving\.{name} is {value}, but it has no effect: serving.correction"):
        check_partners(Config(serving=ServingSection(**changed)))

    check_partners(Config(serving=ServingSection(correction="prior", **changed)))
    check_partners(Config(serving=ServingSection(fine_tune=3)))
