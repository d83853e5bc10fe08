"""`fielding run --dry-run`: it tells what would happen and leaves nothing behind."""

import json
from pathlib import Path

import pytest

from tests.cli.in_process import CONFIG, Command


@pytest.fixture
def fielding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(CONFIG)
    return Command(monkeypatch, capsys)


def test_a_dry_run_tells_what_would_happen_and_writes_nothing(fielding: Command, tmp_path: Path) -> None:
    assert fielding("run", "small.toml", "--dry-run") == 0

    told = " ".join(fielding.out.split())
    for words in (
        "data digits, scenario places",
        "samples 1,797 of shape 8 x 8, 10 classes",
        "clients 8, of which 8 train in a round",
        "rounds 6, new data every 3,",
        "method fielding",
        "model mlp, 610 numbers, 0.002 MB",
        "on this machine, by 6 rounds that were tried",
        "memory about ",
        "results runs/small-fielding-1 (nothing was written)",
    ):
        assert words in told
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_a_dry_run_speaks_to_programs_and_obeys_options(fielding: Command, tmp_path: Path) -> None:
    options = ("--set", "training.participants=20", "--set", "method.name=FedAvg", "--out", "there", "--json")
    assert fielding("run", "small.toml", "--dry-run", *options) == 0

    told = json.loads(fielding.out)
    assert (told["method"], told["out"], told["clients"], told["participants"]) == ("global", "there", 8, 8)
    assert told["seconds"] > 0.0
    assert told["memory_bytes"] > 1e6
    assert told["tried_rounds"] >= 3
    assert told["notes"] == ["training.participants is 20, but there are 8 clients: at most these train in a round"]
    assert not (tmp_path / "there").exists()


def test_a_dry_run_tells_how_long_a_trace_lasts(fielding: Command, tmp_path: Path) -> None:
    rows = [f"u{client},{3600 * hour},{(client + hour) % 2},{hour}" for client in range(4) for hour in range(12)]
    (tmp_path / "hours.csv").write_text("\n".join(["client,time,label,x", *rows]))
    trace = '[trace]\nfile = "hours.csv"\nfeatures = "x"\ninterval = "1h"\ngap = 2\nwindow = 4\n'
    (tmp_path / "hours.toml").write_text(f"rounds = 10\n{trace}[training]\nparticipants = 4\n")

    assert fielding("run", "hours.toml", "--dry-run") == 0
    assert "10 of the 22 that the trace lasts, new data every 2, 12 intervals" in fielding.out
    assert fielding("run", "hours.toml", "--dry-run", "--json") == 0
    assert json.loads(fielding.out)["trace_rounds"] == 22


def test_a_dry_run_refuses_what_a_run_would_refuse(fielding: Command) -> None:
    assert fielding("run", "small.toml", "--no-page", "--quiet", "--out", "out") == 0

    assert "out holds a run already" in fielding.refuses("run", "small.toml", "--dry-run", "--out", "out")
    wrong = ("--set", "trace.gap=9")
    assert "trace.window is 6; it must be at least trace.gap" in fielding.refuses(
        "run", "small.toml", "--dry-run", *wrong
    )
    assert fielding("run", "small.toml", "--dry-run", "--out", "out", "--resume") == 0


def test_more_participants_than_clients_are_noted_by_the_run(fielding: Command) -> None:
    changed = ("--set", "training.participants=9")
    assert fielding("run", "small.toml", "--no-page", "--quiet", "--out", "out", *changed) == 0

    note = "note: training.participants is 9, but there are 8 clients: at most these train in a round\n"
    assert fielding.err == note
