import numpy as np

from fielding.methods.cfl import SplitTree

EAST_WEST = np.array([[1.0, 0.0], [-1.0, 0.0]], dtype=np.float32)
NORTH_SOUTH = np.array([[0.0, 1.0], [0.0, -1.0]], dtype=np.float32)


def split_twice() -> SplitTree:
    """Return a tree of 6 clients: 0 and 1 go east, 2 and 3 west; then 2 goes north and 3 south; 4 and 5 wait."""
    tree = SplitTree(6, 2)
    model = np.zeros(2, dtype=np.float32)
    tree.split(0, (np.array([0, 1]), np.array([2, 3])), model=model, directions=EAST_WEST)
    tree.split(1, (np.array([2]), np.array([3])), model=model + 1, directions=NORTH_SOUTH)
    return tree


def test_the_first_half_keeps_the_row_and_the_second_comes_last() -> None:
    tree = split_twice()

    assert tree.membership().tolist() == [0, 0, 1, 2, -1, -1]
    assert tree.leaves == (1, 3, 4)
    assert tree.models.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_waiting_clients_walk_node_by_node_to_the_more_similar_half() -> None:
    tree = split_twice()

    assert tree.split_at(np.array([4, 5])).tolist() == [0, 0]
    tree.walk(np.array([4, 5]), np.array([[3.0, 1.0], [-2.0, 1.0]], dtype=np.float32))
    assert tree.membership().tolist() == [0, 0, 1, 2, 0, -1]
    assert tree.split_at(np.array([5])).tolist() == [1]
    tree.walk(np.array([5]), np.array([[9.0, -1.0]], dtype=np.float32))

    assert tree.membership().tolist() == [0, 0, 1, 2, 0, 2]
    assert not tree.waits().any()


def test_a_client_whose_update_points_nowhere_goes_to_the_first_half() -> None:
    tree = split_twice()

    tree.walk(np.array([4]), np.zeros((1, 2), dtype=np.float32))

    assert tree.membership()[4] == 0


def test_a_restored_tree_is_the_same_tree() -> None:
    tree, other = split_twice(), SplitTree(6, 2)

    other.restore(tree.arrays())
    for one in (tree, other):
        one.walk(np.array([4]), np.array([[-1.0, 0.0]], dtype=np.float32))
        one.split(0, (np.array([0]), np.array([1])), model=np.ones(2, dtype=np.float32), directions=NORTH_SOUTH)

    assert other.leaves == tree.leaves == (5, 3, 4, 6)
    assert other.membership().tolist() == tree.membership().tolist()
    assert {name: array.tolist() for name, array in other.arrays().items()} == {
        name: array.tolist() for name, array in tree.arrays().items()
    }
