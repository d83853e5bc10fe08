"""What is compared: methods crossed with values, named for people, checked before anything runs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.comparing.variants import (
    cross_variants,
    folder_name,
    named_variants,
    parse_axis,
    variant_config,
    variants_from,
    with_settings,
)
from fielding.config.reader import config_from
from fielding.errors import InputError, OptionError
from fielding.records.plan import Variant

OWN = "tests.methods.own:Quiet"


def names(*arguments: str, methods: tuple[str, ...] = ("fielding", "global")) -> list[str]:
    return [one.name for one in cross_variants({}, methods, [parse_axis(text) for text in arguments])]


def test_methods_alone_keep_their_names() -> None:
    assert names() == ["fielding", "global"]


def test_without_methods_it_is_that_of_the_config() -> None:
    assert [one.name for one in cross_variants({"method": {"name": "moves"}})] == ["moves"]


def test_all_combinations_come_method_by_method() -> None:
    found = cross_variants({}, ["fielding", "local"], [parse_axis("coordinator.tau=0,1/3"), parse_axis("rounds=2,4")])

    assert [one.name for one in found] == [
        "fielding tau=0 rounds=2",
        "fielding tau=0 rounds=4",
        "fielding tau=1/3 rounds=2",
        "fielding tau=1/3 rounds=4",
        "local rounds=2",
        "local rounds=4",
    ]
    assert found[2] == Variant(
        name="fielding tau=1/3 rounds=2",
        folder="fielding-tau-1_3-rounds-2",
        settings={"method.name": "fielding", "coordinator.tau": "1/3", "rounds": 2},
    )


def test_a_method_that_does_not_use_a_key_runs_once() -> None:
    assert names("coordinator.tau=0,1/3") == ["fielding tau=0", "fielding tau=1/3", "global"]
    assert names("method.k=2,3", methods=("ifca", "global")) == ["ifca k=2", "ifca k=3", "global"]
    assert names("coordinator.representation=label,gradient") == [
        "fielding representation=label",
        "fielding representation=gradient",
        "global",
    ]


def test_a_selection_that_needs_reports_makes_every_method_use_them() -> None:
    base: dict[str, Json] = {"selection": {"name": "nearest"}}
    axis = parse_axis("coordinator.metric=l1,js")

    assert len(cross_variants(base, ["global"], [axis])) == 2
    assert len(cross_variants({}, ["global"], [axis, parse_axis("selection.name=uniform,nearest")])) == 4
    with pytest.raises(OptionError, match=r"coordinator.metric changes nothing for global"):
        cross_variants({}, ["global"], [axis])


def test_auto_changes_more_than_the_coordinator() -> None:
    assert len(names("coordinator.representation=label,auto", methods=("global",))) == 2


def test_a_key_whose_last_part_is_that_of_another_is_named_in_full() -> None:
    assert names("selection.name=uniform,nearest", methods=("global",)) == [
        "global selection.name=uniform",
        "global selection.name=nearest",
    ]


@pytest.mark.parametrize(
    ("methods", "axes", "words"),
    [
        (["feilding"], [], "unknown method 'feilding'; did you mean 'fielding'"),
        ([""], [], "unknown method ''"),
        (["no_such_module:X"], [], "no_such_module"),
        (["global", "global"], [], "'global' is named twice"),
        (["global"], ["ruonds=1"], "--vary ruonds=1: unknown key ruonds; did you mean rounds?"),
        (["fielding"], ["coordinator.taw=1"], "unknown key coordinator.taw; did you mean coordinator.tau?"),
        (["global"], ["rounds=2,0"], "rounds is 0; give"),
        (["global"], ["rounds=2", "rounds=3"], "rounds is varied twice"),
        (["global"], ["coordinator.tau=0,1"], "coordinator.tau changes nothing for global"),
        (["global"], ["method.k=1,2"], "method.k changes nothing for global"),
        (["global"], ["method.clients_per_moon=1"], "unknown key method.clients_per_moon"),
    ],
)
def test_what_cannot_be_compared_is_told(methods: list[str], axes: list[str], words: str) -> None:
    with pytest.raises(OptionError) as told:
        cross_variants({}, methods, [parse_axis(text) for text in axes])

    assert words in str(told.value)


def test_methods_of_ones_own_have_their_own_options() -> None:
    found = cross_variants({}, [OWN, "global"], [parse_axis("method.pace=0.1,0.2")])

    assert [one.name for one in found] == [f"{OWN} pace=0.1", f"{OWN} pace=0.2", "global"]
    assert found[0].folder == "tests.methods.own-Quiet-pace-0.1"


def test_options_of_the_base_config_count_for_the_methods_that_have_them() -> None:
    base: dict[str, Json] = {"method": {"name": "ifca", "k": 3}}

    ours, other = cross_variants(base, ["ifca", "global"])

    assert variant_config(base, ours, 1).method.options == {"k": 3}
    assert variant_config(base, other, 1).method.options == {}


def test_an_option_that_no_method_has_is_told() -> None:
    with pytest.raises(OptionError, match="unknown option of these methods 'k'"):
        cross_variants({"method": {"name": "global", "k": 3}}, ["fielding"])


def test_the_config_of_a_variant_has_its_settings_and_its_seed() -> None:
    base: dict[str, Json] = {"rounds": 9, "coordinator": {"tau": 0.5}}
    one = cross_variants(base, ["fielding"], [parse_axis("coordinator.tau=1/6")])[0]

    config = variant_config(base, one, 7)

    assert (config.seed, config.rounds, config.coordinator.tau, config.method.name) == (7, 9, "1/6", "fielding")
    assert base == {"rounds": 9, "coordinator": {"tau": 0.5}}


def test_a_preset_named_as_a_method_is_fielding_as_it_has_it_with_the_training_and_selection_of_all() -> None:
    base: dict[str, Json] = {
        "coordinator": {"representation": "label", "k_max": 3},
        "training": {"momentum": 0.5},
        "selection": {"name": "oort"},
    }
    configs = {one.name: variant_config(base, one, 1) for one in cross_variants(base, ["auto", "paper", "global"])}

    assert list(configs) == ["auto", "paper", "global"]
    for name in ("auto", "paper"):
        alone = config_from({"preset": name})
        assert (configs[name].preset, configs[name].method.name) == (name, "fielding")
        assert configs[name].coordinator.representation == alone.coordinator.representation
        assert (configs[name].aggregation, configs[name].serving) == (alone.aggregation, alone.serving)
    assert configs["paper"].coordinator == config_from({"preset": "paper"}).coordinator
    assert {one.training.lr_decay for one in configs.values()} == {1.0}
    assert {one.training.momentum for one in configs.values()} == {0.5}
    assert {one.selection.name for one in configs.values()} == {"oort"}


def test_a_preset_is_no_method_of_a_config_and_the_error_says_where_it_belongs() -> None:
    with pytest.raises(OptionError, match=r'method\.name: auto is a preset; write preset = "auto" above all sections'):
        config_from({"method": {"name": "auto"}})


def test_a_preset_may_be_varied_and_brings_its_defaults() -> None:
    one = named_variants({"as published": {"preset": "paper"}})[0]

    assert variant_config({"rounds": 2}, one, 1).training.momentum == 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"coordinator.tau": "lots"}, "mine: coordinator.tau: 'lots' is not a number"),
        ({"training.moon_temperature": 2.0}, "mine: training.moon_temperature is 2.0, but it has no effect"),
        ({"trace.file": "gone.npz"}, "mine: trace.file is 'gone.npz', but there is no such file"),
        ({"trace.name": "digitz"}, "mine: "),
        ({"trace.scenario": "plaices"}, "mine: trace.scenario: unknown scenario 'plaices'"),
        ({"selection.name": "oort", "selection.alfa": 1}, "mine: unknown key selection.alfa"),
        ({"aggregation.name": "mean", "aggregation.trim": 0.5}, "mine: "),
        ({"method.k": 2}, "mine: method: "),
        ({"seed": 3}, "mine: its settings name a seed"),
        ({"rounds.two": 3}, "mine: unknown key rounds.two"),
        ({"a.b.c": 3}, "mine: unknown key a.b.c"),
        ({"clock.profile": "nosuch"}, "mine: clock.profile: unknown device profile 'nosuch'"),
        ({"clock.profile": "gone.csv"}, "mine: gone.csv cannot be read"),
        ({"clock.availability": "gone.csv"}, "mine: gone.csv cannot be read"),
        ({"trace.scenario": "natural"}, "mine: trace.scenario is 'natural', but digits knows no clients and times"),
        ({"training.device": "nosuch"}, "mine: model: device 'nosuch' needs PyTorch"),
        ({"model.name": "mlq"}, "mine: model: unknown model 'mlq'; did you mean 'mlp'"),
        ({"trace.gap": 200}, "mine: trace.window is 100; it must be at least trace.gap, which is 200"),
        ({"trace.liars": 0.1, "trace.spoil": "milk"}, "mine: trace: unknown spoil 'milk'"),
        ({"trace.name": "zephyr", "trace.interval": "often"}, "mine: trace.interval: "),
    ],
)
def test_a_config_that_cannot_be_run_is_told_with_the_name(settings: dict[str, Json], words: str) -> None:
    one = named_variants({"mine": settings})[0]

    with pytest.raises(OptionError) as told:
        variant_config({"rounds": 2}, one, 1)

    assert str(told.value).startswith(words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "nothing to compare"),
        ({" ": {}}, "named ' '"),
        ({"a\nb": {}}, "printable"),
        ({1: {}}, "a variant is named 1"),
        ({"a": 3}, "the settings of a are 3; give values by dotted key"),
        ({"a": {2: 3}}, "the settings of a are"),
        ({"a": {"coordinator": {"tau": 1}}}, "a: coordinator is a section"),
        ({"a": {"rounds": 1}, "b": {"rounds": 1}}, "a and b have the same settings"),
    ],
)
def test_variants_that_cannot_be_told_apart_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        named_variants(settings)


@given(st.lists(st.text(min_size=1, max_size=120), min_size=1, max_size=8))
def test_folders_are_fit_for_any_file_system_and_unlike_each_other(given_names: list[str]) -> None:
    taken: list[str] = []
    for name in given_names:
        folder = folder_name(name, {one.casefold() for one in taken})
        assert folder.isascii()
        assert not folder.startswith((".", "-"))
        assert not set(folder) & set('/\\:*?"<>| \0')
        assert len(folder) <= 90
        taken.append(folder)

    assert len({one.casefold() for one in taken}) == len(taken)


def test_nothing_else_changes_with_a_setting() -> None:
    base: dict[str, Json] = {"rounds": 3, "trace": {"gap": 2}}

    assert with_settings(base, {"trace.gap": None, "trace.window": 4, "rounds": None}) == {"trace": {"window": 4}}
    assert base == {"rounds": 3, "trace": {"gap": 2}}


def test_settings_from_python_are_kept_as_json_can_hold_them() -> None:
    given: dict[str, Any] = {"coordinator.tau": float("inf"), "rounds": np.int64(3), "method.sizes": np.arange(2)}

    assert named_variants({"a": given})[0].settings == {"coordinator.tau": "inf", "rounds": 3, "method.sizes": [0, 1]}


def test_names_of_methods_stand_for_variants() -> None:
    assert variants_from({}, ["fielding", "global"]) == cross_variants({}, ["fielding", "global"])
    assert variants_from({}, "moves") == cross_variants({}, ["moves"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (7, "variants are 7; give names of methods, or settings by name"),
        (["global", {"rounds": 3}], "give names of methods, or settings by name"),
        (named_variants({"a": {}}) * 2, "two variants are named 'a'"),
        ([Variant(name=name, folder="x", settings={}) for name in "ab"], "two variants are kept in 'x'"),
    ],
)
def test_what_stands_for_no_variants_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        variants_from({}, given)


# ---------------------------------------------------------------- axes


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("coordinator.tau=0,1/6, inf", {"0": 0, "1/6": "1/6", "inf": "inf"}),
        ("training.weighted=true,false", {"true": True, "false": False}),
        ("rounds=5", {"5": 5}),
        ("trace.features='a,b','c'", {"'a,b'": "a,b", "'c'": "c"}),
        ("method.sizes=[1, 2],[3]", {"[1, 2]": [1, 2], "[3]": [3]}),
        ("trace.last=2020-01-01,30d", {"2020-01-01": "2020-01-01", "30d": "30d"}),
    ],
)
def test_values_are_read_as_set_reads_them(text: str, values: dict[str, Json]) -> None:
    assert parse_axis(text).values == values


@pytest.mark.parametrize("text", ["", "rounds", "rounds=", "rounds=1,", "rounds=1,,2", "=1", "a.=1", "a.b.c=1"])
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"--vary .* says nothing; write key=value"):
        parse_axis(text)


@pytest.mark.parametrize("text", ["rounds=1,2,1", "training.prox=0.5,0.50"])
def test_a_value_twice_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="twice"):
        parse_axis(text)


@pytest.mark.parametrize("text", ["seed=1,2", "method.name=global,local", "workers=1,2", "checkpoint.every=1,2"])
def test_keys_that_are_given_elsewhere_or_change_nothing_are_not_varied(text: str) -> None:
    with pytest.raises(OptionError, match="cannot be varied"):
        parse_axis(text)


def test_a_section_is_not_varied_as_a_whole() -> None:
    with pytest.raises(OptionError, match=r"coordinator is a section; vary its keys, each as coordinator\.KEY="):
        parse_axis("coordinator={tau=1},{tau=2}")
