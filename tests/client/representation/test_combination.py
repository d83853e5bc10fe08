import numpy as np
import pytest

from fielding.client.representation import Combination, Part, Representation, Seen
from fielding.client.representation.confusion import Confusion, Predictions
from fielding.client.representation.embedding import Embedding
from fielding.client.representation.label import LabelShares
from fielding.distance import metric_named
from fielding.errors import OptionError


def seen_of(labels: list[int], sizes: list[int]) -> Seen:
    features = np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 4.0], [3.0, 0.0]], dtype=np.float32)[: len(labels)]
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], dtype=np.float32)[: len(labels)]
    return Seen(labels=np.array(labels), features=features, scores=scores, sizes=np.array(sizes))


def combined(*parts: tuple[Representation, float]) -> Combination:
    return Combination(parts=tuple(Part(representation=own, weight=weight) for own, weight in parts))


def distances(own: Representation, seen: Seen) -> np.ndarray:
    tallies = own.tally(seen)
    vectors = own.vectors(tallies, tallies.sum(axis=0))
    return metric_named(own.metric).between(vectors, vectors)


def test_distance_of_shares_is_hellingers_times_the_weight() -> None:
    seen = seen_of([0, 1, 1, 1], [2, 2])
    hellinger = metric_named("hellinger").between(np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]]))[0, 0]

    assert distances(combined((LabelShares(), 3.0)), seen)[0, 1] == pytest.approx(3.0 * hellinger, rel=1e-6)


def test_distance_of_vectors_is_in_units_of_their_scale() -> None:
    seen, own = seen_of([0, 1, 1, 1], [2, 2]), Embedding()
    scale = own.scale(own.tally(seen).sum(axis=0))

    assert distances(combined((own, 2.0)), seen)[0, 1] == pytest.approx(2.0 * distances(own, seen)[0, 1] / scale)


def test_squared_distances_of_parts_add_up() -> None:
    seen = seen_of([0, 1, 1, 1], [2, 2])
    parts = [distances(combined((own, 1.0)), seen)[0, 1] for own in (LabelShares(), Embedding(), Confusion())]
    all_of_them = combined((LabelShares(), 1.0), (Embedding(), 1.0), (Confusion(), 1.0))

    assert distances(all_of_them, seen)[0, 1] ** 2 == pytest.approx(sum(part**2 for part in parts))


def test_client_that_a_part_says_nothing_about_is_like_everybody_there() -> None:
    """The first has no labels, and predictions like the second, which has the labels of everybody."""
    own = combined((LabelShares(), 1.0), (Predictions(), 1.0))

    assert distances(own, seen_of([-1, -1, 0, 1], [2, 2]))[0, 1] == pytest.approx(0.0, abs=1e-7)


def test_sums_alone_say_how_wide_the_parts_are() -> None:
    own = combined((Embedding(), 1.0), (LabelShares(), 1.0))
    tallies = own.tally(seen_of([0, 1, 1], [1, 2]))

    assert tallies[:, :3].tolist() == [[1, 4, 2], [2, 8, 4]]
    assert own.vectors(tallies, np.zeros(tallies.shape[1])).shape == (2, (2 + 1) + 2 + 1)


def test_a_combination_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="a combination has no parts; give at least one"):
        Combination(parts=())
