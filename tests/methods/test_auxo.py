from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json
from fielding.errors import OptionError
from fielding.federation.aggregation import aggregator_named
from fielding.federation.evaluation import adjusted_rand_index
from fielding.methods import METHODS
from fielding.methods.auxo import Auxo, CohortScores, begin_halves, extend_halves, is_large_enough, reward_likeness
from fielding.methods.global_model import GlobalModel
from fielding.methods.method import Method, cluster_ids
from fielding.methods.update_geometry import center_products, products
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import run
from tests.methods.planted import MODEL_BYTES, advanced, planted_clients, setting_of
from tests.simulation.run_cases import left_behind, small_pool, stop_and_resume, table
from tests.simulation.small import small_clients

TWO = [at % 2 for at in range(24)]
MOVED = [*TWO[:3], 0, *TWO[4:]]
"""Client 3 goes over from concept 1 to concept 0."""


def auxo_of(clients: SimulatedClients, *, participants: int = 12, **options: Any) -> Auxo:
    knobs: dict[str, Any] = {"feature_share": 0.5, "epsilon": 0.0, **options}
    return Auxo(setting_of(clients, participants=participants), **knobs)


def score_of(method: Auxo) -> np.ndarray:
    return method.snapshot()[1]["score"].astype(np.float64)


def in_products(*values: float) -> np.ndarray:
    """Return the inner products of updates on a line, less their mean."""
    deltas = np.array(values, dtype=np.float32)[:, np.newaxis]
    return center_products(products(deltas, deltas))


def test_planted_cohorts_are_found_from_the_updates_alone() -> None:
    clients = planted_clients([TWO] * 12)
    method = auxo_of(clients)

    advanced(clients, method, range(12))

    assert method.models.shape[0] == 2
    assert adjusted_rand_index(method.membership(), TWO) == 1.0


def test_forced_splits_come_at_their_counters_whatever_the_data_say() -> None:
    clients = planted_clients([[0] * 24] * 6)
    method = auxo_of(clients, participants=20, split="forced", forced_rounds=[2, 4])

    n_cohorts = []
    for at in range(6):
        advanced(clients, method, range(at, at + 1))
        n_cohorts.append(method.models.shape[0])

    assert n_cohorts == [1, 2, 2, 4, 4, 4]
    assert method.cluster_ids() == (0, 1, 2, 3)


def test_the_original_rule_never_splits_a_small_federation() -> None:
    clients = planted_clients([TWO] * 8)
    method = auxo_of(clients, split="original")

    advanced(clients, method, range(8))

    assert method.models.shape[0] == 1


@pytest.mark.parametrize(("n_members", "sides", "is_ripe"), [(500, (60, 60), True), (499, (60, 60), False)])
def test_the_original_rule_wants_a_hundred_participants_worth(
    n_members: int, sides: tuple[int, int], is_ripe: bool
) -> None:
    cohort = {"n_clients": 1000, "participants": 200, "n_cohorts": 1, "n_members": n_members}

    assert is_large_enough(**cohort, sides=sides, min_results=None) == is_ripe


@pytest.mark.parametrize(
    ("participants", "n_cohorts", "n_members", "sides", "is_ripe"),
    [
        (10, 1, 100, (6, 6), True),
        (9, 1, 100, (6, 6), False),  # 4.5 participants a cohort
        (10, 1, 9, (6, 3), False),  # fewer members than two cohorts ask
        (10, 1, 100, (6, 5), False),  # 5 is not more than 0.05 * 100
        (30, 2, 100, (10, 6), True),
        (30, 2, 100, (12, 6), False),  # twice as many on one side
        (10, 1, 100, (60, 6), True),  # the first split may be uneven
    ],
)
def test_our_rule_scales_with_the_federation(
    participants: int, n_cohorts: int, n_members: int, sides: tuple[int, int], is_ripe: bool
) -> None:
    cohort = {"n_clients": 100, "participants": participants, "n_cohorts": n_cohorts, "n_members": n_members}

    assert is_large_enough(**cohort, sides=sides, min_results=5) == is_ripe


def test_before_its_first_split_it_is_federated_averaging_bit_for_bit() -> None:
    one, other = small_clients(overcommit=1.3), small_clients(overcommit=1.3)
    auxo = Auxo(setting_of(one), split="original", min_results=2)
    everybody = GlobalModel(setting_of(other))

    advanced(one, auxo, range(5))
    advanced(other, everybody, range(5))

    assert auxo.models.shape == everybody.models.shape
    assert (auxo.models == everybody.models).all()
    assert (one.ledger.client_bytes_down() == other.ledger.client_bytes_down()).all()
    assert (one.ledger.client_bytes_up() == other.ledger.client_bytes_up()).all()


def test_no_traffic_is_added_after_splits() -> None:
    one, other = (planted_clients([TWO] * 8, reports_from="nobody") for _ in range(2))
    auxo = auxo_of(one)
    advanced(one, auxo, range(8))
    advanced(other, GlobalModel(setting_of(other, participants=12)), range(8))

    assert auxo.models.shape[0] == 2
    assert one.ledger.client_bytes_down().sum() == other.ledger.client_bytes_down().sum() == 8 * 12 * MODEL_BYTES
    assert one.ledger.client_bytes_up().sum() == other.ledger.client_bytes_up().sum() == 8 * 12 * MODEL_BYTES


def test_every_cohort_gets_as_many_participants_and_never_more_than_there_are() -> None:
    clients = planted_clients([TWO] * 6)
    method = auxo_of(clients, participants=13, split="forced", forced_rounds=[1])
    advanced(clients, method, range(1))

    done = advanced(clients, method, range(1, 2))[0]

    assert done.plan.wanted.tolist() == [6, 6]  # 13 // 2
    assert done.plan.clients.size == 12


def test_with_more_cohorts_than_participants_some_cohorts_wait() -> None:
    clients = planted_clients([TWO] * 6)
    method = auxo_of(clients, participants=3, split="forced", forced_rounds=[1, 2], min_results=2)
    method.restore({}, four_cohorts(method))
    clients.begin(0)

    plan = method.plan(clients)

    assert plan.wanted.tolist() == [1, 1, 1]


def four_cohorts(method: Auxo) -> dict[str, np.ndarray]:
    arrays = method.snapshot()[1]
    ones = np.ones((24, 4))
    return {
        "models": arrays["models"].repeat(4, axis=0),
        "score": ones,
        "leaning": np.zeros((24, 4), dtype=np.int64),
        "times": ones.astype(np.int64),
        "membership": np.arange(24, dtype=np.int32) % 4,
        "counters": np.ones(4, dtype=np.int64),
        "has_halves": np.zeros(4, dtype=np.bool_),
        "ids": np.arange(4),
    }


def test_only_participants_score_and_move_between_splits() -> None:
    clients = planted_clients([TWO] * 12)
    method = auxo_of(clients, epsilon=0.5)
    advanced(clients, method, range(2))
    n_changed = 0
    for at in range(2, 12):
        scores, membership = score_of(method), method.membership()
        done = advanced(clients, method, range(at, at + 1))[0]
        others = np.setdiff1d(np.arange(24), done.updates.clients)
        assert (score_of(method)[others] == scores[others]).all()
        assert (method.membership()[others] == membership[others]).all()
        n_changed += int((score_of(method) != scores).any()) + int((method.membership() != membership).any())

    assert method.models.shape[0] == 2
    assert n_changed > 10


def test_a_drifted_client_moves_only_after_it_took_part_several_times() -> None:
    clients = planted_clients([TWO] * 20 + [MOVED] * 20)
    method = auxo_of(clients)
    advanced(clients, method, range(20))
    before, n_parts = method.membership()[3], 0

    for at in range(20, 40):
        done = advanced(clients, method, range(at, at + 1))[0]
        n_parts += int(3 in done.updates.clients)
        if method.membership()[3] != before:
            break

    assert adjusted_rand_index(method.membership(), MOVED) == 1.0
    assert n_parts >= 3


def test_newcomers_and_the_undecided_are_dealt_at_random_when_a_cohort_splits() -> None:
    scores = CohortScores(4)
    everyone = np.arange(4)
    scores.lean(np.array([0, 1]), 0, np.array([0, 1]))

    scores.split(0)

    assert scores.score.tolist() == [[2.0, 1.0], [1.0, 2.0], [1.0, 1.0], [1.0, 1.0]]
    assert scores.is_new(everyone).tolist() == [False, False, True, True]
    assert scores.preferred(everyone)[:2].tolist() == [0, 1]
    assert scores.sides(everyone, 0).tolist() == [-1, -1, -1, -1]


def test_a_reward_raises_the_score_and_a_loss_takes_the_leaning_away() -> None:
    scores, pair = CohortScores(2), np.arange(2)
    scores.lean(pair, 0, 1)
    scores.reward(pair, 0, np.array([3.0, -3.0]))

    assert scores.score[:, 0].tolist() == [4.0, -2.0]
    assert scores.sides(pair, 0).tolist() == [1, -1]
    assert scores.known(pair, 0).tolist() == [0]


def test_leanings_go_to_clients_and_not_to_their_positions_among_the_known() -> None:
    scores, clients = CohortScores(20), np.array([5, 9, 14, 17, 19])
    scores.lean(np.array([9, 14, 17, 19]), 0, 0)
    scores.split(0)  # known in cohort 0: all but 5

    assert begin_halves(scores, clients, 0, inner=in_products(0.0, -9.0, -9.1, 9.0, 9.1), rng=np.random.default_rng(1))

    sides = scores.sides(np.arange(20), 0)
    assert sides[9] == sides[14] != sides[17] == sides[19]
    assert (np.delete(sides, [9, 14, 17, 19]) == -1).all()


def test_the_undecided_follow_a_clear_majority_of_their_neighbors() -> None:
    scores, clients = CohortScores(7), np.arange(7)
    scores.lean(np.array([0, 1, 2]), 0, 0)
    scores.lean(np.array([3, 4, 5]), 0, 1)
    # Directions of unit length: six decided ones, and one that lies among those of side 1.
    angles = np.deg2rad([0.0, 5.0, 10.0, 170.0, 175.0, 180.0, 178.0])
    rows = np.column_stack([np.cos(angles), np.sin(angles)])

    extend_halves(scores, clients, 0, inner=rows @ rows.T, neighbors=3)
    assert scores.sides(clients, 0).tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_three_neighbors_against_two_are_not_clear_whichever_side_wins() -> None:
    for side in (0, 1):
        scores, clients = CohortScores(7), np.arange(7)
        scores.lean(np.array([0, 1, 2]), 0, side)
        scores.lean(np.array([3, 4, 5]), 0, 1 - side)
        angles = np.deg2rad([85.0, 80.0, 75.0, 96.0, 101.0, 106.0, 90.0])
        rows = np.column_stack([np.cos(angles), np.sin(angles)])

        extend_halves(scores, clients, 0, inner=rows @ rows.T, neighbors=5)

        assert scores.sides(clients, 0)[6] == -1


def test_a_lone_side_recruits_a_quarter_of_the_participants() -> None:
    scores, clients = CohortScores(8), np.arange(8)
    scores.lean(np.array([2]), 0, 1)

    extend_halves(scores, clients, 0, inner=in_products(-1.0, -1.0, 2.0, -1.0, -1.0, 3.0, -1.0, -1.0), neighbors=5)

    assert scores.sides(clients, 0).tolist() == [-1, -1, 1, -1, -1, 1, -1, -1]


def test_rewards_fall_with_the_distance_from_the_known_ones() -> None:
    scores, clients = CohortScores(5), np.arange(5)
    scores.lean(clients, 0, 0)
    scores.split(0)

    assert reward_likeness(scores, clients, 0, inner=in_products(0.0, 0.0, 0.0, 0.0, 10.0), base_reward=5.0)

    # Distances from the mean, 2, are 2, 2, 2, 2 and 8: mean 3.2, deviation 2.4; all five are known.
    assert np.allclose(scores.score[:, 0], 2.0 + 5.0 - 5.0 * np.array([2.0, 2.0, 2.0, 2.0, 8.0]) / 5.6)


def test_with_fewer_than_two_known_participants_a_cohort_waits() -> None:
    scores, clients = CohortScores(5), np.arange(5)
    scores.split(0)
    before = scores.score.copy()

    assert not reward_likeness(scores, clients, 0, inner=in_products(1.0, 2.0, 3.0, 4.0, 5.0), base_reward=5.0)
    assert (scores.score == before).all()


def test_memory_of_the_server_follows_a_split() -> None:
    clients = planted_clients([TWO] * 4)
    method = Auxo(
        setting_of(clients, participants=12, aggregator=aggregator_named("fedyogi", {})),
        split="forced",
        forced_rounds=[2],
        feature_share=0.5,
    )
    advanced(clients, method, range(2))

    arrays = method.snapshot()[1]
    memories = [array for name, array in arrays.items() if name.startswith("memory/")]

    assert method.models.shape[0] == 2
    assert (method.models[0] == method.models[1]).all()
    assert memories
    assert all((memory[0] == memory[1]).all() for memory in memories)


def test_a_round_without_answers_changes_nothing() -> None:
    clients = planted_clients([[-1] * 24, TWO])
    method = auxo_of(clients)
    before = {name: array.copy() for name, array in method.snapshot()[1].items()}

    advanced(clients, method, range(1))

    after = method.snapshot()[1]
    assert all((before[name] == after[name]).all() for name in before)


@pytest.mark.parametrize("n_done", [1, 4, 9])
@pytest.mark.parametrize("split", ["ours", "forced"])
def test_a_snapshot_goes_on_exactly_like_the_original(n_done: int, split: str) -> None:
    one, other = planted_clients([TWO] * 14), planted_clients([TWO] * 14)
    options: dict[str, Any] = {"split": split, "forced_rounds": [2, 6], "epsilon": 0.2}
    first, second = auxo_of(one, **options), auxo_of(other, **options)
    advanced(one, first, range(n_done))
    advanced(other, second, range(n_done))
    values, arrays = first.snapshot()
    restored = auxo_of(other, **options)
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})

    advanced(one, first, range(n_done, 14))
    advanced(other, restored, range(n_done, 14))

    assert_equal(first, restored)


def assert_equal(first: Method, second: Method) -> None:
    values, arrays = first.snapshot()
    other_values, other_arrays = second.snapshot()
    assert values == other_values
    assert cluster_ids(first) == cluster_ids(second)
    assert all((array == other_arrays[name]).all() for name, array in arrays.items())


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    section: dict[str, Json] = {"name": "auxo", "min_results": 2, "feature_share": 0.5, "epsilon": 0.2}
    config = table(method=section)
    own = Own(samples=small_pool())

    run(config, tmp_path / "straight", own=own, page=False)
    stop_and_resume(config, tmp_path / "stopped", [1, 5, 8], own)

    assert left_behind(tmp_path / "straight") == left_behind(tmp_path / "stopped")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "orginal"}, "did you mean 'original'"),
        ({"forced_rounds": 50}, "give a list of whole numbers"),
        ({"forced_rounds": [0]}, "forced_rounds is 0; give a whole number from 1"),
        ({"split": "forced", "forced_rounds": []}, "forced_rounds is empty"),
        ({"base_reward": "high"}, "base_reward is 'high'"),
        ({"epsilon": 1.5}, "epsilon is 1.5; give a number from 0 to 1"),
        ({"epsilon_decay": -0.1}, "epsilon_decay is -0.1"),
        ({"neighbors": 0}, "neighbors is 0"),
        ({"feature_share": 0.0}, "feature_share is 0.0"),
        ({"min_results": 1}, "min_results is 1; give a whole number from 2"),
        ({"stop_after": True}, "stop_after is True"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        auxo_of(planted_clients([TWO]), **options)


def test_nothing_is_compared_before_the_first_round_and_nobody_splits_after_the_last() -> None:
    late, never = planted_clients([TWO] * 4), planted_clients([TWO] * 4)
    starts_late, stops_early = auxo_of(late, start_round=3), auxo_of(never, stop_after=0)

    advanced(late, starts_late, range(3))
    advanced(never, stops_early, range(4))

    assert starts_late.models.shape[0] == stops_early.models.shape[0] == 1
    advanced(late, starts_late, range(3, 4))
    assert starts_late.models.shape[0] == 2


def test_it_hears_nobody() -> None:
    assert METHODS["auxo"].reports_from == "nobody"
