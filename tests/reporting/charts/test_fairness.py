from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.reporting.charts.fairness import MOST_POINTS, cumulative_shares, draw_fairness
from fielding.reporting.numbers.groups import Group, RunGroups
from tests.reporting.charts.group_runs import accuracies, drawn, groups_of, numbers, one_run, traces


def test_clients_of_all_seeds_make_one_curve_with_the_worst_tenth_shaded(tmp_path: Path) -> None:
    gathered = _gathered(tmp_path, [[1, 2], [4, 4]])

    section = draw_fairness(gathered)

    (line,) = traces(section, "ours")
    assert numbers(line["x"]) == [0.25, 0.25, 0.5, 1.0, 1.0]
    assert numbers(line["y"]) == [0.0, 25.0, 50.0, 100.0, 100.0]
    assert [(shape["y0"], shape["y1"]) for shape in drawn(section)["layout"]["shapes"]] == [(0, 10)]
    # The worst tenth is that of each seed, 0.25 and 1, as in all tables; the quantiles are of all clients together.
    assert list(section.table[1]) == ["ours", "0.625", "0.325", "0.438", "0.750", "1.000", "1.000", "0.750", "4"]


def test_corrected_and_tuned_models_have_views_of_their_own(tmp_path: Path) -> None:
    found = draw_fairness(_gathered(tmp_path, [[1, 2]], corrected=[2, 4], tuned=[4, 4])).views

    assert [section.table[1][1] for section in found] == ["0.250", "0.500", "1.000"]
    assert [list(one.words) for one in found] == [["model as it is"], ["corrected"], ["tuned"]]


def test_without_tests_of_clients_nothing_is_drawn(tmp_path: Path) -> None:
    section = draw_fairness(groups_of(tmp_path, {"ours": [accuracies([0.5])]}))

    assert "clients.jsonl" in section.missing


def test_very_many_clients_make_a_short_curve() -> None:
    x, y = cumulative_shares(np.linspace(0.0, 1.0, 9000))

    assert x.size == y.size <= MOST_POINTS
    assert (y[0], y[-1]) == (0.0, 100.0)
    assert (np.diff(y) >= 0).all()


def _gathered(folder: Path, correct: list[list[int]], **otherwise: Json) -> RunGroups:
    """Return runs of two clients each, who have four test samples."""
    runs = []
    for seed, counts in enumerate(correct, start=1):
        line: dict[str, Json] = {
            "round": 0, "client": ["ann", "bob"], "cluster": [0, 0], "n_test": [4, 4], "correct": list(counts),
            **otherwise,
        }  # fmt: skip
        runs.append(one_run(folder / str(seed), accuracies([0.5]), seed=seed, clients=[line]))
    return RunGroups(title="", groups=(Group(name="ours", runs=tuple(runs)),), reference=None)
