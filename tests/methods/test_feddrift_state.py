from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts, Mask, Matrix, Models
from fielding.federation.aggregation import Mean
from fielding.federation.clients import Clients
from fielding.federation.cluster_models import ClusterModels
from fielding.methods.feddrift import (
    EMPTY,
    FORGOTTEN,
    UNOWNED,
    Blocks,
    DriftState,
    concept_distances,
    link_models,
    merge_models,
    merging_shares,
    pooled_accuracies,
)


def state_of(owner: list[list[int]], member: list[int]) -> DriftState:
    """Return a state in which model m is the number 10 m, and all blocks hold samples."""
    blocks = Blocks(len(member), None)
    everybody = np.ones(len(member), dtype=np.bool_)
    for interval in range(len(owner)):
        blocks.grow(interval, everybody, everybody)
    blocks.owner[:] = owner
    models = ClusterModels(np.zeros(1, dtype=np.float32), Mean())
    state = DriftState(models, blocks, np.array(member))
    models.models = (10.0 * state.ids[:, np.newaxis]).astype(np.float32)
    return state


def test_merged_models_are_averaged_by_blocks_and_own_all_of_them() -> None:
    state = state_of([[0, 1, 2], [0, 2, 2]], [0, 2, 2])
    state.mark_used(np.array([2]))

    assert state.unite(np.array([0, 1, 0])) == 1
    # Two blocks of the model 0 and three of the model 20.
    assert state.cluster_models.models.tolist() == [[12.0], [10.0]]
    assert state.ids.tolist() == [0, 1]
    assert state.used.tolist() == [1, 0]
    assert state.blocks.owner.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert state.rows().tolist() == [0, 0, 0]


def test_nothing_to_merge_changes_nothing() -> None:
    state = state_of([[0, 1]], [0, 1])
    before = state.cluster_models.models

    assert state.unite(np.arange(2)) == 0
    assert state.cluster_models.models is before


def test_ids_are_never_used_again() -> None:
    state = state_of([[0, 1]], [1, 1])
    assert state.open([1], dropped=[0], released=0) == [2]
    state.assign({0: np.array([0])}, [2])
    assert state.open([0], dropped=[], released=3) == [3]

    assert state.ids.tolist() == [1, 2, 3]
    assert state.cluster_models.models[:, 0].tolist() == [10.0, 10.0, 10.0]
    assert state.blocks.owner.tolist() == [[2, 1]]


def test_models_thrown_away_take_their_blocks_along() -> None:
    state = state_of([[0, 1], [1, 1]], [1, 1])
    state.open([1], dropped=[0], released=0)

    assert state.blocks.owner.tolist() == [[FORGOTTEN, 1], [1, 1]]
    assert state.blocks.of(0, UNOWNED).tolist() == []


def test_unused_models_come_longest_unused_first() -> None:
    state = state_of([[0], [1], [2]], [3])
    for interval, model in enumerate((2, 0, 1)):
        state.used[model] = interval
    nobody, nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    assert state.unused(leaving=nobody, needed=nothing).tolist() == [2, 0, 1]
    assert state.unused(leaving=nobody, needed=np.array([0])).tolist() == [2, 1]
    assert state.unused(leaving=np.array([0]), needed=nothing).tolist() == [2, 3, 0, 1]


def test_a_model_trains_only_where_its_blocks_certainly_hold_samples() -> None:
    blocks = Blocks(4, n_visible=2)
    nobody, everybody = np.zeros(4, dtype=np.bool_), np.ones(4, dtype=np.bool_)
    blocks.grow(0, np.array([True, False, False, False]), nobody)
    blocks.grow(1, np.array([False, False, False, True]), nobody)
    blocks.owner[:] = [[5, 5, 5, 7], [7, EMPTY, UNOWNED, 7]]

    # Known to hold some; all that may hold some; perhaps the other block holds them; none of its own.
    assert blocks.trainable(5).tolist() == [True, True, False, False]
    blocks.grow(2, nobody, everybody)
    assert blocks.trainable(5).tolist() == [False] * 4, "interval 0 does not count any more"
    assert blocks.trainable(7).tolist() == [True, False, False, True]


# ---- feddrift merging -----------------------------------------------------------------------------------------


@st.composite
def accuracy_tables(draw: st.DrawFn) -> Matrix:
    n_models = draw(st.integers(1, 7))
    shares = st.integers(0, 20).map(lambda part: part / 20)
    cells = draw(st.lists(shares, min_size=n_models**2, max_size=n_models**2))
    return np.array(cells).reshape(n_models, n_models)


@given(accuracy_tables(), st.integers(0, 20).map(lambda part: part / 20))
def test_no_two_models_of_a_group_are_farther_apart_than_the_threshold(pooled: Matrix, threshold: float) -> None:
    distances = concept_distances(pooled)
    groups = link_models(distances, threshold)

    assert (distances == distances.T).all()
    assert (distances >= 0.0).all()
    assert groups[0] == 0
    assert sorted(set(groups.tolist())) == list(range(groups.max() + 1))
    together = groups[:, np.newaxis] == groups
    assert (distances[together] <= threshold + 1e-9).all()
    # As far as it can go: any two groups hold two models that are too far apart.
    for one in range(groups.max() + 1):
        for other in range(one):
            assert distances[np.ix_(groups == one, groups == other)].max() > threshold


def test_models_that_are_better_on_foreign_data_than_on_their_own_are_not_apart() -> None:
    assert concept_distances(np.array([[0.5, 0.9], [0.9, 0.5]])).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_distance_is_that_of_the_worse_direction() -> None:
    # Model 0 loses 0.3 on the data of 1; model 1 loses 0.1 on those of 0.
    pooled = np.array([[0.9, 0.6], [0.7, 0.8]])

    assert concept_distances(pooled)[0, 1] == 0.9 - 0.6


def test_one_model_is_one_group_and_none_is_none() -> None:
    assert link_models(np.zeros((1, 1)), 0.1).tolist() == [0]
    assert link_models(np.zeros((0, 0)), 0.1).tolist() == []


def test_answers_about_no_samples_are_none() -> None:
    pooled = pooled_accuracies(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]), np.array([0, 2]))

    assert np.isnan(pooled[:, 0]).all()
    assert pooled[:, 1].tolist() == [0.5, 0.5]


def test_merging_pools_by_samples_not_by_blocks() -> None:
    # Model 1 is all right on 30 samples of its own and all wrong on 10, model 0 on all of them 0.7: 0.75 against 0.7.
    state = DriftState(ClusterModels(np.zeros(1, np.float32), Mean()), Blocks(3, None), np.array([0, 1, 1]))
    everybody = np.ones(3, dtype=np.bool_)
    state.blocks.grow(0, everybody, everybody)
    state.blocks.begin(everybody, state.member)
    answers = {0: ([0.7, 0.7], 20), 1: ([0.7, 1.0], 30), 2: ([0.7, 0.0], 10)}
    clients = cast("Clients", Told(answers))

    assert merge_models(state, clients, threshold=0.01, is_sampled=False, held=~everybody) == 0
    assert merge_models(state, clients, threshold=0.05, is_sampled=False, held=~everybody) == 1


class Told:
    """Clients that were told what to answer, and how many samples it is about."""

    def __init__(self, answers: Mapping[int, tuple[list[float], int]]) -> None:
        self._answers = answers

    def askable(self) -> Mask:
        return np.ones(len(self._answers), dtype=np.bool_)

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:  # noqa: ARG002
        return np.array([self._answers[client][1] for client in clients.tolist()])

    def accuracies(self, clients: Counts, models: Models, *, blocks: Sequence[Counts], held: Mask) -> Matrix:  # noqa: ARG002
        return np.array([self._answers[client][0] for client in clients.tolist()])


def test_blocks_of_several_clients_are_pooled_by_their_samples() -> None:
    accuracies = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    pooled = pooled_accuracies(accuracies, np.array([0, 0, 1]), np.array([1, 3, 2]))

    assert pooled.tolist() == [[0.25, 0.5], [0.75, 0.5]]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_merged_models_are_averages_by_blocks(labels: list[int], given_data: st.DataObject) -> None:
    _, groups = np.unique(labels, return_inverse=True)
    weights = np.array(given_data.draw(st.lists(st.integers(0, 9), min_size=len(labels), max_size=len(labels))), float)
    shares = merging_shares(groups, weights)

    assert np.allclose(shares.sum(axis=1), 1.0)
    assert (shares[groups[np.newaxis] != np.arange(shares.shape[0])[:, np.newaxis]] == 0.0).all()
