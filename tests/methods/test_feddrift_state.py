import numpy as np

from fielding.federation.aggregation import Mean
from fielding.federation.cluster_models import ClusterModels
from fielding.methods.feddrift import EMPTY, FORGOTTEN, UNOWNED, Blocks, DriftState


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
