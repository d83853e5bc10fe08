from typing import TYPE_CHECKING

import pytest

from fielding.reporting.comparison import comparison
from fielding.reporting.demo_page import clustered, demo_table, difference_lines
from tests.reporting.run_logs import evaluated, round_line

if TYPE_CHECKING:
    from fielding._typing import Json


def run_of(accuracy: float, *, n_clusters: int, ari: float, n_reports: int = 0) -> list[dict[str, "Json"]]:
    found = evaluated(accuracy) | {"ari": ari}
    return [round_line(at, **(found | {"n_clusters": n_clusters, "n_reports": n_reports})) for at in range(2)]


@pytest.fixture
def summary() -> dict[str, "Json"]:
    """Return a comparison of more methods than two on two seeds."""
    runs = {
        "several": [run_of(0.75, n_clusters=2, ari=1.0), run_of(0.75, n_clusters=3, ari=0.5)],
        "one-cluster": [run_of(one, n_clusters=1, ari=0.0, n_reports=4) for one in (0.25, 0.5)],
        "alone": [run_of(one, n_clusters=1, ari=0.0) for one in (0.5, 0.25)],
        "global": [run_of(0.5, n_clusters=1, ari=0.0), run_of(0.5, n_clusters=1, ari=0.0)],
    }
    return comparison(runs, [1, 2])


def test_a_method_is_clustered_if_it_has_several_clusters_or_hears_reports(summary: dict[str, "Json"]) -> None:
    assert clustered(summary) == ["several", "one-cluster"]


def test_the_table_has_a_column_for_each_method(summary: dict[str, "Json"]) -> None:
    table = {row[0]: row[1:] for row in demo_table(summary)}

    assert table[""] == ["several", "one-cluster", "alone", "global"]
    # Two seeds: half of a 95 % interval is 12.706 times half of the difference.
    assert table["worst tenth minus that of global"] == ["+0.250 ± 0.000", "-0.125 ± 1.588", "-0.125 ± 1.588", "-"]
    assert table["agreement with places (ARI)"] == ["0.75 ± 3.18", "0.00 ± 0.00", "-", "-"]
    assert {len(row) for row in demo_table(summary)} == {5}


def test_each_method_is_held_against_the_global_model_in_a_line(summary: dict[str, "Json"]) -> None:
    first, second, third = difference_lines(summary)

    assert first.startswith("several - global: +0.2500 in final accuracy, 95 % interval")
    assert first.endswith("better")
    assert second.startswith("one-cluster - global: -0.1250")
    assert third.endswith("no clear difference")
