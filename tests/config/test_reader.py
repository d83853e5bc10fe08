"""A config is read whole or refused with one line that names file, key, value and what would do."""

from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS
from fielding.config.keys import KEYS, Config
from fielding.config.presets import PRESETS
from fielding.config.reader import (
    apply_changes,
    config_from,
    config_table,
    config_text,
    locate_error,
    read_config,
)
from fielding.errors import InputError, OptionError
from fielding.simulation.assembly import Own, assemble
from fielding.traces.scenarios import SCENARIOS
from tests.simulation.run_cases import small_pool, table


def refusal(path: Path, *changes: str) -> str:
    """Return the one line with which a file, or what it describes, is refused."""
    with pytest.raises(InputError) as caught:
        assemble(read_config(path, changes), Own(samples=small_pool()), n_workers=1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


def test_an_empty_file_is_all_defaults(path: Path) -> None:
    path.write_text("")

    assert read_config(path) == Config()


def test_every_default_obeys_its_own_rule() -> None:
    assert config_from(config_table(Config())) == Config()


def test_a_config_is_read_back_from_what_is_written(path: Path) -> None:
    config = config_from(
        {
            "preset": "paper",
            "stop_at_accuracy": 0.5,
            "trace": {"scenario": "dirichlet", "alpha": 0.2, "kind": "gradual"},
            "coordinator": {"detector": "chi2", "growth": 3.0, "tau": "1/4"},
        }
    )
    path.write_text(config_text(config))

    assert read_config(path) == config
    assert config.trace.options == {"alpha": 0.2, "kind": "gradual"}
    assert config.coordinator.options == {"growth": 3.0}


def test_what_a_config_says_counts_more_than_its_preset() -> None:
    plain = config_from({"preset": "paper"})
    own = config_from({"preset": "paper", "training": {"momentum": 0.5}, "coordinator": {"detector": "chi2"}})

    assert plain.training.momentum == PRESETS["paper"]["training"]["momentum"]
    assert own.training.momentum == 0.5
    assert own.training.weight_decay == plain.training.weight_decay != Config().training.weight_decay
    assert (plain.coordinator.detector, own.coordinator.detector) == ("any-change", "chi2")


def test_a_name_of_the_release_before_is_read_and_told() -> None:
    with pytest.warns(FutureWarning, match=r'write aggregation.name = "mean" and aggregation.clip = 1.5'):
        config = config_from({"aggregation": {"name": "norm-clipping", "factor": 1.5}})

    assert (config.aggregation.name, config.aggregation.clip, config.aggregation.options) == ("mean", 1.5, {})


def test_an_infinite_tau_can_be_written_in_three_ways(path: Path) -> None:
    path.write_text("[coordinator]\ntau = inf\n")

    assert read_config(path).coordinator.tau == "inf"
    assert read_config(path, ["coordinator.tau=inf"]).coordinator.tau == "inf"
    assert config_from({"coordinator": {"tau": "inf"}}).coordinator.tau == "inf"


CHOICES = [path for path in KEYS if path in {
    "preset", "training.trainer", "method.name", "coordinator.metric", "coordinator.detector", "coordinator.trigger",
    "coordinator.reference", "coordinator.partitioner", "coordinator.inherit", "coordinator.reports", "selection.name",
    "aggregation.name", "coordinator.k_choice", "serving.correction",
}]  # fmt: skip
LATE_CHOICES = {
    "trace.scenario": ("placez", "did you mean 'places'?"),
    "trace.align": ("calender", "calendar"),
    "trace.interval": ("1 fortnight", "s, m, h, d or w"),
    "trace.last": ("month", "length of time"),
    "model.name": ("mlq", "did you mean 'mlp'?"),
    "coordinator.representation": ("lable", "did you mean 'label'?"),
    "coordinator.tau": ("a third", "1/3"),
    "clock.profile": ("sinthetic", "did you mean 'synthetic'?"),
}
NATURAL = {"preset": "paper", "coordinator.metric": "l1", "coordinator.detector": "chi2"}
"""A choice for keys that have no default."""


def test_every_named_choice_is_here() -> None:
    assert len(CHOICES) == 14


@pytest.mark.parametrize("name", CHOICES)
def test_a_misspelt_choice_is_named_with_its_key_and_the_nearest_one(path: Path, name: str) -> None:
    value = KEYS[name].default or NATURAL[name]
    misspelt = f"{value}x"
    section, _, inner = name.rpartition(".")
    path.write_text(f'[{section}]\n{inner} = "{misspelt}"\n' if section else f'{inner} = "{misspelt}"\n')

    line = refusal(path)

    assert str(path) in line
    assert f"{name}: unknown {inner} '{misspelt}'; did you mean '{value}'? Known: " in line


@pytest.mark.parametrize("name", LATE_CHOICES)
def test_a_misspelt_name_of_a_part_is_told_with_its_key(path: Path, name: str) -> None:
    misspelt, words = LATE_CHOICES[name]
    section, _, inner = name.partition(".")
    path.write_text(f'[{section}]\n{inner} = "{misspelt}"\n')

    line = refusal(path)

    assert misspelt in line
    assert words in line
    assert name in line or section == "model"


def test_a_factory_that_cannot_be_imported_is_told(path: Path) -> None:
    pytest.importorskip("torch")
    path.write_text('[model]\nfactory = "no_such_module:build"\n')

    line = refusal(path)

    assert line.startswith("model: ")
    assert "no_such_module" in line


def test_a_name_that_no_file_can_have_is_told(path: Path) -> None:
    path.write_text(f'[clock]\nprofile = "{"z" * 5000}"\n')

    line = refusal(path)

    assert "File name too long" in line
    assert len(line) < 200


def test_a_misspelt_data_set_is_told_with_its_key(path: Path) -> None:
    path.write_text('[trace]\nname = "digit"\n')

    with pytest.raises(InputError, match=r"trace\.name: unknown data set 'digit'; did you mean 'digits'\?"):
        assemble(read_config(path), Own(), n_workers=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sed = 1", "unknown key sed; did you mean seed?"),
        ("[trainning]\nprox = 1", "unknown key trainning; did you mean training?"),
        ("[training]\nlearning_rat = 1", "unknown key training.learning_rat; did you mean training.learning_rate?"),
        ("learning_rate = 1", "unknown key learning_rate; did you mean training.learning_rate?"),
        ("zzz = 1", "unknown key zzz; see docs/config.md"),
        ("training = 5", "training is 5; it is a section, write [training]"),
        ("trace = [1, 2]", "trace is [1, 2]; it is a section, write [trace]"),
        ("rounds = {a = 1}", "rounds is {'a': 1}; give a whole number from 1 to 100000000"),
        ("rounds = 0", "rounds is 0; give a whole number from 1 to 100000000"),
        ("rounds = 1979-05-27", "rounds is datetime.date(1979, 5, 27); give a whole number"),
        ("seed = -1", "seed is -1; give a whole number from 0 to 9223372036854775807"),
        (f"seed = {'9' * 400}", "seed is 99999"),
        ("[training]\nmomentum = 1", "training.momentum is 1; give a number from 0 to 0.9999"),
        ("[training]\nprox = nan", "training.prox is nan; give a number of at least 0"),
        ("[trace]\nplacez = 3", "unknown key trace.placez; did you mean trace.places?"),
        ('[trace]\nscenario = "static"\nshare = 0.5', "unknown option of scenario 'static' 'share'"),
        ('[trace]\nscenario = "natural"\nshare = 0.5', "unknown key trace.share; a natural trace has no options"),
        ("[trace]\nshare = 7", "trace: share is 7; give a number from 0 to 1"),
        ("[trace]\noptions = {share = 0.5}", "unknown key trace.options"),
        ("[trace]\nwindow = 5\ngap = 6", "trace.window is 5; it must be at least trace.gap, which is 6"),
        ("[trace]\ncleints = 3", "unknown key trace.cleints; did you mean trace.clients?"),
        ("[trace]\nlearning_rate = 3", "unknown key trace.learning_rate; did you mean training.learning_rate?"),
        ("[training]\nrounds = 5", "unknown key training.rounds; did you mean rounds (it stands before all sections)?"),
        ("[trace.scenario]\nshare = 0.5", "trace.scenario is a table; give its name, and its options beside it"),
        ("[coordinator.detector]\neps = 1", "coordinator.detector is a table; give its name"),
        ("[coordinator]\nalpa = 0.1", "unknown key coordinator.alpa; did you mean coordinator.alpha?"),
        ("[coordinator]\ndetektor = 1", "unknown key coordinator.detektor; did you mean coordinator.detector?"),
        ("[coordinator]\neps = 0.1", "coordinator.eps has no effect on representation 'label' with drift test 'chi2'"),
        ("[coordinator]\nalpha = 7", "coordinator: alpha is 7"),
        ("[coordinator]\ntau = -1", "coordinator: tau is -1"),
        ('[model]\nname = "cnn"', "model: model 'cnn' needs PyTorch"),
        ('[training]\ndevice = "cuda"', "needs PyTorch"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_what_would_do(path: Path, text: str, words: str) -> None:
    path.write_text(text + "\n")

    assert words in refusal(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"rounds = ", "is no TOML: Invalid value"),
        (b"rounds = 1\nrounds = 2\n", "is no TOML: Cannot overwrite a value"),
        (b"name = '\xff\xfe'\n", "is no TOML: 'utf-8' codec can't decode"),
        (b"a = " + b"[" * 5000, "is no TOML: "),
        (b"seed = " + b"9" * 5000, "is no TOML: Exceeds the limit"),
        (b"\x00", "is no TOML: "),
    ],
)
def test_what_is_no_toml_is_said_to_be_none(path: Path, content: bytes, words: str) -> None:
    path.write_bytes(content)

    line = refusal(path)

    assert line.startswith(f"{path} {words}")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("rounds = 15O", ": rounds = 15O; '15O' is not a number"),
        ("rounds = 5\n[training]\nprox = 0,1  # small", ": prox = 0,1 # small; '0,1' is not a number"),
        ("[trace]\nname = digits", ': name = digits; write texts in quotes: "digits"'),
        ("[training]\nweighted = True", ": weighted = True; write true in small letters"),
        ("rounds = 1\nrounds = 2", ": rounds = 2"),
        ("[trace\nclients = 4", ": [trace"),
    ],
)
def test_the_line_that_is_no_toml_is_shown_with_a_hint(path: Path, text: str, end: str) -> None:
    path.write_text(f"{text}\n")

    assert " ".join(refusal(path).split()).endswith(end)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.toml") == f"cannot read {tmp_path / 'none.toml'}: No such file or directory"
    assert refusal(tmp_path) == f"cannot read {tmp_path}: Is a directory"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("junk", "--set 'junk' says nothing; write key=value or section.key=value"),
        ("=5", "--set '=5' says nothing"),
        ("a.b.c=5", "--set 'a.b.c=5' says nothing"),
        ("seed.x=5", "--set 'seed.x=5': seed is no section"),
        ("sed=5", "unknown key sed; did you mean seed?"),
        ("training.prx=5", "unknown key training.prx; did you mean training.prox?"),
        ("seed=", "seed is ''; give a whole number"),
        ("seed=1\nrounds=2", "seed is '1\\nrounds=2'; give a whole number"),
        (f"seed={'9' * 5000}", "seed is '99999"),
        ("training=5", "training is 5; it is a section"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(path: Path, change: str, words: str) -> None:
    path.write_text("seed = 1\n")

    line = refusal(path, change)

    assert words in line
    assert line.startswith("--set ")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("model.name=mlq", "model: unknown model 'mlq'; did you mean 'mlp'?"),
        ("trace.share=7", "trace: share is 7; give a number from 0 to 1"),
        ("rounds=50", "rounds is 50, but the trace ends after 14 rounds"),
        ("clock.profile=fast", "clock.profile: unknown device profile 'fast'"),
    ],
)
def test_a_late_mistake_is_laid_to_the_change_that_it_speaks_of(path: Path, change: str, line: str) -> None:
    others = ["seed=1", "trace.name=digits", "training.prox=7"]

    assert str(locate_error(OptionError(line), path, [*others, change])) == f"--set {change}: {line}"
    assert str(locate_error(OptionError(line), path, others)) == f"{path}: {line}"


def test_changes_are_toml_values_or_plain_text() -> None:
    texts = ["a=1", "b=true", "c=plain", 'd="quoted"', "e=[1, 2]", "f=1e3", "g= spaced ", "s.h=1=2"]

    assert apply_changes({}, texts) == {
        "a": 1, "b": True, "c": "plain", "d": "quoted", "e": [1, 2], "f": 1000.0, "g": "spaced", "s": {"h": "1=2"},
    }  # fmt: skip


def test_a_change_leaves_the_table_as_it_was() -> None:
    before: dict[str, Json] = {"training": {"prox": 1}}

    apply_changes(before, ["training.prox=2"])

    assert before == {"training": {"prox": 1}}


def test_keys_are_listed_once_with_help_and_the_top_ones_first() -> None:
    names = list(KEYS)

    assert len(set(names)) == len(names)
    assert names.index("workers") < names.index("trace.name")
    assert all(one.rule.help for one in KEYS.values())
    assert not any(name.endswith("options") for name in names)


def test_options_of_parts_never_hide_behind_keys() -> None:
    """An option named like a key of its section could not be set."""
    from inspect import signature

    trace, coordinator = (
        {name.partition(".")[2] for name in KEYS if name.startswith(f"{section}.")}
        for section in ("trace", "coordinator")
    )
    assert not trace & {option for family in SCENARIOS.values() for option in signature(family).parameters}
    assert not coordinator & {option for family in DRIFT_TESTS.values() for option in signature(family).parameters}


def test_a_good_config_is_assembled() -> None:
    simulation = assemble(config_from(table()), Own(samples=small_pool()), n_workers=1)

    assert simulation.clients.windows.n_clients == 12
