"""What experts say: by arithmetic of their own, whatever the padding, and never with the label of the sample itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import OptionError
from fielding.runtime.experts import EXPERTS, expert_names
from fielding.serving.experts import (
    LEAST,
    PSEUDO,
    RIDGES,
    Said,
    Seen,
    Window,
    corrected,
    heads,
    neighbours,
    residual,
    served,
    softmax,
)
from fielding.serving.weights import Stack, simplex_weights

N_FEATURES, N_CLASSES, N_ASKED = 4, 3, 5


def drawn(seed: int, sizes: list[int], *, n_heads: int = 1, length: int | None = None) -> tuple[Window, Seen]:
    """Return windows of such sizes, padded to a length, and samples to be asked about, all at random."""
    rng = np.random.default_rng(seed)
    n, n_clients = length or max(sizes), len(sizes)
    parts = []
    for size in sizes:  # client by client, so that padding changes nothing else
        features, scores = rng.normal(size=(size, N_FEATURES)), 2.0 * rng.normal(size=(n_heads, size, N_CLASSES))
        offsets, labels = rng.normal(size=(n_heads, size, N_CLASSES)), rng.integers(N_CLASSES, size=size)
        parts.append((features, scores, offsets, labels))
    window = Window(
        features=np.stack([np.pad(one[0], ((0, n - len(one[3])), (0, 0))) for one in parts]),
        scores=np.stack([np.pad(one[1], ((0, 0), (0, n - len(one[3])), (0, 0))) for one in parts]),
        offsets=np.stack([np.pad(one[2], ((0, 0), (0, n - len(one[3])), (0, 0))) for one in parts]),
        labels=np.stack([np.pad(one[3], (0, n - len(one[3]))) for one in parts]).astype(np.int64),
        is_sample=np.arange(n) < np.array(sizes)[:, np.newaxis],
    )
    asked = Seen(
        features=rng.normal(size=(n_clients, N_ASKED, N_FEATURES)),
        scores=rng.normal(size=(n_clients, n_heads, N_ASKED, N_CLASSES)),
        offsets=rng.normal(size=(n_clients, n_heads, 1, N_CLASSES)),
    )
    return window, asked


def one_of(window: Window, at: int) -> Window:
    """Return the window of one client, without padding."""
    size = int(window.is_sample[at].sum())
    return Window(
        features=window.features[at : at + 1, :size],
        scores=window.scores[at : at + 1, :, :size],
        offsets=window.offsets[at : at + 1, :, :size],
        labels=window.labels[at : at + 1, :size],
        is_sample=window.is_sample[at : at + 1, :size],
    )


def all_said(window: Window, asked: Seen) -> dict[str, Said]:
    base = corrected(window, asked)
    return {name: expert(window, asked, base) for name, expert in EXPERTS.items()}


@given(st.integers(0, 10**6), st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 3))
def test_every_expert_says_shares_and_padding_changes_nothing(seed: int, sizes: list[int], n_heads: int) -> None:
    window, asked = drawn(seed, sizes, n_heads=n_heads, length=max([*sizes, 1]))
    more, _ = drawn(seed, sizes, n_heads=n_heads, length=max(sizes) + 3)

    said, padded = all_said(window, asked), all_said(more, asked)

    for name, one in said.items():
        assert one.asked.shape == (len(sizes), N_ASKED, N_CLASSES), name
        np.testing.assert_allclose(one.asked.sum(axis=2), 1.0, atol=1e-9)
        assert (one.asked >= 0.0).all()
        np.testing.assert_allclose(one.asked, padded[name].asked, atol=1e-7)
        for at, size in enumerate(sizes):
            np.testing.assert_allclose(one.held_out[at, :size].sum(axis=1), 1.0, atol=1e-9)
            np.testing.assert_allclose(one.held_out[at, :size], padded[name].held_out[at, :size], atol=1e-7)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(0, 8), st.integers(1, N_CLASSES - 1))
def test_what_is_said_of_a_sample_out_of_fold_does_not_depend_on_its_label(
    seed: int, size: int, place: int, shift: int
) -> None:
    window, asked = drawn(seed, [size])
    at = place % size
    labels = window.labels.copy()
    labels[0, at] = (labels[0, at] + shift) % N_CLASSES
    other = Window(
        features=window.features,
        scores=window.scores,
        offsets=window.offsets,
        labels=labels,
        is_sample=window.is_sample,
    )

    for expert in (served, corrected, neighbours):
        base = served(window, asked)
        np.testing.assert_array_equal(
            expert(window, asked, base).held_out[0, at], expert(other, asked, base).held_out[0, at]
        )
    # The ridges alone: their weights are shared by all samples of the window.
    mine, theirs = (ridge_by_ridge(one, asked)[0][:, at] for one in (window, other))
    np.testing.assert_allclose(mine, theirs, atol=1e-9)


def ridge_by_ridge(window: Window, asked: Seen) -> tuple[Stack, Stack]:
    """Return what kernel ridge regression of residuals says for each ridge, by leaving out one sample after another."""
    features, labels, base = window.features[0], window.labels[0], corrected(window, asked)
    size = labels.size
    scale = np.sqrt(np.square(features).sum(axis=1).mean()) or 1.0
    features, new = features / scale, asked.features[0] / scale

    def squares(one: Stack, other: Stack) -> Stack:
        return np.square(one[:, np.newaxis] - other[np.newaxis]).sum(axis=2)

    middle = float(np.median(squares(features, features)[np.triu_indices(size, 1)])) if size > 1 else 0.0
    width = 0.5 * (middle if middle > 1e-12 else 1.0)
    kernel, near = np.exp(-squares(features, features) / width), np.exp(-squares(new, features) / width)
    residuals = np.eye(N_CLASSES)[labels] - base.held_out[0]
    held_out, said = [base.held_out[0]], [base.asked[0]]
    for ridge in RIDGES:
        left_out = np.empty_like(residuals)
        for one in range(size):
            kept = np.arange(size) != one
            dual = np.linalg.solve(kernel[np.ix_(kept, kept)] + ridge * np.eye(size - 1), residuals[kept])
            left_out[one] = base.held_out[0, one] + kernel[one, kept] @ dual
        dual = np.linalg.solve(kernel + ridge * np.eye(size), residuals)
        for found, numbers in ((held_out, left_out), (said, base.asked[0] + near @ dual)):
            cut = np.maximum(numbers, LEAST)
            found.append(cut / cut.sum(axis=1, keepdims=True))
    return np.stack(held_out), np.stack(said)


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_the_closed_form_of_the_residual_expert_is_leaving_samples_out_one_by_one(seed: int, size: int) -> None:
    window, asked = drawn(seed, [size])
    held_out, said = ridge_by_ridge(window, asked)
    errors = (held_out - np.eye(N_CLASSES)[window.labels[0]]).reshape(len(held_out), -1)
    weights = simplex_weights((errors @ errors.T / size)[np.newaxis])[0] * size / (size + PSEUDO)
    weights[0] += PSEUDO / (size + PSEUDO)

    found = residual(window, asked, corrected(window, asked))

    np.testing.assert_allclose(found.held_out[0], np.tensordot(weights, held_out, 1), atol=1e-7)
    np.testing.assert_allclose(found.asked[0], np.tensordot(weights, said, 1), atol=1e-7)


@pytest.mark.parametrize("size", [0, 1])
def test_without_samples_to_learn_from_the_base_speaks(size: int) -> None:
    window, asked = drawn(1, [size], length=2)
    base = corrected(window, asked)

    for expert in (residual, neighbours):
        np.testing.assert_allclose(expert(window, asked, base).asked, base.asked)


def test_of_several_heads_the_one_that_explains_the_window_speaks() -> None:
    labels = np.array([[0, 1, 2] * 20])
    right, wrong = 4.0 * np.eye(N_CLASSES)[labels], 4.0 * np.eye(N_CLASSES)[(labels + 1) % 3]
    scores = np.stack([wrong, np.zeros_like(wrong), right], axis=1)
    none = np.zeros((1, 3, 1, N_CLASSES))
    features, there = np.zeros((1, 60, 1)), np.ones((1, 60), dtype=np.bool_)
    window = Window(features=features, scores=scores, offsets=none, labels=labels, is_sample=there)
    asked = Seen(features=features, scores=scores, offsets=none)

    assert (heads(window, asked).asked.argmax(axis=2) == labels).all()
    assert (served(window, asked).asked.argmax(axis=2) != labels).all()


def test_one_head_is_the_corrected_model() -> None:
    window, asked = drawn(3, [4, 2])

    np.testing.assert_allclose(heads(window, asked).asked, corrected(window, asked).asked)


def test_a_model_that_diverged_says_zeros_not_nan() -> None:
    assert softmax(np.array([[np.nan, 1.0], [np.inf, 0.0]])).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_names_are_told_apart() -> None:
    assert expert_names("none", is_corrected=True, has_heads=True) == ()
    assert "heads" not in expert_names("auto", is_corrected=True, has_heads=False)
    assert "corrected" not in expert_names("auto", is_corrected=False, has_heads=True)
    assert expert_names(["residual", "corrected"], is_corrected=True, has_heads=False) == (
        "served",
        "corrected",
        "residual",
    )
    with pytest.raises(OptionError, match="residual"):
        expert_names(["residul"], is_corrected=True, has_heads=False)
    with pytest.raises(OptionError, match="shared_body"):
        expert_names(["heads"], is_corrected=True, has_heads=False)
