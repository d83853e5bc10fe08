from pathlib import Path

import numpy as np
import pytest

from fielding._typing import ClientId
from fielding.reporting.charts.clusters import COLORS, clusters_now, draw_cluster_cards, mean_and_worst
from fielding.reporting.numbers.run_record import read_run
from tests.reporting.charts.inside_runs import changed, inside_run, write_log


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
