from fielding.reporting.charts.clusters import COLORS, NONE, OWN, SHARED, assign_colors
from fielding.reporting.numbers.run_record import Changes


def test_every_cluster_has_its_own_colour_while_there_are_enough() -> None:
    colors = assign_colors([(0, [(at, 10 * at) for at in range(9)])])

    assert [colors.color(10 * at) for at in range(9)] == list(OWN)
    assert len(set(COLORS)) == len(OWN) + 2


def test_a_colour_does_not_change_when_clusters_come_and_go() -> None:
    changes: list[Changes] = [(0, [("ann", 0), ("bob", 1)]), (5, [("bob", 2)]), (9, [("ann", 3)])]

    early, late = assign_colors(changes[:2]), assign_colors(changes)

    assert {cluster: late.slots[cluster] for cluster in early.slots} == early.slots


def test_too_many_at_once_leave_gray_to_the_smallest() -> None:
    everybody = [(f"{cluster}-{at}", cluster) for cluster in range(12) for at in range(cluster + 1)]

    colors = assign_colors([(0, list(everybody))])

    assert [cluster for cluster in range(12) if colors.slot(cluster) == SHARED] == [0, 1, 2]
    assert colors.legend[SHARED] == "3 small clusters"
    assert [colors.slot(cluster) for cluster in range(3, 12)] == list(range(9))


def test_clusters_that_never_meet_share_a_colour_once_all_are_used() -> None:
    changes: list[Changes] = [(at, [("ann", at), ("bob", 100)]) for at in range(12)]

    colors = assign_colors(changes)

    assert SHARED not in colors.slots.values()
    assert colors.slot(100) not in [colors.slot(at) for at in range(12)]
    assert len({colors.slot(at) for at in range(8)}) == 8


def test_who_is_in_none_has_a_colour_of_its_own() -> None:
    colors = assign_colors([(0, [("ann", -1), ("bob", 0)])])

    assert colors.slot(-1) == NONE
    assert colors.slots == {0: 0}
    assert colors.name(-1) == "no cluster"
