import numpy as np
import pytest

from fielding.client.representation import Seen
from fielding.client.representation.embedding import Embedding, ResidualEmbedding


def seen_of(features: list[list[float]], labels: list[int], sizes: list[int]) -> Seen:
    scores = np.zeros((len(labels), 2), dtype=np.float32)
    return Seen(
        labels=np.array(labels), features=np.array(features, dtype=np.float32), scores=scores, sizes=np.array(sizes)
    )


def test_embedding_is_the_mean_feature_with_or_without_labels() -> None:
    seen = seen_of([[1.0, 2.0], [3.0, 6.0], [5.0, 5.0]], [0, -1, -1], [2, 1])
    tallies = Embedding().tally(seen)

    assert tallies.tolist() == [[2, 50, 4, 8], [1, 50, 5, 5]]
    assert Embedding().vectors(tallies, tallies[0]).tolist() == [[2, 4, 1], [5, 5, 1]]


def test_embedding_of_zeros_is_not_silence() -> None:
    tallies = Embedding().tally(seen_of([[0.0, 0.0]], [0], [1]))

    assert Embedding().vectors(tallies, tallies[0]).tolist() == [[0, 0, 1]]


def test_scale_of_the_embedding_is_the_spread_of_samples() -> None:
    tallies = Embedding().tally(seen_of([[1.0, 0.0], [5.0, 0.0]], [0, 0], [2]))

    assert Embedding().scale(tallies[0]) == pytest.approx(2.0)
    assert Embedding().scale(np.zeros(4)) == 1.0


def test_residual_takes_the_class_means_of_everybody_off() -> None:
    own = ResidualEmbedding(dims=2)
    everywhere = own.tally(seen_of([[0.0, 0.0], [2.0, 0.0], [10.0, 4.0]], [0, 0, 1], [3]))[0]
    tallies = own.tally(seen_of([[4.0, 1.0], [10.0, 4.0]], [0, 1], [2]))

    # Class 0 lies at (1, 0) for everybody and at (4, 1) here; class 1 has not moved.
    assert own.vectors(tallies, everywhere).tolist() == [[1.5, 0.5, 1.0]]


def test_residual_of_a_new_class_is_its_distance_from_the_mean_of_all() -> None:
    own = ResidualEmbedding(dims=1)
    everywhere = own.tally(seen_of([[1.0], [3.0]], [0, 0], [2]))[0]

    assert own.vectors(own.tally(seen_of([[7.0]], [1], [1])), everywhere).tolist() == [[5, 1]]


def test_residual_without_a_reference_is_the_mean() -> None:
    own = ResidualEmbedding(dims=1)

    assert own.vectors(own.tally(seen_of([[7.0]], [1], [1])), np.zeros(5)).tolist() == [[7, 1]]


def test_scale_of_the_residual_is_the_spread_within_classes() -> None:
    own = ResidualEmbedding(dims=1)
    everywhere = own.tally(seen_of([[1.0], [3.0], [101.0], [103.0]], [0, 0, 1, 1], [4]))[0]

    assert own.scale(everywhere) == pytest.approx(1.0)
    assert own.scale(own.tally(seen_of([[0.0], [6.0]], [0, 0], [2]))[0]) == pytest.approx(3.0)
    assert own.scale(np.zeros(5)) == 1.0


def test_residual_is_no_longer_than_its_dims() -> None:
    own = ResidualEmbedding(dims=3)
    tallies = own.tally(seen_of([[float(at) for at in range(10)]], [0], [1]))

    assert tallies.shape == (1, 2 * (3 + 1) + 1)
    assert own.vectors(tallies, np.zeros(9)).shape == (1, 4)
