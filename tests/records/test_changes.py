"""What may change in a run that goes on: every key has a verdict, and changes are kept by the round they count from."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.config.keys import KEYS, OPTION_SECTIONS
from fielding.config.reader import config_from, config_table
from fielding.errors import InputError
from fielding.methods import METHODS, method_options
from fielding.records.changes import (
    CHANGES,
    FLOWER,
    FREE,
    METHOD_OPTIONS,
    RULES,
    RUN_CONFIG,
    SIMULATOR,
    change_settings,
    changes_in,
    rule_of,
    settings_of,
    without_settings,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "changes.md"
FLOWER_KEYS = ("classes", "deadline", "min-nodes", "start-wait", "memory-rounds", "deliveries", "strategy")
ACCEPTED: list[tuple[str, Json]] = [
    ("rounds", 300),
    ("training.learning_rate", 0.5),
    ("training.participants", 7),
    ("evaluation.every", 2),
    ("coordinator.tau", 0.5),
    ("aggregation.name", "median"),
]


def manifest(engine: str = SIMULATOR, **sections: Json) -> dict[str, Json]:
    table = {key: value for key, value in config_table(config_from(sections)).items() if key not in FREE}
    deployed: dict[str, Json] = {"engine": engine, RUN_CONFIG: {"deadline": 60.0}}
    return {"config": table, **(deployed if engine == FLOWER else {})}


def changed(stored: dict[str, Json], *settings: tuple[str, Json]) -> dict[str, Json]:
    """Return what a run would be asked for with some keys of the config set otherwise."""
    config: Any = {name: dict(one) if isinstance(one, dict) else one for name, one in stored["config"].items()}  # type: ignore[union-attr]
    for key, value in settings:
        section, _, name = key.rpartition(".")
        (config[section] if section else config)[name] = value
    return {**stored, "config": config}


def resumed(stored: dict[str, Json], now: dict[str, Json], n_done: int) -> dict[str, Json]:
    """Return the manifest of a run that goes on."""
    changes = change_settings(stored, now, n_done=n_done, folder="out")
    return {**now, CHANGES: [one.record() for one in changes]}


@pytest.mark.parametrize("key", [*KEYS, *FLOWER_KEYS, *(f"{section}.an_option" for section in OPTION_SECTIONS)])
def test_every_key_has_a_verdict(key: str) -> None:
    assert rule_of(key) in RULES


def test_a_key_that_nobody_knows_may_not_change() -> None:
    assert rule_of("trends.speed").why_not(FLOWER) == "this release does not know what hangs on it"


def test_every_rule_is_about_some_key_and_counts_for_it() -> None:
    known = (*KEYS, *FLOWER_KEYS, *(f"{section}.an_option" for section in OPTION_SECTIONS))
    for rule in RULES:
        for pattern in rule.keys:
            assert any(fnmatchcase(key, pattern) and rule_of(key) is rule for key in known), pattern


def test_every_method_with_options_says_which_may_change() -> None:
    with_options = {name for name in METHODS if method_options(METHODS[name])}

    assert set(METHOD_OPTIONS) == with_options
    for name, options in METHOD_OPTIONS.items():
        assert set(options) <= set(method_options(METHODS[name])), name


@pytest.mark.parametrize("engine", [SIMULATOR, FLOWER])
@pytest.mark.parametrize(("key", "value"), ACCEPTED)
def test_a_change_is_kept_with_round_and_old_value(key: str, value: Json, engine: str) -> None:
    stored = manifest(engine)

    (change,) = change_settings(stored, changed(stored, (key, value)), n_done=20, folder="out")

    assert change.record() == {"round": 20, "key": key, "old": settings_of(stored)[key], "new": value}


@pytest.mark.parametrize(
    ("engine", "key", "value", "words"),
    [
        (SIMULATOR, "seed", 2, "seed was 1, now it is 2: all random choices of the run hang on it"),
        (FLOWER, "trace.window", "14d", "trace.window was 100, now it is '14d': it decides"),
        (FLOWER, "trace.window", 200, "trace.window was 100, now it is 200: it decides"),
        (FLOWER, "model.hidden", 9, "have the shape that it gave them"),
        (SIMULATOR, "coordinator.detector", "chi2", "finds past reports by it"),
        (SIMULATOR, "coordinator.alpha", 0.1, "finds past reports by it"),
        (FLOWER, "method.guard", True, "method.guard was not given, now it is True: what the method has stored"),
        (FLOWER, "selection.name", "nearest", "it hears all reports of clients, from the first on"),
        (SIMULATOR, "rounds", 19, "20 are done"),
    ],
)
def test_what_may_not_change_is_refused_in_one_line(engine: str, key: str, value: Json, words: str) -> None:
    stored = manifest(engine)

    with pytest.raises(InputError) as caught:
        change_settings(stored, changed(stored, (key, value)), n_done=20, folder="runs/a")

    assert str(caught.value).startswith(f"cannot resume runs/a: {key} was ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_devices_that_go_by_labels_take_another_drift_test() -> None:
    stored = manifest(FLOWER)
    seen = manifest(FLOWER, coordinator={"representation": "auto"})

    (change,) = change_settings(stored, changed(stored, ("coordinator.alpha", 0.1)), n_done=20, folder="out")
    assert str(change) == "round 20: coordinator.alpha not given -> 0.1"
    with pytest.raises(InputError, match="devices keep what they saw in the form that it wants"):
        change_settings(seen, changed(seen, ("coordinator.alpha", 0.1)), n_done=20, folder="out")


def test_a_shared_model_of_the_pool_fixes_what_it_was_trained_with() -> None:
    stored = {**manifest(), "shared_model": "pool"}

    with pytest.raises(InputError, match="the shared model that windows are seen with was trained with it"):
        change_settings(stored, changed(stored, ("training.batch_size", 9)), n_done=20, folder="out")


def test_settings_of_the_run_config_are_changes_too() -> None:
    stored = manifest(FLOWER)
    own: dict[str, Json] = {"settings": {"own.epochs": 3}, "aggregation": "Krum()"}
    now: dict[str, Json] = {**stored, RUN_CONFIG: {"deadline": 90.0}, "own": own}

    told = [str(one) for one in change_settings(stored, now, n_done=4, folder="out")]

    assert told == [
        "round 4: deadline 60.0 -> 90.0",
        "round 4: own.epochs not given -> 3",
        "round 4: strategy not given -> 'Krum()'",
    ]
    assert without_settings(now) == {"engine": FLOWER, "own": {}}


def test_a_run_config_that_an_older_version_did_not_write_is_no_change() -> None:
    now = manifest(FLOWER)
    stored = {name: value for name, value in now.items() if name != RUN_CONFIG}

    assert change_settings(stored, now, n_done=4, folder="out") == []


def test_before_the_first_round_nothing_has_changed() -> None:
    stored = manifest()

    assert change_settings(stored, changed(stored, ("rounds", 9)), n_done=0, folder="out") == []


def test_damaged_changes_are_left_out() -> None:
    assert changes_in({CHANGES: [3, {"round": "x"}, {"key": "rounds"}]}) == []
    assert changes_in({CHANGES: "?"}) == []


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.sampled_from(ACCEPTED), unique_by=lambda one: one[0])), max_size=6
)


@given(STEPS)
def test_changes_lead_from_the_first_settings_to_the_last(steps: list[tuple[int, list[tuple[str, Json]]]]) -> None:
    """Each step does some rounds, perhaps none, then goes on with other settings, as often as it is killed."""
    first = stored = manifest()
    n_done = 1
    for n_rounds, settings in steps:
        n_done += n_rounds
        now = changed(first, *settings)
        stored = resumed(stored, now, n_done)
        assert resumed(stored, now, n_done) == stored, "a kill before the next round changes nothing"
    found = changes_in(stored)

    assert [one.round_index for one in found] == sorted(one.round_index for one in found)
    assert all(one.old != one.new for one in found)
    assert len({(one.round_index, one.key) for one in found}) == len(found), "one change of a key per round"
    reached = settings_of(first)
    for one in found:
        assert reached[one.key] == one.old
        reached[one.key] = one.new
    assert reached == settings_of(stored)


def test_a_change_that_no_round_was_run_by_can_be_taken_back() -> None:
    first = manifest()
    stored = resumed(first, changed(first, ("rounds", 300)), 20)

    assert change_settings(stored, first, n_done=20, folder="out") == []
    # A checkpoint that was damaged: the round before is run again, by the new settings.
    again = change_settings(stored, changed(first, ("rounds", 300)), n_done=19, folder="out")
    assert [str(one) for one in again] == ["round 19: rounds 200 -> 300"]
    back = change_settings(stored, first, n_done=21, folder="out")
    assert [str(one) for one in back] == ["round 20: rounds 200 -> 300", "round 21: rounds 300 -> 200"]


def list_of_rules() -> str:
    """Return the rules as docs/changes.md lists them."""
    rows = []
    for rule in RULES:
        keys = ", ".join(f"`{key}`" for key in rule.keys)
        is_flower_only = rule.keys[0] in FLOWER_KEYS or (rule.simulator and not rule.flower)
        may = "on Flower" if is_flower_only else "no" if rule.simulator else "yes"
        assert not rule.flower or rule.simulator
        why = "; ".join(dict.fromkeys(filter(None, (rule.simulator, rule.flower, rule.note))))
        rows.append(f"- {keys}: {may}; {why}")
    return "\n".join(rows)


def list_of_options() -> str:
    """Return the list of the options of methods."""
    rows = [
        f"- {name}: {', '.join(f'`{one}`' for one in options) or 'none'}" for name, options in METHOD_OPTIONS.items()
    ]
    return "\n".join(rows)


@pytest.mark.parametrize("table", [list_of_rules(), list_of_options()], ids=["keys", "options"])
def test_the_docs_show_the_rules(table: str) -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert table in text, "\n" + table
    assert not re.search(r"^- `?(nan|None)", text, re.MULTILINE)
