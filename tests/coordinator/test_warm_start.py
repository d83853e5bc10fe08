import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.coordinator.warm_start import INHERIT, head_counts, mixing_matrix
from fielding.distance import metric_named
from fielding.errors import OptionError

L1 = metric_named("l1")
OLD = np.array([[1.0, 0.0], [0.0, 1.0]])
NEW = np.array([[0.2, 0.8], [0.9, 0.1]])
HEADS = np.array([[3.0, 1.0], [0.0, 4.0]])


def mixing(inherit: str) -> list[list[float]]:
    return mixing_matrix(HEADS, old_centers=OLD, new_centers=NEW, metric=L1, inherit=inherit).tolist()


def test_average_mixes_old_models_by_head_count() -> None:
    assert mixing("average") == [[0.75, 0.25], [0.0, 1.0]]


def test_majority_takes_the_model_that_most_members_had() -> None:
    assert mixing("majority") == [[1.0, 0.0], [0.0, 1.0]]


def test_nearest_takes_the_model_of_the_nearest_old_center() -> None:
    assert mixing("nearest") == [[0.0, 1.0], [1.0, 0.0]]


def test_an_unknown_inheritance_names_the_known_ones() -> None:
    with pytest.raises(OptionError, match="did you mean 'average'"):
        mixing("averge")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1), st.sampled_from(sorted(INHERIT)))
def test_rows_sum_to_one(pairs: list[tuple[int, int]], inherit: str) -> None:
    old = np.array([pair[0] for pair in pairs], dtype=np.int32)
    _, new = np.unique([pair[1] for pair in pairs], return_inverse=True)
    heads = head_counts(old, new.astype(np.int32), n_old=4, n_new=int(new.max()) + 1)

    mixed = mixing_matrix(
        heads, old_centers=np.eye(4), new_centers=np.eye(4)[: heads.shape[0]], metric=L1, inherit=inherit
    )

    assert mixed.sum(axis=1) == pytest.approx(np.ones(heads.shape[0]))
    assert (mixed >= 0.0).all()


def test_the_same_partition_leaves_models_as_they_are() -> None:
    clusters = np.array([0, 1, 1, 2], dtype=np.int32)
    heads = head_counts(clusters, clusters, n_old=3, n_new=3)

    for inherit in INHERIT:
        same = mixing_matrix(heads, old_centers=np.eye(3), new_centers=np.eye(3), metric=L1, inherit=inherit)
        assert same.tolist() == np.eye(3).tolist()
