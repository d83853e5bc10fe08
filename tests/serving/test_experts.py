"""What experts say: by arithmetic of their own, whatever the padding, and never with the label of the sample itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Mask
from fielding.errors import OptionError
from fielding.runtime.experts import EXPERTS, expert_names
from fielding.serving.experts import (
    DOUBT,
    LEAST,
    LOCAL_RIDGE,
    N_FOLDS,
    N_WAVES,
    PAST,
    PSEUDO,
    RIDGES,
    Said,
    Seen,
    Window,
    corrected,
    folds_of,
    heads,
    local,
    projected,
    residual,
    served,
    softmax,
    wave_widths,
    waves,
)
from fielding.serving.weights import Stack, simplex_weights

N_FEATURES, N_CLASSES, N_ASKED, N_SEEN = 4, 3, 5, 6


def drawn(seed: int, sizes: list[int], *, n_heads: int = 1, length: int | None = None) -> tuple[Window, Seen]:
    """Return windows of such sizes, padded to a length, and samples to be asked about, all at random."""
    rng = np.random.default_rng(seed)
    n, n_clients = length or max(sizes), len(sizes)
    parts = []
    for size in sizes:  # client by client, so that padding changes nothing else
        features, scores = rng.normal(size=(size, N_FEATURES)), 2.0 * rng.normal(size=(n_heads, size, N_CLASSES))
        offsets, labels = rng.normal(size=(n_heads, size, N_CLASSES)), rng.integers(N_CLASSES, size=size)
        parts.append((features, scores, offsets, labels, rng.normal(size=(size, N_SEEN))))
    gone = rng.normal(size=(n_clients, 7, N_SEEN))
    classes = np.eye(N_CLASSES)[rng.integers(N_CLASSES, size=(n_clients, 7))]
    window = Window(
        features=np.stack([np.pad(one[0], ((0, n - len(one[3])), (0, 0))) for one in parts]),
        scores=np.stack([np.pad(one[1], ((0, 0), (0, n - len(one[3])), (0, 0))) for one in parts]),
        offsets=np.stack([np.pad(one[2], ((0, 0), (0, n - len(one[3])), (0, 0))) for one in parts]),
        waves=np.stack([np.pad(one[4], ((0, n - len(one[3])), (0, 0))) for one in parts]),
        labels=np.stack([np.pad(one[3], (0, n - len(one[3]))) for one in parts]).astype(np.int64),
        is_sample=np.arange(n) < np.array(sizes)[:, np.newaxis],
        past=gone.swapaxes(1, 2) @ np.concatenate([gone, classes], axis=2),
    )
    asked = Seen(
        features=rng.normal(size=(n_clients, N_ASKED, N_FEATURES)),
        scores=rng.normal(size=(n_clients, n_heads, N_ASKED, N_CLASSES)),
        offsets=rng.normal(size=(n_clients, n_heads, 1, N_CLASSES)),
        waves=rng.normal(size=(n_clients, N_ASKED, N_SEEN)),
    )
    return window, asked


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
def test_what_is_said_of_a_sample_out_of_fold_depends_on_no_label_of_its_fold(
    seed: int, size: int, place: int, shift: int
) -> None:
    window, asked = drawn(seed, [size])
    fold = window.folds[0] == window.folds[0, place % size]
    other = replace(window, labels=np.where(fold, (window.labels + shift) % N_CLASSES, window.labels))

    for expert in (served, corrected, local):
        base = served(window, asked)
        np.testing.assert_allclose(
            expert(window, asked, base).held_out[0, fold], expert(other, asked, base).held_out[0, fold], atol=1e-9
        )
    # The ridges alone: their weights are shared by all samples of the window.
    mine, theirs = (ridge_by_ridge(one, asked)[0][:, fold] for one in (window, other))
    np.testing.assert_allclose(mine, theirs, atol=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 23))
def test_the_local_expert_is_ridge_regression_on_window_and_past_fold_by_fold(seed: int, size: int) -> None:
    window, asked = drawn(seed, [size])
    shown, labels, past = window.waves[0], np.eye(N_CLASSES)[window.labels[0]], PAST * window.past[0]

    def said_of(kept: Mask, new: Stack) -> Stack:
        gram = shown[kept].T @ shown[kept] + past[:, :N_SEEN] + LOCAL_RIDGE * np.eye(N_SEEN)
        numbers = new @ np.linalg.solve(gram, shown[kept].T @ labels[kept] + past[:, N_SEEN:])
        cut = np.maximum(numbers, LEAST)
        return np.asarray((1.0 - DOUBT) * cut / cut.sum(axis=1, keepdims=True) + DOUBT / N_CLASSES)

    found = local(window, asked, served(window, asked))

    np.testing.assert_allclose(found.asked[0], said_of(np.ones(size, dtype=np.bool_), asked.waves[0]), atol=1e-7)
    for fold in range(N_FOLDS):
        out = window.folds[0] == fold
        np.testing.assert_allclose(found.held_out[0, out], said_of(~out, shown[out]), atol=1e-6)


def test_a_client_that_was_in_another_place_before_knows_it_again() -> None:
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(400, 3)).astype(np.float32)
    inputs[:, 0] += np.repeat([-4.0, 4.0], 200)  # two places; the label has another meaning in each
    labels = np.where((inputs[:, 1] > 0) == (inputs[:, 0] > 0), 1, 0)
    shown = projected(inputs)
    width = wave_widths(shown[np.newaxis], np.ones((1, 400), dtype=np.bool_))
    seen = waves(shown[np.newaxis], width)[0]
    before, now, new = np.arange(150), np.arange(250, 350), np.arange(150, 200)
    past = seen[before].T @ np.concatenate([seen[before], np.eye(2)[labels[before]]], axis=1)
    scores = np.zeros((1, 1, 100, 2))
    window = Window(
        features=scores[:, 0],
        scores=scores,
        offsets=scores[:, :, :1],
        waves=seen[np.newaxis, now],
        labels=labels[np.newaxis, now],
        is_sample=np.ones((1, 100), dtype=np.bool_),
        past=past[np.newaxis],
    )
    asked = Seen(
        features=scores[:, 0, :50],
        scores=scores[:, :, :50],
        offsets=scores[:, :, :1],
        waves=seen[np.newaxis, new],
    )

    def right(one: Window) -> float:
        return float((local(one, asked, served(one, asked)).asked[0].argmax(axis=1) == labels[new]).mean())

    assert right(window) > 0.8
    assert right(replace(window, past=np.zeros_like(window.past))) < 0.6, "without a past it knows this place alone"


@given(st.integers(0, 10**6))
def test_products_of_waves_are_about_a_gaussian_kernel_of_inputs(seed: int) -> None:
    inputs = np.random.default_rng(seed).normal(size=(12, 5, 8)).astype(np.float32)
    shown = projected(inputs)
    width = wave_widths(shown[np.newaxis], np.ones((1, 12), dtype=np.bool_))
    seen = waves(shown[np.newaxis], width)[0]

    flat = inputs.reshape(12, -1).astype(np.float64)
    distances = np.square(flat[:, np.newaxis] - flat).sum(axis=2)
    assert seen.shape == (12, 2 * N_WAVES)
    np.testing.assert_allclose(seen @ seen.T, np.exp(-distances / width), atol=0.25)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_folds_are_stretches_of_about_one_length(sizes: list[int]) -> None:
    folds = folds_of(np.arange(max([*sizes, 1])) < np.array(sizes)[:, np.newaxis])

    for own, size in zip(folds, sizes, strict=True):
        counts = np.bincount(own[:size], minlength=N_FOLDS)
        assert (np.diff(own[:size]) >= 0).all()
        assert counts.size == N_FOLDS
        assert counts.max() - counts.min() <= 1
        assert (own[size:] == N_FOLDS).all()


def ridge_by_ridge(window: Window, asked: Seen) -> tuple[Stack, Stack]:
    """Return what kernel ridge regression of residuals says for each ridge, by leaving out one fold after another."""
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
        for fold in range(N_FOLDS):
            kept = window.folds[0] != fold
            dual = np.linalg.solve(kernel[np.ix_(kept, kept)] + ridge * np.eye(kept.sum()), residuals[kept])
            left_out[~kept] = base.held_out[0, ~kept] + kernel[np.ix_(~kept, kept)] @ dual
        dual = np.linalg.solve(kernel + ridge * np.eye(size), residuals)
        for found, numbers in ((held_out, left_out), (said, base.asked[0] + near @ dual)):
            cut = np.maximum(numbers, LEAST)
            found.append(cut / cut.sum(axis=1, keepdims=True))
    return np.stack(held_out), np.stack(said)


@given(st.integers(0, 10**6), st.integers(2, 23))
def test_the_closed_form_of_the_residual_expert_is_leaving_folds_out_one_by_one(seed: int, size: int) -> None:
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

    for expert in (residual, local):
        np.testing.assert_allclose(expert(window, asked, base).asked, base.asked)


def test_of_several_heads_the_one_that_explains_the_window_speaks() -> None:
    labels = np.array([[0, 1, 2] * 20])
    right, wrong = 4.0 * np.eye(N_CLASSES)[labels], 4.0 * np.eye(N_CLASSES)[(labels + 1) % 3]
    scores = np.stack([wrong, np.zeros_like(wrong), right], axis=1)
    none = np.zeros((1, 3, 1, N_CLASSES))
    features, there = np.zeros((1, 60, 1)), np.ones((1, 60), dtype=np.bool_)
    past = np.zeros((1, 1, 1 + N_CLASSES))
    window = Window(
        features=features, scores=scores, offsets=none, waves=features, labels=labels, is_sample=there, past=past
    )
    asked = Seen(features=features, scores=scores, offsets=none, waves=features)

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
