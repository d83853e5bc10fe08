from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Json
from fielding.traces.diagnosis import DriftDiagnosis, diagnose_drift
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


CASES: dict[str, tuple[dict[str, Json], set[str], set[str]]] = {
    "static": ({}, set(), {"labels"}),
    "dirichlet": ({}, {"labels"}, {"labels"}),
    "covariate": ({}, {"inputs"}, {"inputs"}),
    "concept-swap": ({"concepts": 2, "swaps": 2}, {"meanings"}, {"meanings"}),
    "places": ({}, {"labels", "inputs"}, {"labels", "inputs"}),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_a_scenario_lets_drift_is_found_and_nothing_else(name: str, seed: int) -> None:
    options, over_time, between = CASES[name]

    assert seen(kinds_of(dealt_trace(name, options, seed=seed))) == (over_time, between)


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
    assert words in kinds_of(dealt_trace(name, options)).advice


def test_without_differences_nothing_is_hardly_ever_found() -> None:
    trace, rng = dealt_trace("covariate", {"concepts": 1}, n_clients=20, n_intervals=6), np.random.default_rng(3)
    assert trace.x is not None
    alarms = 0
    for _ in range(12):
        order = rng.permutation(trace.n_rows)
        found = seen(kinds_of(replace(trace, x=trace.x[order], y=trace.y[order])))
        alarms += len(found[0]) + len(found[1])

    assert alarms <= 2, "of 72 findings"


def test_equal_traces_give_equal_findings() -> None:
    assert kinds_of(dealt_trace("places")) == kinds_of(dealt_trace("places"))


def test_every_pair_that_is_compared_is_told_of() -> None:
    trace, told = dealt_trace("static", n_clients=6), list[int]()

    kinds = diagnose_drift(trace, describe_trace(trace, INTERVAL), on_pair=told.append)

    assert set(told) == {1}
    assert len(told) == 6 * 7 + 3 * 8
    assert kinds.n_compared > kinds.n_trained > 0
    assert kinds.accuracy is not None
    assert kinds.accuracy > 0.8


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
