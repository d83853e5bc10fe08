from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Json
from fielding.errors import OptionError
from fielding.federation.aggregation import aggregator_named
from fielding.federation.clients import Updates
from fielding.federation.evaluation import adjusted_rand_index
from fielding.methods.cfl import CFL, LastUpdates, SplitTree, bipartition
from fielding.methods.global_model import GlobalModel
from fielding.methods.method import MethodSetting
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.methods.planted import MODEL_BYTES, N_NUMBERS, advanced, planted_clients, setting_of
from tests.simulation.run_cases import left_behind, stop_and_resume, table

TWO = [1, 0, 1, 1, 0, 0]
THREE = [2, 0, 1, 2, 0, 1, 0, 2, 1]
N_ROUNDS = 30


def two_numbers(n_clients: int) -> MethodSetting:
    """Return the setting of models of two numbers, both 0 at first."""
    clients = planted_clients([[0] * n_clients], reports_from="nobody")
    setting = setting_of(clients)
    return MethodSetting(
        initial=np.zeros(2, dtype=np.float32),
        client_ids=setting.client_ids,
        policy=setting.policy,
        parts=setting.parts,
    )


def moved_by(method: CFL, clients: list[int], changes: npt.ArrayLike) -> Updates:
    """Return answers that change the models of clients' clusters by so much."""
    start = method.membership()[clients].astype(np.int64)
    return Updates(
        clients=np.array(clients),
        groups=start,
        start=start,
        models=(method.models[start] + np.asarray(changes)).astype(np.float32),
        n_samples=np.ones(len(clients), dtype=np.int64),
        loss=np.ones(len(clients)),
        square_loss=np.ones(len(clients)),
        n_parameters=2,
        learning_rate=0.1,
    )


def ready(n_clients: int, **options: Json) -> CFL:
    return CFL(two_numbers(n_clients), **{"eps1": 0.5, "eps2": 0.5, "start_after": 0, **options})  # type: ignore[arg-type]


def test_a_cluster_splits_where_clients_pull_in_opposite_directions() -> None:
    clients = planted_clients([TWO], reports_from="nobody")
    method = CFL(setting_of(clients), start_after=3)

    advanced(clients, method, range(N_ROUNDS))

    assert adjusted_rand_index(method.membership(), TWO) == 1.0
    assert method.models.shape[0] == 2


def test_clients_that_agree_stay_together() -> None:
    clients = planted_clients([[1] * 6], reports_from="nobody")
    method = CFL(setting_of(clients), start_after=3)

    advanced(clients, method, range(N_ROUNDS))

    assert method.models.shape[0] == 1
    assert not method.membership().any()


def test_nothing_splits_in_the_first_rounds() -> None:
    clients = planted_clients([TWO], reports_from="nobody")
    method = CFL(setting_of(clients), start_after=4, eps1=100.0, eps2=0.0)

    n_clusters = [done.plan.models.shape[0] for done in advanced(clients, method, range(6))]

    assert n_clusters == [1, 1, 1, 1, 1, 2]  # the fifth round is the first that may split


def test_both_halves_start_from_the_model_and_learn_from_their_own_members_alone() -> None:
    method = ready(4)

    method.learn(moved_by(method, [0, 1, 2, 3], [[1.0, 0.0], [-1.0, 0.0], [1.0, 0.5], [-1.0, -0.5]]))

    assert method.membership().tolist() == [0, 1, 0, 1]
    assert method.models.tolist() == [[1.0, 0.25], [-1.0, -0.25]]
    assert method.cluster_ids() == (1, 2)


def test_two_nested_splits_partition_the_parents_in_global_ids() -> None:
    method = ready(7)
    everyone = list(range(7))
    # Clients 1, 3, 4, 6 against 0, 2, 5; then 1, 6 against 3, 4.
    first = [[1.0, 0.0] if at in (0, 2, 5) else [-1.0, 0.0] for at in everyone]
    method.learn(moved_by(method, everyone, first))
    parents = method.membership()
    second = {0: [0.0, 0.6], 2: [0.0, 0.6], 5: [0.0, 0.6], 1: [0.0, 1.0], 6: [0.0, 1.0], 3: [0.0, -1.0], 4: [0.0, -1.0]}

    method.learn(moved_by(method, everyone, [second[at] for at in everyone]))

    rows = method.membership()
    assert [np.flatnonzero(parents == row).tolist() for row in (0, 1)] == [[0, 2, 5], [1, 3, 4, 6]]
    assert [np.flatnonzero(rows == row).tolist() for row in range(3)] == [[0, 2, 5], [1, 6], [3, 4]]
    assert method.cluster_ids() == (1, 3, 4)
    assert method.models.tolist() == pytest.approx(np.array([[1.0, 0.6], [-1.0, 1.0], [-1.0, -1.0]]))


def test_three_concepts_are_told_apart_by_nested_splits() -> None:
    clients = planted_clients([THREE], reports_from="nobody")
    method = CFL(setting_of(clients), start_after=3)

    advanced(clients, method, range(60))

    assert adjusted_rand_index(method.membership(), THREE) == 1.0
    assert method.models.shape[0] == 3


@pytest.mark.parametrize(("gamma_max", "n_clusters"), [(0.69, 2), (0.72, 1)])
def test_halves_that_are_too_alike_are_not_split(gamma_max: float, n_clusters: int) -> None:
    method = ready(3, gamma_max=gamma_max, eps1=9.0)

    method.learn(moved_by(method, [0, 1, 2], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))  # cosine 0: gap sqrt(1/2)

    assert method.models.shape[0] == n_clusters


@pytest.mark.parametrize(("eps1", "eps2", "n_clusters"), [(0.1, 0.9, 2), (0.0, 0.9, 1), (0.1, 1.0, 1)])
def test_a_split_needs_a_short_mean_and_a_long_update(eps1: float, eps2: float, n_clusters: int) -> None:
    method = ready(4, eps1=eps1, eps2=eps2)

    method.learn(moved_by(method, [0, 1, 2, 3], [[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))

    assert method.models.shape[0] == n_clusters


def test_thresholds_tune_themselves_by_the_longest_updates_seen() -> None:
    method = ready(4, eps1="self-tuned", eps2="self-tuned")
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    method.learn(moved_by(method, [0, 1, 2, 3], np.full((4, 2), [2.0, 0.0])))  # eps1 = 0.6, eps2 = 1.2

    method.learn(moved_by(method, [0, 1, 2, 3], 1.19 * opposite))
    assert method.models.shape[0] == 1
    method.learn(moved_by(method, [0, 1, 2, 3], 1.21 * opposite + [0.61, 0.0]))
    assert method.models.shape[0] == 1
    method.learn(moved_by(method, [0, 1, 2, 3], 1.21 * opposite + [0.59, 0.0]))
    assert method.models.shape[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("preset", [None, "paper"])
def test_three_meanings_among_sixty_clients_are_found_whatever_the_length_of_updates(
    preset: str | None, seed: int
) -> None:
    config: dict[str, Json] = {
        "seed": seed,
        "rounds": 120,
        "trace": {"clients": 60, "scenario": "concept-swap", "concepts": 3, "share": 0.0, "swaps": 4},
        "method": {"name": "cfl"},
    }
    result = run(config if preset is None else {"preset": preset, **config})

    assert result.checkpoint.models.shape[0] == 3
    assert result.summary is not None
    assert float(str(result.summary["final_accuracy"])) > 0.9


def test_two_clients_are_never_split() -> None:
    method = ready(4)

    method.learn(moved_by(method, [0, 3], [[1.0, 0.0], [-1.0, 0.0]]))

    assert method.models.shape[0] == 1


def test_an_empty_round_changes_nothing() -> None:
    method = ready(3)
    before = method.snapshot()[1]

    method.learn(moved_by(method, [], np.empty((0, 2))))

    assert {name: array.tolist() for name, array in method.snapshot()[1].items()} == {
        name: array.tolist() for name, array in before.items()
    }


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_newcomer_walks_down_to_the_leaf_of_its_concept(late: int) -> None:
    without = [-1 if at == late else concept for at, concept in enumerate(THREE)]
    clients = planted_clients([without] * 60 + [THREE], reports_from="nobody")
    method = CFL(setting_of(clients), start_after=3)
    advanced(clients, method, range(60))
    known = np.arange(9) != late
    assert adjusted_rand_index(method.membership()[known], np.array(THREE)[known]) == 1.0
    assert method.membership()[late] == -1

    advanced(clients, method, range(60, 61))

    assert adjusted_rand_index(method.membership(), THREE) == 1.0
    n_probes = clients.ledger.client_bytes_down("probe") // MODEL_BYTES
    assert n_probes[late] in (1, 2)  # the depth of its leaf
    assert n_probes.sum() == n_probes[late]


def test_before_a_split_it_is_federated_averaging_bit_for_bit() -> None:
    one, other = (planted_clients([TWO, THREE[:6]], reports_from="nobody") for _ in range(2))
    cfl = CFL(setting_of(one, participants=2))
    everybody = GlobalModel(setting_of(other, participants=6))

    advanced(one, cfl, range(5))
    advanced(other, everybody, range(5))

    assert (cfl.models == everybody.models).all()
    assert one.ledger.totals() == other.ledger.totals()


def test_sampled_before_a_split_it_is_federated_averaging_with_the_same_participants() -> None:
    one, other = (planted_clients([TWO], reports_from="nobody") for _ in range(2))
    cfl = CFL(setting_of(one, participants=2), participation="sampled")
    everybody = GlobalModel(setting_of(other, participants=2))

    advanced(one, cfl, range(5))
    advanced(other, everybody, range(5))

    assert (cfl.models == everybody.models).all()
    assert one.ledger.totals() == other.ledger.totals()


@pytest.mark.parametrize(("participation", "per_round"), [("all", 6), ("auto", 6), ("sampled", 2)])
def test_the_ledger_holds_what_the_cost_table_says(participation: str, per_round: int) -> None:
    clients = planted_clients([TWO], reports_from="nobody")
    method = CFL(setting_of(clients, participants=2), participation=participation)  # type: ignore[arg-type]

    advanced(clients, method, range(4))

    n_bytes = 4 * per_round * MODEL_BYTES
    for spent in (clients.ledger.client_bytes_down, clients.ledger.client_bytes_up):
        assert (spent("model").sum(), spent("probe").sum(), spent("report").sum()) == (n_bytes, 0, 0)


def test_large_federations_are_sampled_unless_all_are_asked_for() -> None:
    clients = planted_clients([[0] * 201], reports_from="nobody")
    setting = setting_of(clients)
    clients.begin(0)

    assert CFL(setting).plan(clients).clients.size == 4
    assert CFL(setting, participation="all").plan(clients).clients.size == 201


def test_sampled_clients_are_compared_by_last_updates_that_are_not_too_old() -> None:
    clients = planted_clients([[0] * 6], reports_from="nobody")
    method = CFL(setting_of(clients, participants=2), participation="sampled", max_age=1)

    asked = [set(done.plan.clients.tolist()) for done in advanced(clients, method, range(4))]

    stored = method.snapshot()[1]["last/clients"]
    assert set(stored.tolist()) == asked[2] | asked[3]


def test_nothing_is_kept_between_rounds_in_which_everybody_trains() -> None:
    clients = planted_clients([TWO], reports_from="nobody")
    method = CFL(setting_of(clients))

    advanced(clients, method, range(2))

    assert method.snapshot()[1]["last/changes"].size == 0


def test_members_without_an_update_wait_at_the_split_and_find_their_half() -> None:
    clients = planted_clients([TWO], reports_from="nobody")
    method = CFL(setting_of(clients, participants=2), participation="sampled", start_after=8, max_age=2)

    advanced(clients, method, range(N_ROUNDS))

    placed = method.membership() >= 0
    assert method.models.shape[0] == 2
    assert placed.all()
    assert adjusted_rand_index(method.membership(), TWO) == 1.0
    assert clients.ledger.client_bytes_down("probe").sum() > 0


def test_what_the_server_remembers_is_split_with_the_model() -> None:
    clients = planted_clients([TWO], reports_from="nobody")
    setting = setting_of(clients, aggregator=aggregator_named("fedyogi", {}))
    method = CFL(setting, start_after=2, eps1=100.0, eps2=0.0)
    advanced(clients, method, range(2))
    clients.begin(2)
    updates = clients.train(method.plan(clients))
    before = method.snapshot()[1]

    method.learn(updates)

    after = method.snapshot()[1]
    names = [name for name in after if name.startswith("memory/")]
    assert len(names) == 2
    for name in names:
        assert before[name].shape == (1, N_NUMBERS)
        assert after[name].shape == (2, N_NUMBERS)
        assert (after[name] != before[name]).any()


@pytest.mark.parametrize("stop", [0, 2, 5, 9])
@pytest.mark.parametrize("participation", ["all", "sampled"])
def test_a_snapshot_goes_on_exactly_like_the_original(stop: int, participation: str) -> None:
    rounds = [[-1, *THREE[1:]]] * 8 + [THREE]
    options = {"participation": participation, "start_after": 3, "eps1": 0.6, "eps2": 0.1, "max_age": 3}
    one, other = (planted_clients(rounds, reports_from="nobody") for _ in range(2))
    first, second = (CFL(setting_of(those), **options) for those in (one, other))  # type: ignore[arg-type]
    advanced(one, first, range(stop))
    advanced(other, second, range(stop))
    values, arrays = second.snapshot()
    restored = CFL(setting_of(other), **options)  # type: ignore[arg-type]
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})

    advanced(one, first, range(stop, 12))
    advanced(other, restored, range(stop, 12))

    assert first.models.shape[0] > 1
    assert (first.models == restored.models).all()
    assert (first.membership() == restored.membership()).all()
    assert first.cluster_ids() == restored.cluster_ids()
    assert one.ledger.totals() == other.ledger.totals()


@pytest.mark.parametrize("participation", ["all", "sampled"])
def test_a_resumed_run_ends_as_one_that_was_never_stopped(tmp_path: Path, participation: str) -> None:
    method = {"name": "cfl", "participation": participation, "start_after": 2, "eps1": 0.5, "eps2": 0.0}
    config = table(method=method)  # type: ignore[arg-type]
    whole = run(config, tmp_path / "whole", page=False)

    stop_and_resume(config, tmp_path / "stopped", [1, 3, 7, 10], Own())

    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert int(str(whole.rounds[-1]["n_clusters"])) > 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"eps1": "tuned"}, "eps1 is 'tuned'; give a number of at least 0, or 'self-tuned'"),
        ({"eps2": -1.0}, "eps2 is -1.0; give a number from 0"),
        ({"eps1": True}, "eps1 is True; give a number"),
        ({"gamma_max": 1.5}, "gamma_max is 1.5; give a number from 0 to 1"),
        ({"start_after": -1}, "start_after is -1"),
        ({"max_age": 0.5}, "max_age is 0.5"),
        ({"participation": "some"}, "unknown participation 'some'"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, Json], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        CFL(two_numbers(3), **options)  # type: ignore[arg-type]


# ---- bipartition ----------------------------------------------------------------------------------------------


def test_opposite_updates_are_told_apart_whatever_their_length() -> None:
    updates = np.array([[1.0, 0.0], [-9.0, 0.0], [3.0, 0.1], [-1.0, 0.1]], dtype=np.float32)

    is_second, gap = bipartition(updates)

    assert is_second.tolist() == [False, True, False, True]
    assert gap == pytest.approx(1.0, abs=0.01)


def test_the_gap_is_that_of_the_closest_pair_across() -> None:
    updates = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=np.float32)

    # A cosine of 0, whichever side the one in the middle is on.
    assert bipartition(updates)[1] == pytest.approx(np.sqrt(0.5))


def test_equal_updates_still_make_two_halves_without_a_gap() -> None:
    is_second, gap = bipartition(np.ones((5, 3), dtype=np.float32))

    assert 0 < is_second.sum() < 5
    assert gap < 1e-7


# ---- last updates ---------------------------------------------------------------------------------------------


def change(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([[value, value] for value in values], dtype=np.float32)


def test_a_new_update_replaces_the_old_one_of_the_same_client() -> None:
    last = LastUpdates(5)

    last.note(np.array([3, 1]), change(3.0, 1.0), 0)
    last.note(np.array([3, 0]), change(4.0, 0.5), 2)

    assert last.clients.tolist() == [0, 1, 3]
    assert last.rounds.tolist() == [2, 0, 2]
    assert last.changes[:, 0].tolist() == [0.5, 1.0, 4.0]


def test_an_update_is_kept_up_to_its_greatest_age_and_no_longer() -> None:
    last = LastUpdates(2)
    last.note(np.array([7]), change(7.0), 0)

    last.note(np.array([1]), change(1.0), 2)
    assert last.clients.tolist() == [1, 7]
    last.note(np.array([2]), change(2.0), 3)

    assert last.clients.tolist() == [1, 2]


def test_what_is_forgotten_or_restored_goes_on_as_it_should() -> None:
    last, other = LastUpdates(2), LastUpdates(2)
    last.note(np.array([7, 2]), change(7.0, 2.0), 0)

    other.restore(last.arrays())
    last.forget()
    other.note(np.array([4]), change(4.0), 1)
    last.note(np.array([4]), change(4.0), 1)

    assert other.clients.tolist() == [2, 4, 7]
    assert last.clients.tolist() == [4]


# ---- split tree -----------------------------------------------------------------------------------------------


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
