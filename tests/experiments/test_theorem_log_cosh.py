from dataclasses import replace

import numpy as np
import pytest

from experiments.theorem.log_cosh import LogCosh, along, example, example_rows, examples
from experiments.theorem.settings import Setting


def test_log_cosh_meets_the_assumptions_of_the_paper_far_out_as_well() -> None:
    objective = LogCosh(convexity=0.2, pull=0.8)
    models = np.concatenate([np.linspace(-5.0, 5.0, 501), [-1e4, -100.0, 100.0, 1e4]])
    left, right = np.meshgrid(models, models)
    apart = left != right
    for place in (-1.0, 0.0, 3.9):
        at = np.full_like(left, place)
        growth = (objective.slopes(left, at) - objective.slopes(right, at))[apart] / (left - right)[apart]
        assert growth.min() >= 0.2 - 1e-12  # strongly convex
        assert growth.max() <= 1.0 + 1e-12  # smooth
        at = np.full_like(models, place)
        gaps = objective.values(models, at) - objective.values(objective.minimizers(at), at)
        assert (objective.slopes(models, at) ** 2 >= 0.4 * gaps - 1e-9).all()  # Polyak-Lojasiewicz
        raised = objective.values(models, at) + 0.1  # mu / 2 more: met by f itself as well, as the paper misprints it
        assert (raised**2 >= 0.4 * gaps).all()
        ratios = np.abs(objective.values(models, at) - objective.values(models, at + 0.1)) / 0.1
        assert ratios.max() == pytest.approx(0.8, abs=1e-6)  # theta is b, and no less would do


def test_the_slope_of_log_cosh_is_its_derivative_and_vanishes_at_the_minimizer() -> None:
    objective = LogCosh(convexity=0.2, pull=0.8)
    models, places = np.array([-2.0, 0.3, 5.0]), np.array([1.0, 0.3, -2.0])

    difference = objective.values(models + 1e-6, places) - objective.values(models - 1e-6, places)
    np.testing.assert_allclose(objective.slopes(models, places), difference / 2e-6, atol=1e-8)
    np.testing.assert_allclose(objective.slopes(objective.minimizers(places), places), 0.0, atol=1e-15)


def test_the_first_gap_makes_the_printed_bound_false_two_clients_have_regret_where_it_is_0() -> None:
    one = examples()[0]

    assert (one.printed == 0.0).all()
    assert (one.regrets[:20] > 0.0).all()
    assert one.regrets[0] == pytest.approx(0.1250, abs=5e-5)
    assert one.corrected[0] == pytest.approx(0.2416, abs=5e-5)
    assert one.holds


def test_the_drift_makes_the_printed_bound_false_by_a_factor_that_grows_as_the_step_shrinks() -> None:
    small, smaller = examples()[1:3]

    assert small.worst == 39
    np.testing.assert_allclose(small.printed, 0.005881, atol=5e-7)  # 1/40 * 3 * 0.8 * 0.1 * 0.998^10
    assert small.regrets[39] / small.printed[39] == pytest.approx(52.0, abs=0.05)
    assert smaller.regrets[49] / smaller.printed[49] == pytest.approx(897.0, abs=0.5)
    assert small.regrets[0] == small.corrected[0] == 0.0  # it starts at its best
    assert small.holds
    assert smaller.holds
    assert not replace(small, corrected=small.corrected / 20.0).holds


def test_a_counterexample_in_other_units_is_the_same_run_and_the_printed_bound_does_not_follow() -> None:
    kept, large = examples()[3:]

    np.testing.assert_allclose(large.regrets, 1000.0 * kept.regrets, atol=1e-9)
    np.testing.assert_allclose(large.corrected, 1000.0 * kept.corrected)
    np.testing.assert_allclose(large.printed, kept.printed)
    assert (kept.regrets <= kept.printed).all()
    assert (large.regrets > large.printed).any()


def test_a_counterexample_takes_gradient_steps_on_the_objective_of_the_event() -> None:
    setting = Setting(
        n_events=2, n_rounds=1, eta_l=0.5, drift=1.0, spread=0.0, sigma=0.0, per_cluster=1, curvatures=(0.2, 1.0)
    )
    objective = LogCosh(convexity=0.2, pull=0.8)

    found = example(setting, along(setting))

    there = np.array([0.4 * np.tanh(1.0)])  # from 0: -eta f' = 0.5 * 0.8 tanh 1
    place = np.array([1.0])
    best = objective.minimizers(place)
    gap = objective.values(there, place) - objective.values(best, place)
    np.testing.assert_allclose(found.regrets, [0.0, gap[0]])
    np.testing.assert_allclose(found.corrected, [0.0, 2 * 0.8 * 0.9])
    np.testing.assert_allclose(found.printed, 1.25 * 3 * 0.8 * 0.9)
    assert example_rows([found])[1][1] == "1"  # where regret comes nearest to the bound
