from typing import TYPE_CHECKING

import pytest

from fielding.errors import InputError
from fielding.reporting.comparison import comparison, comparison_table, difference_words, target_words

if TYPE_CHECKING:
    from fielding._typing import Json


def run_of(*accuracies: float) -> list[dict[str, "Json"]]:
    return [
        {
            "round": at, "time_s": 3600.0 * (at + 1), "accuracy": accuracy, "worst_decile": accuracy / 2,
            "n_reports": 3, "n_moved": 2, "reclustered": at == 1, "n_clusters": 2,
            "bytes_down": 2_000_000, "bytes_up": 1_000_000, "client_seconds": 5.0,
        }
        for at, accuracy in enumerate(accuracies)
    ]  # fmt: skip


@pytest.fixture
def summary() -> dict[str, "Json"]:
    ours = [run_of(0.25, 0.5, 0.75, 0.75), run_of(0.75, 0.25, 0.75, 0.25)]
    theirs = [run_of(0.0, 0.0, 0.25, 0.25), run_of(0.0, 0.5, 0.25, 0.75)]
    return comparison({"fielding": ours, "global": theirs}, [1, 2])


def test_differences_are_taken_seed_by_seed(summary: dict[str, "Json"]) -> None:
    difference = summary["paired"]["fielding"]["final_accuracy"]  # type: ignore[call-overload, index]

    assert difference["per_seed"] == [0.75 - 0.25, 0.5 - 0.5]  # type: ignore[call-overload, index]
    assert difference["mean"] == 0.25  # type: ignore[call-overload, index]


def test_the_target_is_the_global_models_accuracy_on_the_same_seed(summary: dict[str, "Json"]) -> None:
    assert summary["target_accuracy"]["per_seed"] == [0.25, 0.5]  # type: ignore[call-overload, index]
    ours = summary["methods"]["fielding"]["rounds_to_target"]  # type: ignore[call-overload, index]
    assert ours == {"mean": 1.0, "ci95": None, "per_seed": [1.0, None], "n_reached": 1}


def test_the_table_tells_who_never_got_there(summary: dict[str, "Json"]) -> None:
    table = {row[0]: row[1:] for row in comparison_table(summary)}

    assert table[""] == ["fielding", "global"]
    # In rounds 3 and 4 the global model's curves come to stay, one of them after a first visit in round 2.
    assert table["rounds until it stays above the global model's final accuracy"] == ["1 (1 of 2)", "4"]
    assert table["rounds until it is first above it"] == ["1", "2"]
    assert table["simulated hours until it stays above it"] == ["1.00 (1 of 2)", "3.50"]
    assert table["simulated hours until it is first above it"] == ["1.00", "2.50"]
    assert table["sent to clients"] == ["8.0 MB", "8.0 MB"]
    assert "(0.375 on average)" in target_words(summary)


def test_counts_are_whole_and_a_method_without_clusters_has_none() -> None:
    alone = [{**row, "n_reports": 0, "n_moved": 0, "reclustered": False, "n_clusters": 1} for row in run_of(0.5, 0.5)]

    table = {
        row[0]: row[1:] for row in comparison_table(comparison({"ours": [run_of(0.5, 0.5)], "global": [alone]}, [1]))
    }

    assert table["moves one by one"] == ["4", "-"]
    assert table["re-clusterings of all"] == ["1", "-"]


def test_the_comparison_tells_what_final_figures_are_means_over(summary: dict[str, "Json"]) -> None:
    assert (summary["final_from_round"], summary["n_final_evaluations"]) == (2, 2)


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [((0.5, 0.5), "better"), ((-0.25, -0.25), "worse"), ((0.5, -0.25), "no clear difference"), ((0.5,), "one seed")],
)
def test_the_verdict_follows_from_the_interval(gains: tuple[float, ...], verdict: str) -> None:
    theirs = [run_of(0.25) for _ in gains]
    ours = [run_of(0.25 + gain) for gain in gains]

    words = difference_words(comparison({"fielding": ours, "global": theirs}, range(len(gains))), "fielding")

    assert verdict in words


def test_a_run_without_tests_is_refused() -> None:
    untested: list[dict[str, Json]] = [{"round": 0, "time_s": 1.0, "n_clusters": 1}]

    with pytest.raises(InputError, match="no client was tested"):
        comparison({"fielding": [untested], "global": [untested]}, [1])


def test_corrected_models_are_compared_where_both_have_them() -> None:
    plain = run_of(0.5, 0.5)
    corrected = [[{**row, "corrected_accuracy": value} for row in plain] for value in (0.75, 0.625)]

    both = comparison({"ours": corrected[:1], "global": corrected[1:]}, [1])
    one = comparison({"ours": corrected[:1], "global": [plain]}, [1])

    assert both["paired"]["ours"]["final_accuracy_corrected"]["mean"] == 0.125  # type: ignore[call-overload, index]
    assert "final_accuracy_corrected" not in one["paired"]["ours"]  # type: ignore[call-overload, index, operator]
    tables = [{row[0]: row[1:] for row in comparison_table(found)} for found in (both, one)]
    label = "corrected to clients' label mixes"
    assert [table[label] for table in tables] == [["0.750", "0.625"], ["0.750", "-"]]
    assert label not in {row[0] for row in comparison_table(comparison({"ours": [plain], "global": [plain]}, [1]))}
