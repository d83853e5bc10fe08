"""`fielding models`: versions of a run on Flower, listed, exported, pinned and rolled back."""

import json
from pathlib import Path

import numpy as np
import pytest

from fielding.records.versions import FOR_ALL, KEPT, ModelVersions, Version, now_text
from fielding.training.label_mix import LABEL_MIX
from fielding.training.layout import Layout
from tests.cli.in_process import Command

LAYOUT = Layout(names=("weight", LABEL_MIX), shapes=((2, 2), (3,)), n_parameters=1)


def release(folder: Path, round_index: int, *clusters: int) -> np.ndarray:
    """Write the versions of a round, and return their models."""
    models = np.random.default_rng(round_index).random((len(clusters), 7), dtype=np.float32)
    versions = [
        Version(round_index=round_index, cluster=one, n_members=4, at=now_text(), scores={"accuracy": 0.25})
        for one in clusters
    ]
    ModelVersions(folder).release(versions, models, LAYOUT)
    return models


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    for at in (0, 4, 9):
        release(tmp_path, at, 0, 2, FOR_ALL)
    return Command(monkeypatch, capsys)


def test_versions_are_listed_with_members_metrics_and_date(command: Command, tmp_path: Path) -> None:
    assert command("models", tmp_path) == 0
    assert [line.split()[0] for line in command.out.splitlines() if line.strip().startswith("r")] == [
        f"r{at}-{name}" for at in (0, 4, 9) for name in ("c0", "c2", "all")
    ]
    assert command("models", tmp_path, "--json") == 0
    record = json.loads(command.out)["versions"][1]
    assert (record["version"], record["cluster"], record["round"], record["members"]) == ("r0-c2", 2, 0, 4)
    assert record["scores"] == {"accuracy": 0.25}
    assert record["is_there"] is True


def test_a_version_is_exported_with_state_dict_names(command: Command, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    models = release(tmp_path, 12, 0, 2)
    assert command("models", tmp_path, "--version", "r12-c2", "--export", "out.safetensors") == 0
    tensors = load_file("out.safetensors")
    assert list(tensors) == ["weight"]
    np.testing.assert_array_equal(tensors["weight"].ravel(), models[1, :4])


def test_versions_come_back_to_the_bit_label_mix_and_all(tmp_path: Path) -> None:
    models = release(tmp_path, 3, 0, 1)
    versions = ModelVersions(tmp_path)
    np.testing.assert_array_equal(versions.models(versions.releases()[0], LAYOUT), models)


def test_a_pin_says_who_and_when_and_is_lifted_again(command: Command, tmp_path: Path) -> None:
    versions = ModelVersions(tmp_path)
    assert command("models", tmp_path, "--pin", "r4-c2") == 0
    assert command.out == "cluster 2: version r4-c2, with the next deliveries\n"
    assert versions.pins() == {("cluster", "2"): "r4-c2"}
    assert command("models", tmp_path, "--unpin", "--cluster", "2") == 0
    assert versions.pins() == {}
    assert [line["version"] for line in versions.pin_lines()] == ["r4-c2", None]
    assert all(line["by"] and line["at"] for line in versions.pin_lines())


def test_a_roll_back_goes_one_version_further_each_time(command: Command, tmp_path: Path) -> None:
    for wanted in ("r4-c0", "r0-c0"):
        assert command("models", tmp_path, "--roll-back", "--cluster", "0") == 0
        assert ModelVersions(tmp_path).pins() == {("cluster", "0"): wanted}
    assert "no older version" in command.refuses("models", tmp_path, "--roll-back", "--cluster", "0")
    assert command("models", tmp_path, "--roll-back", "--cluster", "all") == 0
    assert ModelVersions(tmp_path).pins()[("cluster", "-1")] == "r4-all"


def test_mistakes_are_one_line(command: Command, tmp_path: Path) -> None:
    assert "holds no versions" in command.refuses("models", tmp_path / "nowhere")
    assert "there is no version 'r5-c0'" in command.refuses("models", tmp_path, "--pin", "r5-c0")
    assert "there is no cluster '7'" in command.refuses("models", tmp_path, "--unpin", "--cluster", "7")
    assert "--cluster or --client" in command.refuses("models", tmp_path, "--roll-back")
    assert "one at a time" in command.refuses("models", tmp_path, "--unpin", "--pin", "r4-c0")
    assert "name it with --version" in command.refuses("models", tmp_path, "--export", "a.safetensors")
    assert "end it with" in command.refuses("models", tmp_path, "--export", "a.bin", "--version", "r4-c0")


def test_old_models_go_but_not_pinned_ones_nor_the_log(command: Command, tmp_path: Path) -> None:
    assert command("models", tmp_path, "--pin", "r4-c0") == 0
    for at in range(20, 20 + KEPT):
        release(tmp_path, at, 0, 2)
    there = {path.stem for path in (tmp_path / "models").glob("*.safetensors")}
    assert there == {"r4-c0", "r4-c2", "r4-all"} | {f"r{at}-c{one}" for at in range(20, 20 + KEPT) for one in (0, 2)}
    assert len(ModelVersions(tmp_path).releases()) == 3 + KEPT


def test_a_round_that_is_done_once_more_replaces_its_versions(tmp_path: Path) -> None:
    release(tmp_path, 3, 0)
    release(tmp_path, 5, 0)
    again = release(tmp_path, 5, 0, 1)
    versions = ModelVersions(tmp_path)
    assert [[one.name for one in release] for release in versions.releases()] == [["r3-c0"], ["r5-c0", "r5-c1"]]
    np.testing.assert_array_equal(versions.models(versions.releases()[-1], LAYOUT), again)


def test_a_line_that_a_crash_cut_short_is_passed_over(tmp_path: Path) -> None:
    release(tmp_path, 3, 0)
    versions = ModelVersions(tmp_path)
    versions.pin(("client", "a"), "r3-c0")
    with (tmp_path / "models" / "pins.jsonl").open("a") as file:
        file.write('{"client": "b", "ver')
    assert versions.pins() == {("client", "a"): "r3-c0"}
    versions.pin(("client", "c"), "r3-c0")
    assert versions.pins() == {("client", "a"): "r3-c0", ("client", "c"): "r3-c0"}
