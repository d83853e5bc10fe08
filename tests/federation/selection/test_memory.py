import numpy as np
import pytest

from fielding.errors import CheckpointError
from fielding.federation.selection.selector import SelectionMemory


def some_memory() -> SelectionMemory:
    memory = SelectionMemory(3, clients={"times": 0.0}, clusters={"pace": 9.0})
    memory.grow(2)
    memory.clusters["pace"][:] = [1.0, 2.0]
    return memory


def test_a_new_cluster_remembers_what_its_largest_parent_did() -> None:
    memory = some_memory()

    memory.inherit(np.array([[0.4, 0.6], [0.5, 0.5], [1.0, 0.0]]))

    assert memory.clusters["pace"].tolist() == [2.0, 1.0, 1.0]


def test_the_identity_changes_nothing_and_unknown_rows_begin_afresh() -> None:
    memory = some_memory()

    memory.inherit(np.eye(3))

    assert memory.clusters["pace"].tolist() == [1.0, 2.0, 9.0]
    assert memory.row(1) == {"pace": 2.0}
    assert memory.row(7) == {"pace": 9.0}


def test_growing_never_takes_a_row_away() -> None:
    memory = some_memory()

    memory.grow(1)

    assert memory.clusters["pace"].tolist() == [1.0, 2.0]


def test_clients_that_join_begin_afresh_and_the_others_stay() -> None:
    memory = SelectionMemory(2, clients={"times": 0.0, "seconds": np.nan}, clusters={"pace": 9.0})
    memory.clients["times"][:] = [3.0, 4.0]

    memory.grow_clients(3)

    assert memory.clients["times"].tolist() == [3.0, 4.0, 0.0]
    assert np.isnan(memory.clients["seconds"]).tolist() == [True, True, True]
    assert memory.clusters["pace"].tolist() == [9.0]


def test_what_is_restored_is_a_copy() -> None:
    memory, other = some_memory(), some_memory()
    arrays = memory.arrays()

    other.restore(arrays)
    other.clients["times"][0] = 5.0

    assert memory.clients["times"][0] == arrays["client/times"][0] == 0.0


def test_what_another_selector_did_not_remember_begins_afresh() -> None:
    memory, fresh = some_memory(), some_memory()

    memory.restore({"client/other": np.ones(3)})

    assert {name: array.tolist() for name, array in memory.arrays().items()} == {
        name: array.tolist() for name, array in fresh.arrays().items()
    }


def test_a_checkpoint_of_another_federation_is_refused() -> None:
    memory = some_memory()

    with pytest.raises(CheckpointError, match="4 entries, not 3"):
        memory.restore({**memory.arrays(), "client/times": np.zeros(4)})
