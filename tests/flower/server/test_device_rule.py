"""What a run config has devices keep and report travels with every order, and arrives as it was."""

import json

import pytest

from fielding._typing import Json
from fielding.client.drift import AnyChange, Chi2, Periodic
from fielding.client.drift.detectors import SampleDetector
from fielding.client.drift.two_sample import ClassShift
from fielding.client.representation.embedding import ClassMeans
from fielding.client.representation.label import LabelShares, SmoothedLabelShares
from fielding.config.reader import config_from
from fielding.errors import InputError, OptionError
from fielding.flower.device.rule import DeviceRule, rule_from
from fielding.flower.server.device_rule import device_record, own_drift_test

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.server.server_app import deployment_from
from tests.flower.device_wire import rule_of

BASE: dict[str, Json] = {"classes": 2, "shape": "2", "out": "there"}


def rule(**changes: Json) -> DeviceRule:
    """Return the rule of a run config; two underscores stand for a dot."""
    return rule_of(deployment_from(BASE | {name.replace("__", "."): one for name, one in changes.items()})[0])


def test_devices_watch_label_shares_by_chi2_for_100_rounds_by_default() -> None:
    found = rule(classes=10)

    assert (found.n_classes, found.max_rounds, found.drift_test, found.representation) == (10, 100, Chi2(), None)
    assert (found.gap, found.memory_rounds, found.needs_model) == (1, 0, False)


def test_a_window_shows_as_many_intervals_as_in_the_simulator() -> None:
    assert rule(trace__window=100, trace__gap=30).max_rounds == 120


def test_a_test_that_goes_by_the_clock_is_asked_when_the_simulator_asks_it_and_when_samples_come() -> None:
    clock: dict[str, Json] = {"trace__window": 5, "trace__gap": 2}
    always = rule(coordinator__detector="always", **clock)

    assert [always.is_asked(now, 0) for now in range(4)] == [False, True, False, True]
    assert always.is_asked(0, 1)
    assert rule(coordinator__detector="any-change", **clock).is_asked(0, 0)


def test_options_of_test_and_representation_stand_beside_the_keys_of_others() -> None:
    found = rule(
        coordinator__detector="periodic",
        coordinator__rounds=3,
        coordinator__representation="label-smoothed",
        coordinator__pseudo=2.0,
        coordinator__tau=0.5,
        rounds=7,
    )

    assert (found.drift_test, found.representation) == (Periodic(rounds=3), SmoothedLabelShares(pseudo=2.0))


def test_windows_are_seen_with_a_model_where_labels_are_not_enough() -> None:
    seen = rule(seed=5, coordinator__representation="class-means")
    by_errors = rule(coordinator__detector="error-rate")

    assert (seen.representation, seen.needs_model, seen.needs_errors) == (ClassMeans(seed=5), True, False)
    assert seen.detector == SampleDetector(test=ClassShift())
    assert (by_errors.representation, by_errors.needs_model, by_errors.needs_errors) == (LabelShares(), False, True)


def test_with_vectors_of_ones_own_labels_say_when_to_report() -> None:
    changes: dict[str, Json] = {"own-vectors": True, "coordinator.detector": "any-change"}
    found = rule(**changes)

    assert (found.drift_test, found.representation, found.detector) == (AnyChange(), None, None)


@pytest.mark.parametrize(
    ("changes", "rounds"),
    [
        ({"method.name": "feddrift"}, 1000),
        ({"method.name": "feddrift", "method.memory": "window"}, 0),
        ({"method.name": "feddrift", "memory-rounds": 7}, 7),
        ({"memory-rounds": 7}, 7),
    ],
)
def test_samples_of_long_ago_are_kept_for_methods_that_ask_for_them(changes: dict[str, Json], rounds: int) -> None:
    assert rule(**changes).memory_rounds == rounds


def test_most_methods_take_the_drift_test_of_the_coordinator_and_some_bring_their_own() -> None:
    for name in ("static", "fielding", "mine:Method"):
        assert own_drift_test(config_from({"method": {"name": name}})) is None
    brought = own_drift_test(config_from({"method": {"name": "flexcfl", "k": 2}}))
    assert brought is not None
    assert rule(method__name="flexcfl", method__k=2).drift_test == brought != rule().drift_test


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": "10"}, "classes of the run config is '10'"),
        ({"trace.window": 0}, "trace.window is 0"),
        ({"coordinator.detector": "ks", "own-vectors": True}, "with own-vectors drift is judged by labels"),
        ({"coordinator.representation": "embeding"}, "unknown representation 'embeding'; did you mean"),
        ({"coordinator.representation": "embedding", "coordinator.detector": "chi2"}, "label counts"),
        ({"coordinator.tau": 0.5, "coordinator.nothing": 1}, "unknown key coordinator.nothing"),
        ({"coordinator.alpha": 7.0}, "alpha"),
        *(({"memory-rounds": one}, "memory-rounds is .* give a whole number") for one in (-1, 1.5, "all", 2**31, True)),
    ],
)
def test_what_devices_cannot_do_is_told_by_the_server(changes: dict[str, Json], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        rule(**changes)


# ---- on its way ----------------------------------------------------------------------------------------------------

TABLES: dict[str, dict[str, Json]] = {
    "labels": {},
    "smoothed": {"coordinator": {"representation": "label-smoothed", "pseudo": 2.0, "detector": "threshold"}},
    "models": {"coordinator": {"representation": "soft-confusion+class-means", "detector": "bbsd", "alpha": 0.2}},
    "auto": {"coordinator": {"representation": "auto"}, "trace": {"gap": 3, "window": 7}},
    "errors": {"coordinator": {"detector": "error-rate", "least": 7}},
    "a method's own test": {"method": {"name": "flexcfl", "k": 2}},
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_rule_arrives_as_it_was(table: dict[str, Json]) -> None:
    record = device_record(config_from(table), classes=3, memory=5)

    arrived = rule_from(json.loads(json.dumps(record)))

    assert arrived == rule_from(record)
    assert (arrived.n_classes, arrived.memory_rounds) == (3, 5)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": None},
        {"classes": 0},
        {"max_rounds": 1.5},
        {"gap": 0},
        {"describing": []},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_rule_of_another_release_is_refused_in_one_line(change: dict[str, Json]) -> None:
    record = device_record(config_from({}), classes=3) | change

    with pytest.raises(
        InputError, match=r"^what to observe is not as it should be: [^\n]*; use the same release"
    ) as told:
        rule_from(record)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("describing", [{}, {"representation": "dreams"}], ids=str)
def test_a_description_that_this_release_does_not_know_is_refused(describing: dict[str, Json]) -> None:
    usual = device_record(config_from({}), classes=3)
    known = usual["describing"]
    assert isinstance(known, dict)

    with pytest.raises(InputError):
        rule_from(usual | {"describing": {**known, **describing} if describing else {}})
