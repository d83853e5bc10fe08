import numpy as np
import pytest

from fielding._typing import Counts
from fielding.federation.selection import Selection
from fielding.federation.selection.nearest import Nearest
from tests.federation.selection.rounds import candidates_of

EVERYONE = np.arange(10)
POINTS = np.array([[1.0 - one / 20, one / 20] for one in range(9)] + [[0.0, 1.0]])


def selection_of(pool: float) -> Selection:
    selection = Selection(Nearest(pool=pool), 10)
    selection.note_reports(EVERYONE, POINTS)
    return selection


def chosen(selection: Selection, n_wanted: int, round_index: int, clients: Counts = EVERYONE) -> list[int]:
    return selection.choose(
        candidates_of(clients, round_index), n_wanted, cluster=0, round_index=round_index, members=EVERYONE
    ).tolist()


def test_an_infinite_pool_takes_the_nearest_every_time() -> None:
    selection = selection_of(np.inf)
    center = POINTS.mean(axis=0)
    nearest = np.sort(np.argsort(np.abs(POINTS - center).sum(axis=1), kind="stable")[:3])

    assert all(chosen(selection, 3, round_index) == nearest.tolist() for round_index in range(20))


@pytest.mark.parametrize(("pool", "n_starving"), [(1.0, 0), (1.5, 1), (2.0, 2), (np.inf, 8)])
def test_who_starves_are_the_farthest_as_many_as_the_pool_has_too_many(pool: float, n_starving: int) -> None:
    selection = selection_of(pool)

    seen = {one for turn in range(1500) for one in chosen(selection, 2, turn)}

    # Whoever has two farther ones in the pool of four can be chosen; the two farthest of ten never have.
    far_first = np.argsort(-np.abs(POINTS - POINTS.mean(axis=0)).sum(axis=1))
    assert set(range(10)) - seen == set(far_first[:n_starving].tolist())


def test_a_pool_of_one_is_uniform() -> None:
    selection, plain = selection_of(1.0), candidates_of(EVERYONE, 3)

    assert chosen(selection, 4, 3) == np.sort(np.argsort(plain.draws)[:4]).tolist()


def test_parts_of_clients_in_the_pool_are_rounded_up() -> None:
    by_draw = np.argsort(candidates_of(EVERYONE, 3).draws)[:2]
    distances = np.abs(POINTS - POINTS.mean(axis=0)).sum(axis=1)

    assert distances[by_draw[1]] < distances[by_draw[0]]
    assert chosen(selection_of(1.5), 1, 3) == [by_draw[1]]


def test_who_is_near_is_chosen_more_often_than_who_is_far() -> None:
    selection = selection_of(2.0)

    times = np.bincount([one for turn in range(500) for one in chosen(selection, 2, turn)], minlength=10)

    order = np.argsort(np.abs(POINTS - POINTS.mean(axis=0)).sum(axis=1))
    # Uniformly each would be chosen 100 times, give or take nine.
    assert times[order[:3]].min() > 150
    assert times[order[-3:]].max() < 50


def test_the_center_is_that_of_all_members_askable_or_not() -> None:
    selection = selection_of(np.inf)

    assert chosen(selection, 1, 0, np.array([0, 8])) == [8]
    only = selection.choose(
        candidates_of(np.array([0, 8]), 0), 1, cluster=0, round_index=0, members=np.array([0, 1, 8])
    )
    assert only.tolist() == [0]


def test_whoever_never_reported_or_went_silent_stands_behind_the_others() -> None:
    selection = Selection(Nearest(pool=np.inf), 4)
    selection.note_reports(np.array([1, 2, 3]), np.array([[1.0, 0.0], [0.9, 0.1], [0.5, 0.5]]))
    everyone = np.arange(4)

    selection.note_reports(np.array([1]), np.zeros((1, 2)))

    first = selection.choose(candidates_of(everyone, 0), 2, cluster=0, round_index=0, members=everyone)
    assert first.tolist() == [2, 3]


def test_a_vector_of_zeros_is_a_place_and_no_silence() -> None:
    selection = Selection(Nearest(pool=np.inf), 3, metric="l2", kind="vector")
    selection.note_reports(np.arange(3), np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 0.0]]))

    assert selection.choose(candidates_of(np.arange(3), 0), 2, cluster=0, round_index=0).tolist() == [0, 1]


@pytest.mark.parametrize("pool", [1.5, 2.0, np.inf])
def test_without_any_report_the_choice_is_by_lot(pool: float) -> None:
    selection, candidates = Selection(Nearest(pool=pool), 10), candidates_of(EVERYONE, 1)

    picked = selection.choose(candidates, 4, cluster=0, round_index=1, members=EVERYONE)

    assert picked.tolist() == np.sort(np.argsort(candidates.draws)[:4]).tolist()
