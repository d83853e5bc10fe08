from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.theorem import __main__ as program
from experiments.theorem.bounds import corrected, first_gap, printed
from experiments.theorem.clustered_sgd import events, k_center, sampled, too_wide, trained, trajectory
from experiments.theorem.log_cosh import examples
from experiments.theorem.outcomes import (
    Beside,
    beside,
    check_rows,
    least_factor,
    mean_over_clients,
    outcome,
    worst_cluster,
)
from experiments.theorem.quadratics import Check, Quadratics, checks, quadratics
from experiments.theorem.settings import QUIET, SWEEPS, Setting, quick_settings, settings
from fielding.coordinator.clustering import KCenter
from fielding.distance import metric_named
from fielding.reporting.numbers.paired import estimate
from fielding.rng import stream

SHORT = Setting(n_events=12, n_rounds=3, drift=0.4)
SEEDS = range(1, 6)


def regret(setting: Setting) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return mean_over_clients(trajectory(quadratics(setting), setting, SEEDS))


def test_the_quick_form_runs_and_says_that_the_corrected_bound_holds_and_the_printed_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = program.main(["--quick", "--seeds", "5", "--out", str(tmp_path)])

    said = capsys.readouterr().out
    assert code == 0
    assert "The corrected bound holds at every event in 5 of 5 settings." in said
    assert "The printed bound is violated in 2: eta L = 0.01; quiet, scale = 10." in said
    assert "The corrected bound holds at every event in 5 of 5 examples." in said
    assert "BROKEN" not in said
    assert (tmp_path / "theorem.md").read_text(encoding="utf-8").strip() == said.strip()
    assert len((tmp_path / "theorem.csv").read_text(encoding="utf-8").splitlines()) == 1 + len(quick_settings())


def test_a_single_seed_is_no_expectation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--quick", "--seeds", "1", "--out", str(tmp_path)])

    assert "at least 2" in capsys.readouterr().err


def test_a_bound_without_the_drift_is_violated_so_that_the_experiment_can_tell() -> None:
    problem = quadratics(QUIET)
    measured = regret(QUIET)

    assert beside(measured, corrected(problem, QUIET)).verdict == "kept"
    wrong = beside(measured, corrected(problem, QUIET, drift_factor=0.0))
    assert wrong.verdict == "VIOLATED"
    assert wrong.share > 5.0


def test_the_program_fails_when_the_corrected_bound_does() -> None:
    good = outcome(SHORT, SEEDS)
    bad = replace(good, corrected=replace(good.corrected, holds=False))
    broken = replace(good, checks=[Check(name="drift", measured=2.0, allowed=1.0)])

    assert program.sound([good])
    assert not program.sound([good, bad])
    assert not program.sound([good, broken])


def test_the_program_fails_when_the_corrected_bound_of_a_counterexample_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = examples()[0]
    monkeypatch.setattr(program, "examples", lambda: [replace(one, corrected=one.regrets / 2.0)])
    monkeypatch.setattr(program, "quick_settings", lambda: [SHORT])

    assert program.main(["--quick", "--seeds", "2", "--out", str(tmp_path)]) == 1


def test_the_least_factor_on_the_drift_term_is_the_one_at_which_the_bound_just_holds() -> None:
    problem, measured = quadratics(QUIET), regret(QUIET)
    least = outcome(QUIET, SEEDS).least_drift
    width = trajectory(problem, QUIET, SEEDS).widest

    assert 0.0 < least < 0.1  # the experiment hardly tests the constant of the drift term
    assert beside(measured, corrected(problem, QUIET, width=width, drift_factor=1.001 * least)).verdict == "kept"
    assert beside(measured, corrected(problem, QUIET, width=width, drift_factor=0.999 * least)).verdict != "kept"
    level = np.ones((2, 3))
    assert least_factor(level, without=np.full(3, 2.0), whole=np.full(3, 3.0)) == 0.0


def test_what_is_met_by_construction_is_called_so() -> None:
    lines = check_rows([outcome(SHORT, SEEDS)])

    assert [line[0] for line in lines if line[-1] == "by construction"] == [
        "largest eigenvalue <= L",
        "mu <= smallest eigenvalue",
        "step <= 1/L",
    ]


def test_in_other_units_the_corrected_bound_grows_with_the_regret_and_the_printed_one_does_not() -> None:
    large = replace(QUIET, scale=10.0)
    small_problem, large_problem = quadratics(QUIET), quadratics(large)

    np.testing.assert_allclose(regret(large), 10.0 * regret(QUIET))
    np.testing.assert_allclose(corrected(large_problem, large), 10.0 * corrected(small_problem, QUIET))
    assert printed(large_problem, large)[-1] < 2.0 * printed(small_problem, QUIET)[-1]


@pytest.mark.parametrize(
    "setting",
    [
        Setting(drift=0.4),
        Setting(drift=0.02, spread=0.8),
        Setting(drift=0.0, eta_l=1.0),
        Setting(scale=1000.0, start="away"),
        Setting(sigma=4.0),
        QUIET,
    ],
    ids=lambda one: f"delta {one.drift}, Delta {one.spread}, scale {one.scale}, sigma {one.sigma}",
)
def test_the_settings_meet_the_assumptions_on_objectives_and_drift(setting: Setting) -> None:
    found = checks(quadratics(setting), setting)

    assert [check.name for check in found if not check.holds] == []


def test_a_theta_or_a_delta_that_is_too_small_is_noticed() -> None:
    problem = quadratics(SHORT)
    flat = replace(problem, theta=problem.theta / 2.0)

    assert "drift <= delta" in [one.name for one in checks(problem, replace(SHORT, drift=0.3)) if not one.holds]
    assert "objectives: difference / distance <= theta" in [one.name for one in checks(flat, SHORT) if not one.holds]


def test_two_objectives_differ_by_theta_times_their_distance_at_most_anywhere_in_the_box() -> None:
    problem = quadratics(replace(SHORT, start="away"))
    rng = stream(5, "test")
    models = rng.uniform(problem.low, problem.high, (200, 3))
    left, right = problem.minimizers[0, :40], problem.minimizers[-1, 20:]

    gaps = np.abs(problem.gaps(models[:, None], left) - problem.gaps(models[:, None], right))
    assert (gaps <= problem.theta * np.abs(left - right).sum(axis=1) + 1e-12).all()


def test_farthest_first_clusters_can_be_wider_than_delta_but_not_than_twice_it() -> None:
    line = np.array([[-1.6], [-0.7], [0.0], [1.0]])  # two groups of diameter 1: {-1.6, -0.7} and {0, 1}

    labels = KCenter().partitions(line, [2], metric=metric_named("l1"), rng=stream(0, "test"))[2]

    assert labels.tolist() == [1, 0, 0, 0]  # -0.7 and 1 together: 1.7
    assert 1.0 < np.ptp(line[labels == 0]) <= 2.0


def test_the_trigger_keeps_its_delta_and_fires_for_a_wide_pair_or_an_empty_cluster() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [5, 0, 0], [9, 0, 0]])
    together, alone = np.array([0, 0, 1, 2], dtype=np.int32), np.array([0, 0, 1, 1], dtype=np.int32)
    centers = np.zeros((3, 3))

    for _ in range(3):  # twice in a row would double an adaptive Delta
        assert too_wide(points, together, centers, 0.9)
    assert not too_wide(points, together, centers, 1.0)
    assert too_wide(points, alone, centers, 10.0)


def test_new_models_are_made_of_the_models_that_clients_bring() -> None:
    kept, moved = SHORT, replace(SHORT, order="moved")
    problem = quadratics(kept)

    trained_before, taken_up = events(problem, kept), events(problem, moved)

    assert sum(event.n_moved for event in trained_before) > 0
    assert any(event.reclustered for event in trained_before[1:])
    for event in taken_up:
        np.testing.assert_allclose(event.mixing.sum(axis=1), 1.0)
        if not event.reclustered:  # who moves takes up the model that it finds, which stays as it is
            np.testing.assert_array_equal(event.mixing, np.eye(3))
    assert any(not event.reclustered and (event.mixing != np.eye(3)).any() for event in trained_before)


def test_a_round_is_a_gradient_step_on_the_mean_of_those_who_were_drawn() -> None:
    setting = Setting(n_rounds=1, per_cluster=2, sigma=0.0, curvatures=(1.0, 1.0, 1.0), eta_l=0.5)
    at = np.array([[1.0, 0, 0], [1, 0, 0], [4, 4, 4], [8, 8, 8]])
    alone = np.array([0, 0, 1, 2], dtype=np.int32)
    problem = replace(quadratics(setting), hessian=np.ones(3))

    pulls = sampled(at, alone, setting, stream(1, "test"))
    models = trained(np.zeros((1, 3, 3)), pulls[None], problem, setting)

    np.testing.assert_allclose(models[0], [[0.5, 0.0, 0.0], [2.0, 2.0, 2.0], [4.0, 4.0, 4.0]])


def test_the_regret_is_measured_against_the_best_model_of_each_cluster() -> None:
    problem = quadratics(SHORT)
    run = trajectory(problem, SHORT, SEEDS)

    assert run.regrets.shape == (5, 12, 3)
    np.testing.assert_allclose(run.sizes.sum(axis=1), 60.0)
    assert (worst_cluster(run).mean(axis=0) >= mean_over_clients(run).mean(axis=0)).all()
    assert run.widest <= 2.0 * SHORT.spread


def test_the_first_gap_is_that_of_the_clusters() -> None:
    problem = quadratics(SHORT)

    single = float(problem.gaps(problem.start, problem.minimizers[0].mean(axis=0)))
    assert single == pytest.approx(0.0)  # x_0 is the best single model
    membership = k_center(problem.minimizers[0])
    own = np.stack([problem.minimizers[0][membership == membership[i]].mean(axis=0) for i in range(60)])
    assert first_gap(problem, SHORT) == pytest.approx(problem.gaps(problem.start, own).mean())


def test_the_bounds_equal_a_hand_computation() -> None:
    setting = Setting(n_events=2, n_rounds=1, eta_l=0.5, curvatures=(1.0, 1.0, 1.0), sigma=1.0, per_cluster=2)
    at = np.zeros((2, 60, 3))
    at[:, :20, 0], at[:, 20:40, 0] = 3.0, -3.0
    problem = Quadratics(
        hessian=np.ones(3),
        minimizers=at,
        groups=np.zeros((2, 60), dtype=np.int32),
        start=np.zeros(3),
        low=np.full(3, -3.0),
        high=np.full(3, 3.0),
        theta=10.0,
    )
    # q = 1/2; first gap (4.5 + 4.5 + 0) / 3 = 3; an event adds 2 * 10 * (0.4 + 0.1) = 10; D = 0.4:
    # noise 1/4 * (1 + 8 * 10 * 0.4) / 2 = 4.125
    np.testing.assert_allclose(corrected(problem, setting), [0.5 * 3 + 4.125 / 2, 0.25 * 3 + 5 + 4.125 * 0.75])
    moved = replace(setting, order="moved")  # worst gap 4.5; an event adds 10 * (2.4 + 0.2) = 26
    np.testing.assert_allclose(corrected(problem, moved), [2.25 + 4.125 / 2, 1.125 + 13 + 4.125 * 0.75])
    # 1/4 * ((1 + 80 * 0.2) / 2 + 30 * 0.3 / 2), and no gap: x_0 is the best single model
    np.testing.assert_allclose(printed(problem, setting), 3.25)
    np.testing.assert_allclose(printed(problem, setting, with_true_gap=True), [6.25, 4.75])


def test_a_bound_within_the_interval_is_neither_kept_nor_violated() -> None:
    unclear = Beside(event=0, regret=estimate([0.0, 2.0]), bound=1.0, holds=False)

    assert unclear.verdict == "not clear"
    assert beside(np.array([[0.0, 0.5], [2.0, 0.5]]), np.array([1.0, 1.0])).verdict == "not clear"
    assert beside(np.array([[1.0, 0.5], [1.0, 0.5]]), np.array([2.0, 2.0])).event == 0


def test_the_sweeps_turn_every_knob_the_theorem_has() -> None:
    names = [one.name for one in settings()]

    assert len(names) == len(set(names))
    assert set(SWEEPS) >= {"eta_l", "spread", "drift", "per_cluster", "n_rounds"}
