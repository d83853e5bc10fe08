from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.privacy.counts import (
    NOISED_SUMS,
    PRIVATE,
    SENSITIVITY,
    UNITS,
    count_samples,
    noised_vectors,
    unit_of,
)
from fielding.client.privacy.rule import PrivacyRule
from fielding.client.representation.registry import REPRESENTATIONS, representation_named
from fielding.client.representation.representation import Seen
from fielding.errors import OptionError

N_CLASSES = 3
sample = st.tuples(
    st.integers(-1, N_CLASSES - 1), st.lists(st.floats(-40, 40, width=32), min_size=N_CLASSES, max_size=N_CLASSES)
)


def window(samples: list[tuple[int, list[float]]]) -> Seen:
    """Return the window of one client: labels, -1 for unknown, and scores of a shared model."""
    scores = np.array([scores for _, scores in samples], dtype=np.float32).reshape(-1, N_CLASSES)
    labels = np.array([label for label, _ in samples], dtype=np.int64)
    return Seen(labels=labels, features=scores, scores=scores, sizes=np.array([labels.size]))


@pytest.mark.parametrize("name", PRIVATE)
@given(st.lists(sample, min_size=1, max_size=12), sample, st.data())
def test_no_output_is_likelier_by_more_than_epsilon_for_a_neighbouring_window(
    name: str, samples: list[tuple[int, list[float]]], other: tuple[int, list[float]], data: st.DataObject
) -> None:
    representation, rule = representation_named(name), PrivacyRule(epsilon=Fraction(3, 2), reports=3, window=30)
    at = data.draw(st.integers(0, len(samples) - 1))
    one = count_samples(representation, window(samples))[0]
    neighbour = count_samples(representation, window([*samples[:at], other, *samples[at + 1 :]]))[0]
    output = one + data.draw(st.lists(st.integers(-3000, 3000), min_size=one.size, max_size=one.size).map(np.array))

    # Of the two-sided geometric distribution the logarithm of a probability is -|noise| / scale, up to a constant.
    scale = rule.noise(unit_of(representation)).scale
    log_ratio = Fraction(int(np.abs(output - neighbour).sum() - np.abs(output - one).sum())) / scale
    assert abs(log_ratio) <= rule.epsilon_of_report


@pytest.mark.parametrize("name", PRIVATE)
@given(st.lists(sample, min_size=0, max_size=12))
def test_a_sample_adds_at_most_its_unit_and_nothing_below_zero(
    name: str, samples: list[tuple[int, list[float]]]
) -> None:
    representation = representation_named(name)

    counts = count_samples(representation, window(samples))[0]

    assert (counts >= 0).all()
    assert counts.sum() <= len(samples) * unit_of(representation)


def test_the_worst_neighbour_reaches_epsilon() -> None:
    rule, label = PrivacyRule(epsilon=Fraction(1), reports=1, window=10), representation_named("label")
    one, other = (count_samples(label, window([(value, [0.0] * N_CLASSES)]))[0] for value in (0, 1))

    assert np.abs(one - other).sum() == SENSITIVITY
    assert Fraction(int(np.abs(one - other).sum())) / rule.noise(1).scale == rule.epsilon


def test_probabilities_stand_in_whole_thousandths_of_a_sample() -> None:
    soft = representation_named("soft-confusion")
    seen = window([(1, np.log([0.2004, 0.3003, 0.4993]).tolist()), (-1, [9.0, 0.0, 0.0])])

    assert count_samples(soft, seen)[0].tolist() == [0, 0, 0, 200, 300, 499, 0, 0, 0]


def test_what_has_no_proven_sensitivity_is_refused_by_name() -> None:
    refused = [name for name in REPRESENTATIONS if name not in (*PRIVATE, *NOISED_SUMS, "gradient")]
    assert "class-means" in refused

    for name in refused:
        with pytest.raises(OptionError, match=f"'{name}' is not proven; take one of label"):
            unit_of(representation_named(name), name)
    with pytest.raises(OptionError, match=r"'label \+ predictions' is not proven"):
        unit_of(representation_named("label + predictions"), "label + predictions")
    with pytest.raises(OptionError, match="of one's own is not proven"):
        unit_of(None)
    assert {type(representation_named(name)) for name in (*PRIVATE, *NOISED_SUMS)} == set(UNITS)


def test_shares_are_taken_of_the_public_number_of_samples_and_not_brought_back_to_the_simplex() -> None:
    tallies, n_samples = np.array([[6.0, -2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.array([4, 4, 0])

    vectors = noised_vectors(representation_named("label"), tallies, n_samples, np.zeros(3))

    assert vectors.tolist() == [[1.5, -0.5, 0.0], [np.float32(1 / 3)] * 3, [0.0, 0.0, 0.0]]


def test_rows_of_confusion_are_made_of_what_is_above_zero() -> None:
    confusion, reference = representation_named("confusion"), np.array([3.0, 1.0, -4.0, 2.0])
    tallies = np.array([[5.0, -2.0, -1.0, 3.0]])

    vectors = noised_vectors(confusion, tallies, np.array([9]), reference)

    expected = confusion.vectors(np.array([[5.0, 0.0, 0.0, 3.0]]), np.array([3.0, 1.0, 0.0, 2.0]))
    assert vectors.tolist() == expected.tolist()
    assert vectors.sum() == pytest.approx(1.0)


def test_a_window_without_samples_counts_nothing() -> None:
    empty = replace(window([(0, [0.0] * N_CLASSES)]), sizes=np.array([0, 1]))

    assert count_samples(representation_named("label"), empty).tolist() == [[0, 0, 0], [1, 0, 0]]
