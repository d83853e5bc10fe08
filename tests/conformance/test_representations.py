"""What every representation must be able to do, whatever it sees."""

import pickle

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding._typing import Counts, Matrix
from fielding.client.report import silent_rows
from fielding.client.representation import (
    REPRESENTATIONS,
    Representation,
    Seen,
    representation_named,
    representation_options,
    representation_summary,
)
from fielding.distance import METRICS, metric_named
from fielding.rng import stream

NAMES = [*REPRESENTATIONS, "embedding+2*confusion", "label+class-means+0.5*predictions", "gradient+loss"]
every_one = pytest.mark.parametrize("own", [representation_named(name) for name in NAMES], ids=NAMES)

N_FEATURES, N_CLASSES = 6, 4


def seen_from(
    labels: Counts, features: npt.NDArray[np.float32], scores: npt.NDArray[np.float32], sizes: Counts
) -> Seen:
    """Return samples whose gradients are those of a last layer behind five parameters that nothing depends on."""

    def gradients() -> Matrix:
        owners, rows = np.repeat(np.arange(sizes.size), sizes), np.arange(labels.size)
        powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True, initial=-np.inf))
        errors = powers / powers.sum(axis=1, keepdims=True)
        errors[rows, np.maximum(labels, 0)] -= 1.0
        errors[labels < 0] = 0.0
        weights = (errors[:, :, None] * features[:, None, :].astype(np.float64)).reshape(
            labels.size, scores.shape[1] * features.shape[1]
        )
        sums = np.zeros((sizes.size, 5 + weights.shape[1] + errors.shape[1]))
        np.add.at(sums, owners, np.hstack([np.zeros((labels.size, 5)), weights, errors]))
        return sums

    n_head = scores.shape[1] * (features.shape[1] + 1)
    return Seen(labels=labels, features=features, scores=scores, sizes=sizes, gradients=gradients, n_head=n_head)


def random_seen(sizes: list[int], *, seed: int = 0, n_classes: int = N_CLASSES) -> Seen:
    rng, n_samples = stream(seed, "seen", *sizes), sum(sizes)
    return seen_from(
        rng.integers(0, n_classes, n_samples),
        rng.standard_normal((n_samples, N_FEATURES)).astype(np.float32),
        rng.standard_normal((n_samples, n_classes)).astype(np.float32),
        np.array(sizes, dtype=np.int64),
    )


def rows_of(seen: Seen, rows: Counts, sizes: Counts) -> Seen:
    return seen_from(seen.labels[rows], seen.features[rows], seen.scores[rows], sizes)


def described(own: Representation, seen: Seen) -> npt.NDArray[np.float32]:
    tallies = own.tally(seen)
    return own.vectors(tallies, tallies.sum(axis=0)).astype(np.float32)


@every_one
def test_it_gives_every_client_a_vector_and_a_silent_one_zeros(own: Representation) -> None:
    tallies = own.tally(random_seen([3, 0, 5, 1]))
    vectors = own.vectors(tallies, tallies.sum(axis=0))

    assert tallies.dtype == np.float64
    assert tallies.any(axis=1).tolist() == [True, False, True, True]
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert silent_rows(vectors).tolist() == [False, True, False, False]


@every_one
def test_its_metric_suits_its_kind(own: Representation) -> None:
    vectors = described(own, random_seen([3, 4, 5, 1]))

    assert own.metric in METRICS
    if own.kind == "histogram":
        assert np.allclose(vectors.sum(axis=1), 1.0, atol=1e-6)
        assert (vectors >= 0.0).all()
    else:
        assert not metric_named(own.metric).needs_histogram


@every_one
def test_sums_of_parts_of_a_window_add_up_to_those_of_the_window(own: Representation) -> None:
    seen = random_seen([6, 4])
    first = rows_of(seen, np.array([0, 1, 2, 6]), np.array([3, 1]))
    rest = rows_of(seen, np.array([3, 4, 5, 7, 8, 9]), np.array([3, 3]))

    assert np.allclose(own.tally(first) + own.tally(rest), own.tally(seen), rtol=1e-12, atol=1e-12)


@every_one
def test_a_window_that_slid_is_described_like_one_seen_afresh(own: Representation) -> None:
    seen = random_seen([8, 5])
    leaving = rows_of(seen, np.array([0, 1, 8, 9, 10, 11, 12]), np.array([2, 5]))
    staying = rows_of(seen, np.arange(2, 8), np.array([6, 0]))
    everywhere = own.tally(seen).sum(axis=0)

    slid = own.vectors(own.tally(seen) - own.tally(leaving), everywhere)

    assert np.allclose(slid, own.vectors(own.tally(staying), everywhere), atol=1e-6)
    assert silent_rows(slid).tolist() == [False, True]


@every_one
def test_the_order_of_samples_within_a_client_does_not_matter(own: Representation) -> None:
    seen = random_seen([5, 3])
    order = np.array([4, 2, 0, 1, 3, 7, 5, 6])

    assert np.allclose(described(own, rows_of(seen, order, seen.sizes)), described(own, seen), atol=1e-6)


@every_one
def test_a_client_is_described_alone_as_among_others(own: Representation) -> None:
    seen = random_seen([5, 3, 40])
    everywhere = own.tally(seen).sum(axis=0)
    alone = own.tally(rows_of(seen, np.arange(5, 8), np.array([3])))

    among_others = own.vectors(own.tally(seen), everywhere)[1]

    assert np.allclose(own.vectors(alone, everywhere)[0], among_others, atol=1e-6)


@every_one
def test_every_sample_twice_is_the_same_window_up_to_what_small_windows_are_trusted_with(own: Representation) -> None:
    seen = random_seen([30, 200])
    twice = rows_of(seen, np.concatenate([np.tile(np.arange(30), 2), np.tile(np.arange(30, 230), 2)]), seen.sizes * 2)
    everywhere = own.tally(seen).sum(axis=0)

    once_vectors, twice_vectors = (own.vectors(own.tally(one), everywhere) for one in (seen, twice))

    assert np.abs(once_vectors - twice_vectors).max() < 0.1


@every_one
def test_samples_without_a_label_say_nothing_to_those_that_need_one(own: Representation) -> None:
    seen = random_seen([3, 3])
    labels = np.array([-1, -1, -1, 1, -1, 2])
    partly = seen_from(labels, seen.features, seen.scores, seen.sizes)

    tallies = own.tally(partly)
    vectors = own.vectors(tallies, own.tally(seen).sum(axis=0))

    assert np.isfinite(vectors).all()
    assert silent_rows(vectors).tolist() == [own.needs_labels, False]
    if own.needs_labels:
        only_known = rows_of(
            seen_from(np.maximum(labels, 0), seen.features, seen.scores, seen.sizes), np.array([3, 5]), np.array([0, 2])
        )
        assert np.allclose(tallies, own.tally(only_known))


@every_one
def test_it_edits_nothing_and_shares_no_memory(own: Representation) -> None:
    seen = random_seen([3, 2])
    before: list[npt.NDArray] = [seen.labels.copy(), seen.features.copy(), seen.scores.copy(), seen.sizes.copy()]
    tallies = own.tally(seen)
    kept, everywhere = tallies.copy(), tallies.sum(axis=0)

    vectors = own.vectors(tallies, everywhere)

    after: list[npt.NDArray] = [seen.labels, seen.features, seen.scores, seen.sizes]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    assert np.array_equal(tallies, kept)
    assert np.array_equal(everywhere, kept.sum(axis=0))
    assert not np.shares_memory(vectors, tallies)


@every_one
def test_it_gives_the_same_numbers_again_and_survives_a_copy(own: Representation) -> None:
    seen = random_seen([3, 2])

    assert np.array_equal(described(own, seen), described(pickle.loads(pickle.dumps(own)), seen))


@pytest.mark.parametrize("name", [name for name in REPRESENTATIONS if "seed" in representation_options(name)])
def test_the_seed_decides_how_it_is_projected(name: str) -> None:
    seen = random_seen([3, 2])
    first, again, other = (representation_named(name, {"dims": 2, "seed": seed}).tally(seen) for seed in (0, 0, 1))

    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


@every_one
def test_nobody_at_all_is_no_trouble(own: Representation) -> None:
    tallies = own.tally(random_seen([0, 0]))

    assert not tallies.any()
    assert not own.vectors(tallies, tallies.sum(axis=0)).any()


@every_one
def test_no_clients_give_no_vectors_of_the_usual_length(own: Representation) -> None:
    everywhere = own.tally(random_seen([5])).sum(axis=0)
    nobody = own.tally(random_seen([]))

    assert nobody.shape == (0, everywhere.size)
    assert own.vectors(nobody, everywhere).shape == (0, own.vectors(everywhere[None], everywhere).shape[1])


@st.composite
def odd_windows(draw: st.DrawFn) -> Seen:
    """Draw clients with few samples, one class, unknown labels, equal or huge features."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    n_samples, n_classes, n_features = sum(sizes), draw(st.integers(1, 4)), draw(st.integers(0, 3))
    numbers = st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 1e-30, 1e6, -3e38, 3e38])
    bounded = st.sampled_from([0.0, 1.0, -1.0, 50.0, -1e4, 1e4])
    return seen_from(
        np.array(
            draw(st.lists(st.integers(-1, n_classes - 1), min_size=n_samples, max_size=n_samples)), dtype=np.int64
        ),
        drawn_matrix(draw, numbers, (n_samples, n_features)),
        drawn_matrix(draw, bounded, (n_samples, n_classes)),
        np.array(sizes, dtype=np.int64),
    )


def drawn_matrix(draw: st.DrawFn, numbers: st.SearchStrategy[float], shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    size = shape[0] * shape[1]
    return np.array(draw(st.lists(numbers, min_size=size, max_size=size)), dtype=np.float32).reshape(shape)


@every_one
@given(seen=odd_windows(), blank=st.booleans())
@settings(deadline=None, max_examples=40)
def test_vectors_are_finite_and_zero_for_the_silent_alone(own: Representation, seen: Seen, blank: bool) -> None:
    tallies = own.tally(seen)
    reference = np.zeros(tallies.shape[1]) if blank else tallies.sum(axis=0)

    vectors = own.vectors(tallies, reference)

    n_telling = np.bincount(
        seen.owners[seen.labels >= 0] if own.needs_labels else seen.owners, minlength=seen.sizes.size
    )
    assert np.isfinite(tallies).all()
    assert np.isfinite(vectors).all()
    assert (silent_rows(vectors) == (n_telling == 0)).all()
    assert (tallies.any(axis=1) == (n_telling > 0)).all()


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_it_is_summed_up_in_a_line(name: str) -> None:
    summary = representation_summary(name)

    assert summary.endswith(".")
    assert 20 < len(summary) < 121
