"""Each run has a process of its own: whatever happens to it happens to that run alone."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fielding.comparing.sweep import OUTPUT, Finished, Following, Note, RunJob, Step, run_in_processes
from fielding.comparing.variants import with_settings
from fielding.config.reader import config_from, config_table
from tests.comparing.forked import forking
from tests.simulation.breaking import SMALL, complaining

ROOT = Path(__file__).resolve().parents[2]


def job(name: str, out: Path, method: str = "global", rounds: int = 3) -> RunJob:
    table = with_settings(SMALL, {"method.name": method, "rounds": rounds})
    return RunJob(name=name, table=config_table(config_from(table)), folder=out / name)


def breaking(name: str, out: Path) -> RunJob:
    return job(name, out, f"tests.simulation.breaking:{name}")


def test_a_run_that_breaks_breaks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done: list[Finished] = []
    names = ("Buggy", "Killed", "Leaving", "Hungry", "Vanishing")

    found = run_in_processes(
        [*(breaking(name, tmp_path) for name in names), job("good", tmp_path)],
        n_jobs=2,
        following=Following(on_done=done.append),
    )

    errors = {name: re.sub(r"line \d+", "line N", one.error or "") for name, one in found.items()}
    assert errors == {
        "Buggy": "ZeroDivisionError: integer division or modulo by zero (breaking.py, line N)",
        "Killed": "its process was killed (SIGKILL); was there not enough memory? Try fewer runs at a time",
        "Leaving": "SystemExit: 4 (breaking.py, line N)",
        "Hungry": "there was not enough memory; try fewer runs at a time",
        "Vanishing": "its process ended with code 3 and did not say why",
        "good": "",
    }
    assert (found["good"].summary or {})["n_rounds"] == 3
    assert "self._n_rounds //= 0" in str(found["Buggy"].traceback)
    assert sorted(one.name for one in done) == sorted(errors)
    # What was committed before is there, and what they printed is kept from the terminal.
    assert (tmp_path / "Killed" / "checkpoints" / "00000000.ckpt").exists()
    assert (tmp_path / "Buggy" / OUTPUT).read_text().splitlines()[:2] == ["about to divide", "and to complain"]
    assert not (tmp_path / "good" / OUTPUT).exists()


def test_steps_tell_how_far_a_run_is_and_notes_what_to_know(tmp_path: Path) -> None:
    steps: list[Step] = []
    notes: list[Note] = []
    following = Following(on_step=steps.append, on_note=notes.append, beside=complaining)

    run_in_processes([job("a", tmp_path, rounds=2)], n_jobs=1, following=following)

    assert notes == [Note(name="a", text="nobody wants to hear of a")]
    assert [one.phase for one in steps[:3]] == ["starting", "reading digits", "training"]
    assert {one.name for one in steps} == {"a"}
    first = steps[3]  # the first round is told in any case
    assert (first.phase, first.n_rounds) == ("training", 1)
    assert first.accuracy is not None
    assert 0 <= first.accuracy <= 1


def test_stopped_runs_end_with_their_round_and_no_others_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[int] = []
    following = Following(on_step=lambda step: seen.append(step.n_rounds), is_stopped=lambda: max(seen, default=0) >= 2)
    jobs = [job(name, tmp_path, "tests.simulation.breaking:Slow", rounds=1000) for name in ("a", "b")]

    with forking():
        found = run_in_processes(jobs, n_jobs=1, following=following)

    assert found == {}
    assert (tmp_path / "a" / "checkpoints").exists()
    assert not (tmp_path / "a" / "summary.json").exists()
    assert not (tmp_path / "b").exists()
    assert_gone(tmp_path)


def test_an_error_of_the_follower_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def on_step(step: Step) -> None:
        if step.n_rounds >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_processes(
            [job("a", tmp_path, "tests.simulation.breaking:Slow", rounds=1000)],
            n_jobs=1,
            following=Following(on_step=on_step),
        )

    assert_gone(tmp_path)
    assert not (tmp_path / "a" / OUTPUT).exists()


ORPHANS = """
import sys
from pathlib import Path
from tests.comparing.test_run_processes import job
from fielding.comparing.sweep import Following, run_in_processes
slow = job("a", Path.cwd(), "tests.simulation.breaking:Slow", rounds=1000)
run_in_processes([slow], n_jobs=1, following=Following())
"""


def test_a_run_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", ORPHANS], cwd=tmp_path, env=environment)
    while not list(tmp_path.glob("pid-*")):
        assert parent.poll() is None, "it ended before it could be disturbed"
        time.sleep(0.02)

    parent.kill()
    parent.wait()

    assert_gone(tmp_path)


def assert_gone(folder: Path) -> None:
    """Wait until no process that told its id there lives any more; fail if one does for long."""
    pids = [int(path.name.partition("-")[2]) for path in folder.glob("pid-*")]
    assert pids
    for _ in range(500):
        if not any(is_alive(pid) for pid in pids):
            return
        time.sleep(0.02)
    pytest.fail(f"processes {pids} are still there")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def test_a_process_that_somebody_else_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def end_it(step: Step) -> None:
        if step.n_rounds == 1:
            for path in tmp_path.glob("pid-*"):
                os.kill(int(path.name.partition("-")[2]), signal.SIGTERM)

    with forking():
        found = run_in_processes(
            [job("a", tmp_path, "tests.simulation.breaking:Slow", rounds=1000)],
            n_jobs=1,
            following=Following(on_step=end_it),
        )

    assert found["a"].error == "its process was told to end (SIGTERM) by somebody else"
