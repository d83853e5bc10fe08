"""Runs in Weights & Biases, off-line, read back with its own reader."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fielding.errors import InputError, OptionError
from fielding.simulation.experiment import Start, run
from fielding.tracking import wandb as tracking
from fielding.tracking.tracked import tracked
from fielding.tracking.wandb import Wandb
from tests.simulation.run_cases import N_ROUNDS, table
from tests.tracking.tracked_cases import row_of, run_folder

if not find_spec("wandb"):  # not imported here: it takes seconds, and every worker collects every test
    pytest.skip("Weights & Biases is not installed: it is in the extra 'wandb'", allow_module_level=True)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no account be known, and no file of the user be read or written."""
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


def records_in(folder: Path) -> list[Any]:
    """Return all records of the files in a folder, in their order."""
    paths = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    return [record for path in paths for record in tracking.read_records(path)]


def history_in(folder: Path) -> list[dict[str, float]]:
    """Return the figures of every step."""
    items = [one.history.item for one in records_in(folder) if one.WhichOneof("record_type") == "history"]
    return [{(one.key or ".".join(one.nested_key)): float(one.value_json) for one in some} for some in items]


def test_every_round_is_a_step_with_the_figures_of_the_log(tmp_path: Path) -> None:
    with tracked(tmp_path / "run", [Wandb()]) as watch:
        result = run(table(), tmp_path / "run", watch=watch, page=False)

    steps = history_in(tmp_path / "run")
    assert [one["_step"] for one in steps] == list(range(N_ROUNDS))
    told = [(int(one["_step"]), one["accuracy"]) for one in steps if "accuracy" in one]
    assert told == list(zip(*result.column("accuracy"), strict=True))
    records = records_in(tmp_path / "run")
    config = {one.key: one.value_json for record in records for one in record.run.config.update}
    assert '"digits"' in config["trace"]
    summary = {
        (one.key or ".".join(one.nested_key)): one.value_json for record in records for one in record.summary.update
    }
    assert float(summary["summary/final_accuracy"]) == (result.summary or {})["final_accuracy"]


def test_a_stopped_and_resumed_run_stays_one_run_and_tells_no_round_twice(tmp_path: Path) -> None:
    with tracked(tmp_path / "run", [Wandb()], watch=lambda row: row["round"] != 3) as watch:
        run(table(), tmp_path / "run", watch=watch, page=False)
    with tracked(tmp_path / "run", [Wandb()]) as watch:
        run(table(), tmp_path / "run", start=Start(resume=True), watch=watch, page=False)

    assert [one["_step"] for one in history_in(tmp_path / "run")] == list(range(N_ROUNDS))
    files = [path.name for path in (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")]
    assert len(files) == 2
    assert len(set(files)) == 1


def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", 3)
    with tracked(tmp_path / "run", [Wandb()]) as watch:
        watch(row_of(2))
    (events,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    events.write_bytes(events.read_bytes()[: events.stat().st_size // 2])

    run_folder(tmp_path / "run", 4)
    with tracked(tmp_path / "run", [Wandb()]) as watch:
        watch(row_of(3))

    steps = [one["_step"] for one in history_in(tmp_path / "run")]
    assert sorted(steps) == sorted({*steps, 3})  # the last round once, and no other twice
    assert {1, 2} <= {*steps}


@pytest.mark.parametrize(
    ("names", "found"),
    [({}, "offline"), ({"WANDB_API_KEY": "x" * 40}, "online"), ({"WANDB_MODE": "disabled"}, "disabled")],
)
def test_without_an_account_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, names: dict[str, str], found: str) -> None:
    for name, value in names.items():
        monkeypatch.setenv(name, value)

    assert tracking.mode() == found


def test_it_says_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"send them with: wandb sync {tmp_path}" in Wandb().place(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "online")
    assert Wandb("team/drift").place(tmp_path) == "project drift"


def test_a_tracker_that_was_not_begun_says_so() -> None:
    with pytest.raises(InputError, match="call begin first"):
        Wandb().add(0, {"accuracy": 0.5})


def test_a_missing_package_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(OptionError, match=r"wandb is not installed; run: pip install 'fielding\[wandb\]'"):
        Wandb()
