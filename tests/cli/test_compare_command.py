"""`fielding compare` as users type it: the table, what fails, what is refused, and what a signal does."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fielding.records.plan import FAILURE
from tests.cli.in_process import CONFIG, Command
from tests.cli.invoke import CODE
from tests.comparing.forked import forked_runs as forked_runs
from tests.comparing.test_compare import without_timings
from tests.comparing.test_run_processes import ROOT, assert_gone

pytestmark = pytest.mark.usefixtures("forked_runs")  # but where the start of a command is tested, see `started`
BREAKING = "tests.simulation.breaking"
PROGRESS = "runs done"
"""In lines that come every so often while runs go on, on a slow machine before anything else."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Return the command line, in a folder with a small config."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # so that no name is broken
    (tmp_path / "small.toml").write_text(CONFIG)
    return Command(monkeypatch, capsys)


def arguments(*more: str, out: str = "out") -> tuple[str, ...]:
    return ("compare", "small.toml", "--out", out, "--no-page", *more)


def test_methods_are_run_and_compared_and_what_fails_is_named(command: Command, tmp_path: Path) -> None:
    killed = f"{BREAKING}:Killed"
    typed = arguments("--methods", f"global,{killed}", "--seeds", "1", "--first-seed", "3", "--jobs", "2")
    folder = f"{BREAKING}-Killed-3"

    first = command(*typed)

    assert first == 1
    assert "global" in command.out
    assert "results: out" in command.out
    assert f"{killed}, seed 3: failed: its process was killed (SIGKILL)" in command.err
    assert "global, seed 3: done, final accuracy 0." in command.err
    assert "1 of 2 runs failed; the same command tries them again" in command.err
    assert (tmp_path / "out" / folder / FAILURE).exists()

    (tmp_path / "may-live").touch()
    assert command(*typed) == 0
    assert "1 of 2 runs were done before" in command.err
    assert not (tmp_path / "out" / folder / FAILURE).exists()

    assert command(*typed, "--json", "--quiet") == 0
    summary = json.loads(command.out)
    assert command.err == ""
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["seeds"], summary["reference"]) == ([3], "global")
    assert list(summary["methods"]) == ["global", killed]
    assert_taken_out(command, tmp_path / "out", killed)


def assert_taken_out(command: Command, out: Path, name: str) -> None:
    """Take a variant out of a comparison that has a page of its old results; nothing is run for that."""
    (out / "report.html").write_text("old")

    assert command(*arguments("--drop", name)) == 0

    assert f"note: {name} is taken out; its run folders stay, as out/{BREAKING}-Killed-SEED" in command.err
    assert "1 of 1 runs were done before" in command.err
    assert list(json.loads((out / "summary.json").read_text())["methods"]) == ["global"]
    assert (out / f"{BREAKING}-Killed-3" / "summary.json").exists()
    assert "page:" not in command.out
    assert not (out / "report.html").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--methods", "feilding"], "unknown method 'feilding'; did you mean 'fielding'"),
        (["--methods", "global,global"], "named twice"),
        (["--methods", "global,"], "unknown method ''"),
        (["--vary", "coordinator.taw=1"], "--vary coordinator.taw=1: unknown key coordinator.taw; did you mean"),
        (["--vary", "coordinator.tau=0,lots"], "fielding tau=lots: coordinator.tau: 'lots' is not a number"),
        (["--vary", "rounds"], "--vary 'rounds' says nothing"),
        (["--set", "ruonds=3"], "--set ruonds=3: unknown key ruonds; did you mean rounds?"),
        (["--vary", "clock.profile=synthetic,nosuch"], "profile=nosuch: clock.profile: unknown device profile"),
        (["--vary", "trace.scenario=places,natural"], "'natural', but digits knows no clients and times"),
        (["--set", "training.device=nosuch"], "device 'nosuch' needs PyTorch"),
        (["--vary", "coordinator={tau=1},{tau=2}"], "coordinator is a section"),
        (["--vary", "coordinator.tau=0.50,1/2"], "come to the same config; leave one out"),
        (["--drop", "global"], "out holds no comparison, so 'global' cannot be taken out of it"),
        (["--seeds", "0"], "the number of seeds is 0"),
        (["--first-seed", "-1"], "--first-seed is -1"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--reference", "glboal", "--methods", "global,moves"], "unknown reference 'glboal'; did you mean 'global'"),
    ],
)
def test_what_cannot_be_compared_is_one_line_and_nothing_is_written(
    command: Command, tmp_path: Path, more: list[str], words: str
) -> None:
    assert words in command.refuses(*arguments(*more))
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")

    assert "holds 'thesis.tex', which is of no comparison; name another folder with --out" in command.refuses(
        *arguments()
    )
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_a_missing_config_is_one_line(command: Command) -> None:
    assert "cannot read gone.toml" in command.refuses("compare", "gone.toml", "--out", "out")


def started(*typed: str, cwd: Path) -> subprocess.Popen[str]:
    """Return the running command, in a group of processes of its own as a shell would start it."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *typed],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        start_new_session=True,
    )


def wait_for_a_round(running: subprocess.Popen[str], folder: Path) -> None:
    while not list(folder.glob("pid-*")):
        assert running.poll() is None, "it ended before it could be disturbed"
        time.sleep(0.02)


def test_ctrl_c_ends_all_runs_and_the_same_command_goes_on(command: Command, tmp_path: Path) -> None:
    typed = arguments("--methods", f"{BREAKING}:Slow", "--seeds", "2", "--jobs", "1", "--set", "rounds=5")
    running = started(*typed, cwd=tmp_path)
    wait_for_a_round(running, tmp_path)

    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: everybody gets it
    out, complaint = running.communicate()

    assert running.returncode == 130
    assert out == ""
    first, last = (line for line in complaint.splitlines() if PROGRESS not in line)
    assert first == "stopping after this round; once more to stop now"
    assert last.startswith("stopped; what was committed is kept, go on with the same command: fielding compare ")
    assert_gone(tmp_path)
    assert not (tmp_path / "out" / "summary.json").exists()
    again = shlex.split(last.partition("command: ")[2])[1:]
    assert again == list(typed)
    assert command(*again) == 0
    assert command(*typed, "--out", "whole") == 0
    assert without_timings(tmp_path / "out") == without_timings(tmp_path / "whole")


@pytest.mark.usefixtures("command")
def test_sigterm_and_a_second_signal_stop_at_once_and_leave_nobody_behind(tmp_path: Path) -> None:
    running = started(*arguments("--methods", f"{BREAKING}:Endless", "--seeds", "1"), cwd=tmp_path)
    wait_for_a_round(running, tmp_path)

    running.send_signal(signal.SIGTERM)
    assert running.stderr is not None
    first = next(line for line in iter(running.stderr.readline, "") if PROGRESS not in line)
    assert first == "stopping after this round; once more to stop now\n"
    running.send_signal(signal.SIGTERM)
    _, complaint = running.communicate()

    assert running.returncode == 143
    (last,) = (line for line in complaint.splitlines() if PROGRESS not in line)
    assert last.startswith("stopped; what was committed is kept")
    assert_gone(tmp_path)


def test_runs_of_a_comparison_are_tracked_also_those_that_were_done_before(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    for _ in range(2):
        assert command(*arguments("--seeds", "1", "--track", "tensorboard")) == 0
        (folder,) = (tmp_path / "out").glob("*/tensorboard")
        assert list(folder.iterdir())
        shutil.rmtree(folder)
        (folder.parent / "tracking.json").unlink(missing_ok=True)


def test_a_tracker_that_nobody_knows_is_refused_before_anything_runs(command: Command, tmp_path: Path) -> None:
    assert command(*arguments("--track", "tensorbord")) == 2

    assert "tensorboard" in command.err
    assert not (tmp_path / "out").exists()


def test_a_tracker_that_fails_is_told_in_a_note(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    (tmp_path / "full").write_text("no folder")

    assert command(*arguments("--seeds", "1", "--track", "tensorboard=full")) == 0

    assert "note: fielding, seed 1: tensorboard could not be told of the run" in command.err
