from pathlib import Path

import numpy as np
import pytest

from fielding._typing import ClientId
from fielding.reporting.charts.clusters import (
    COLORS,
    NONE,
    OWN,
    SHARED,
    assign_colors,
    clusters_now,
    draw_cluster_cards,
    mean_and_worst,
)
from fielding.reporting.numbers.run_record import Changes, read_run
from tests.reporting.charts.inside_runs import changed, inside_run, write_log


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


# ---------------------------------------------------------------- cluster cards


def test_shares_are_means_over_the_newest_reports_of_members(tmp_path: Path) -> None:
    largest, second, third = clusters_now(inside_run(tmp_path / "run"))

    assert (largest.cluster, largest.n_clients, largest.since) == (2, 2, 8)
    assert [name for name, _ in largest.labels] == ["dog", "cat"]
    assert [share for _, share in largest.labels] == pytest.approx([0.9, 0.1])
    assert (second.cluster, third.cluster) == (0, 1)
    assert [share for _, share in third.labels] == pytest.approx([0.8, 0.2])


def test_accuracy_is_that_of_the_last_evaluation(tmp_path: Path) -> None:
    found = {one.cluster: one.accuracy for one in clusters_now(inside_run(tmp_path / "run"))}

    assert found == {0: 1.0, 1: 0.75, 2: 0.25}  # the other client of cluster 2 has no test sample


def test_the_worst_tenth_has_one_client_at_least() -> None:
    mean, worst = mean_and_worst(np.arange(20) / 20)

    assert [mean, worst] == pytest.approx([0.475, 0.025])
    assert np.isnan(mean_and_worst(np.array([np.nan]))).all()


def test_cards_say_size_labels_accuracy_and_age(tmp_path: Path) -> None:
    card = draw_cluster_cards(inside_run(tmp_path / "run"), None).cards[0]

    assert (card.name, card.value, card.color) == ("cluster 2", "2 clients (50%)", COLORS[2])
    assert card.note.split(";\n") == [
        "mostly dog (90%), cat (10%)",
        "accuracy 0.250, worst tenth 0.250",
        "since round 8 (1 round old)",
    ]


def test_more_than_twelve_clusters_are_summed_up(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    sizes = [5, 4, *[3] * 10, 2, 1]
    everybody: dict[ClientId, int] = {
        f"{cluster}-{at}": cluster for cluster, size in enumerate(sizes) for at in range(size)
    }
    write_log(folder, "memberships", [changed(0, everybody)])

    cards = draw_cluster_cards(read_run(folder), None).cards

    assert len(cards) == 12
    assert (cards[-1].name, cards[-1].value) == ("3 smaller clusters", "6 clients (14%)")


def test_other_representations_have_no_typical_labels(tmp_path: Path) -> None:
    run = inside_run(tmp_path / "run", coordinator={"kind": "histogram", "representation": "mine:describe"})

    section = draw_cluster_cards(run, None)

    assert "mostly" not in section.cards[0].note
    assert "labels" not in section.text
