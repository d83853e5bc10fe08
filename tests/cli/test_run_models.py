"""`fielding run` and the models and reports of other runs: to begin with, to take out, to replay."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from tests.cli.in_process import CONFIG, RUN, Command


@pytest.fixture
def fielding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(CONFIG)
    return Command(monkeypatch, capsys)


def test_a_run_begins_with_the_model_of_another(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    checkpoint = newest_checkpoint(Path("out"))
    mean = load_run(checkpoint).mean_model()
    cluster = str(load_run(checkpoint).cluster_ids[0])
    assert fielding("show", "out", "--export", "m.safetensors", "--cluster", cluster) == 0

    for start in ("out", str(checkpoint), "m.safetensors"):
        shutil.rmtree("tuned", ignore_errors=True)
        settings = ("--set", "rounds=1", "--set", "training.learning_rate=1e-30", "--set", "training.prox=0")
        assert fielding("run", "small.toml", "--no-page", "--out", "tuned", "--init-from", start, *settings) == 0
        begun = load_run(newest_checkpoint(Path("tuned"))).models
        wanted = load_run(checkpoint).model_of_cluster(int(cluster)) if start == "m.safetensors" else mean
        np.testing.assert_allclose(begun, np.broadcast_to(wanted, begun.shape), rtol=1e-6)


def test_a_model_of_another_shape_is_refused_before_anything_is_written(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    assert fielding("show", "out", "--export", "m.safetensors", "--cluster", "0") == 0
    Path("empty").mkdir()
    wider = ("run", "small.toml", "--out", "tuned", "--set", "model.hidden=9", "--init-from")

    assert "holds a model of" in fielding.refuses(*wider, "out")
    assert "tensor '0.weight' has shape (8, 64); it must be (9, 64)" in fielding.refuses(*wider, "m.safetensors")
    assert "is not a Fielding checkpoint" in fielding.refuses(*wider, "small.toml", code=1)
    assert "holds no checkpoint" in fielding.refuses(*wider, "empty")
    assert not Path("tuned").exists()


def test_a_run_begun_from_a_model_needs_it_again_to_go_on(fielding: Command) -> None:
    assert fielding(*RUN) == 0
    tuned = ("run", "small.toml", "--no-page", "--out", "tuned")
    assert fielding(*tuned, "--init-from", "out") == 0

    assert "initial_blake2b was" in fielding.refuses(*tuned, "--resume")
    assert fielding(*tuned, "--resume", "--init-from", "out") == 0


def test_the_reports_of_a_run_replay_to_the_same_clusters(fielding: Command) -> None:
    changes = ("--set", "rounds=18", "--set", "trace.clients=16", "--set", "trace.share=0.6")
    assert fielding(*RUN, *changes) == 0

    assert fielding("replay", "out", "--out", "again", "--no-page") == 0
    assert fielding.out.splitlines()[-1] == "rules: as in the run"

    with np.load("again/membership.npz", allow_pickle=False) as stored:
        replayed = dict(stored)
    logged = [json.loads(line) for line in Path("out/memberships.jsonl").read_text().splitlines()]
    now: dict[int, int] = {}
    by_round = {}
    for line in logged:
        now.update(dict(line["changed"]))
        by_round[line["round"]] = dict(now)
    steps = sorted(set(replayed["step"].tolist()))
    assert len(steps) > 2
    for step in steps:
        rows = replayed["step"] == step
        latest = max(at for at in by_round if at <= step)
        told = dict(zip(replayed["client"][rows].tolist(), replayed["cluster"][rows].tolist(), strict=True))
        assert told == by_round[latest]
    assert len(set(now.values())) > 1


def test_options_count_more_than_the_rules_of_a_run(fielding: Command) -> None:
    assert fielding(*RUN, "--set", "coordinator.metric=js", "--set", "coordinator.tau=1/2") == 0

    assert fielding("replay", "out", "--out", "again", "--no-page", "--k-max", "1", "--seed", "5") == 0

    assert fielding.out.splitlines()[-1] == "rules: as in the run, except k-max, seed"
    policy = json.loads(Path("again/manifest.json").read_text())["policy"]
    assert (policy["metric"], policy["trigger"]["options"]["tau"]) == ("js", 0.5)
    assert (policy["clusterer"]["k_max"], policy["seed"]) == (1, 5)
    assert fielding("replay", "out", "--out", "same", "--no-page", "--json", "--metric", "l1") == 0
    assert json.loads(Path("same/manifest.json").read_text())["policy"]["metric"] == "l1", (
        "a default that is given counts"
    )
    assert json.loads(fielding.out)["n_steps"] > 0


@pytest.mark.parametrize("rule", ["k_choice=finest", "noise_floor=true", "tau=learned"])
def test_runs_whose_rules_need_more_than_reports_are_not_replayed(fielding: Command, rule: str) -> None:
    assert fielding(*RUN, "--set", f"coordinator.{rule}") == 0

    refusal = fielding.refuses("replay", "out", "--out", "again")

    assert rule.partition("=")[0] in refusal
    assert not Path("again").exists()


def test_a_replay_is_not_written_into_a_run(fielding: Command) -> None:
    assert fielding(*RUN) == 0

    for more in ((), ("--resume",)):
        assert "out holds a run; name another folder" in fielding.refuses("replay", "out", "--out", "out", *more)
