"""`fielding show` on a run: what is in it, and models taken out of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint, read_manifest
from fielding.reporting.charts.tables import CHANGED
from fielding.reporting.formatting import as_time
from fielding.reporting.report_page import make_page, read_report
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, Start, run
from tests.cli.in_process import Command
from tests.simulation.run_cases import small_pool, table


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


@pytest.fixture
def result(command: Command) -> Result:
    found = run(table(), "out", own=Own(samples=small_pool()), page=False)
    assert len(found.checkpoint.cluster_ids) > 1
    return found


def test_show_tells_what_a_run_has_come_to(command: Command, result: Result) -> None:
    assert command("show", "out", "--json") == 0
    record = json.loads(command.out)

    assert (record["method"], record["round"], record["n_clients"]) == ("fielding", 11, 12)
    assert record["time_s"] == result.rounds[-1]["time_s"]
    assert [one["id"] for one in record["clusters"]] == list(result.checkpoint.cluster_ids)
    assert sum(one["clients"] for one in record["clusters"]) == 12
    assert record["model"]["tensors"]["0.weight"] == [8, 4]


def test_show_speaks_to_people_of_a_folder_and_of_a_checkpoint(command: Command, result: Result) -> None:
    assert command("show", "out") == 0
    of_folder = command.out
    assert command("show", newest_checkpoint(Path("out"))) == 0

    assert command.out == of_folder
    assert "n_clients  12\n" in of_folder
    assert f"time       {as_time(result.checkpoint.time_s)} (simulated)\n" in of_folder
    assert "none yet" not in of_folder


def test_show_tells_the_history_of_a_client(command: Command, result: Result) -> None:
    assert command("show", "out", "--client", "5") == 0
    assert command.out.startswith(f"client 5: cluster {result.cluster_of(5)} after round 11 (fielding)\n")
    assert command.out == f"{result.why(5)!r}\n"

    assert command("show", "out", "--client", "5", "--json") == 0
    found = json.loads(command.out)
    assert (found["client"]["id"], found["client"]["cluster"]) == (5, result.cluster_of(5))
    assert found["client"] == result.why("5").record
    assert found["n_clients"] == 12


def test_show_tells_why_a_client_moved(command: Command, result: Result) -> None:
    events = [json.loads(line) for line in Path("out/events.jsonl").read_text().splitlines()]
    round_index, client = next((one["round"], one["moved"][0]) for one in events if one["moved"] and not one["fired"])

    assert command("show", "out", "--client", str(client), "--round", str(round_index)) == 0
    assert command.out == f"{result.why(client, round=round_index)!r}\n"
    assert f"client {client}, round {round_index} (fielding, distance l1)\n" in command.out
    assert "It moved from cluster" in command.out

    assert command("show", "out", "--client", str(client), "--round", str(round_index), "--json") == 0
    found = json.loads(command.out)
    assert found["outcome"] == "moved"
    assert min(found["distances"], key=lambda one: one["new_report"])["cluster"] == found["cluster_after"]


def test_show_tells_the_cluster_of_a_client_in_a_checkpoint(command: Command, result: Result) -> None:
    assert command("show", newest_checkpoint(Path("out")), "--client", "5") == 0
    assert command.out.endswith(f"\nclient 5: cluster {result.cluster_of(5)}\n")

    assert command("show", newest_checkpoint(Path("out")), "--client", "5", "--json") == 0
    assert json.loads(command.out)["client"] == {"id": 5, "cluster": result.cluster_of(5)}


def test_the_model_of_a_cluster_is_exported(command: Command, result: Result) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file

    cluster = result.checkpoint.cluster_ids[-1]
    assert command("show", "out", "--export", "m.safetensors", "--cluster", str(cluster)) == 0

    assert f"wrote m.safetensors: the model of cluster {cluster}" in command.out
    tensors = load_file("m.safetensors")
    wanted = result.layout.tensors(result.checkpoint.model_of_cluster(cluster))
    assert all(np.array_equal(tensor, wanted[name]) for name, tensor in tensors.items())
    with safe_open("m.safetensors", "np") as file:
        metadata = {name: json.loads(value) for name, value in file.metadata().items()}
    assert metadata["classes"] == list(result.classes)
    assert metadata["inputs"] == read_manifest(result.folder)["inputs"] == {"mean": 0.0, "spread": 1.0}


def test_the_model_of_a_client_is_that_of_its_cluster(command: Command, result: Result) -> None:
    from safetensors.numpy import load_file

    for client in (0, 5):
        assert command("show", "out", "--export", "m.safetensors", "--client", str(client), "--json") == 0
        exported = json.loads(command.out)["exported"]
        assert exported == {"file": "m.safetensors", "model": f"cluster {result.cluster_of(client)}"}
        for name, tensor in load_file("m.safetensors").items():
            assert np.array_equal(tensor, result.model_of(client)[name])


def test_an_exported_model_predicts_alike_in_torch(command: Command, result: Result) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    from fielding.training.factory import ModelRequest, trainer_for

    cluster = result.checkpoint.cluster_ids[0]
    assert command("show", "out", "--export", "m.safetensors", "--cluster", str(cluster)) == 0
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    module.load_state_dict(load_file("m.safetensors"))

    pool = small_pool()
    x = pool.features(np.arange(len(pool)))
    with torch.no_grad():
        logits = module(torch.from_numpy(x))
        losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(pool.y).long(), reduction="none").numpy()
    trainer = trainer_for(ModelRequest(name="mlp", hidden=8, input_shape=(4,), n_classes=4))
    ours, right = trainer.scores(result.checkpoint.model_of_cluster(cluster), x, pool.y)

    np.testing.assert_allclose(ours, losses, rtol=1e-4, atol=1e-5)
    assert np.array_equal(right, logits.argmax(dim=1).numpy() == pool.y)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--export", "m.safetensors"], "clusters ("),
        (["--export", "m.safetensors", "--cluster", "77"], "there is no cluster 77; there are 0"),
        (["--export", "m.safetensors", "--client", "nobody"], "there is no client 'nobody'"),
        (["--export", "m.safetensors", "--cluster", "0", "--client", "0"], "both --cluster and --client are given"),
        (["--export", "m.bin", "--cluster", "0"], "m.bin is no name for a model; end it with .safetensors"),
        (["--cluster", "0"], "name a file with --export"),
        (["--client", "nobody"], "no such client in this run: 'nobody'; did you mean"),
        (["--client", "nobody", "--round", "3"], "no such client in this run: 'nobody'; did you mean"),
        (["--client", "5", "--round", "40"], "there is no round 40 in this run; it has rounds 0 to 11"),
        (["--round", "3"], "give the folder of a run, and --client"),
        (["--client", "5", "--round", "3", "--export", "m.safetensors"], "leave --export out"),
    ],
)
def test_what_cannot_be_exported_is_told(command: Command, result: Result, arguments: list[str], words: str) -> None:
    assert words in command.refuses("show", "out", *arguments)
    assert not Path("m.safetensors").exists()


def test_a_client_that_never_had_data_gets_the_mean_of_all(command: Command, tmp_path: Path) -> None:
    rows = ["client,start_s,stop_s", *(f"{client},0,{0 if client == 3 else 1e6:.0f}" for client in range(12))]
    Path("there.csv").write_text("\n".join(rows) + "\n")
    run(table(clock={"availability": "there.csv"}), "out", own=Own(samples=small_pool()), page=False)

    assert command("show", "out", "--export", "m.safetensors", "--client", "3") == 0

    assert "the client has none yet" in command.out
    assert "none yet        1\n" in command.out
    assert "client 3: in no cluster yet\n" in command.out


def test_a_damaged_checkpoint_and_a_folder_without_one_are_told(command: Command, result: Result) -> None:
    newest = newest_checkpoint(Path("out"))
    newest.write_bytes(newest.read_bytes()[:-1])
    Path("empty").mkdir()

    assert "is damaged" in command.refuses("show", "out", code=1)
    assert "holds no checkpoint" in command.refuses("show", "empty")
    assert load_run(min(Path("out/checkpoints").iterdir())).round_index == 10


def test_show_and_the_page_tell_what_changed_while_the_run_went_on(command: Command, result: Result) -> None:
    longer = table(rounds=15, training={"learning_rate": 0.02})
    own = Own(samples=small_pool())
    run(longer, "out", own=own, start=Start(resume=True), page=True)
    run({**longer, "rounds": 16}, "out", own=own, start=Start(resume=True), watch=lambda _row: False, page=False)

    assert command("show", "out") == 0
    assert "\nround 12: rounds 12 -> 15\nround 12: training.learning_rate 0.1 -> 0.02\n" in command.out
    assert command("show", "out", "--json") == 0
    assert json.loads(command.out)["changes"][1] == {
        "round": 12,
        "key": "training.learning_rate",
        "old": 0.1,
        "new": 0.02,
    }
    page = make_page(*read_report([result.folder]))
    (section,) = [one for one in page.sections if one.title == CHANGED]
    assert [row[-3:] for row in section.table[1:3]] == [
        ["rounds", "12", "15"],
        ["training.learning_rate", "0.1", "0.02"],
    ]


def test_a_run_that_never_changed_says_nothing_of_it(command: Command, result: Result) -> None:
    assert command("show", "out", "--json") == 0
    assert "changes" not in json.loads(command.out)
    page = make_page(*read_report([result.folder]))
    assert CHANGED not in [one.title for one in page.sections]
