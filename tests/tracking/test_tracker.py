"""The names and numbers that all trackers share, and runs as they see them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.errors import InputError
from fielding.tracking.tracker import figures_of, tracked_run
from tests.tracking.tracked_cases import CONFIG, row_of, run_folder


def test_numbers_keep_their_names_and_other_things_are_left_out() -> None:
    row: dict[str, Json] = {
        "round": 3,
        "bytes_up": 10,
        "accuracy": 0.5,
        "failed": ["a"],
        "train_loss": None,
        "why": "x",
    }

    assert figures_of(row) == {"bytes_up": 10.0, "accuracy": 0.5}


def test_metrics_of_ones_own_keep_their_names() -> None:
    row: dict[str, Json] = {"metric/f1": 0.5, "served_next_metric/auc": 1.0}

    assert figures_of(row) == {"metric/f1": 0.5, "served_next_metric/auc": 1.0}
    assert figures_of({"final_metric/f1_served": 0.5}, "summary/") == {"summary/final_metric/f1_served": 0.5}


def test_yes_and_no_are_one_and_zero() -> None:
    assert figures_of({"reclustered": True, "fired": False}) == {"reclustered": 1.0, "fired": 0.0}


def test_tables_within_are_named_by_both_keys() -> None:
    assert figures_of({"bytes": {"models": 2, "reports": {"up": 3}}}, "summary/") == {
        "summary/bytes/models": 2.0,
        "summary/bytes/reports/up": 3.0,
    }


def test_a_round_within_a_table_is_a_figure_and_no_step() -> None:
    assert figures_of({"round": 1, "best": {"round": 5}}) == {"best/round": 5.0}


def test_what_is_not_finite_is_left_out() -> None:
    assert figures_of({"dip": math.nan, "shift": math.inf, "theta": 0.0}) == {"theta": 0.0}


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.integers(-9, 9), st.none(), st.booleans(), st.text())))
def test_whatever_a_name_holds_mlflow_would_take_it(row: dict[str, Json]) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed: it is in the extra 'mlflow'")
    from mlflow.utils import validation

    takes: Callable[[str], object] = validation.validate_param_and_metric_name
    assert [name for name in figures_of(row, "summary/") if not takes(name)] == []


def test_a_run_is_known_by_its_folder(tmp_path: Path) -> None:
    run = tracked_run(run_folder(tmp_path / "small-fielding-7", 0))

    assert (run.name, run.method, run.config["seed"], run.config_text) == ("small-fielding-7", "fielding", 7, CONFIG)


def test_a_folder_without_a_run_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*config\.toml"):
        tracked_run(tmp_path)


def test_the_rows_of_these_tests_look_like_those_of_runs() -> None:
    assert figures_of(row_of(2)) == {"time_s": 180.0, "reclustered": 1.0, "accuracy": 0.2}
