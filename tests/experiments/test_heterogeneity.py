from pathlib import Path

import pytest

from experiments.heterogeneity import SETTINGS, STRATEGIES, Run, interval, read, run_strategy, sections, table
from fielding.rng import stream
from tests.golden.place_stream import place_stream


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    example = place_stream(stream(1, "demo"))
    return [run_strategy(strategy, example.trace, example.plan, seed=1) for strategy in STRATEGIES]


def by_name(runs: list[Run], name: str) -> Run:
    return next(run for run in runs if run.strategy == name)


def test_the_better_a_strategy_follows_the_drift_the_more_alike_its_clusters(runs: list[Run]) -> None:
    level = {run.strategy: run.mean_distance for run in runs}

    assert level["no clustering"] > level["static"] > level["moves only"] > level["Fielding (paper)"]
    assert level["Fielding (paper)"] < 1.1 * level["re-cluster always"]


def test_fielding_re_clusters_far_less_often_than_at_every_event(runs: list[Run]) -> None:
    assert len(by_name(runs, "re-cluster always").reclustered) == len(by_name(runs, "static").steps) - 1
    assert 0 < len(by_name(runs, "Fielding (paper)").reclustered) < 15
    assert by_name(runs, "static").n_moves == 0


def test_calibrated_reports_are_a_fraction_of_any_change(runs: list[Run]) -> None:
    calibrated, paper = by_name(runs, "Fielding, chi2 reports"), by_name(runs, "Fielding (paper)")

    assert calibrated.n_reports < paper.n_reports / 10
    assert calibrated.mean_distance < 1.15 * paper.mean_distance


def test_the_table_has_a_row_per_strategy_and_the_page_a_line(runs: list[Run]) -> None:
    rows = table(runs)

    assert [row[0] for row in rows[1:]] == [strategy.name for strategy in STRATEGIES]
    assert rows[1][2] == "+0.0 %"
    figure = sections(SETTINGS[0], runs)[0].figure
    assert figure is not None
    assert len(figure["data"]) == len(STRATEGIES)


def test_the_interval_is_students() -> None:
    assert interval([1.0, 2.0, 3.0]) == f"2.000 ± {4.30 / 3**0.5:.3f}"
    assert interval([0.5]) == "0.500"


@pytest.mark.slow
def test_crime_hardly_drifts_so_calibrated_reports_are_few_and_nobody_is_re_clustered(data_folder: Path) -> None:
    setting = next(one for one in SETTINGS if one.name == "uk-crime")
    trace = read(setting, data_folder)
    calibrated, paper = (
        run_strategy(next(one for one in STRATEGIES if one.name == name), trace, setting.plan, seed=1)
        for name in ("Fielding, chi2 reports", "Fielding (paper)")
    )

    assert len(trace.client_ids) > 5000
    assert len(calibrated.reclustered) <= 1
    assert calibrated.n_reports < paper.n_reports / 5
