import numpy as np
import pytest

from fielding._typing import Vector
from fielding.errors import OptionError
from fielding.federation.selection import Candidates, Selection, Uniform, selector_named
from fielding.federation.selection.oort import Oort
from tests.federation.selection.rounds import Federation, candidates_of, feedback_of

N_CLIENTS = 100
IS_USEFUL, IS_FAST = np.arange(N_CLIENTS) < 50, np.arange(N_CLIENTS) % 2 == 0


def shares_of_choices(selection: Selection, loss: Vector, seconds: Vector) -> Vector:
    """Return how often each client was chosen in rounds 50 to 150, as a share of all choices."""
    federation = Federation(loss, seconds)
    federation.play(selection, range(50), overcommit=3)
    chosen = np.concatenate([np.array(one) for one in federation.play(selection, range(50, 150), overcommit=3)])
    return np.asarray(np.bincount(chosen, minlength=N_CLIENTS) / chosen.size)


def test_useful_and_fast_clients_come_first() -> None:
    loss, seconds = np.where(IS_USEFUL, 3.0, 0.3), np.where(IS_FAST, 5.0, 50.0)

    oort = shares_of_choices(Selection(Oort(), N_CLIENTS), loss, seconds)
    uniform = shares_of_choices(Selection(Uniform(), N_CLIENTS), loss, seconds)

    # Of 1300 uniform choices 0.25 +- 0.012 fall to a quarter of the clients: both bounds are far from luck.
    assert abs(uniform[IS_USEFUL & IS_FAST].sum() - 0.25) < 0.06
    assert oort[IS_USEFUL & IS_FAST].sum() > 0.6


def test_among_equally_useful_clients_the_fast_ones_come_first() -> None:
    shares = shares_of_choices(Selection(Oort(), N_CLIENTS), np.ones(N_CLIENTS), np.where(IS_FAST, 5.0, 50.0))

    assert shares[IS_FAST].sum() > 0.7


def test_among_equally_fast_clients_the_useful_ones_come_first() -> None:
    shares = shares_of_choices(Selection(Oort(), N_CLIENTS), np.where(IS_USEFUL, 3.0, 0.3), np.ones(N_CLIENTS))

    assert shares[IS_USEFUL].sum() > 0.7


def test_without_a_penalty_slow_clients_are_as_good_as_fast_ones() -> None:
    shares = shares_of_choices(
        Selection(Oort(penalty=0.0), N_CLIENTS), np.ones(N_CLIENTS), np.where(IS_FAST, 5.0, 50.0)
    )

    assert abs(shares[IS_FAST].sum() - 0.5) < 0.1


def test_the_first_choice_of_a_run_is_uniform() -> None:
    candidates = candidates_of(np.arange(20), 0)

    chosen = Selection(Oort(), 20).choose(candidates, 5, cluster=0, round_index=0)

    assert chosen.tolist() == Uniform().select(candidates, 5).tolist()


def exploration_after(selection: Selection) -> list[float]:
    return selection.arrays()["cluster/exploration"].tolist()


def test_exploration_shrinks_to_its_least() -> None:
    selection = Selection(Oort(exploration=0.8, exploration_decay=0.5, exploration_min=0.3), 4)

    for round_index, expected in enumerate([0.4, 0.3, 0.3]):
        selection.feedback(feedback_of([0], round_index=round_index))
        assert exploration_after(selection) == pytest.approx([expected])


def test_places_are_shared_between_the_tried_and_the_untried() -> None:
    selection = Selection(Oort(exploration=0.6, exploration_decay=1.0), 40)
    selection.feedback(feedback_of(list(range(20))))

    chosen = selection.choose(candidates_of(np.arange(40), 1), 10, cluster=0, round_index=1)

    assert (chosen < 20).sum() == 4
    assert (chosen >= 20).sum() == 6


def test_a_tenth_of_ten_places_is_one() -> None:
    selection = Selection(Oort(exploration=0.9, exploration_decay=1.0), 40)
    selection.feedback(feedback_of(list(range(20))))

    chosen = selection.choose(candidates_of(np.arange(40), 1), 10, cluster=0, round_index=1)

    assert (chosen < 20).sum() == 1


def test_the_preferred_duration_is_that_of_all_members_askable_or_not() -> None:
    selection = Selection(Oort(percentile=50.0), 6)
    selection.feedback(feedback_of(list(range(6)), seconds=[1.0, 20.0, 1.0, 1.0, 1.0, 1.0]))
    pairs = [candidates_of(np.array([0, 1]), turn) for turn in range(100)]

    # Of two the slower is the median; amid five that take a second it counts for a 400th.
    alone = [selection.choose(pair, 1, cluster=0, round_index=1)[0] for pair in pairs]
    amid = [selection.choose(pair, 1, cluster=0, round_index=1, members=np.arange(6))[0] for pair in pairs]

    assert 25 < alone.count(1) < 75
    assert amid.count(1) < 5


def test_who_never_told_its_samples_is_expected_to_have_as_many_as_others() -> None:
    selection = Selection(Oort(exploration=1.0, exploration_decay=1.0, sample_window=1.0), 4)
    selection.feedback(feedback_of([0]))
    selection.note_reports(np.array([1, 2]), np.ones((2, 1)), n_samples=np.array([3, 30]))

    chosen = selection.choose(candidates_of(np.arange(4), 1), 2, cluster=0, round_index=1)

    assert chosen.tolist() == [2, 3]


@pytest.mark.parametrize(("n_tried", "n_exploited"), [(40, 10), (2, 2), (39, 9)])
def test_places_that_one_side_cannot_fill_go_to_the_other(n_tried: int, n_exploited: int) -> None:
    selection = Selection(Oort(exploration=0.5, exploration_decay=1.0), 40)
    selection.feedback(feedback_of(list(range(n_tried))))

    chosen = selection.choose(candidates_of(np.arange(40), 1), 10, cluster=0, round_index=1)

    assert chosen.size == 10
    assert (chosen < n_tried).sum() == n_exploited


def test_exploration_goes_on_for_clients_that_join_after_all_were_tried() -> None:
    selection = Selection(Oort(exploration=0.5, exploration_min=0.5), 40)
    for round_index in range(5):
        selection.feedback(feedback_of(list(range(30)), round_index=round_index))
        selection.choose(candidates_of(np.arange(30), round_index), 10, cluster=0, round_index=round_index)

    chosen = selection.choose(candidates_of(np.arange(40), 6), 10, cluster=0, round_index=6)

    assert (chosen >= 30).sum() == 5


def test_large_untried_clients_are_tried_first() -> None:
    selection = Selection(Oort(exploration=1.0, exploration_decay=1.0, sample_window=1.0), 30)
    selection.feedback(feedback_of([0]))
    selection.note_reports(np.arange(1, 30), np.ones((29, 1)), n_samples=np.arange(1, 30))

    chosen = selection.choose(candidates_of(np.arange(30), 1), 5, cluster=0, round_index=1)

    assert chosen.tolist() == [25, 26, 27, 28, 29]


def test_more_samples_than_a_client_trains_on_make_it_no_better() -> None:
    selection = Selection(Oort(exploration=1.0, exploration_decay=1.0), 5)
    selection.feedback(feedback_of([0]))
    selection.note_reports(np.arange(1, 5), np.ones((4, 1)), n_samples=np.array([40, 10**6, 40, 40]))
    firsts = [
        int(selection.choose(candidates_of(np.arange(5), turn), 1, cluster=0, round_index=1)[0]) for turn in range(400)
    ]

    # Four clients alike: 100 +- 9 each.
    assert 60 < firsts.count(2) < 140


def pacer_after(losses: list[float], pacer_rounds: int = 2) -> float:
    selection = Selection(Oort(pacer_rounds=pacer_rounds, percentile=30.0), 3)
    selection.feedback(feedback_of([0, 1, 2]))
    # The first round exploits nobody; one more of them completes the first stretch, which is compared with nothing.
    for round_index, loss in enumerate(losses, start=1):
        selection.feedback(feedback_of([0, 1], loss=[loss, loss], round_index=round_index))
    return float(selection.arrays()["cluster/percentile"][0])


def test_the_pacer_waits_for_two_stretches_and_then_moves_both_ways() -> None:
    assert pacer_after([2.0]) == 30.0
    assert pacer_after([2.0, 1.0]) == 30.0
    assert pacer_after([2.0, 1.0, 1.0]) == 35.0
    assert pacer_after([2.0, 6.0, 6.0]) == 25.0
    assert pacer_after([2.0, 2.0, 2.0]) == 30.0
    assert pacer_after([2.0, 1.0, 1.0, 1.0, 1.0]) == 40.0


def test_the_percentile_of_a_long_quiet_run_ends_at_a_hundred() -> None:
    assert pacer_after([1.0] * 80) == 100.0


def test_clusters_explore_and_pace_apart() -> None:
    selection = Selection(Oort(), 4)

    selection.feedback(feedback_of([0], cluster=2))

    assert exploration_after(selection) == pytest.approx([0.9, 0.9, 0.9 * 0.95])


def test_a_new_cluster_goes_on_like_its_largest_parent() -> None:
    selection = Selection(Oort(), 4)
    selection.feedback(feedback_of([0], cluster=1))

    selection.inherit(np.array([[0.2, 0.8], [0.5, 0.5]]))

    assert exploration_after(selection) == pytest.approx([0.9 * 0.95, 0.9])


def test_statistics_of_clients_count_in_every_cluster() -> None:
    selection = Selection(Oort(exploration=0.0, exploration_min=0.0, uncertainty=0.0, cutoff=1.0), 6)
    selection.feedback(feedback_of([0, 1, 2], loss=[1.0, 9.0, 1.0], cluster=0))

    chosen = selection.choose(candidates_of(np.arange(6), 1), 1, cluster=3, round_index=1)

    assert chosen.tolist() == [1]


def test_often_asked_clients_stay_out_but_never_more_than_a_share_of_all() -> None:
    selection = Selection(Oort(blacklist_after=1, blacklist_share=0.5, exploration=0.0, exploration_min=0.0), 4)
    for round_index in range(3):
        selection.feedback(feedback_of([0, 1, 2][: 3 - round_index], loss=[9.0] * (3 - round_index)))
    everyone = candidates_of(np.arange(4), 1)

    assert selection.choose(everyone, 2, cluster=0, round_index=3).tolist() == [2, 3]
    assert selection.choose(everyone, 4, cluster=0, round_index=3).tolist() == [0, 1, 2, 3]


def test_a_report_makes_a_client_stale_only_if_that_is_asked_for() -> None:
    keeping, forgetting = (Selection(Oort(forget_on_report=one), 3) for one in (False, True))

    for selection in (keeping, forgetting):
        selection.feedback(feedback_of([0, 1], round_index=7))
        selection.note_reports(np.array([1]), np.ones((1, 1)))

    assert keeping.arrays()["client/last_round"].tolist() == [8.0, 8.0, 0.0]
    assert forgetting.arrays()["client/last_round"].tolist() == [8.0, 0.0, 0.0]
    assert not keeping.needs_reports
    assert forgetting.needs_reports


def test_a_selector_without_a_memory_at_hand_chooses_uniformly() -> None:
    candidates = Candidates(clients=np.array([3, 5, 8]), draws=np.array([9, 2, 4], dtype=np.uint64))

    assert Oort().select(candidates, 2).tolist() == [5, 8]


@pytest.mark.parametrize(
    "options",
    [
        {"exploration": 1.5},
        {"exploration_min": -0.1},
        {"exploration_decay": "slow"},
        {"pacer_rounds": 0},
        {"pacer_rounds": 2.5},
        {"pacer_delta": 20.0},
        {"percentile": 101.0},
        {"clip": True},
        {"penalty": float("nan")},
        {"sample_window": 0.5},
        {"blacklist_after": -2},
        {"forget_on_report": 1},
    ],
)
@pytest.mark.parametrize("name", ["oort", "pyramidfl"])
def test_options_out_of_range_are_refused(name: str, options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        selector_named(name, options)
