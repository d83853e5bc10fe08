from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.reporting.charts.decisions import decision_words, draw_decisions, draw_traffic, kept_events
from fielding.reporting.numbers.run_record import Row, read_run
from tests.reporting.charts.inside_runs import inside_run, write_log


def test_the_table_tells_newest_first_what_was_decided_and_why(tmp_path: Path) -> None:
    heads, *rows = draw_decisions(inside_run(tmp_path / "run"), None).table

    assert list(heads) == ["round", "decision", "reports", "moved", "joined", "shift / threshold"]
    assert [list(row) for row in rows] == [
        [
            "8", "re-clustered: 0.750 > 0.500; 3 clusters (silhouettes 2: 0.25, 3: 0.50)",
            "2", "2: cid, dan", "-", "0.750 / 0.500",
        ],
        ["4", "moved 1; no center went too far: 0.125 of 0.500", "1 (1 label)", "1: bob", "-", "0.125 / 0.500"],
        ["0", "made the first clusters; 2 clusters (silhouettes 2: 0.50, 3: 0.25)", "4", "-", "4", "-"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"n_moved": 0}, "nobody moved"),
        ({"n_moved": 2}, "moved 2"),
        ({"fired": True}, "re-clustered"),
        ({"merged": [0, 0, 2]}, "nobody moved; guard merged 3 clusters into 2"),
        (
            {"guard": {"gain": 0.125, "error": None, "n_judged": 7}},
            "nobody moved; guard: clusters spare 0.125 of loss by 7 verdicts",
        ),
        (
            {"guard": {"gain": -0.5, "error": 0.25, "n_judged": 7}},
            "nobody moved; guard: clusters spare -0.500 \u00b1 0.250 of loss by 7 verdicts",
        ),
    ],
)
def test_decisions_are_told_in_words(event: Row, words: str) -> None:
    assert decision_words(event) == words


def test_long_lists_of_clients_are_cut(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    many: list[Json] = [f"client {at}" for at in range(20)]
    write_log(folder, "events", [{"round": at, "moved": many, "reported": many} for at in range(40)])

    section = draw_decisions(read_run(folder), None)

    assert len(section.table) == 31
    assert section.table[1][:4] == ["39", "moved 20", "20", "20: client 0, client 1, client 2, ..."]
    assert "the newest 30 of 40 events" in section.text
    assert section.figure is None  # nothing was measured


def test_re_clusterings_stay_when_events_are_thinned() -> None:
    events: list[Row] = [{"fired": at % 97 == 5} for at in range(2000)]

    kept = kept_events(events)

    assert kept.size <= 400
    assert set(range(5, 2000, 97)) <= set(kept.tolist())
    assert {0, 1999} <= set(kept.tolist())
    assert kept_events(events[:3]).tolist() == [0, 1, 2]


def test_the_figure_shows_each_shift_and_the_threshold(tmp_path: Path) -> None:
    figure = draw_decisions(inside_run(tmp_path / "run"), None).figure

    assert figure is not None
    shown = {trace["name"]: (trace["x"], trace["y"]) for trace in figure["data"]}
    assert shown == {
        "threshold": ([0, 4, 8], [None, 0.5, 0.5]),
        "moves were enough": ([4], [0.125]),
        "all were grouped anew": ([8], [0.75]),
    }


def test_bars_are_reports_and_moves_of_each_round(tmp_path: Path) -> None:
    figure = draw_traffic(inside_run(tmp_path / "run"), None).figure

    assert figure is not None
    assert [np.array(bars["y"]).tolist() for bars in figure["data"]] == [
        [4, 0, 0, 0, 1, 0, 0, 0, 2, 0],
        [0, 0, 0, 0, 1, 0, 0, 0, 2, 0],
    ]


def test_where_nobody_reports_only_moves_are_drawn(tmp_path: Path) -> None:
    folder = inside_run(tmp_path / "run").folder
    write_log(folder, "rounds", [{"round": 0, "time_s": 1.0, "n_reports": 0, "n_moved": 3}])

    section = draw_traffic(read_run(folder), None)

    assert section.figure is not None
    assert [bars["y"] for bars in section.figure["data"]] == [[3]]
    assert "Nobody reports here." in section.text
