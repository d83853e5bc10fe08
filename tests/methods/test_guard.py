from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts, Models
from fielding.client.report import UNEXPLAINED, ReportBatch
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import Never
from fielding.methods.guard import LARGEST_GAIN, Guard, Opinion, place_by_loss
from tests.methods.judging import Tastes, models_of

HALVES = np.array([0, 1] * 50, dtype=np.int32)


def looked(
    guard: Guard, clients: Tastes, models: Models, membership: Sequence[int] | np.ndarray
) -> tuple[Opinion | None, Counts | None]:
    """Return what a guard makes of the next arrival."""
    clients.interval += 1
    guard.begin(clients.api)
    return guard.look(models, np.array(membership, dtype=np.int32), clients.api)


def guard_of(n_clusters: int) -> Guard:
    guard = Guard()
    guard.forget(n_clusters)
    return guard


def test_clusters_whose_models_suit_their_clients_are_kept() -> None:
    clients = Tastes([0.0, 0.5] * 50)

    opinion, into = looked(guard_of(2), clients, models_of(0.0, 0.5), HALVES)

    assert opinion == Opinion(gain=0.25, error=0.0, n_judged=10)
    assert into is None
    assert clients.candidates == [[0.0, 0.5, 0.25]]


def test_clusters_are_merged_into_the_largest_if_the_mean_model_serves_their_clients_better() -> None:
    clients = Tastes([0.1] * 100)
    membership = np.array([1] + [0, 1, 1] * 33, dtype=np.int32)

    opinion, into = looked(guard_of(2), clients, models_of(-0.1, 0.2), membership)

    assert clients.candidates[0][2] == pytest.approx((-33 + 2 * 67) / 1000)
    assert opinion is not None
    assert opinion.gain == pytest.approx(0.001 - (3 * 0.2 + 7 * 0.1) / 10)
    assert into is not None
    assert into.tolist() == [1, 1]


def test_the_gain_is_the_mean_over_judges_and_its_error_that_of_a_mean() -> None:
    suits, membership = np.zeros(100), np.zeros(100, dtype=np.int32)
    suits[:5], membership[50:] = 0.25, 1  # the mean model is 0.25: five of the judges like it better than 0

    opinion, into = looked(guard_of(2), Tastes(suits.tolist()), models_of(0.0, 0.5), membership)

    gains = np.array([-0.25] * 5 + [0.25] * 5)
    assert opinion is not None
    assert opinion.gain == 0.0
    assert opinion.error == pytest.approx(gains.std(ddof=1) / np.sqrt(10))
    assert into is None, "it may well be more than that"


@pytest.mark.parametrize(("gain", "is_kept"), [(0.019, False), (0.021, True)])
def test_clusters_that_gain_too_little_to_pay_are_merged(gain: float, is_kept: bool) -> None:
    clients = Tastes([0.0, 2.0 * gain] * 50)

    opinion, into = looked(guard_of(2), clients, models_of(0.0, 2.0 * gain), HALVES)

    assert opinion is not None
    assert opinion.gain == pytest.approx(gain)
    assert (into is None) == is_kept


def test_a_gain_that_may_be_large_enough_is_waited_for_until_judges_are_sure() -> None:
    membership = np.array([0] * 50 + [1] * 50, dtype=np.int32)
    clients, guard = Tastes([0.0, 0.04] * 50), guard_of(2)
    models = models_of(0.0, 0.1)

    # The mean model, 0.05, costs those that want 0 as much, and spares those that want 0.04 three hundredths.
    first, into = looked(guard, clients, models, membership)
    assert first is not None
    assert first.gain == pytest.approx(0.01)
    assert first.error == pytest.approx(0.04 / 3)
    assert into is None
    looked(guard, clients, models, membership)
    second, into = looked(guard, clients, models, membership)

    assert second is not None
    assert second.gain == pytest.approx(0.01)
    assert second.error == pytest.approx(0.04 / np.sqrt(19))
    assert into is not None
    assert into.tolist() == [0, 0]


def test_one_judge_far_off_does_not_outweigh_nine_others() -> None:
    membership = np.array([0] * 50 + [1] * 50, dtype=np.int32)
    suits = np.array([0.0] + [25.1] * 99)

    # The mean model is 50: it costs the first judge as much, and spares each of the others 0.2.
    opinion, into = looked(guard_of(2), Tastes(suits.tolist()), models_of(0.0, 100.0), membership)

    assert opinion is not None
    assert opinion.gain == pytest.approx((LARGEST_GAIN - 9 * 0.2) / 10)
    assert into is not None
    assert into.tolist() == [0, 0]


def test_nor_does_one_far_off_merge_two_clusters() -> None:
    own, guard = np.array([0] * 3 + [1] * 3), guard_of(2)
    of_first, of_second = [[1.0, 1.25, 9.0]] * 2 + [[60.0, 10.0, 90.0]], [[1.0, 1.0, 9.0]] * 3

    guard._add(np.array(of_first + of_second), own)

    assert guard._evidence["cross"].tolist() == [[0.0, 0.25 + 0.25 - LARGEST_GAIN], [0.0, 0.0]]
    assert guard._pair() is not None, "they break even"
    guard._add(np.array([[1.0, 99.0, 9.0]]), own[:1])
    assert guard._evidence["cross"].tolist() == [[0.0, LARGEST_GAIN], [0.0, 0.0]]
    assert guard._pair() is None


def test_two_clusters_that_serve_each_other_as_well_become_one() -> None:
    membership = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2] * 10
    suits = np.array([0.0, 0.5, 9.0])[membership]

    _, into = looked(guard_of(3), Tastes(suits.tolist()), models_of(0.25, 0.25, 9.0), membership)

    assert into is not None
    assert into.tolist() == [0, 0, 2]


def test_a_pair_counts_by_all_of_its_judges_and_the_best_pair_is_taken() -> None:
    own = np.array([0] * 3 + [1] * 3 + [2] * 4)
    suits = np.array([-0.5] * 3 + [-1.0] * 3 + [1.0] * 4)
    guard = guard_of(3)

    guard._add(np.abs(suits[:, np.newaxis] - np.array([-1.0, 2.0, 2.0, 9.0])) / 8.0, own)
    into = guard._pair()

    # With each other's model, those of 0 lose 2/8 each and those of 1 gain 3/8 each; those of 1 and 2 lose nothing.
    assert (8.0 * guard._evidence["cross"]).tolist() == [[0.0, 6.0, 6.0], [-9.0, 0.0, 0.0], [4.0, 0.0, 0.0]]
    assert guard._evidence["n_cross"].tolist() == [[3.0] * 3, [3.0] * 3, [4.0] * 3]
    assert into is not None
    assert into.tolist() == [0, 0, 2]


def test_two_judges_of_a_cluster_do_not_merge_it() -> None:
    membership = [0, 0, 0, 0, 1, 1, 2, 2, 2, 2] * 10
    suits = np.array([0.0, 0.5, 9.0])[membership]
    clients, guard = Tastes(suits.tolist()), guard_of(3)
    models = models_of(0.25, 0.25, 9.0)

    assert looked(guard, clients, models, membership)[1] is None
    assert looked(guard, clients, models, membership) == (None, None)
    _, into = looked(guard, clients, models, membership)

    assert into is not None, "four of them do"
    assert into.tolist() == [0, 0, 2]


def test_clients_are_asked_at_arrivals_ever_farther_apart_and_then_at_every_ninth() -> None:
    clients, guard = Tastes([0.0, 4.0] * 50), guard_of(2)

    asked_at: list[int] = []
    for arrival in range(1, 40):
        looked(guard, clients, models_of(0.0, 4.0), HALVES)
        if len(clients.asked) > len(asked_at):
            asked_at.append(arrival)

    assert asked_at == [1, 3, 6, 11, 20, 29, 38]


@pytest.mark.parametrize(
    ("n_clients", "gain", "n_expected"), [(50, 4.0, 15), (400, 4.0, 30), (50, 0.0, 10), (400, 0.0, 10)]
)
def test_asking_is_so_rare_that_99_of_100_client_rounds_send_nothing(
    n_clients: int, gain: float, n_expected: int
) -> None:
    clients, guard = Tastes([0.0, gain] * (n_clients // 2)), guard_of(2)
    membership = np.array([0, 1] * (n_clients // 2), dtype=np.int32)

    for round_index in range(1, 160):
        clients.interval = round_index // 20
        clients.fresh_ones[:] = round_index % 20 == 0
        guard.begin(clients.api)
        if guard.look(models_of(0.0, gain), membership, clients.api)[1] is not None:
            guard.note_merge(1)
            membership[:] = 0

    n_asked = sum(len(judges) for judges in clients.asked)
    assert n_asked == n_expected
    assert not guard.wants_others, "merged clusters are not tried again in so few arrivals"
    assert (n_clients + n_asked) / (160 * n_clients) < 0.01, "everybody reports once at the start"


def test_a_tenth_of_the_clients_judges_but_at_least_five_and_at_most_ten() -> None:
    for n_clients, n_judges in ((4, 4), (12, 5), (70, 7), (300, 10)):
        clients = Tastes([0.0, 4.0] * (n_clients // 2))
        looked(guard_of(2), clients, models_of(0.0, 4.0), [0, 1] * (n_clients // 2))
        assert clients.asked == [list(range(n_judges))]


def test_without_new_samples_nobody_is_asked_and_no_arrival_counts() -> None:
    clients, guard = Tastes([0.0, 4.0] * 50), guard_of(2)
    clients.fresh_ones[:] = False
    for _ in range(3):
        assert looked(guard, clients, models_of(0.0, 4.0), HALVES) == (None, None)
    clients.fresh_ones[:] = True

    assert looked(guard, clients, models_of(0.0, 4.0), HALVES)[0] is not None
    assert clients.asked == [list(range(10))]


def test_an_arrival_is_looked_at_once_however_often_the_round_asks() -> None:
    clients, guard = Tastes([0.0, 4.0] * 50), guard_of(2)
    looked(guard, clients, models_of(0.0, 4.0), HALVES)
    guard.note_merge(2)
    looked(guard, clients, models_of(0.0, 4.0), HALVES)
    for _ in range(10):
        guard.begin(clients.api)
        assert guard.look(models_of(0.0, 4.0), HALVES, clients.api) == (None, None)

    assert len(clients.asked) == 2
    assert not guard.allows_others, "one of eight arrivals is over"


def test_who_has_no_cluster_or_no_new_samples_does_not_judge() -> None:
    clients = Tastes([0.0, 4.0] * 10)
    clients.fresh_ones[[0, 3]] = False
    membership = np.array([0, 1] * 10, dtype=np.int32)
    membership[2] = -1

    looked(guard_of(2), clients, models_of(0.0, 4.0), membership)

    assert clients.asked == [[1, 4, 5, 6, 7]]


def test_one_cluster_or_one_that_lives_needs_no_judges() -> None:
    clients = Tastes([0.0] * 20)

    assert looked(guard_of(1), clients, models_of(0.0), [0] * 20) == (None, None)
    assert looked(guard_of(2), clients, models_of(0.0, 4.0), [1] * 19 + [-1]) == (None, None)
    assert clients.asked == []


def test_few_judges_decide_nothing_until_there_were_ten() -> None:
    clients, guard = Tastes([0.25] * 12), guard_of(2)
    models, membership = models_of(0.0, 0.5), [0, 1] * 6

    first, into = looked(guard, clients, models, membership)
    assert first == Opinion(gain=-0.25, error=0.0, n_judged=5)
    assert into is None
    looked(guard, clients, models, membership)
    second, into = looked(guard, clients, models, membership)

    assert second == Opinion(gain=-0.25, error=0.0, n_judged=10)
    assert into is not None


def test_one_judge_has_an_opinion_without_an_error() -> None:
    clients = Tastes([0.25] * 12)
    clients.fresh_ones[1:] = False

    opinion, into = looked(guard_of(2), clients, models_of(0.0, 0.5), [0, 1] * 6)

    assert opinion is not None
    assert opinion.record() == {"gain": -0.25, "error": None, "n_judged": 1}
    assert into is None


def test_who_does_not_answer_has_no_say_and_if_nobody_does_the_next_arrival_asks_again() -> None:
    clients, guard = Tastes([1.0] * 100), guard_of(2)
    clients.silent = list(range(10))

    assert looked(guard, clients, models_of(0.0, 2.0), HALVES) == (None, None)
    clients.silent = [0, 1, 2]
    opinion, into = looked(guard, clients, models_of(0.0, 2.0), HALVES)

    assert opinion is not None
    assert opinion.n_judged == 7
    assert into is None
    assert clients.asked == [list(range(10))] * 2, "once at each arrival, even if some do not answer"


def test_a_model_whose_loss_is_no_number_counts_as_a_very_bad_one() -> None:
    clients = Tastes([0.0, 4.0] * 50)

    opinion, into = looked(guard_of(2), clients, models_of(0.0, np.nan), HALVES)

    assert opinion is not None
    assert np.isfinite([opinion.gain, opinion.error]).all()
    assert opinion.gain == pytest.approx(LARGEST_GAIN / 2), "the mean is broken, too; half of the judges lose by it"
    assert into is None, "as many lose by the broken model as gain by the other, but their mean would be broken, too"


def test_after_a_merge_nobody_is_grouped_anew_for_eight_arrivals_then_twice_as_many_up_to_64() -> None:
    clients, guard = Tastes([1.0] * 12), guard_of(2)
    rests = []
    for _ in range(5):
        guard.note_merge(1)
        rests.append(0)
        while not guard.allows_others:
            assert not guard.wants_others
            looked(guard, clients, models_of(1.0), [0] * 12)
            rests[-1] += 1
        assert guard.wants_others, "all were merged: a lone center tells nothing"

    assert rests == [8, 16, 32, 64, 64]
    guard.forget(3)
    assert not guard.wants_others, "there are clusters again"


def test_after_a_pair_was_merged_the_trigger_decides() -> None:
    clients, guard = Tastes([1.0] * 12), guard_of(3)
    guard.note_merge(2)
    for _ in range(8):
        assert not guard.allows_others
        looked(guard, clients, models_of(0.0, 1.0), [0] * 12)

    assert guard.allows_others
    assert not guard.wants_others


def test_of_earlier_clusters_half_of_what_was_said_still_counts() -> None:
    clients, guard = Tastes([0.0, 0.5] * 50), guard_of(2)
    looked(guard, clients, models_of(0.0, 0.5), HALVES)

    guard.forget(3, kept=0.5)
    opinion, into = looked(guard, clients, models_of(0.25, 0.25, 0.25), HALVES)

    assert opinion is not None
    assert opinion.gain == pytest.approx(5 * 0.25 / 15)
    assert opinion.n_judged == 15
    assert into is not None, "the pair of equals"
    assert into.tolist() == [0, 0, 2]


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_restored_guard_goes_on_bit_for_bit(n_before: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    suits, membership = rng.normal(size=60).tolist(), rng.integers(0, 3, 60)
    models = models_of(*rng.normal(size=3).tolist())
    one, other = Tastes(suits), Tastes(suits)
    guard, twin = guard_of(3), Guard()

    def advance(whose: Guard, clients: Tastes) -> tuple[Opinion | None, list[int] | None]:
        opinion, into = looked(whose, clients, models, membership)
        if into is not None:
            whose.note_merge(3)
        return opinion, None if into is None else into.tolist()

    for _ in range(n_before):
        advance(guard, one)
    other.interval = one.interval
    twin.restore({name: array.copy() for name, array in guard.arrays().items()})
    for name, array in guard.arrays().items():
        assert twin.arrays()[name].tobytes() == array.tobytes()
    for _ in range(6):
        assert advance(guard, one) == advance(twin, other)
        assert guard.allows_others == twin.allows_others


# ---- guard placing --------------------------------------------------------------------------------------------


def coordinator_of(n_clients: int = 6) -> Coordinator:
    """Return one with two clusters, of even and of odd clients."""
    coordinator = Coordinator(Policy(clusterer=Clusterer(k_max=2), trigger=Never(), seed=1))
    rows = np.array([[0.9, 0.1], [0.1, 0.9]])[np.arange(n_clients) % 2] + 0.01 * np.arange(n_clients)[:, np.newaxis]
    rows /= rows.sum(axis=1, keepdims=True)
    coordinator.update(ReportBatch(client_ids=list(range(n_clients)), representations=rows))
    assert coordinator.registry.membership.tolist() == [0, 1] * (n_clients // 2)
    return coordinator


def told(kinds: dict[int, int]) -> ReportBatch:
    return ReportBatch(
        client_ids=list(kinds),
        representations=np.full((len(kinds), 2), 0.5),
        kinds=np.array(list(kinds.values()), dtype=np.int8),
    )


def test_clients_that_nothing_explains_go_where_they_are_served_best_and_only_they_are_asked() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0, 4.0, 0.0, 1.0, 4.0, 9.0])
    reports = told({5: UNEXPLAINED, 0: UNEXPLAINED, 2: UNEXPLAINED, 3: UNEXPLAINED, 4: 1})

    moved = place_by_loss(coordinator, models_of(0.0, 4.0), reports, clients.api)

    assert clients.asked == [[0, 2, 3, 5]]
    assert moved == [0, 3]
    assert coordinator.registry.membership.tolist() == [1, 1, 0, 0, 0, 1]


def test_a_tie_stays_where_it_is() -> None:
    coordinator, clients = coordinator_of(), Tastes([0.0] * 6)

    assert place_by_loss(coordinator, models_of(2.0, 2.0), told({1: UNEXPLAINED, 0: UNEXPLAINED}), clients.api) == []
    assert coordinator.registry.membership.tolist() == [0, 1] * 3


def test_who_does_not_answer_stays_and_a_broken_model_takes_nobody_in() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0] * 6)
    clients.silent = [0]

    assert place_by_loss(coordinator, models_of(0.0, 4.0), told({0: UNEXPLAINED}), clients.api) == []
    assert place_by_loss(coordinator, models_of(0.0, np.nan), told({2: UNEXPLAINED}), clients.api) == []
    assert place_by_loss(coordinator, models_of(np.inf, 4.0), told({4: UNEXPLAINED}), clients.api) == [4]


def test_without_such_reports_or_with_one_cluster_nobody_is_asked() -> None:
    coordinator, clients = coordinator_of(), Tastes([4.0] * 6)
    untold = ReportBatch(client_ids=[0], representations=np.full((1, 2), 0.5))

    assert place_by_loss(coordinator, models_of(0.0, 4.0), told({0: 3}), clients.api) == []
    assert place_by_loss(coordinator, models_of(0.0, 4.0), untold, clients.api) == []
    assert place_by_loss(coordinator, models_of(0.0), told({0: UNEXPLAINED}), clients.api) == []
    assert clients.asked == []
