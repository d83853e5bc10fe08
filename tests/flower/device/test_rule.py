import pytest

from fielding._typing import Json
from fielding.client.drift import AnyChange, Chi2, Periodic
from fielding.client.drift.sample_tests import BySamples
from fielding.client.drift.two_sample import ClassShift
from fielding.client.representation.embedding import ClassMeans
from fielding.client.representation.label import LabelShares, SmoothedLabelShares
from fielding.errors import OptionError
from fielding.flower.device.rule import rule_from


def test_devices_watch_label_shares_by_chi2_for_100_rounds_by_default() -> None:
    rule = rule_from({"classes": 10})

    assert (rule.n_classes, rule.max_rounds, rule.drift_test, rule.representation) == (10, 100, Chi2(), None)


def test_a_window_shows_as_many_intervals_as_in_the_simulator() -> None:
    rule = rule_from({"classes": 2, "trace.window": 100, "trace.gap": 30})

    assert rule.max_rounds == 120


def test_a_test_that_goes_by_the_clock_is_asked_when_the_simulator_asks_it_and_when_samples_come() -> None:
    clock: dict[str, Json] = {"classes": 2, "trace.window": 5, "trace.gap": 2, "coordinator.detector": "always"}

    assert [rule_from(clock).is_asked(now, 0) for now in range(4)] == [False, True, False, True]
    assert rule_from(clock).is_asked(0, 1)
    assert rule_from({**clock, "coordinator.detector": "any-change"}).is_asked(0, 0)


def test_options_of_test_and_representation_stand_beside_the_keys_of_others() -> None:
    rule = rule_from(
        {
            "classes": 2,
            "coordinator.detector": "periodic",
            "coordinator.rounds": 3,
            "coordinator.representation": "label-smoothed",
            "coordinator.pseudo": 2.0,
            "coordinator.tau": 0.5,
            "rounds": 7,
            "not.coordinator.rounds": 9,
        }
    )

    assert rule.drift_test == Periodic(rounds=3)
    assert rule.representation == SmoothedLabelShares(pseudo=2.0)


def test_windows_are_seen_with_a_model_where_labels_are_not_enough() -> None:
    rule = rule_from({"classes": 2, "seed": 5, "coordinator.representation": "class-means"})
    by_errors = rule_from({"classes": 2, "coordinator.detector": "error-rate"})

    assert (rule.representation, rule.needs_model, rule.needs_errors) == (ClassMeans(seed=5), True, False)
    assert rule.judge == BySamples(test=ClassShift())
    assert (by_errors.representation, by_errors.needs_model, by_errors.needs_errors) == (LabelShares(), False, True)
    assert rule == rule_from({"classes": 2, "seed": 5, "coordinator.representation": "class-means"})


def test_what_is_kept_aside_follows_from_the_representation_unless_it_is_said() -> None:
    auto: dict[str, Json] = {"classes": 2, "coordinator.representation": "auto"}

    assert [rule_from(one).kept_aside for one in (auto, {**auto, "trace.kept_aside": 0.3}, {"classes": 2})] == [
        0.1,
        0.3,
        0.0,
    ]
    assert rule_from({"classes": 2, "method.name": "flexcfl", "trace.kept_aside": 0.2}).kept_aside == 0.2
    with pytest.raises(OptionError, match=r"trace\.kept_aside"):
        rule_from({"classes": 2, "trace.kept_aside": 0.9})


def test_with_vectors_of_ones_own_labels_say_when_to_report() -> None:
    rule = rule_from({"classes": 2, "own-vectors": True, "coordinator.detector": "any-change"})

    assert (rule.drift_test, rule.representation, rule.judge) == (AnyChange(), None, None)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "classes is None; give a whole number"),
        ({"classes": "10"}, "classes is '10'"),
        ({"classes": 2, "trace.window": 0}, "trace.window is 0"),
        (
            {"classes": 2, "coordinator.detector": "ks", "own-vectors": True},
            "with own-vectors drift is judged by labels",
        ),
        ({"classes": 2, "coordinator.representation": "embeding"}, "unknown representation 'embeding'; did you mean"),
        ({"classes": 2, "coordinator.representation": "embedding", "coordinator.detector": "chi2"}, "label counts"),
        ({"classes": 2, "coordinator.tau": 0.5, "coordinator.nothing": 1}, "unknown key coordinator.nothing"),
        ({"classes": 2, "coordinator.alpha": 7.0}, "alpha"),
    ],
)
def test_what_devices_cannot_do_is_told(config: dict[str, Json], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        rule_from(config)
