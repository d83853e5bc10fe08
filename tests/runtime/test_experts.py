"""What clients keep of their experts between rounds: its size, what it costs, and what grows with the classes."""

import numpy as np

from fielding.runtime.experts import ServedExperts
from fielding.runtime.serve import Serving
from fielding.serving.experts import N_WAVES
from tests.runtime.serving_cases import EVERYONE, labelled, model, serving_runtime

BELIEVING = Serving(correction="prior", smoothing=1.0, experts=("served", "corrected", "residual", "local"))


def believing(n_intervals: int = 4) -> ServedExperts:
    """Return the experts of three clients whose windows slid once."""
    runtime = serving_runtime(labelled(n_intervals, n_visible=2), BELIEVING)
    runtime.serve(model(0.5), EVERYONE)
    runtime.begin(1)
    assert runtime.experts is not None
    return runtime.experts


def test_a_window_that_is_empty_costs_nothing() -> None:
    passes = believing().count_passes(np.array([0, 1, 8]))

    assert passes[0] == 0
    assert 0 < passes[1] < passes[2]


def test_what_a_device_keeps_of_its_experts_is_under_2_mb_also_with_a_hundred_classes() -> None:
    kept = believing().own_arrays()
    n_classes = kept["expert_past"].shape[1] - 2 * N_WAVES

    assert kept["expert_past"].any()
    # Sums, whatever the window: a column more for every class.
    assert sum(one.nbytes for one in kept.values()) + (100 - n_classes) * 2 * N_WAVES * 4 < 2_000_000


def test_what_is_kept_of_samples_that_are_gone_stays_when_classes_are_added() -> None:
    experts = believing()
    kept = experts.own_arrays()
    past = np.asarray(kept["expert_past"])
    fewer = {**kept, "expert_past": past[:, :-1]}
    later = believing()

    later.know(experts.heard, fewer)

    found = np.asarray(later.own_arrays()["expert_past"])
    np.testing.assert_array_equal(found[:, :-1], past[:, :-1])
    assert not found[:, -1].any(), "nothing is known of the new class"
    later.know(experts.heard, {**kept, "expert_past": past[:, : 2 * N_WAVES]})
    np.testing.assert_array_equal(later.own_arrays()["expert_past"], found)
