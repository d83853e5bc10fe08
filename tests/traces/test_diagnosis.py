import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fielding._typing import Json
from fielding.traces.diagnosis import DriftDiagnosis, answer_drift, diagnose_drift, judge_grouping
from fielding.traces.statistics import describe_trace
from fielding.traces.trace import Trace
from tests.traces.dealt_traces import INTERVAL, dealt_trace


def kinds_of(trace: Trace) -> DriftDiagnosis:
    return diagnose_drift(trace, describe_trace(trace, INTERVAL))


def seen(kinds: DriftDiagnosis) -> tuple[set[str], set[str]]:
    """Return what surely changes over time, and what surely differs between clients."""
    return (
        {kind for kind, found in kinds.over_time.items() if found.is_sure},
        {kind for kind, found in kinds.between_clients.items() if found.is_sure},
    )


@cache
def _found_in(name: str, options: str, seed: int) -> DriftDiagnosis:
    return kinds_of(dealt_trace(name, json.loads(options), seed=seed))


def found_in(name: str, options: dict[str, Json] | None = None, seed: int = 1) -> DriftDiagnosis:
    """Return what is found in a scenario; it is looked at once."""
    return _found_in(name, json.dumps(options or {}), seed)


CASES: dict[str, tuple[dict[str, Json], set[str], set[str]]] = {
    "static": ({}, set(), {"labels"}),
    "dirichlet": ({}, {"labels"}, {"labels"}),
    "covariate": ({}, {"inputs"}, {"inputs"}),
    "concept-swap": ({"concepts": 2, "swaps": 2}, {"meanings"}, {"meanings"}),
    "places": ({}, {"labels", "inputs"}, {"labels", "inputs"}),
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_what_a_scenario_lets_drift_is_found_and_nothing_else(name: str, seed: int) -> None:
    options, over_time, between = CASES[name]

    assert seen(found_in(name, options, seed)) == (over_time, between)


def test_label_mixes_that_clients_keep_hide_neither_inputs_nor_meanings() -> None:
    covariate = kinds_of(dealt_trace("covariate", {"alpha": 0.5}))
    swap = kinds_of(dealt_trace("concept-swap", {"alpha": 1.0, "concepts": 2, "swaps": 3}))

    assert seen(covariate) == ({"inputs"}, {"labels", "inputs"})
    assert "meanings" in seen(swap)[1]
    assert not {"inputs"} & (seen(swap)[0] | seen(swap)[1])


def test_all_three_at_once_are_told_as_more_than_labels() -> None:
    kinds = kinds_of(dealt_trace("mixed", {"share": 0.3, "alpha": 2.0}))

    assert {"labels", "inputs"} <= seen(kinds)[0]
    assert 'coordinator.representation = "' in kinds.advice
    assert 'serving.correction = "prior"' in kinds.advice


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("dirichlet", {}, 'only label mixes differ: serving.correction = "prior" with method "global"'),
        ("covariate", {}, 'inputs differ, which no correction mends: method "fielding", coordinator.representation'),
        ("concept-swap", {"concepts": 2, "swaps": 2}, 'representation = "confusion"'),
        ("covariate", {"concepts": 1}, 'nothing differs beyond sampling noise: method "global"'),
    ],
)
def test_advice_follows_from_what_was_found(name: str, options: dict[str, Json], words: str) -> None:
    assert words in found_in(name, options).advice


@pytest.mark.parametrize("n_orders", [4, pytest.param(12, marks=pytest.mark.slow)])
def test_without_differences_nothing_is_hardly_ever_found(n_orders: int) -> None:
    trace, rng = dealt_trace("covariate", {"concepts": 1}, n_clients=20, n_intervals=6), np.random.default_rng(3)
    assert trace.x is not None
    alarms = 0
    for _ in range(n_orders):
        order = rng.permutation(trace.n_rows)
        found = seen(kinds_of(replace(trace, x=trace.x[order], y=trace.y[order])))
        alarms += len(found[0]) + len(found[1])

    assert alarms <= n_orders // 4, "of six findings for each"


def test_equal_traces_give_equal_findings() -> None:
    assert kinds_of(dealt_trace("places", seed=1)) == found_in("places")


def test_every_pair_that_is_compared_is_told_of() -> None:
    trace, told = dealt_trace("static", n_clients=6), list[int]()

    kinds = diagnose_drift(trace, describe_trace(trace, INTERVAL), on_pair=told.append)

    assert set(told) == {1}
    assert len(told) == 6 * 7 + 3 * 8 + 6 * 4
    assert kinds.n_compared > kinds.n_trained > 0
    assert kinds.accuracy is not None
    assert kinds.accuracy > 0.8


# ---- what labels mean, where the probe errs alike everywhere ------------------------------------------------------


def measured(kind: str, seed: int, *, n_clients: int = 24, n_intervals: int = 10) -> Trace:
    """Return measurements and one of three classes, by rules that hold for all (or not: ``"swap"``)."""
    rng, n_rows = np.random.default_rng(seed), n_clients * n_intervals * 22
    client, interval = np.repeat(np.arange(n_clients), n_intervals * 22), np.arange(n_rows) // 22 % n_intervals
    if kind in ("labels", "label drift"):  # other mixes of the same classes, which are not linear
        drifts = n_intervals if kind == "label drift" else 1
        mix = rng.dirichlet([1.0] * 3, size=(n_clients, drifts)).cumsum(axis=2)
        y = (rng.random(n_rows)[:, None] > mix[client, interval % drifts]).sum(axis=1).clip(0, 2)
        x = 1.2 * rng.normal(size=(3, 2, 5))[y, rng.integers(2, size=n_rows)] + rng.normal(size=(n_rows, 5))
    else:
        rules, x = rng.normal(size=(2, 5, 3)), rng.normal(size=(n_rows, 5))
        rules[1, 0] = -rules[0, 0]
        group = (client % 2) ^ ((interval >= n_intervals // 2) & (client % 4 >= 2)) if kind == "swap" else 0 * client
        y = (np.einsum("nd,ndc->nc", x, rules[group]) + rng.gumbel(size=(n_rows, 3))).argmax(axis=1)
    return Trace(
        client_ids=tuple(range(n_clients)),
        client=client.astype(np.int32),
        time=interval.astype(np.float64),
        y=y.astype(np.int32),
        classes=("a", "b", "c"),
        x=x.astype(np.float32),
    )


def kinds_by_second(trace: Trace) -> DriftDiagnosis:
    return diagnose_drift(trace, describe_trace(trace, "1s"))


@pytest.mark.parametrize(
    ("kind", "over_time", "between"),
    [("static", set(), set()), ("labels", set(), {"labels"}), ("label drift", {"labels"}, {"labels"})],
)
@pytest.mark.parametrize("n_seeds", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_what_holds_for_all_gives_hardly_ever_an_alarm(
    n_seeds: int, kind: str, over_time: set[str], between: set[str]
) -> None:
    found = [seen(kinds_by_second(measured(kind, seed))) for seed in range(n_seeds)]

    alarms = sum(len(over - over_time) + len(apart - between) for over, apart in found)
    assert alarms == 0, "of 60 answers or more of ten seeds; over 30 there was none either"
    assert all(over_time <= over and between <= apart for over, apart in found)


@pytest.mark.parametrize("n_seeds", [5, pytest.param(10, marks=pytest.mark.slow)])
def test_a_rule_that_differs_and_is_swapped_once_is_seen_though_the_probe_errs_alike(n_seeds: int) -> None:
    found = [seen(kinds_by_second(measured("swap", seed))) for seed in range(n_seeds)]

    assert sum("meanings" in apart for _, apart in found) >= 0.8 * n_seeds
    assert sum("meanings" in over for over, _ in found) >= 0.6 * n_seeds


def test_a_probe_without_skill_does_not_say_no() -> None:
    trace = measured("static", 1)
    noise = replace(trace, y=np.random.default_rng(1).permutation(trace.y))

    kinds = kinds_by_second(noise)

    assert "the probe is too weak" in kinds.between_clients["meanings"].verdict
    assert judge_grouping(kinds.between_clients).endswith("ask `fielding recommend`")
    assert answer_drift(describe_trace(noise, "1s"), kinds.over_time).startswith("not in labels, beyond that it cannot")


# ---- what cannot be told ---------------------------------------------------------------------------------------


def test_without_features_labels_alone_are_judged_and_that_is_said() -> None:
    kinds = kinds_of(replace(dealt_trace("dirichlet"), x=None))

    assert seen(kinds) == ({"labels"}, {"labels"})
    assert kinds.over_time["inputs"].verdict == "cannot be told without features: there are labels alone"
    assert kinds.advice.endswith("Whether inputs or meanings differ, labels alone cannot tell")
    assert (kinds.n_trained, kinds.n_compared, kinds.accuracy) == (0, 0, None)


def test_rows_that_stand_for_several_samples_have_labels_alone() -> None:
    trace = dealt_trace("dirichlet")

    kinds = kinds_of(replace(trace, count=np.full(trace.n_rows, 2)))

    assert kinds.between_clients["meanings"].is_open
    assert kinds.between_clients["labels"].is_sure


def test_too_little_is_no_finding() -> None:
    trace = dealt_trace("places", n_clients=1, n_intervals=2)

    kinds = kinds_of(trace)

    assert seen(kinds) == (set(), set())
    assert kinds.advice.startswith("too little to tell")


def test_one_interval_still_tells_clients_apart() -> None:
    trace = dealt_trace("places", n_clients=60, n_intervals=2)

    kinds = diagnose_drift(trace, describe_trace(trace, "1d"))

    assert seen(kinds) == (set(), {"labels", "inputs"})
    assert all(found.is_open for found in kinds.over_time.values())


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_features_that_say_nothing_are_no_reason_to_fail(value: float) -> None:
    trace = dealt_trace("dirichlet")

    kinds = kinds_of(replace(trace, x=np.full((trace.n_rows, 3), value)))

    assert kinds.over_time["labels"].is_sure
    assert kinds.over_time["inputs"].is_open


def test_features_of_whole_numbers_with_gaps_and_one_class_are_looked_at() -> None:
    trace = dealt_trace("covariate")
    assert trace.x is not None
    x = trace.x.copy()
    x[::7, 0] = np.nan

    holes = kinds_of(replace(trace, x=x))
    images = kinds_of(replace(trace, x=np.clip(trace.x * 20 + 128, 0, 255).astype(np.uint8).reshape(-1, 5, 2)))
    single = kinds_of(replace(trace, y=np.zeros_like(trace.y), classes=("all",)))

    for kinds in (holes, images, single):
        assert "inputs" in seen(kinds)[1]
        assert "meanings" not in seen(kinds)[0] | seen(kinds)[1]
