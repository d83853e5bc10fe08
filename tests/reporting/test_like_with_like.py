"""What is on other data, or over another number of rounds, is not compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from fielding._typing import Json
from fielding.reporting.comparison_tables import comparison_table, table_words
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.report_page import make_page
from tests.reporting.run_folders import compared, round_rows, run_folder

HIGH, LOW = [0.5, 0.6, 0.7, 0.8], [0.1, 0.2, 0.3, 0.4]


def with_trace(folder: Path, **trace: Json) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["trace"] |= trace
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture(params=["data", "rounds"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return runs of Fielding that those of the global model are not like."""
    if request.param == "rounds":
        return compared(
            tmp_path, {"fielding": dict.fromkeys((1, 2, 3), HIGH), "global": dict.fromkeys((1, 2), LOW[1:])}
        )
    compared(tmp_path, {"fielding": dict.fromkeys((1, 2, 3), HIGH), "global": dict.fromkeys((1, 2), LOW)})
    for seed in (1, 2):
        with_trace(tmp_path / f"global-{seed}", name="zephyr")
    return tmp_path


def test_there_is_no_difference_no_target_and_no_best(folder: Path) -> None:
    found: Any = compare_groups(gather_runs([folder]))

    assert found["paired"] == {}
    ours = found["methods"]["fielding"]
    assert ours["reference"] is ours["target_of"] is None
    assert ours["speedup"]["mean"] is ours["time_to_target_s"]["mean"] is None
    assert found["best"]["final_accuracy"]["marked"] == []
    assert ours["final_accuracy"]["mean"] == pytest.approx(0.75)


def test_the_table_has_dashes_and_the_words_below_say_why(folder: Path) -> None:
    summary = compare_groups(gather_runs([folder]))

    head, ours, _ = comparison_table(summary)

    row = dict(zip(head, ours, strict=True))
    assert {row[name] for name in ("minus global", "p", "minutes to target", "speed-up")} == {"-"}
    assert "No difference, test, target or speed-up for fielding: no run of global" in table_words(summary)
    assert table_words(summary).startswith("Means over 2 to 3 seeds")
    assert "Differences to" not in table_words(summary)


def test_the_page_tells_all_lengths_and_data_sets(tmp_path: Path) -> None:
    run_folder(tmp_path / "a", round_rows(HIGH), method="fielding", seed=1)
    run_folder(tmp_path / "b", round_rows(LOW[1:]), method="global", seed=3)
    for name, data in (("a", "digits"), ("b", "zephyr")):
        with_trace(tmp_path / name, name=data)

    lead = make_page(gather_runs([tmp_path])).lead

    assert "on digits and zephyr; 3 to 4 rounds, one seed each (1, 3)." in lead
    assert "Final figures" not in lead


def test_each_is_held_against_what_is_like_it(tmp_path: Path) -> None:
    run_folder(tmp_path / "short", round_rows(LOW[1:]), method="global")
    run_folder(tmp_path / "long", round_rows(LOW), method="global")
    run_folder(tmp_path / "ours", round_rows(HIGH), method="fielding")

    found: Any = compare_groups(gather_runs([tmp_path]))

    assert found["methods"]["fielding"]["reference"] == "global rounds=4"
    assert found["paired"]["fielding"]["final_accuracy"]["mean"] == pytest.approx(0.4)


def test_an_oracle_on_other_data_is_no_measure_of_regret(tmp_path: Path) -> None:
    run_folder(tmp_path / "ours", round_rows(LOW), method="fielding")
    oracle = run_folder(tmp_path / "oracle", round_rows(HIGH), method="oracle")
    alike: Any = compare_groups(gather_runs([tmp_path]))
    with_trace(oracle, name="zephyr")
    unlike: Any = compare_groups(gather_runs([tmp_path]))

    assert alike["methods"]["fielding"]["dynamic_regret"]["mean"] == pytest.approx(0.4)
    assert unlike["methods"]["fielding"]["dynamic_regret"]["mean"] is None


def test_diverged_trainings_are_told_with_their_group(tmp_path: Path) -> None:
    rows = round_rows(LOW, n_failed=[2, 2, 2, 2], n_participants=[0, 0, 0, 0])
    run_folder(tmp_path / "wild", rows, method="wild")
    run_folder(tmp_path / "calm", round_rows(HIGH), method="calm")
    runs = gather_runs([tmp_path])

    summary = compare_groups(runs)
    first = make_page(runs, summary).cards[0]

    sentence = "Training diverged, no finite model came of it: wild (8 of 8); lower training.learning_rate."
    assert summary["notes"] == [sentence]
    assert sentence in table_words(summary)
    assert (first.is_warning, first.value) == (True, "8 of 16")
    assert "wild (8 of 8)" in first.note
    assert "calm" not in first.note
