from fielding._typing import Json
from fielding.reporting.formatting import failure_words, run_table
from fielding.reporting.numbers.run_summary import run_summary
from tests.reporting.run_logs import evaluated, round_line


def shown(rows: list[dict[str, Json]], *events: dict[str, Json]) -> dict[str, str]:
    return {row[0]: row[1] for row in run_table({"method": "fielding", **run_summary(rows, events, gap=1)})}


def test_a_run_tells_its_figures() -> None:
    rows = [round_line(0, n_reports=2, **evaluated(0.25)), round_line(1, n_reports=1, **evaluated(0.75))]

    table = shown(rows, {"joined": ["ann", "bob"]})

    assert table["final accuracy on the window, mean over clients"] == "0.75"
    assert table["agreement with the true groups (ARI)"] == "0.5"
    assert (table["first reports, to join"], table["reports of drift"]) == ("2", "1")
    assert table["simulated time"] == "2m00s"
    assert "trainings without a finite model" not in table


def test_a_run_in_which_nobody_was_tested_has_no_accuracy_and_says_why() -> None:
    table = shown([round_line(0, **evaluated(None))])

    assert table["final accuracy"] == "none, no client had test samples"
    assert "final accuracy on the window, mean over clients" not in table


def test_trainings_that_diverged_are_counted_and_noted() -> None:
    rows = [round_line(at, n_failed=3, n_participants=1) for at in range(2)]

    assert shown(rows)["trainings without a finite model"] == "6 of 8"
    assert failure_words(run_summary(rows, (), gap=1)).startswith("6 of 8 trainings gave no finite model; lower")
    assert failure_words(run_summary(rows[:0], (), gap=1)) == ""


def test_one_cluster_has_no_agreement_to_tell() -> None:
    table = shown([round_line(0, **(evaluated(0.5) | {"n_clusters": 1}))])

    assert table["clusters at the end"] == "1"
    assert "agreement with the true groups (ARI)" not in table


def test_corrected_and_tuned_models_stand_beside_plain_ones() -> None:
    row = round_line(0, **evaluated(0.5), corrected_accuracy=0.75, corrected_worst_decile=0.25, tuned_accuracy=0.625)

    table = shown([row])

    assert table["corrected to clients' label mixes"] == "0.75"
    assert table["corrected, of the worst tenth"] == "0.25"
    assert table["tuned on clients' own samples"] == "0.625"
    assert not [name for name in shown([round_line(0, **evaluated(0.5))]) if "corrected" in name or "tuned" in name]
