"""Scores shifted to another label mix: the rule of Bayes, smoothing of small windows, and mixes without labels."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Matrix
from fielding.errors import InputError, OptionError
from fielding.serving.correction import (
    CALIBRATED,
    PREDICTED_SMOOTHING,
    SMOOTHINGS,
    balancing_offsets,
    estimate_mixes,
    floor_mixes,
    label_offsets,
    predict_mixes,
    smooth_mixes,
    trust_mixes,
)

MIX = np.array([0.7, 0.2, 0.1])
OWN = np.array([0.1, 0.3, 0.6])
seeds = st.integers(0, 2**32 - 1)


def softmax(scores: npt.NDArray[np.floating]) -> Matrix:
    odds = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def random_mixes(seed: int, n_clients: int, n_classes: int) -> Matrix:
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n_clients)


def likelihoods(seed: int, n_samples: int, mix: Matrix, *, spread: float = 0.7) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """Return how likely inputs are under each class, and their classes: a bump for each class on a line."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(mix.size, n_samples, p=mix)
    x = labels + spread * rng.standard_normal(n_samples)
    return np.exp(-0.5 * ((x[:, np.newaxis] - np.arange(mix.size)) / spread) ** 2), labels


def posterior(likely: Matrix, mix: Matrix) -> Matrix:
    joint = likely * mix
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


# ---- the shift -------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 6))
def test_the_mix_that_a_model_was_trained_on_changes_nothing(seed: int, n_classes: int) -> None:
    mix = random_mixes(seed, 1, n_classes)[0]
    scores = np.random.default_rng(seed).standard_normal((4, n_classes)).astype(np.float32)

    assert (scores + label_offsets(mix, mix)).tobytes() == scores.tobytes()


def test_nor_does_it_where_classes_are_missing_from_both() -> None:
    scores = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)
    mix = np.array([1.0, 0.0, 0.0])

    assert (scores + label_offsets(mix, mix)).tolist() == scores.tolist()


@given(seeds)
def test_a_known_mix_on_a_known_posterior_gives_the_rule_of_bayes(seed: int) -> None:
    likely, _ = likelihoods(seed, 20, MIX)

    shifted = np.log(posterior(likely, MIX)).astype(np.float32) + label_offsets(OWN, MIX)

    assert np.allclose(softmax(shifted), posterior(likely, OWN), atol=1e-4)


def test_every_sample_may_have_a_mix_of_its_own() -> None:
    scores = np.zeros((2, 2), dtype=np.float32)

    shifted = scores + label_offsets(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5]))

    assert softmax(shifted).tolist() == pytest.approx(np.array([[0.9, 0.1], [0.2, 0.8]]))


def test_offsets_are_finite_whatever_is_missing() -> None:
    assert np.isfinite(label_offsets(np.array([1.0, 0.0]), np.array([0.0, 1.0]))).all()


def test_a_class_that_a_model_has_hardly_seen_is_not_shifted_without_bounds() -> None:
    lifted = floor_mixes(np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]))

    assert lifted.sum(axis=1).tolist() == pytest.approx([1.0, 1.0])
    assert lifted[0, 1] == pytest.approx(0.0025, rel=0.01)
    assert lifted[1].tolist() == [0.25] * 4
    assert floor_mixes(np.array([1.0, 0.0]), 0.5).tolist() == pytest.approx([0.8, 0.2])


# ---- smoothing -------------------------------------------------------------------------------------------------


def test_a_number_of_samples_counts_for_the_model() -> None:
    smoothed = smooth_mixes(np.array([[6.0, 2.0, 0.0]]), MIX[np.newaxis], 2.0)

    assert smoothed[0].tolist() == pytest.approx([7.4 / 10, 2.4 / 10, 0.2 / 10])


@pytest.mark.parametrize("smoothing", [0.0, 5.0, "calibrated"])
def test_who_has_no_samples_has_the_mix_of_the_model(smoothing: float | str) -> None:
    smoothed = smooth_mixes(np.zeros((2, 3)), np.stack([MIX, OWN]), smoothing)

    assert smoothed.tolist() == [MIX.tolist(), OWN.tolist()]


def test_one_sample_says_nothing_if_smoothing_is_calibrated() -> None:
    smoothed = smooth_mixes(np.array([[0.0, 0.0, 1.0]]), MIX[np.newaxis], "calibrated")

    assert smoothed[0].tolist() == MIX.tolist()


@given(seeds)
def test_many_samples_are_believed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = rng.dirichlet(np.full(5, 2.0), size=3)
    counts = np.stack([rng.multinomial(20_000, mix) for mix in own]).astype(np.float64)

    smoothed = smooth_mixes(counts, random_mixes(seed + 1, 3, 5), "calibrated")

    assert np.abs(smoothed - own).max() < 0.05


def test_calibration_helps_those_who_are_like_the_model_and_those_who_are_not() -> None:
    rng = np.random.default_rng(3)
    model = np.full((400, 10), 0.1)
    one_label = np.eye(10)[rng.integers(0, 10, 400)]
    for own in (model, 0.9 * one_label + 0.1 * model):
        counts = np.stack([rng.multinomial(12, mix) for mix in own]).astype(np.float64)

        losses = [
            -(own * label_offsets(smooth_mixes(counts, model, amount), model)).sum(axis=1).mean()
            for amount in ("calibrated", 0.1, 1000.0)
        ]

        assert losses[0] < max(losses[1:]) - 0.1, "no worse than the wrong fixed number"
        assert losses[0] < min(losses[1:]) + 0.15, "nearly as good as the right one"


@given(seeds, st.integers(1, 4), st.sampled_from([0.0, 3.0, "calibrated"]))
def test_mixes_sum_to_one_and_clients_do_not_matter_to_each_other(
    seed: int, n_clients: int, smoothing: float | str
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, (n_clients, 4)).astype(np.float64)
    models = random_mixes(seed, n_clients, 4)

    together = smooth_mixes(counts, models, smoothing)

    assert together.sum(axis=1).tolist() == pytest.approx([1.0] * n_clients)
    alone = [smooth_mixes(counts[at : at + 1], models[at : at + 1], smoothing)[0] for at in range(n_clients)]
    assert np.array_equal(together, np.stack(alone))


def test_a_class_that_the_model_never_saw_stays_finite() -> None:
    counts, model = np.array([[2.0, 3.0, 0.0]]), np.array([[1.0, 0.0, 0.0]])

    for smoothing in (0.0, 1.0, "calibrated"):
        assert np.isfinite(label_offsets(smooth_mixes(counts, model, smoothing), model)).all()


@pytest.mark.parametrize("smoothing", [-1.0, float("nan"), float("inf"), "much", True])
def test_what_is_no_smoothing_is_refused(smoothing: float | str) -> None:
    with pytest.raises(OptionError, match="give calibrated, or a number of samples"):
        smooth_mixes(np.ones((1, 2)), np.ones((1, 2)), smoothing)


def test_counts_and_mixes_have_to_fit() -> None:
    with pytest.raises(InputError, match="a row of each per client"):
        smooth_mixes(np.ones((2, 3)), np.ones((1, 3)), 1.0)


def test_the_largest_smoothing_is_no_correction() -> None:
    assert list(SMOOTHINGS) == sorted(SMOOTHINGS)
    assert SMOOTHINGS[-1] == np.inf


# ---- without labels --------------------------------------------------------------------------------------------


@given(seeds)
def test_expectation_maximisation_finds_the_mix_of_samples_without_labels(seed: int) -> None:
    likely, _ = likelihoods(seed, 4000, OWN, spread=0.4)

    found = estimate_mixes(posterior(likely, MIX), np.array([4000]), MIX[np.newaxis], smoothing=1.0)

    assert np.abs(found[0] - OWN).max() < 0.05


def test_the_true_mix_of_an_exact_posterior_stays_where_it_is() -> None:
    # Two inputs: the first comes with class 0 three times as often as with class 1, the second the other way round.
    likely = np.array([[0.75, 0.25]] * 3 + [[0.25, 0.75]] * 1)
    mix = np.array([[1.0, 0.0]])  # 3 of 4 inputs are of the first kind: all samples are of class 0

    found = estimate_mixes(
        posterior(likely, np.array([0.5, 0.5])), np.array([4]), np.array([[0.5, 0.5]]), smoothing=0.0
    )

    assert found == pytest.approx(mix, abs=0.06), "still on its way after a bounded number of iterations"
    same = np.array([[0.75, 0.25]] * 2 + [[0.25, 0.75]] * 2)
    even = np.array([[0.5, 0.5]])
    assert estimate_mixes(posterior(same, even[0]), np.array([4]), even, smoothing=0.0) == pytest.approx(even)


@given(seeds)
def test_an_estimate_is_that_of_the_client_alone_and_sums_to_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 4, 5)
    models, probabilities = random_mixes(seed, 5, 3), random_mixes(seed + 1, int(sizes.sum()), 3)

    together = estimate_mixes(probabilities, sizes, models, smoothing=2.0)

    assert together.sum(axis=1).tolist() == pytest.approx([1.0] * 5)
    ends = np.cumsum(sizes)
    for at in range(5):
        own = probabilities[ends[at] - sizes[at] : ends[at]]
        alone = estimate_mixes(own, sizes[at : at + 1], models[at : at + 1], smoothing=2.0)
        assert np.allclose(together[at], alone[0])
        if sizes[at] == 0:
            assert together[at].tolist() == models[at].tolist()


def test_permuting_samples_changes_no_estimate() -> None:
    likely, _ = likelihoods(4, 30, OWN)
    sure = posterior(likely, MIX)
    order = np.random.default_rng(0).permutation(30)

    found = [estimate_mixes(one, np.array([30]), MIX[np.newaxis], smoothing=1.0) for one in (sure, sure[order])]

    assert found[0] == pytest.approx(found[1])


def test_few_samples_without_labels_stay_near_the_model() -> None:
    found = estimate_mixes(np.array([[0.0, 0.0, 1.0]]), np.array([1]), MIX[np.newaxis], smoothing=10.0)

    assert np.abs(found[0] - MIX).max() < 0.1


def test_probabilities_that_say_nothing_leave_the_mix_of_the_model() -> None:
    found = estimate_mixes(np.zeros((2, 3)), np.array([2]), MIX[np.newaxis], smoothing=1.0)

    assert found[0] == pytest.approx(MIX)


def test_probabilities_and_sizes_have_to_fit() -> None:
    with pytest.raises(InputError, match="a row per sample, and a mix per client"):
        estimate_mixes(np.ones((2, 3)), np.array([3]), MIX[np.newaxis], smoothing=1.0)


# ---- balanced training -----------------------------------------------------------------------------------------


def test_balancing_adds_the_smoothed_mix_of_the_participant() -> None:
    offsets = balancing_offsets(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([9, 4]))

    assert np.exp(offsets.astype(np.float64)) == pytest.approx(np.array([[0.95, 0.05], [0.5, 0.5]]))


# ---- what a model is trusted with ------------------------------------------------------------------------------------


def test_a_model_is_trusted_less_where_labels_are_unknown() -> None:
    carried = np.array([[1.0, 0.0]])

    assert trust_mixes(carried, "prior")[0].tolist() == pytest.approx([0.995025, 0.004975], abs=1e-5)
    assert trust_mixes(carried, "predicted")[0].tolist() == pytest.approx([1 / 1.15, 0.15 / 1.15])


def test_predicted_mixes_follow_scores_and_a_calibrated_smoothing_is_a_number_there() -> None:
    scores, even = np.array([[9.0, 0.0]] * 30 + [[0.0, 9.0]] * 10, dtype=np.float32), np.array([[0.5, 0.5]])

    free, calibrated, held = (
        predict_mixes(scores, np.array([40]), even, smoothing=one)[0, 0]
        for one in (0.0, CALIBRATED, PREDICTED_SMOOTHING)
    )

    assert free == pytest.approx(0.75, abs=1e-3)
    assert calibrated == held
    assert held == pytest.approx((30 + 25) / 90, abs=1e-3)


def test_a_model_that_diverged_leaves_the_mix_finite() -> None:
    scores = np.array([[np.nan, 0.0], [np.inf, 0.0]], dtype=np.float32)

    assert np.isfinite(predict_mixes(scores, np.array([2]), np.array([[0.5, 0.5]]), smoothing=1.0)).all()
