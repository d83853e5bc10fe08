"""`fielding run` from a user's seat: what it writes, when it stops, what it refuses, and how it says so."""

import json
import os
import signal
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from fielding.client.ranges import Ranges
from fielding.config.reader import read_config
from fielding.records.lock import lock_folder
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import LOGS, newest_checkpoint
from fielding.runtime.workers import Workers
from fielding.training.trainer import LocalWork, Trained
from tests.cli.in_process import CONFIG, RUN, Command
from tests.simulation.run_cases import left_behind


@pytest.fixture
def fielding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(CONFIG)
    return Command(monkeypatch, capsys)


def test_a_run_leaves_all_that_it_promises(fielding: Command) -> None:
    assert fielding("run", "small.toml", "--json") == 0

    summary, folder = json.loads(fielding.out), Path("runs/small-fielding-1")
    assert {path.name for path in folder.iterdir()} >= {
        *LOGS,
        "config.toml",
        "manifest.json",
        "summary.json",
        "report.html",
        "reports",
        "checkpoints",
    }
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert (summary["n_rounds"], summary["stopped_by"]) == (6, "rounds")
    assert len(list((folder / "checkpoints").iterdir())) == 2
    assert read_config(folder / "config.toml") == read_config(Path("small.toml"))


def test_a_run_can_be_quiet_or_say_where_its_results_are(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    assert "results: out" in fielding.out
    assert "final accuracy" in fielding.out
    assert "real time" in fielding.out
    assert "report.html" not in fielding.out
    assert fielding.err == "", "a short run has nothing to tell of its progress"

    assert fielding("run", "small.toml", "--no-page", "--quiet", "--out", "other") == 0
    assert fielding.out == fielding.err == ""


def test_the_page_can_be_left_out(fielding: Command) -> None:
    assert fielding(*RUN) == 0

    assert not Path("out/report.html").exists()


def test_set_changes_a_key(fielding: Command) -> None:
    assert fielding(*RUN, "--set", "rounds=3", "--set", "trace.scenario=static", "--set", "seed = 9") == 0

    settled = read_config(Path("out/config.toml"))
    assert (settled.rounds, settled.trace.scenario, settled.seed) == (3, "static", 9)


def test_a_folder_with_a_run_is_not_written_over(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    before = left_behind(Path("out"))

    line = fielding.refuses(*RUN)

    assert line == "error: out holds a run already; continue it with --resume or name another folder with --out\n"
    assert left_behind(Path("out")) == before


def test_the_page_is_named_at_the_end(fielding: Command) -> None:
    assert fielding("run", "small.toml", "--out", "out") == 0

    assert f"page:    {Path('out/report.html')}\n" in fielding.out


def test_a_folder_with_another_run_is_told_apart_before_data_are_read(fielding: Command) -> None:
    assert fielding(*RUN, "--set", "method.name=global") == 0
    missing = ("--set", "trace.file=none.npz")

    line = fielding.refuses(*RUN, *missing)
    assert line.startswith("error: out holds another run (trace.file was not given, now it is 'none.npz')")

    line = fielding.refuses(*RUN)
    assert "out holds another run (method.name was 'global', now it is 'fielding')" in line
    assert line.endswith("name another folder with --out\n")


def test_a_run_whose_past_hangs_on_its_length_is_pointed_to_its_models(fielding: Command) -> None:
    scenario = ("--set", "trace.scenario=concept-swap")
    assert fielding(*RUN, *scenario) == 0

    line = fielding.refuses(*RUN, *scenario, "--resume", "--set", "rounds=18")

    assert "rounds was 6, now it is 18: the scenario deals what was before by the number of rounds" in line
    assert line.endswith("begin a run in another folder with --init-from out\n")
    assert fielding("run", "small.toml", "--no-page", "--out", "longer", "--init-from", "out", "--set", "rounds=7") == 0


def test_a_locked_folder_is_told_before_data_are_read(fielding: Command) -> None:
    with closing(lock_folder(Path("out"))):
        assert "another process is writing into out" in fielding.refuses(*RUN, "--set", "trace.file=none.npz")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("trace.interval=2d", "trace.interval is '2d', but it has no effect: a pool knows no times"),
        ("trace.block=1h", "trace.block is '1h', but it has no effect: a pool knows no times"),
        ("trace.text=words", "trace.text is 'words', but it has no effect: digits is a known data set"),
    ],
)
def test_a_key_that_changes_nothing_is_refused(fielding: Command, change: str, words: str) -> None:
    assert fielding.refuses(*RUN, "--set", change).startswith(f"error: --set {change}: {words}")
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def test_a_run_says_how_train_and_test_are_split_and_warns_of_near_duplicates(fielding: Command) -> None:
    y = np.repeat(np.random.default_rng(1).integers(0, 4, 200), 40)  # a sample a minute, the same thing for 40 minutes
    x = np.eye(4)[y]
    np.savez("minutes.npz", client=np.arange(8000) // 4000, time=np.arange(8000) % 4000 * 60.0, y=y, x=x)
    Path("minutes.toml").write_text(
        CONFIG.replace("clients = 8", 'file = "minutes.npz"\ninterval = "6h"').replace("samples = 12", "")
    )

    assert fielding("run", "minutes.toml", "--out", "measured") == 0
    measured = fielding.out + fielding.err
    assert fielding("run", "minutes.toml", "--out", "given", "--set", "trace.block=1h") == 0
    given = fielding.out + fielding.err
    assert fielding("run", "minutes.toml", "--out", "single", "--set", "trace.block=none") == 0
    single = fielding.out + fielding.err

    assert "train and test are split by blocks of 1h, as measured" in measured
    assert "split" not in given
    assert "neighbours in time are near-duplicates, and train and test are split by sample" in " ".join(single.split())
    scores = [Path(folder, "clients.jsonl").read_bytes() for folder in ("measured", "given", "single")]
    assert scores[0] == scores[1] != scores[2]


def test_a_mistake_in_the_file_names_the_file(fielding: Command) -> None:
    Path("small.toml").write_text(CONFIG.replace("rounds = 6", "ruonds = 6"))

    assert fielding.refuses(*RUN, "--set", "seed=2").startswith("error: small.toml: unknown key ruonds; did you mean")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_data_are_read_stops_at_once_and_leaves_nothing(
    fielding: Command, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        pytest.fail("it went on")

    monkeypatch.setattr("fielding.simulation.experiment.assemble", interrupted)

    assert fielding("run", "small.toml", "--out", "runs/deep") == code
    assert (fielding.out, fielding.err) == ("", "stopped before the first round; nothing was written\n")
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def test_a_second_signal_stops_within_the_round_and_says_how_to_go_on(
    fielding: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fielding(*RUN[:-1], "whole") == 0
    train, calls = Workers.train, []

    def interrupted(workers: Workers, work: LocalWork, *at_hand: Ranges) -> Trained:
        calls.append(work)
        for _ in range(2 if len(calls) == 4 else 0):
            os.kill(os.getpid(), signal.SIGINT)
        return train(workers, work, *at_hand)

    with monkeypatch.context() as patched:
        patched.setattr(Workers, "train", interrupted)
        assert fielding(*RUN) == 130

    first, second = fielding.err.splitlines()
    assert first == "stopping after this round; once more to stop now"
    assert second == (
        "stopped at once; what was committed is kept, go on with: fielding run small.toml --out out --resume"
    )
    assert load_run(newest_checkpoint(Path("out"))).round_index == 2
    assert fielding(*RUN, "--resume") == 0
    assert left_behind(Path("out")) == left_behind(Path("whole"))


def test_a_complete_run_resumed_says_the_same_again(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    before = left_behind(Path("out"))

    assert fielding(*RUN, "--resume") == 0
    assert left_behind(Path("out")) == before


def test_resume_begins_where_there_is_nothing(fielding: Command) -> None:
    assert fielding(*RUN, "--resume") == 0

    assert load_run(newest_checkpoint(Path("out"))).round_index == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("seed=2", "seed was 1, now it is 2: all random choices"),
        ("model.hidden=9", "now it is 9: the models that there are have the shape"),
        ("trace.scenario=static", "trace.scenario was not given, now it is 'static': it decides what clients have had"),
        ("trace.share=0.1", "trace.share was not given, now it is 0.1"),
        ("method.name=global", "method.name was 'fielding', now it is 'global': another method cannot go on"),
        ("coordinator.detector=never", "finds past reports by it"),
        ("rounds=5", "rounds was 6, now it is 5: 6 are done"),
    ],
)
def test_a_run_is_not_resumed_with_what_may_not_change(fielding: Command, change: str, words: str) -> None:
    assert fielding(*RUN) == 0
    before = left_behind(Path("out"))

    line = fielding.refuses(*RUN, "--resume", "--set", change)

    assert line.startswith("error: cannot resume out: ")
    assert words in line
    assert left_behind(Path("out")) == before


def test_a_run_goes_on_with_more_rounds_and_another_learning_rate(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    first = Path("out/rounds.jsonl").read_text()

    assert fielding(*RUN, "--resume", "--set", "rounds=9", "--set", "training.learning_rate=0.01") == 0

    assert "from round 6: rounds 6 -> 9\n" in fielding.err
    assert "from round 6: training.learning_rate 0.05 -> 0.01\n" in fielding.err
    rounds = Path("out/rounds.jsonl").read_text()
    assert rounds.startswith(first)
    assert rounds.count("\n") == 9
    settled = read_config(Path("out/config.toml"))
    assert (settled.rounds, settled.training.learning_rate) == (9, 0.01)
    assert json.loads(Path("out/manifest.json").read_text())["changes"] == [
        {"round": 6, "key": "rounds", "old": 6, "new": 9},
        {"round": 6, "key": "training.learning_rate", "old": 0.05, "new": 0.01},
    ]


def test_the_folder_of_a_run_is_the_config_that_it_goes_on_with(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    assert fielding(*RUN, "--resume", "--set", "rounds=8", "--set", "training.prox=0.5") == 0

    assert fielding("run", "out", "--no-page", "--resume", "--set", "rounds=9") == 0

    changes = json.loads(Path("out/manifest.json").read_text())["changes"]
    assert [(one["round"], one["key"], one["new"]) for one in changes] == [
        (6, "rounds", 8),
        (6, "training.prox", 0.5),
        (8, "rounds", 9),
    ]
    assert "out is the folder of a run" in fielding.refuses("run", "out", "--no-page")


def test_a_run_is_not_resumed_with_other_devices_or_other_data(fielding: Command) -> None:
    ids = ("--set", "clock.availability=there.csv", "--set", "trace.file=pool.npz")
    rng = np.random.default_rng(0)
    y = np.arange(80, dtype=np.int32) % 4
    x = rng.standard_normal((80, 4)).astype(np.float32)
    classes = np.array(list("abcd"))
    np.savez("pool.npz", x=x, y=y, classes=classes)
    Path("there.csv").write_text("client,start_s,stop_s\n" + "".join(f"{client},0,9\n" for client in range(8)))
    assert fielding(*RUN, *ids) == 0

    Path("there.csv").write_text("client,start_s,stop_s\n" + "".join(f"{client},0,8\n" for client in range(8)))
    assert "clock_blake2b.availability was" in fielding.refuses(*RUN, *ids, "--resume")

    Path("there.csv").write_text("client,start_s,stop_s\n" + "".join(f"{client},0,9\n" for client in range(8)))
    np.savez("pool.npz", x=x + np.float32(1.0), y=y, classes=classes)
    assert "data_blake2b was" in fielding.refuses(*RUN, *ids, "--resume")


def test_workers_checkpoints_and_stop_rules_may_change_on_resume(fielding: Command) -> None:
    assert fielding(*RUN, "--set", "stop_at_accuracy=0.01") == 0
    stopped = json.loads(Path("out/summary.json").read_text())
    assert fielding("run", "small.toml", "--no-page", "--out", "whole") == 0

    changes = ("--set", "workers=2", "--set", "checkpoint.every=3", "--set", "stop_at_accuracy=0.9999")
    assert fielding(*RUN, "--resume", *changes) == 0

    assert (stopped["stopped_by"], stopped["n_rounds"]) == ("accuracy", 1)
    assert left_behind(Path("out")) == left_behind(Path("whole"))


@pytest.mark.parametrize(("rule", "stopped_by"), [("stop_at_accuracy=0.01", "accuracy"), ("stop_at_time_s=4", "time")])
def test_a_run_stopped_by_a_rule_is_complete(fielding: Command, rule: str, stopped_by: str) -> None:
    assert fielding(*RUN, "--set", rule) == 0
    summary, before = json.loads(Path("out/summary.json").read_text()), left_behind(Path("out"))
    last = json.loads(Path("out/rounds.jsonl").read_text().splitlines()[-1])

    assert fielding(*RUN, "--set", rule, "--resume") == 0

    assert summary["stopped_by"] == stopped_by
    assert summary["n_rounds"] == last["round"] + 1 < 6
    assert last["accuracy"] >= 0.01 if stopped_by == "accuracy" else last["time_s"] >= 4
    assert left_behind(Path("out")) == before, "a resume went on after the rule had stopped it"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("training.prx=1", "unknown key training.prx; did you mean training.prox?"),
        ("rounds=0", "rounds is 0; give a whole number from 1 to 100000000"),
        ("trace.shares=0.5", "unknown key trace.shares; did you mean trace.share?"),
        ("coordinator.alpa=1", "unknown key coordinator.alpa; did you mean coordinator.alpha?"),
        ("trace.name=digit", "trace.name: unknown data set 'digit'; did you mean 'digits'?"),
        ("model.name=mlq", "model: unknown model 'mlq'; did you mean 'mlp'?"),
        ("clock.profile=fast", "clock.profile: unknown device profile 'fast'"),
        ("coordinator.representation=lable", "coordinator.representation"),
    ],
)
def test_a_mistake_in_the_config_is_one_line_and_nothing_is_written(fielding: Command, change: str, words: str) -> None:
    line = fielding.refuses(*RUN, "--set", change)

    assert line.startswith(f"error: --set {change}: {words}")
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def test_data_that_are_not_there_are_told_before_anything_is_written(fielding: Command) -> None:
    changes = ("trace.name=zephyr", "trace.data=none", "trace.samples=20")
    line = fielding.refuses(*RUN, *(word for change in changes for word in ("--set", change)))
    assert "zephyr needs" in line
    assert "none" in line
    assert "name its folder in trace.data or in the environment variable FIELDING_DATA" in line

    assert "none.npz" in fielding.refuses(*RUN, "--set", "trace.file=none.npz")
    assert "none.csv" in fielding.refuses(*RUN, "--set", "clock.availability=none.csv")
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def test_files_that_no_run_wrote_are_spared(fielding: Command) -> None:
    Path("out").mkdir()
    Path("out/config.toml").write_text("seed = 3  # mine\n")
    assert "holds a config.toml that no run wrote" in fielding.refuses(*RUN)
    assert Path("out/config.toml").read_text() == "seed = 3  # mine\n"

    Path("out/config.toml").unlink()
    Path("out/rounds.jsonl").write_text("mine\n")
    assert "holds a rounds.jsonl that no run wrote" in fielding.refuses(*RUN)
    assert Path("out/rounds.jsonl").read_text() == "mine\n"


def test_what_cannot_be_written_to_is_one_line(fielding: Command) -> None:
    Path("file").write_text("")

    assert "cannot write into file/out" in fielding.refuses("run", "small.toml", "--out", "file/out", code=1)


def test_damaged_checkpoints_are_told(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    whole = left_behind(Path("out"))
    older, newest = sorted(Path("out/checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])

    assert fielding(*RUN, "--resume") == 0
    assert f"{newest} is damaged: going on after round" in fielding.err
    assert left_behind(Path("out")) == whole

    for path in (older, newest):
        path.write_bytes(path.read_bytes()[:100])
    assert "is damaged" in fielding.refuses(*RUN, "--resume", code=1)


def test_a_log_shorter_than_its_checkpoint_is_told(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    Path("out/events.jsonl").write_bytes(Path("out/events.jsonl").read_bytes()[:-1])

    line = fielding.refuses(*RUN, "--resume", code=1)

    assert "out/events.jsonl is shorter than its checkpoint says" in line
