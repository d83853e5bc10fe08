import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Vector
from fielding.errors import OptionError
from fielding.federation.selection import Candidates, Feedback, Known, Selection, Uniform, selector_named
from fielding.federation.selection.oort import (
    Oort,
    exploitation_chances,
    exploration_chances,
    learn_clients,
    pace_percentiles,
    preferred_seconds,
    staleness_bonus,
    statistical_scores,
    utilities,
)
from fielding.federation.selection.selector import SelectionMemory
from tests.federation.selection.rounds import N_TRAIN_SAMPLES, Federation, candidates_of, feedback_of

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


# ---- scoring --------------------------------------------------------------------------------------------------


scores_lists = st.lists(st.just(0.0) | st.floats(1e-6, 10.0), min_size=1, max_size=30).map(np.array)


def transcribed_scores(
    utility: list[float], last: list[int], seconds: list[float], *, now: int, percentile: float, clip: float
) -> list[float]:
    """Write the score of METHODS.md 9.2 down client by client."""
    n_clients = len(utility)
    ranked = sorted(utility)
    highest = ranked[min(int(n_clients * clip), n_clients - 1)]
    least, greatest = 0.999 * min(utility), max(utility)
    times = sorted(seconds)
    preferred = math.inf if percentile >= 100 else times[min(int(n_clients * percentile / 100), n_clients - 1)]
    scores = []
    for client in range(n_clients):
        score = (min(utility[client], highest) - least) / max(greatest - least, 1e-4)
        score += math.sqrt(0.1 * math.log(now) / last[client])
        if seconds[client] > preferred:
            score *= (preferred / seconds[client]) ** 2
        scores.append(score)
    return scores


@given(st.integers(1, 40), st.integers(0, 10_000), st.sampled_from([5.0, 10.0, 35.0, 95.0, 100.0]))
def test_scores_are_their_formula(n_clients: int, seed: int, percentile: float) -> None:
    rng, now = np.random.default_rng(seed), 50
    utility, seconds = rng.uniform(0.0, 90.0, n_clients), rng.lognormal(2.0, 1.0, n_clients)
    last = rng.integers(1, now, n_clients)
    known = Known(
        round_index=now - 1,
        clients={"utility": utility, "seconds": seconds, "last_round": last.astype(np.float64)},
        cluster={"percentile": percentile},
        members=np.arange(n_clients),
    )

    scores = Oort(clip=0.9).scores(np.arange(n_clients), known)

    expected = transcribed_scores(
        utility.tolist(), last.tolist(), seconds.tolist(), now=now, percentile=percentile, clip=0.9
    )
    assert scores.tolist() == pytest.approx(expected, rel=1e-12)


@given(scores_lists, st.integers(1, 40), st.floats(0.0, 1.0), st.floats(1.0, 10.0))
def test_chances_of_exploitation_sum_to_one_and_the_best_have_some(
    scores: np.ndarray, n_slots: int, cutoff: float, pool: float
) -> None:
    chances = exploitation_chances(scores, n_slots, cutoff=cutoff, pool=pool)

    assert chances.sum() == pytest.approx(1.0)
    assert (chances >= 0.0).all()
    best = np.sort(scores)[::-1][: min(n_slots, scores.size)]
    assert (chances > 0.0).sum() >= (best > 0.0).sum()


@given(scores_lists, st.integers(0, 40))
def test_chances_of_exploration_sum_to_one_over_a_pool_of_the_largest(rewards: np.ndarray, n_pool: int) -> None:
    chances = exploration_chances(rewards, np.arange(rewards.size, dtype=np.uint64), n_pool)

    assert chances.sum() == pytest.approx(1.0)
    assert (chances > 0.0).sum() <= max(1, n_pool)
    inside, outside = rewards[chances > 0.0], rewards[chances == 0.0]
    if rewards.any() and outside[outside > 0.0].size:
        assert inside.min() >= outside.max()


def test_the_cut_lets_in_who_reaches_a_share_of_the_score_at_the_rank() -> None:
    scores = np.array([1.0, 0.8, 0.6, 0.5, 0.1])

    strict = exploitation_chances(scores, 2, cutoff=0.8, pool=1.0)
    wide = exploitation_chances(scores, 2, cutoff=0.8, pool=2.5)

    # Two places: the score at rank two (from zero) is 0.6, the cut 0.48.
    assert (strict > 0.0).tolist() == [True, True, True, True, False]
    assert strict[0] == pytest.approx(1.0 / 2.9)
    assert (wide > 0.0).all()


def test_if_all_are_exploited_the_cut_is_at_the_last_one() -> None:
    chances = exploitation_chances(np.array([1.0, 0.5]), 2, cutoff=1.0, pool=1.0)

    assert chances.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_clipping_makes_outliers_like_the_quantile() -> None:
    utility = np.array([1.0, 2.0, 3.0, 1000.0])

    clipped, whole = statistical_scores(utility, 0.5), statistical_scores(utility, 1.0)

    assert clipped[3] == clipped[2] < whole[3]
    assert whole[3] == pytest.approx(1.0)


def test_equal_utilities_give_equal_scores_above_zero() -> None:
    scores = statistical_scores(np.full(3, 7.0), 0.98)

    assert scores.tolist() == pytest.approx([1.0] * 3)


def test_who_took_part_long_ago_gets_more() -> None:
    bonus = staleness_bonus(np.array([0.0, 1.0, 10.0, 99.0]), 100, 0.1)

    assert bonus[0] == bonus[1] == pytest.approx(math.sqrt(0.1 * math.log(100)))
    assert bonus[1] > bonus[2] > bonus[3] > 0.0
    assert staleness_bonus(np.array([1.0]), 1, 0.1).tolist() == [0.0]


def test_the_preferred_duration_is_a_percentile_of_those_that_are_known() -> None:
    seconds = np.array([4.0, np.nan, 1.0, 3.0, 2.0])

    assert preferred_seconds(seconds, 50.0) == 3.0
    assert preferred_seconds(seconds, 99.0) == 4.0
    assert preferred_seconds(seconds, 100.0) == math.inf
    assert preferred_seconds(np.array([np.nan]), 10.0) == math.inf


def test_a_loss_that_is_no_number_is_worth_what_the_others_are() -> None:
    worth = utilities(np.array([10, 10, 10, 10]), np.array([4.0, np.nan, np.inf, 16.0]), 5)

    assert worth.tolist() == [10.0, 15.0, 15.0, 20.0]
    assert utilities(np.array([10]), np.array([np.nan]), 5).tolist() == [0.0]


# ---- pacer ----------------------------------------------------------------------------------------------------


BOUNDS = (0.1, 5.0)
sums = st.floats(0.0, 1e6)


@given(st.floats(5.0, 100.0), sums, sums)
def test_the_percentile_stays_between_one_step_and_a_hundred(start: float, before: float, now: float) -> None:
    after = pace_percentiles(np.array([start]), np.array([before]), np.array([now]), delta=5.0, bounds=BOUNDS)

    assert 5.0 <= after[0] <= 100.0


def test_the_pacer_moves_both_ways_and_stops_at_both_ends() -> None:
    percentile = np.array([10.0, 10.0, 98.0, 7.0, 10.0])
    before = np.array([100.0, 100.0, 100.0, 100.0, 100.0])
    now = np.array([110.0, 600.0, 100.0, 900.0, 111.0])

    after = pace_percentiles(percentile, before, now, delta=5.0, bounds=BOUNDS)

    assert after.tolist() == [15.0, 5.0, 100.0, 5.0, 10.0]


def test_a_stretch_in_which_nobody_was_exploited_says_nothing() -> None:
    after = pace_percentiles(np.full(2, 30.0), np.zeros(2), np.array([0.0, 9.0]), delta=5.0, bounds=BOUNDS)

    assert after.tolist() == [30.0, 30.0]


# ---- client statistics ----------------------------------------------------------------------------------------


def fresh_memory(n_clients: int = 6) -> SelectionMemory:
    oort = Oort()
    memory = SelectionMemory(n_clients, clients=oort.client_memory, clusters=oort.cluster_memory)
    memory.grow(3)
    return memory


def test_an_answer_is_written_down() -> None:
    memory = fresh_memory()

    learn_clients(feedback_of([2, 4], loss=[0.5, 2.0], seconds=[3.0, 7.0], round_index=9), memory)

    known = memory.clients
    assert known["utility"].tolist() == [0.0, 0.0, 0.5 * N_TRAIN_SAMPLES, 0.0, 2.0 * N_TRAIN_SAMPLES, 0.0]
    assert known["seconds"][[2, 4]].tolist() == [3.0, 7.0]
    assert np.isnan(known["seconds"][[0, 1, 3, 5]]).all()
    assert known["last_round"].tolist() == [0.0, 0.0, 10.0, 0.0, 10.0, 0.0]
    assert known["times"].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert known["n_samples"][2] == 1000


def test_stragglers_count_as_tried_and_get_the_average_of_their_cluster() -> None:
    memory = fresh_memory()

    learn_clients(feedback_of([0, 1], loss=[1.0, 3.0], late={5: 99.0}), memory)

    assert memory.clients["utility"][5] == 2.0 * N_TRAIN_SAMPLES
    assert memory.clients["times"][5] == 1.0
    assert memory.clients["last_round"][5] == 1.0
    assert memory.clients["seconds"][5] == 99.0


def two_clusters(answers: list[int], clusters: list[int], loss: list[float], late_cluster: int) -> Feedback:
    plain = feedback_of(answers, loss=loss)
    return Feedback(
        round_index=0,
        n_train_samples=N_TRAIN_SAMPLES,
        clients=plain.clients,
        clusters=np.array(clusters, dtype=np.int64),
        n_samples=plain.n_samples,
        loss=plain.loss,
        square_loss=plain.square_loss,
        seconds=plain.seconds,
        compute_seconds=plain.compute_seconds,
        stragglers=np.array([5]),
        straggler_clusters=np.array([late_cluster]),
        straggler_seconds=np.array([99.0]),
    )


def test_a_straggler_of_a_cluster_without_answers_gets_the_average_of_all() -> None:
    own, foreign = fresh_memory(), fresh_memory()

    learn_clients(two_clusters([0, 1], [0, 1], [1.0, 3.0], late_cluster=1), own)
    learn_clients(two_clusters([0, 1], [0, 1], [1.0, 3.0], late_cluster=2), foreign)

    assert own.clients["utility"][5] == 3.0 * N_TRAIN_SAMPLES
    assert foreign.clients["utility"][5] == 2.0 * N_TRAIN_SAMPLES


def test_if_nobody_answered_a_straggler_keeps_its_utility() -> None:
    memory = fresh_memory()
    memory.clients["utility"][5] = 8.0

    exploited = learn_clients(two_clusters([], [], [], late_cluster=1), memory)

    assert memory.clients["utility"][5] == 8.0
    assert memory.clients["times"][5] == 1.0
    assert exploited.tolist() == [0.0]


def test_several_answers_count_by_their_mean_and_the_longest_time_and_once() -> None:
    memory = fresh_memory()
    doubled = feedback_of([3, 3, 4], loss=[1.0, 2.0, 4.0], seconds=[5.0, 2.0, 1.0])

    learn_clients(doubled, memory)

    assert memory.clients["utility"][3] == 1.5 * N_TRAIN_SAMPLES
    assert memory.clients["seconds"][3] == 5.0
    assert memory.clients["times"][3] == 1.0


def test_exploited_is_who_had_been_tried_before() -> None:
    memory = fresh_memory()

    first = learn_clients(feedback_of([0, 1], loss=[1.0, 1.0]), memory)
    second = learn_clients(feedback_of([1, 2], loss=[2.0, 9.0], round_index=1), memory)

    assert first.tolist() == [0.0]
    assert second.tolist() == [2.0 * N_TRAIN_SAMPLES]


def test_who_answered_in_one_cluster_and_was_late_in_another_answered() -> None:
    memory = fresh_memory()

    learn_clients(two_clusters([5, 1], [0, 1], [1.0, 3.0], late_cluster=1), memory)

    assert memory.clients["utility"][5] == 1.0 * N_TRAIN_SAMPLES
    assert memory.clients["times"][5] == 1.0


def test_clients_with_few_samples_are_worth_no_more_than_they_have() -> None:
    memory = fresh_memory()
    plain = feedback_of([0], loss=[2.0])

    learn_clients(
        Feedback(
            round_index=0,
            n_train_samples=N_TRAIN_SAMPLES,
            clients=plain.clients,
            clusters=plain.clusters,
            n_samples=np.array([7]),
            loss=plain.loss,
            square_loss=plain.square_loss,
            seconds=plain.seconds,
            compute_seconds=plain.compute_seconds,
        ),
        memory,
    )

    assert memory.clients["utility"][0] == pytest.approx(14.0)


def failing(answers: list[int], failed: list[int], *, late: dict[int, float] | None = None) -> Feedback:
    return replace(feedback_of(answers, late=late, round_index=4), failed=np.array(failed, dtype=np.int64))


def test_who_sent_no_model_was_tried_and_is_worth_nothing() -> None:
    memory = fresh_memory()
    learn_clients(feedback_of([0, 3], loss=[1.0, 2.0]), memory)

    learn_clients(failing([0], [3, 5]), memory)

    assert memory.clients["utility"].tolist() == [N_TRAIN_SAMPLES, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert memory.clients["times"].tolist() == [2.0, 0.0, 0.0, 2.0, 0.0, 1.0]
    assert memory.clients["last_round"].tolist() == [5.0, 0.0, 0.0, 5.0, 0.0, 5.0]


def test_several_failures_of_a_client_count_once_and_none_if_another_of_its_jobs_came_back() -> None:
    memory = fresh_memory()

    learn_clients(failing([0], [0, 5, 5, 2], late={2: 9.0}), memory)

    assert memory.clients["times"].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    assert memory.clients["utility"].tolist() == [N_TRAIN_SAMPLES, 0.0, N_TRAIN_SAMPLES, 0.0, 0.0, 0.0]


def test_if_all_fail_they_were_tried_all_the_same() -> None:
    memory = fresh_memory()

    exploited = learn_clients(failing([], [1, 2]), memory)

    assert memory.clients["times"].tolist() == [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert exploited.size == 0
