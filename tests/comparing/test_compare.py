"""A comparison runs what is missing, survives what fails, and says what its runs add up to."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.comparing.compare import ComparisonResult, compare, write_results
from fielding.comparing.plan import plan_comparison
from fielding.comparing.sweep import Finished, Following
from fielding.comparing.variants import Settings, with_settings
from fielding.errors import InputError
from fielding.records.lock import lock_folder
from fielding.records.plan import FAILURE, read_failure, read_plan, write_plan
from fielding.records.run_folder import PAGE, ROUNDS
from fielding.simulation.experiment import run
from tests.comparing.forked import forked_runs as forked_runs
from tests.simulation.breaking import SMALL

pytestmark = pytest.mark.usefixtures("forked_runs")
OTHERS = ("summary.json", "table.md", "table.csv", "table.tex", "runs.csv")
VARIANTS: dict[str, Settings] = {
    "global": {"method.name": "global"},
    "killed": {"method.name": "tests.simulation.breaking:Killed"},
}


def without_timings(folder: Path) -> dict[str, Json]:
    """Return the figures that do not depend on the machine."""
    summary: dict[str, Json] = json.loads((folder / "summary.json").read_text())
    return {name: value for name, value in summary.items() if name != "timings"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResult:
    """Return a comparison one of whose runs was killed."""
    folder = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return compare(SMALL, VARIANTS, seeds=1, out=folder / "out", jobs=2, page=False)


def test_a_killed_run_is_named_and_the_rest_is_told(ended: ComparisonResult) -> None:
    assert list(ended.failures) == ["killed-1"]
    assert "SIGKILL" in ended.failures["killed-1"]
    assert read_failure(ended.folder / "killed-1") == ended.failures["killed-1"]
    assert ended.is_ended
    assert ended.summary is not None
    assert ended.summary == json.loads((ended.folder / "summary.json").read_text())
    assert ended.summary["failed"] == [{"method": "killed", "seed": 1, "error": ended.failures["killed-1"]}]
    assert read_plan(ended.folder) == ended.plan
    for name in OTHERS:
        assert "global" in (ended.folder / name).read_text()


@pytest.mark.parametrize("progress", [True, None])
def test_one_who_follows_runs_may_have_them_shown_too(
    progress: bool | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    following = Following(on_done=lambda one: done.append(one.name))
    compare(SMALL, "global", seeds=1, out=tmp_path, jobs=1, page=False, progress=progress, following=following)

    assert done == ["global-1"]
    shown = capsys.readouterr().err
    assert "global, seed 1: done, final accuracy 0." in shown if progress else shown == ""


def test_no_table_is_written_without_what_cannot_be_read(ended: ComparisonResult, tmp_path: Path) -> None:
    out = Path(shutil.copytree(ended.folder, tmp_path / "copy"))
    (run,) = (one.parent for one in out.glob("*/summary.json"))
    before = (out / "table.md").read_bytes()
    (run / "memberships.jsonl").unlink()
    (run / "memberships.jsonl").mkdir()

    with pytest.raises(InputError, match=r"cannot read .*memberships.jsonl.*the same command tries again"):
        write_results(out)
    assert (out / "table.md").read_bytes() == before


def test_only_the_owner_can_look_into_runs(ended: ComparisonResult, tmp_path: Path) -> None:
    run(SMALL, tmp_path / "results" / "alone", page=False)

    for folder in (ended.folder, ended.folder / "global-1", ended.folder / "killed-1", tmp_path / "results" / "alone"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700  # they hold the label shares of every client


def test_a_run_of_a_comparison_is_the_run_that_it_would_be_alone(ended: ComparisonResult, tmp_path: Path) -> None:
    run(with_settings(SMALL, {"seed": 1}), tmp_path / "alone", page=False)

    rounds = [(folder / ROUNDS).read_bytes() for folder in (tmp_path / "alone", ended.folder / "global-1")]
    assert rounds[0] == rounds[1]


def test_once_more_runs_only_what_failed_and_what_was_added(
    ended: ComparisonResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "may-live").touch()
    out = shutil.copytree(ended.folder, tmp_path / "out")
    before = (out / "global-1" / ROUNDS).stat().st_mtime_ns
    begun: list[str] = []
    following = Following(on_step=lambda step: begun.append(step.name))

    again = compare(SMALL, {**VARIANTS, "long": {"rounds": 4}}, seeds=1, out=out, jobs=2, following=following)

    assert set(begun) == {"killed-1", "long-1"}
    assert again.failures == {}
    assert not (out / "killed-1" / FAILURE).exists()
    assert (out / "global-1" / ROUNDS).stat().st_mtime_ns == before
    assert [one.name for one in again.plan.variants] == ["global", "killed", "long"]
    assert again.summary is not None
    assert again.summary["failed"] == []
    assert_results_last_as_long_as_they_are_true(out)
    # What was killed went on from its checkpoint, and is what it would have been.
    run(with_settings(SMALL, VARIANTS["killed"]), tmp_path / "alone", page=False)
    rounds = [(folder / ROUNDS).read_bytes() for folder in (tmp_path / "alone", out / "killed-1")]
    assert rounds[0] == rounds[1]


def assert_results_last_as_long_as_they_are_true(out: Path) -> None:
    """Ask for the same once more, which leaves the page alone, and then for more, which is stopped at once."""
    written = (out / PAGE).read_bytes()
    compare(SMALL, VARIANTS, seeds=1, out=out, page=False)
    assert (out / PAGE).read_bytes() == written

    stopped = compare(SMALL, VARIANTS, seeds=2, out=out, following=Following(is_stopped=lambda: True))

    assert stopped.summary is None
    assert [name for name in (*OTHERS, PAGE) if (out / name).exists()] == []


def test_a_failure_that_cannot_be_written_down_stops_nothing(tmp_path: Path) -> None:
    asked = plan_comparison(SMALL, {"global": {}, "long": {"rounds": 4}}, seeds=1, out=tmp_path)
    write_plan(tmp_path, asked.plan)
    (tmp_path / "global-1").write_text("mine")
    told: list[str] = []
    following = Following(
        on_done=lambda one: told.append(f"done {one.name}"), on_note=lambda one: told.append(f"note {one.name}")
    )

    found = compare(SMALL, ["global"], seeds=1, out=tmp_path, jobs=2, following=following)

    assert list(found.failures) == ["global-1"]
    assert "global-1" in found.failures["global-1"]
    assert (found.finished["long-1"].summary or {})["n_rounds"] == 4
    assert told.index("done global-1") < told.index("note global-1")
    assert len(found.notes) == 1
    assert found.notes[0].startswith("global-1: why it failed is told here alone: cannot write ")
    assert (tmp_path / "global-1").read_text() == "mine"


def test_a_stopped_comparison_goes_on_and_ends_as_if_never_stopped(tmp_path: Path) -> None:
    done: list[Finished] = []
    stopping = Following(on_done=done.append, is_stopped=lambda: bool(done))

    stopped = compare(SMALL, seeds=2, out=tmp_path / "cut", jobs=1, following=stopping)

    assert list(stopped.finished) == ["global-1"]
    assert not stopped.is_ended
    assert stopped.summary is None
    assert not (tmp_path / "cut" / "summary.json").exists()
    compare(SMALL, seeds=2, out=tmp_path / "cut", jobs=2)
    compare(SMALL, seeds=2, out=tmp_path / "whole", jobs=2)
    assert without_timings(tmp_path / "cut") == without_timings(tmp_path / "whole")


def test_nothing_is_written_if_one_variant_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^b: coordinator\.tau: 'lots' is not a number"):
        compare(SMALL, {"a": {"rounds": 1}, "b": {"coordinator.tau": "lots"}}, seeds=1, out=tmp_path / "out")
    with pytest.raises(InputError, match="at least 1"):
        compare(SMALL, seeds=1, out=tmp_path / "out", jobs=0)

    assert list(tmp_path.iterdir()) == []


def test_a_comparison_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(InputError, match="another process is writing"):
        compare(SMALL, seeds=1, out=tmp_path)


def test_missing_data_are_told_once_before_anything_is_written(tmp_path: Path) -> None:
    config = with_settings(
        SMALL, {"trace.name": "zephyr", "trace.data": str(tmp_path / "none"), "trace.scenario": None}
    )

    with pytest.raises(InputError, match=r"^zephyr needs zephyr_commits.csv.gz, which is not in .*none; make it from"):
        compare(config, ["global", "moves"], seeds=2, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_somebody_made_of_unfinished_runs_stays_until_there_is_a_new_one(tmp_path: Path) -> None:
    plan = plan_comparison(SMALL, ["global"], seeds=1, out=tmp_path / "out").plan
    (tmp_path / "out").mkdir()
    write_plan(tmp_path / "out", plan)
    (tmp_path / "out" / PAGE).write_text("made with fielding report")

    compare(SMALL, ["global"], seeds=1, out=tmp_path / "out", jobs=1, following=Following(is_stopped=lambda: True))

    assert (tmp_path / "out" / PAGE).read_text() == "made with fielding report"
