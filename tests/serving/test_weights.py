"""Weights by evidence: the bound of fixed share on any stream, and mixtures that are as likely as they can be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fielding.serving.weights import (
    LEAST,
    MOST_WORSE,
    SHARE,
    UNIFORM,
    arrival_losses,
    capped_losses,
    common_belief,
    heard_losses,
    likelihoods,
    memories,
    posterior_weights,
    shared_weights,
    simplex_weights,
    window_weights,
)

chances = st.floats(0.0, 1.0)
streams = st.tuples(st.integers(2, 5), st.integers(1, 12), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=chances),
        arrays(np.float64, (shape[1], shape[0]), elements=st.floats(0.0, 9.0)),
    )
)


def best_sequence(losses: np.ndarray, beliefs: np.ndarray) -> float:
    """Return the least, over all sequences of experts, of their loss and what the bound adds for each step."""
    cost = -np.log(beliefs[0]) + losses[0]
    for belief, loss in zip(beliefs[1:], losses[1:], strict=True):
        stays = cost - np.log(1.0 - SHARE + SHARE * belief)
        comes = cost.min() - np.log(SHARE * belief)
        cost = np.minimum(stays, comes) + loss
    return float(cost.min())


@given(streams)
def test_the_mixture_loses_no_more_than_the_bound_on_any_stream_whatever_others_believe(
    stream: tuple[np.ndarray, np.ndarray],
) -> None:
    likely, heard = stream  # (experts, arrivals, samples), and what is heard of all clients before each arrival
    n_experts, n_arrivals, _ = likely.shape
    beliefs = np.stack([common_belief(one, np.ones(n_experts)) for one in heard])
    posterior, losses, loss = np.full((1, n_experts), np.nan), np.empty((n_arrivals, n_experts)), 0.0
    for at in range(n_arrivals):
        weights, given_to = shared_weights(posterior, beliefs[at]), np.maximum(likely[:, at], LEAST)
        loss -= float(np.log(weights[0] @ given_to).mean())
        losses[at] = arrival_losses(likely[:, np.newaxis, at], np.ones((1, likely.shape[2]), dtype=np.bool_))[0]
        posterior = posterior_weights(weights, losses[at : at + 1])

    assert loss <= best_sequence(losses, beliefs) + 1e-9
    assert beliefs.min() >= UNIFORM / n_experts - 1e-12


def test_an_expert_that_becomes_right_is_believed_again_within_a_few_arrivals() -> None:
    belief = common_belief(np.array([0.1, 9.0]), np.ones(2))  # all others are served badly by the second
    weights = shared_weights(np.array([[1.0, 0.0]]), belief)
    for _ in range(3):
        weights = shared_weights(posterior_weights(weights, np.array([[3.0, 0.1]])), belief)

    assert weights[0, 1] > 0.7


def test_padding_does_not_count_as_a_sample_that_came() -> None:
    likely, there = np.array([[[0.5, 0.1]], [[0.25, 0.9]]]), np.array([[True, False]])

    np.testing.assert_allclose(arrival_losses(likely, there), -np.log([[0.5, 0.25]]))


def test_clients_without_samples_believe_what_all_do_and_others_most_of_their_own() -> None:
    found = shared_weights(np.array([[np.nan, np.nan], [1.0, 0.0]]), np.array([0.25, 0.75]))

    np.testing.assert_allclose(found, [[0.25, 0.75], [1.0 - SHARE * 0.75, SHARE * 0.75]])


@given(arrays(np.float64, (4, 3), elements=st.floats(0.0, 5.0)), st.floats(allow_nan=True, allow_infinity=True))
def test_what_one_client_tells_counts_for_no_more_than_one_client(told: np.ndarray, lie: float) -> None:
    """Whatever a liar says, the difference between two experts moves by what one client can move it."""
    honest, start = heard_losses(np.full(3, np.nan), told), np.full(3, np.nan)

    with_lie = heard_losses(start, np.concatenate([told, [[lie, 0.0, 0.0]]]))

    gaps, lied = honest - honest[1], with_lie - with_lie[1]
    assert np.isfinite(with_lie).all()
    assert (np.abs(lied - gaps * 4 / 5) <= MOST_WORSE / 5 + 1e-9).all() or np.allclose(lied, gaps)


def test_while_nobody_told_anything_the_start_is_believed() -> None:
    nothing = heard_losses(np.full(2, np.nan), np.full((3, 2), np.nan))

    np.testing.assert_allclose(common_belief(nothing, np.array([4.0, 1.0])), 0.98 * np.array([0.8, 0.2]) + 0.01)


@given(arrays(np.float64, (3, 1, 8), elements=st.floats(0.01, 1.0)))
def test_no_other_weights_make_a_window_likelier(likely: np.ndarray) -> None:
    prior, there = np.full((1, 3), 0.5), np.ones((1, 8), dtype=np.bool_)

    def fit(weights: np.ndarray) -> float:
        return float(np.log(weights @ likely[:, 0]).sum() + 0.5 * np.log(weights).sum())

    found = window_weights(likely, there, prior)[0]

    assert abs(found.sum() - 1.0) < 1e-9
    for other in np.random.default_rng(1).dirichlet(np.ones(3), size=20):
        assert fit(found) >= fit(np.maximum(other, 1e-9)) - 1e-2


def test_samples_that_every_expert_finds_impossible_say_nothing() -> None:
    likely = np.array([[[0.0, 0.9]], [[0.0, 0.1]]])
    prior = np.ones((1, 2))

    one = window_weights(likely, np.array([[True, True]]), prior)
    other = window_weights(likely[:, :, 1:], np.array([[True]]), prior)

    np.testing.assert_allclose(one, other, atol=1e-6)


def test_of_two_ways_whose_errors_cancel_both_get_half() -> None:
    gram = np.array([[[1.0, -0.9], [-0.9, 1.0]], [[1.0, 0.0], [0.0, 100.0]]])

    found = simplex_weights(gram)

    np.testing.assert_allclose(found[0], [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(found[1], [100 / 101, 1 / 101], atol=1e-2)


def test_likelihoods_are_the_shares_of_the_labels() -> None:
    said = np.array([[[[0.2, 0.8], [0.6, 0.4]]]])

    assert likelihoods(said, np.array([[1, 0]])).tolist() == [[[0.8, 0.6]]]


def test_once_losses_are_known_the_start_counts_for_nothing() -> None:
    losses = np.array([0.8, 0.87])

    found = common_belief(losses, np.array([1.0, 99.0]))

    np.testing.assert_allclose(found, common_belief(losses, np.ones(2)))
    assert found[0] > 0.85


LOSSES = arrays(np.float64, (3, 4), elements=st.floats(0.0, 2.0))


@given(LOSSES, LOSSES, st.integers(0, 3), st.floats(0.0, 3.0))
def test_what_drift_does_to_all_experts_alike_is_no_memory(
    arrived: np.ndarray, held_out: np.ndarray, honest: int, drift: float
) -> None:
    found = memories(arrived, held_out, honest=honest, n_classes=10)

    assert (found[:, honest] == 0.0).all()
    moved = memories(arrived + drift, held_out, honest=honest, n_classes=1000)
    np.testing.assert_allclose(moved, found, atol=1e-12)


def test_what_is_said_of_padding_means_nothing_not_even_where_it_is_no_number() -> None:
    likely = np.array([[[0.5, np.nan]], [[0.25, -1.0]]])

    np.testing.assert_allclose(arrival_losses(likely, np.array([[True, False]])), [-np.log([0.5, 0.25])])


@given(LOSSES, LOSSES)
def test_what_nobody_could_know_tells_nothing_of_memory(arrived: np.ndarray, held_out: np.ndarray) -> None:
    arrived[:, 0] = np.log(10)

    assert not memories(arrived, held_out, honest=0, n_classes=10).any()


@given(arrays(np.float64, (3, 4), elements=st.floats(0.0, 99.0)))
def test_a_loss_counts_as_worse_than_the_best_by_a_bounded_amount(losses: np.ndarray) -> None:
    found = capped_losses(losses)

    assert (np.ptp(found, axis=1) <= MOST_WORSE + 1e-12).all()
    assert (found <= np.maximum(losses, -np.log(LEAST))).all()
    near = (losses.max(axis=1) <= -np.log(LEAST)) & (np.ptp(losses, axis=1) <= MOST_WORSE)
    np.testing.assert_array_equal(found[near], losses[near])
