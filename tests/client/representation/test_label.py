import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding.client.representation.label import LabelHistogram, shares_of
from fielding.client.window import Window
from fielding.errors import InputError, OptionError


def test_histogram_counts_what_comes_and_what_leaves() -> None:
    histogram = LabelHistogram(3)
    histogram.add([0, 0, 2])
    histogram.remove([0])

    assert histogram.counts.tolist() == [1, 0, 1]
    assert histogram.n_samples == 2
    assert histogram.shares().tolist() == [0.5, 0.0, 0.5]


def test_empty_histogram_has_shares_of_zero() -> None:
    assert LabelHistogram(2).shares().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("label", [-1, 3])
def test_label_outside_the_class_list_is_refused_and_nothing_changes(label: int) -> None:
    histogram = LabelHistogram(3)
    histogram.add([1])

    with pytest.raises(InputError, match=f"label {label} is not in the class list of 3; use 0 to 2"):
        histogram.add([0, label])
    with pytest.raises(InputError, match="is not in the class list"):
        histogram.remove([1, label])
    assert histogram.counts.tolist() == [0, 1, 0]


def test_only_what_was_added_can_be_removed() -> None:
    histogram = LabelHistogram(2)
    histogram.add([0, 1])

    with pytest.raises(InputError, match="2 samples of label 1 are to be removed but 1 are counted"):
        histogram.remove([1, 1])
    assert histogram.counts.tolist() == [1, 1]


def test_class_list_grows_and_old_counts_stay() -> None:
    histogram = LabelHistogram(1)
    histogram.add([0])
    histogram.grow(3)
    histogram.add([2])

    assert histogram.n_labels == 3
    assert histogram.shares().tolist() == [0.5, 0.0, 0.5]


def test_class_list_does_not_shrink() -> None:
    histogram = LabelHistogram(3)

    with pytest.raises(OptionError, match="n_labels is 2; give a whole number of at least 3"):
        histogram.grow(2)
    histogram.grow(3)
    assert histogram.n_labels == 3


@pytest.mark.parametrize("n_labels", [0, -1, 2.0, True, None])
def test_class_list_has_at_least_one_label(n_labels: object) -> None:
    with pytest.raises(OptionError, match="n_labels is"):
        LabelHistogram(n_labels)  # type: ignore[arg-type]


def test_counts_are_a_copy() -> None:
    histogram = LabelHistogram(1)
    histogram.counts[0] = 5

    assert histogram.counts.tolist() == [0]


def test_cleared_histogram_is_as_new() -> None:
    histogram = LabelHistogram(2)
    histogram.add([0, 1])
    histogram.clear()

    assert (histogram.counts.tolist(), histogram.n_samples) == ([0, 0], 0)


def test_shares_of_equal_fractions_are_equal_numbers() -> None:
    shares = shares_of(np.array([[1, 2], [7, 14], [0, 0]]))

    assert (shares[0] == shares[1]).all()
    assert shares[2].tolist() == [0.0, 0.0]


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=15), st.integers(1, 8))
@settings(deadline=None, max_examples=100)
def test_histogram_of_a_window_equals_one_counted_afresh(stream: list[list[int]], max_samples: int) -> None:
    window, histogram = Window(max_samples), LabelHistogram(4)
    for round_index, block in enumerate(stream):
        evicted = window.add(block, round_index)
        histogram.add(block)
        histogram.remove(evicted)

        assert histogram.counts.tolist() == np.bincount(window.labels(), minlength=4).tolist()
        assert histogram.n_samples == len(window)
