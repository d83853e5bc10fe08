"""The plug-ins that a config names: made with their options, and mistakes told with their section."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json
from fielding.client.drift import Threshold
from fielding.client.report_rule import ReportRule
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import LearnedTau, Pairwise
from fielding.distance import Kind
from fielding.engine.plugins import kind_of, local_rule, parts_of, policy_of
from fielding.engine.report_rule import report_rule_of
from fielding.errors import OptionError
from fielding.federation.aggregation.robust import TrimmedMean
from fielding.federation.pace.restarts import Restarts
from fielding.methods import METHODS, Parts
from fielding.reporting.formatting import run_table
from fielding.simulation.assembly import lie_of, spoiling_of
from fielding.simulation.experiment import run
from fielding.traces.schedule import sort_schedule

SCHEDULE = sort_schedule(tuple(range(20)), 1, columns=([0], [0], [0], [0], [0]))


def config_of(**sections: Json) -> Config:
    return config_from(dict(sections))


@pytest.mark.parametrize(("sign", "prox"), [("toward", 0.2), ("fedscale", -0.2)])
def test_the_sign_of_fedprox_is_named(sign: str, prox: float) -> None:
    assert local_rule(config_of(training={"prox": 0.2, "prox_sign": sign})).prox == prox


def test_the_letter_of_the_pairwise_trigger_is_named() -> None:
    config = config_of(coordinator={"trigger": "pairwise", "delta_rule": "min", "delta_step": 0.2})

    assert policy_of(config, kind="histogram", metric="l1").trigger == Pairwise(step=0.2, rule="min")


def test_parts_are_what_the_config_says() -> None:
    config = config_of(
        seed=9,
        training={"participants": 12, "weighted": True, "strict_budget": True, "local_steps": 7},
        aggregation={"name": "trimmed-mean", "share": 0.1},
        pace={"name": "master-fl", "longest": 8},
        selection={"name": "oort"},
    )

    parts = parts_of(config, 20, Policy())

    assert (parts.participants, parts.n_steps, parts.weighted, parts.strict_budget) == (12, 7, True, True)
    assert parts.aggregator == TrimmedMean(share=0.1)
    assert parts.pace == Restarts(longest=8, seed=9), "a pace that draws lots gets the seed of the run"
    assert parts.selection.looks_at_members


def test_the_learning_rate_falls_as_the_config_says() -> None:
    training: Json = {"learning_rate": 0.8, "lr_decay": 0.5, "lr_every": 2, "lr_floor": 0.3}
    rate = local_rule(config_of(training=training)).rate

    assert [rate.at(round_index) for round_index in range(5)] == [0.8, 0.8, 0.4, 0.4, 0.3]


def described(config: Config) -> ReportRule:
    return report_rule_of(config.coordinator, is_own=False, seed=config.seed)


def labels_policy(config: Config) -> Policy:
    return policy_of(config, kind="histogram", metric="l1")


def parts(config: Config) -> Parts:
    return parts_of(config, 3, Policy())


WRONG: list[tuple[str, dict[str, Json], Callable[[Config], object]]] = [
    ("aggregation: share is 0.7", {"aggregation": {"name": "trimmed-mean", "share": 0.7}}, parts),
    ("pace: longest is 3", {"pace": {"name": "master-fl", "longest": 3}}, parts),
    ("selection: penalty is -1", {"selection": {"name": "oort", "penalty": -1}}, parts),
    ("method: ", {"method": {"name": "tests.methods.own:Quiet", "pase": 3}}, kind_of),
    ("method.name: ", {"method": {"name": "nothing:"}}, kind_of),
    ("trace: ", {"trace": {"liars": 0.1, "lie": "permut"}}, lambda config: lie_of(config, is_histogram=True)),
    (
        "trace: ",
        {"trace": {"liars": 0.1, "spoil": "scaled"}},
        lambda config: spoiling_of(config, SCHEDULE),
    ),
    (
        "coordinator: ",
        {"coordinator": {"detector": "threshold", "eps": -1.0}},
        described,
    ),
    ("coordinator.tau: ", {"coordinator": {"tau": "a third"}}, labels_policy),
]


@pytest.mark.parametrize(("words", "table", "make"), WRONG, ids=[words for words, _, _ in WRONG])
def test_a_mistake_is_told_with_its_section_in_one_line(
    words: str, table: dict[str, Json], make: Callable[[Config], object]
) -> None:
    with pytest.raises(OptionError) as caught:
        make(config_of(**table))

    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_an_option_that_no_drift_test_has_is_named_with_the_nearest_key() -> None:
    with pytest.raises(OptionError, match=r"coordinator\.epz.*coordinator\.eps"):
        described(config_of(coordinator={"detector": "threshold", "epz": 0.1}))


def test_a_drift_test_is_made_with_its_options() -> None:
    config = config_of(coordinator={"detector": "threshold", "eps": 0.25})

    assert described(config).drift_test() == Threshold(eps=0.25)


def test_nobody_lies_unless_there_are_liars() -> None:
    honest, liars = config_of(), config_of(trace={"liars": 0.25, "lie": "flip-flop", "spoil": "nan"}, seed=3)

    lie, spoiling = lie_of(liars, is_histogram=True), spoiling_of(liars, SCHEDULE)

    assert lie_of(honest, is_histogram=True) is None
    assert spoiling_of(honest, SCHEDULE) is None
    assert lie is not None
    assert (lie.kind, lie.share) == ("flip-flop", 0.25)
    assert spoiling is not None
    assert (spoiling.kind, int(spoiling.attackers.sum())) == ("nan", 5)


def test_liars_that_spoil_nothing_send_what_they_trained() -> None:
    assert spoiling_of(config_of(trace={"liars": 0.25}), SCHEDULE) is None


def test_a_method_is_known_by_its_name() -> None:
    assert kind_of(config_of(method={"name": "ifca"})) is METHODS["ifca"]


@pytest.mark.parametrize(("participants", "k_max", "wanted"), [(3, 8, 1), (8, 8, 2), (100, 8, 8), (100, 3, 3)])
def test_there_are_four_participants_for_each_cluster(participants: int, k_max: int, wanted: int) -> None:
    config = config_of(training={"participants": participants}, coordinator={"k_max": k_max})

    assert labels_policy(config).clusterer.k_max == wanted


@pytest.mark.parametrize("kind", ["histogram", "vector"])
def test_a_policy_knows_what_reports_are(kind: Kind) -> None:
    policy = policy_of(config_of(seed=4), kind=kind, metric="l2")

    assert (policy.kind, policy.metric, policy.seed) == (kind, "l2", 4)


@pytest.mark.parametrize(("choice", "k_min"), [("silhouette", 2), ("finest", 6)])
def test_the_finest_number_of_clusters_is_the_largest(choice: str, k_min: int) -> None:
    config = config_of(training={"participants": 12}, coordinator={"k_choice": choice, "participants_per_cluster": 2})

    clusterer = labels_policy(config).clusterer

    assert (clusterer.k_min, clusterer.k_max) == (k_min, 6)


def test_tau_may_be_learned_but_of_center_shifts_alone() -> None:
    learned = labels_policy(config_of(coordinator={"tau": "learned"}))

    assert isinstance(learned.trigger, LearnedTau)
    with pytest.raises(OptionError, match=r"coordinator\.tau"):
        labels_policy(config_of(coordinator={"tau": "learned", "trigger": "pairwise"}))


@pytest.mark.parametrize(("tau", "value"), [("1/3", 1 / 3), (0.25, 0.25), ("inf", np.inf)])
def test_tau_may_be_a_fraction_in_words(tau: Json, value: float) -> None:
    policy = labels_policy(config_of(coordinator={"tau": tau}))

    assert getattr(policy.trigger, "tau") == pytest.approx(value)  # noqa: B009


def test_mistakes_are_told_also_where_nobody_would_notice() -> None:
    small: dict[str, Any] = {"rounds": 1, "trace": {"clients": 4, "gap": 2, "window": 2}}
    unheard = {**small, "trace": {**small["trace"], "liars": 0.5, "lie": "nonsense"}, "method": {"name": "global"}}
    untested = {**small, "coordinator": {"detector": "periodic", "alpha": 0.5}, "method": {"name": "static"}}
    untempered = {**small, "training": {"moon_temperature": 0.1}}

    for table, key in ((unheard, "nonsense"), (untested, "alpha"), (untempered, "moon_temperature")):
        with pytest.raises(OptionError, match=key):
            run(table)


def test_flags_are_not_kept_for_replays(tmp_path: Path) -> None:
    small: dict[str, Any] = {"rounds": 3, "trace": {"clients": 6, "gap": 1, "window": 1}}

    for name in ("flexcfl", "fielding"):
        run({**small, "method": {"name": name}}, tmp_path / name, page=False)

    assert not list((tmp_path / "flexcfl" / "reports").glob("*"))
    assert list((tmp_path / "fielding" / "reports").glob("*"))


def test_which_reports_tell_of_drift_is_known_where_a_coordinator_hears_them() -> None:
    small: dict[str, Any] = {"rounds": 3, "trace": {"clients": 6, "gap": 1, "window": 1}}
    heard, flagged = (run({**small, "method": {"name": name}}).summary or {} for name in ("fielding", "flexcfl"))

    assert heard["n_first_reports"] == 6
    assert flagged["n_reports"]
    assert flagged["n_first_reports"] is None
    assert not any("drift" in row[0] for row in run_table(flagged))
