"""Sums of cut-down vectors of samples: what one sample changes, and the noise on them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.client.privacy.accountant import divergences, epsilon_of_divergences
from fielding.client.privacy.counts import (
    SENSITIVITY,
    STEPS,
    SUM_DIMS,
    check_head,
    is_summed,
    noised_vectors,
    sum_samples,
    unit_of,
)
from fielding.client.privacy.rule import PrivacyRule, gaussian_rule, rule_from_record
from fielding.client.representation.embedding import ClassMeans, Embedding
from fielding.client.representation.gradient import Gradient, HeadGradient
from fielding.client.representation.projection import orthonormal
from fielding.client.representation.representation import Representation, Seen
from fielding.config.reader import config_from
from fielding.engine.plugins import noise_variance_of, privacy_of
from fielding.engine.report_rule import report_rule_of
from fielding.errors import InputError, OptionError

RNG = np.random.default_rng(8)
BOTH: list[Representation] = [Embedding(), HeadGradient(dims=20)]


def window(n_samples: int = 12, n_features: int = 80, n_classes: int = 3) -> Seen:
    return Seen(
        labels=RNG.integers(-1, n_classes, n_samples),
        features=RNG.normal(scale=RNG.choice([0.01, 1.0, 1e3]), size=(n_samples, n_features)).astype(np.float32),
        scores=RNG.normal(scale=3.0, size=(n_samples, n_classes)).astype(np.float32),
        sizes=np.array([n_samples]),
    )


def neighbour(seen: Seen) -> Seen:
    """Return the window with another value of one sample."""
    other, at = window(), int(RNG.integers(12))
    values = {name: getattr(seen, name).copy() for name in ("labels", "features", "scores")}
    for name, value in values.items():
        value[at] = getattr(other, name)[at]
    return Seen(sizes=seen.sizes, **values)


@pytest.mark.parametrize("representation", BOTH, ids=["embedding", "head-gradient"])
def test_a_sample_moves_the_sum_by_two_lengths_at_most_in_whole_steps(representation: Representation) -> None:
    farthest = 0
    for _ in range(100):
        seen = window()
        first, second = (sum_samples(representation, one, 0.7) for one in (seen, neighbour(seen)))
        farthest = max(farthest, int(np.square(first - second).sum()))  # whole numbers: nothing is rounded

    assert (0.4 * STEPS) ** 2 < farthest <= (SENSITIVITY * STEPS) ** 2


def test_the_farthest_that_two_values_of_a_sample_can_be_apart_is_the_bound_itself() -> None:
    one = Seen(
        labels=np.array([0]), features=np.array([[9.0]], "f4"), scores=np.zeros((1, 2), "f4"), sizes=np.ones(1, int)
    )
    other = replace(one, features=-one.features)

    first, second = (sum_samples(Embedding(), each, 2.0) for each in (one, other))

    assert (first - second).tolist() == [[SENSITIVITY * STEPS]]


@pytest.mark.parametrize("representation", BOTH, ids=["embedding", "head-gradient"])
@given(st.data())
def test_no_value_of_a_sample_is_longer_than_a_length_nor_changes_what_others_add(
    representation: Representation, data: st.DataObject
) -> None:
    numbers = st.floats(width=32) | st.sampled_from([3e38, -3e38, 1e-30, 0.1, 1.0])
    values = np.array(data.draw(st.lists(numbers, min_size=8, max_size=8)), dtype=np.float32)
    label, max_norm = data.draw(st.integers(-1, 2)), data.draw(st.sampled_from([0.3, 1.0, 50.0]))
    seen, place = window(n_samples=4, n_features=5), data.draw(st.integers(0, 3))
    features, scores, labels = seen.features.copy(), seen.scores.copy(), seen.labels.copy()
    features[place], scores[place], labels[place] = values[:5], values[5:], label
    other = Seen(labels=labels, features=features, scores=scores, sizes=seen.sizes)

    with np.errstate(invalid="ignore"):
        all_but = [sum_samples(representation, with_blank(one, place), max_norm) for one in (seen, other)]
        whole = sum_samples(representation, other, max_norm)

    assert all_but[0].tolist() == all_but[1].tolist()
    assert int(np.square(whole - all_but[0]).sum()) <= STEPS**2


def with_blank(seen: Seen, place: int) -> Seen:
    """Return the window with a sample that adds nothing in one place."""
    features, labels, scores = seen.features.copy(), seen.labels.copy(), seen.scores.copy()
    features[place], labels[place], scores[place] = 0.0, -1, 0.0
    return Seen(labels=labels, features=features, scores=scores, sizes=seen.sizes)


def test_a_grid_costs_next_to_nothing() -> None:
    seen = window(n_samples=200, n_features=80)
    lengths = np.linalg.norm(seen.features.astype(np.float64), axis=1, keepdims=True)
    exact = (seen.features / np.maximum(lengths, 1.0)).sum(axis=0) @ orthonormal(80, SUM_DIMS, 0, "project features")

    found = sum_samples(Embedding(), seen, 1.0)[0] / STEPS

    np.testing.assert_allclose(found, exact, atol=200 / STEPS)


def test_short_vectors_stay_as_they_are_in_units_of_the_norm() -> None:
    seen = window(n_features=5)
    short = Seen(labels=seen.labels, features=seen.features / 1e4, scores=seen.scores, sizes=seen.sizes)

    found = sum_samples(Embedding(), short, 0.5) / STEPS

    np.testing.assert_allclose(found[0], short.features.sum(axis=0) / 0.5, atol=12 / STEPS)


def test_what_is_not_finite_counts_for_nothing() -> None:
    seen = window()
    seen.features[3] = np.inf

    assert int(np.square(sum_samples(Embedding(), seen, 1.0)).sum()) <= (11 * STEPS) ** 2


def test_sums_are_divided_by_the_public_number_of_samples() -> None:
    found = noised_vectors(Embedding(), np.array([[2.0, -4.0]]), np.array([4]), np.zeros(2))

    assert found.tolist() == [[0.5, -1.0]]


def test_the_noise_follows_from_epsilon_delta_and_the_number_of_reports() -> None:
    def noise(**privacy: float) -> float:
        config = config_from({"privacy": {"mode": "record", **privacy}, "coordinator": {"representation": "embedding"}})
        rule = report_rule_of(config.coordinator, is_own=False, seed=1)
        found = privacy_of(config, rule)
        assert found is not None
        least, variance = (2.0 * found.noise_multiplier) ** 2, noise_variance_of(config, rule)
        assert least <= variance <= least * 1.0001  # whole steps, rounded up
        return found.noise_multiplier

    once = noise(epsilon=2.0)
    assert noise(epsilon=8.0) < once < noise(epsilon=2.0, delta=1e-7)
    assert noise(epsilon=2.0, reports_per_window=4) == pytest.approx(2.0 * once, rel=0.01)


def test_others_are_refused_and_told_why() -> None:
    assert not is_summed(ClassMeans())
    with pytest.raises(OptionError, match=r"how much one sample changes .* is not proven.*embedding, head-gradient"):
        unit_of(ClassMeans(), "class-means")
    with pytest.raises(OptionError, match=r"'gradient' is made of sums over samples.*'head-gradient'"):
        unit_of(Gradient(), "gradient")


RULE = gaussian_rule(epsilon=Fraction(2), delta=Fraction(1, 10**5), reports=3, window=9, max_norm=0.5)


def test_whole_steps_of_noise_are_no_less_than_the_accountant_wants() -> None:
    sigma = RULE.gaussian_noise(STEPS).sigma
    multiplier = sigma / (SENSITIVITY * STEPS)

    assert isinstance(sigma, int)
    assert multiplier >= RULE.noise_multiplier
    assert epsilon_of_divergences(divergences(1.0, multiplier, RULE.reports), 1e-5) <= RULE.epsilon


def test_the_rule_travels_and_a_release_that_knows_only_counts_finds_no_epsilon_in_it() -> None:
    order = RULE.order_record()

    assert rule_from_record(order) == RULE
    assert set(order) == {"gaussian"}  # such a release reads epsilon, reports and window, and refuses without
    counts = PrivacyRule(epsilon=Fraction(2), reports=3, window=9)
    assert counts.order_record() == counts.record()


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": 0.1},
        {"grid": 2**10},
        {"delta": "1/2"},
        {"delta": "0"},
        {"delta": "1e-99999999"},
        {"epsilon": "9e99999999"},
        {"norm": -1.0},
        {"norm": "1"},
        {"reports": 0},
    ],
    ids=str,
)
def test_a_rule_with_less_noise_than_it_says_or_damaged_is_refused(wrong: dict[str, Json]) -> None:
    with pytest.raises(InputError, match=r"the rule of private reports is .* use the same release"):
        rule_from_record({"gaussian": {**RULE.record(), **wrong}})


def test_an_epsilon_that_no_grid_has_noise_for_is_refused_in_one_line() -> None:
    with pytest.raises(
        OptionError, match=r"epsilon 0\.004 with delta 1e-05 leaves next to nothing for each of 2 reports"
    ):
        gaussian_rule(epsilon=Fraction(1, 250), delta=Fraction(1, 10**5), reports=2, window=9)


def test_vectors_too_long_to_be_projected_are_refused_in_one_line() -> None:
    with pytest.raises(OptionError, match="vectors of 30003 numbers cannot be projected to 256: give fewer dims"):
        sum_samples(HeadGradient(), window(n_features=10_000), 1.0)
    with pytest.raises(OptionError, match="vectors of 30003 numbers"):
        check_head(HeadGradient(), 30_003, 3)
    check_head(Embedding(), 30_003, 3)
    with pytest.raises(OptionError, match="vectors of 99999 numbers cannot be projected to 64"):
        check_head(Embedding(), 300_000, 3)
