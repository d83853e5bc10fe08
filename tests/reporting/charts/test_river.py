from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.reporting.charts.clusters import assign_colors
from fielding.reporting.charts.river import NOBODY, OTHERS, Flows, _shapes, count_flows, draw_river, river_moments
from fielding.reporting.numbers.run_record import Changes, read_run
from fielding.reporting.page import Section
from tests.reporting.charts.inside_runs import changed, inside_run, write_log

CHANGES: list[Changes] = [
    (0, [("ann", 0), ("bob", 0), ("cid", 1), ("dan", 1)]),
    (4, [("bob", 1), ("eve", 1)]),
    (8, [("cid", 2), ("dan", -1)]),
]


def found(changes: list[Changes]) -> Flows:
    return count_flows(changes, assign_colors(changes))


def told(section: Section) -> list[str]:
    assert section.figure is not None
    return [words for trace in section.figure["data"] for words in trace.get("text", ())]


def test_flows_are_counted_from_cluster_to_cluster() -> None:
    counted = found(CHANGES)

    assert list(counted.moments) == [0, 4, 8]
    assert list(counted.keys) == [0, 1, 2, NOBODY]
    assert counted.sizes.tolist() == [[2, 2, 0, 1], [1, 4, 0, 0], [1, 2, 1, 1]]
    assert counted.flows[0].tolist() == [[1, 1, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert counted.flows[1].tolist() == [[1, 0, 0, 0], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 14)), min_size=1, max_size=30), min_size=1, max_size=40
    )
)
def test_every_client_is_in_one_band_and_in_one_strand(lines: list[list[tuple[int, int]]]) -> None:
    changes: list[Changes] = [(3 * at, [(client, place) for client, place in line]) for at, line in enumerate(lines)]
    n_clients = len({client for _, line in changes for client, _ in line})

    counted = found(changes)

    assert len(counted.moments) <= 14
    assert (counted.sizes.sum(axis=1) == n_clients).all()
    assert np.array_equal(counted.flows.sum(axis=2), counted.sizes[:-1])
    assert np.array_equal(counted.flows.sum(axis=1), counted.sizes[1:])


def test_clusters_that_share_a_colour_are_one_band() -> None:
    sizes = [9, 8, 7, 6, 5, 4, 3, 3, 3, 2, 1]
    everybody = [(f"{cluster}-{at}", cluster) for cluster, size in enumerate(sizes) for at in range(size)]

    counted = found([(0, list(everybody))])

    assert list(counted.keys) == [*range(9), OTHERS]
    assert counted.sizes[0].tolist() == [9, 8, 7, 6, 5, 4, 3, 3, 3, 3]


def test_the_largest_changes_are_shown_and_close_ones_gathered() -> None:
    many = [(at, 100 if at == 51 else 90 if at == 52 else 1) for at in range(101)]

    moments = river_moments(many)

    assert len(moments) == 14
    assert {0, 51, 100} <= set(moments)
    assert 52 not in moments


def test_words_say_who_goes_where_and_when(tmp_path: Path) -> None:
    words = told(draw_river(inside_run(tmp_path / "run"), None))

    assert "1 client: cluster 0 \u2192 cluster 1, rounds 1 to 4" in words
    assert "2 clients: cluster 1 \u2192 cluster 2, rounds 5 to 8" in words
    assert "1 client: stayed in cluster 0, rounds 5 to 8" in words
    assert "cluster 2: 2 clients, rounds 8 to 9" in words


def test_the_text_counts_the_changes_that_are_drawn(tmp_path: Path) -> None:
    assert "3 changes are drawn" in draw_river(inside_run(tmp_path / "run"), None).text


def test_one_model_for_all_has_no_river(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    write_log(folder, "memberships", [changed(0, {"ann": 0, "bob": 0})])

    assert "one model" in draw_river(read_run(folder), None).missing


def test_strands_begin_in_the_round_of_the_move_and_end_before_the_next(tmp_path: Path) -> None:
    colors = assign_colors(CHANGES)
    moves = [one for one in _shapes(count_flows(CHANGES, colors), colors, 12.0) if one.is_move]

    spans = {(float(one.outline[0].min()), float(one.outline[0].max())) for one in moves}
    assert {begin for begin, _ in spans} == {4.0, 8.0}
    assert all(begin < end < begin + 4 for begin, end in spans)
