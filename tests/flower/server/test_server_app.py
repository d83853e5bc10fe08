"""The server app: a run config becomes a run, and with client apps behind a grid a whole federation."""

import importlib.util
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Json
from fielding.config.presets import PRESETS
from fielding.errors import InputError, OptionError
from fielding.flower.server.deployment import describing_on_devices
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.runtime.own_code import DeviceNode, Embedded, Fitted, Job, Samples, Scored, Tensors

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedMedian

from fielding.flower.device.client_app import client_app
from fielding.flower.server.server_app import app as plain_app
from fielding.flower.server.server_app import deployment_from, server_app
from fielding.flower.server.strategies import FlowerStrategy
from tests.flower.device_wire import accuracies, lines

N_NODES, N_ROUNDS, SIMULATED_S = 6, 6, 1e300
RUN_CONFIG: dict[str, Json] = {
    "classes": 2,
    "shape": "3",
    "min-nodes": N_NODES,
    "deadline": 5.0,
    "start-wait": 1.0,
    "rounds": N_ROUNDS,
    "trace.window": 2,
    "trace.gap": 1,
    "model.name": "softmax",
    "training.participants": 4,
    "training.local_steps": 5,
    "training.batch_size": 8,
    "training.learning_rate": 0.5,
    "coordinator.k_max": 2,
    "coordinator.participants_per_cluster": 1,
    "evaluation.every": 2,
}


@pytest.fixture(autouse=True)
def _inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be built as in a process that Flower started, and nobody wait for the disk."""
    from flwr.supercore.task_identity import TaskIdentity

    for name, number in (("_run_id", 77), ("_node_id", 1), ("_task_id", 3)):
        monkeypatch.setattr(TaskIdentity, name, number)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Take back what a server app does to the log of its process."""
    log = logging.getLogger("fielding")
    before, level = list(log.handlers), log.level
    yield
    log.handlers[:] = before
    log.setLevel(level)


def load_data(node: DeviceNode, round_index: int) -> Samples:
    """Return twenty samples of a round; half the clients see mostly one class, the others the other, then all turn."""
    assert node.partition is not None
    rng = np.random.default_rng([node.partition, round_index])
    favorite = (node.partition + (round_index >= 3)) % 2
    y = np.where(rng.random(20) < 0.9, favorite, 1 - favorite)
    x = rng.standard_normal((20, 3)) + 3.0 * np.eye(3)[y]
    return Samples(x, y, is_test=np.arange(20) % 5 == 0)


class Grid:
    """Flower's grid with client apps behind it that answer at once, in this process."""

    def __init__(self, clients: ClientApp, run_config: Mapping[str, Json], folder: Path) -> None:
        self._clients, self._run_config = clients, {**run_config, "state-dir": str(folder / "devices")}
        self._replies: dict[str, Message] = {}
        self.pushes: list[list[str]] = []

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(node_id=at, public_key=os.urandom(32), heartbeat_interval=SIMULATED_S)
            for at in range(101, 101 + N_NODES)
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        for at, message in enumerate(sent):
            message.metadata.__dict__["_message_id"] = f"{len(self.pushes)}-{at}"
            self._replies[message.metadata.message_id] = self._answered(message)
        self.pushes.append([message.metadata.message_type for message in sent])
        return [message.metadata.message_id for message in sent]

    def _answered(self, message: Message) -> Message:
        node: Any = {"partition-id": message.metadata.dst_node_id - 101, "num-partitions": N_NODES}
        context = Context(
            run_id=77,
            node_id=message.metadata.dst_node_id,
            node_config=node,
            state=RecordDict(),
            run_config=self._run_config,  # type: ignore[arg-type]
        )
        try:
            return self._clients(message, context)
        except Exception as error:
            return Message(Error(code=2, reason=f"{type(error)}:<'{error}'>"), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(one) for one in message_ids if one in self._replies]


def served(app: ServerApp, clients: ClientApp, folder: Path, **changes: Json) -> tuple[Grid, Path]:
    """Run a server app to its end."""
    out = folder / "run"
    run_config = {**RUN_CONFIG, **changes, "out": str(out)}
    grid: Any = Grid(clients, run_config, folder)
    context = Context(run_id=77, node_id=1, node_config={}, state=RecordDict(), run_config=run_config)  # type: ignore[arg-type]
    app(grid=grid, context=context)
    return grid, out


def test_server_app_and_client_app_are_a_federation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fielding")
    grid, out = served(plain_app, client_app(load_data=load_data), tmp_path)

    assert grid.pushes[0] == ["query.describe"] * N_NODES
    assert [len(push) for push in grid.pushes] == [N_NODES] * (1 + N_ROUNDS + 4)  # evaluated in rounds 0, 1, 3, 5
    assert sorted(accuracies(out)) == [0, 1, 3, 5]
    assert accuracies(out)[5] > 0.9
    assert lines(out, "rounds.jsonl")[0]["n_clusters"] == 2
    assert any(line["reported"] for line in lines(out, "events.jsonl")[1:])
    told = [record.getMessage() for record in caplog.records if "round 5" in record.getMessage()]
    assert len(told) == 1
    assert "accuracy=" in told[0]
    assert json.loads((out / "summary.json").read_text())["stopped_by"] == "rounds"


def state_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "devices").rglob("*") if path.is_file())


def test_what_devices_kept_goes_with_the_run_if_it_is_told_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="fielding")
    served(plain_app, client_app(load_data=load_data), tmp_path, rounds=2)
    kept = state_files(tmp_path)
    assert "device.fielding" in kept, "unless it is told otherwise"
    assert "devices removed" not in caplog.text
    summary = (tmp_path / "run" / "summary.json").read_text()

    grid, out = served(plain_app, client_app(load_data=load_data), tmp_path, rounds=2, **{"keep-state": False})

    assert grid.pushes == [["query.describe"] * N_NODES], "the run is over, whoever was away then is reached now"
    assert state_files(tmp_path) == []
    assert f"{N_NODES} of {N_NODES} devices removed what they kept for the run" in caplog.text
    assert (out / "summary.json").read_text() == summary


def test_ones_own_training_needs_no_model_that_fielding_knows(tmp_path: Path) -> None:
    def first_model() -> dict[str, npt.NDArray[np.float32]]:
        return {"mean": np.zeros(3, dtype=np.float32)}

    def train(model: Tensors, samples: Samples, _job: Job) -> Fitted:
        x = np.asarray(samples.x)
        return Fitted({"mean": 0.5 * model["mean"] + 0.5 * x.mean(axis=0)}, len(samples), 1.0)

    def evaluate(model: Tensors, samples: Samples) -> Scored:
        return Scored(len(samples), round(float(model["mean"].max())), 1.0)

    clients = client_app(load_data=load_data, train=train, evaluate=evaluate)
    _, out = served(server_app(first_model=first_model, strategy=FedMedian), clients, tmp_path)
    assert len(accuracies(out)) == 4
    assert json.loads((out / "manifest.json").read_text())["own"]["aggregation"] == "FlowerStrategy(FedMedian)"


def test_auto_needs_nothing_but_its_name(tmp_path: Path) -> None:
    """Windows are seen with the mean model after five rounds; models are corrected from the start."""
    changes: dict[str, Json] = {"coordinator.representation": "auto", "rounds": 8, "preset": "paper"}
    _, out = served(plain_app, client_app(load_data=load_data), tmp_path, **changes)
    rows = lines(out, "rounds.jsonl")
    assert [row["n_reports"] for row in rows[:7]] == [0] * 6 + [N_NODES]
    assert all(("corrected_accuracy" in row) == ("accuracy" in row) for row in rows)
    assert not any(row["n_failed"] for row in rows)


def test_ones_own_models_are_corrected_by_what_embed_sees(tmp_path: Path) -> None:
    """Models that know nothing follow the label mix alone; what they carry is none of her business."""
    names: set[str] = set()

    def train(model: Tensors, samples: Samples, _job: Job) -> Fitted:
        names.update(model)
        return Fitted(model, len(samples), 1.0)

    def evaluate(model: Tensors, samples: Samples) -> Scored:
        names.update(model)
        return Scored(len(samples), int((np.asarray(samples.y) == 0).sum()), 1.0)

    def embed(model: Tensors, samples: Samples) -> Embedded:
        names.update(model)
        return Embedded(np.zeros((len(samples), 1)), np.zeros((len(samples), 2)))

    clients = client_app(load_data=load_data, train=train, evaluate=evaluate, embed=embed)
    server = server_app(first_model=lambda: {"mean": np.zeros(3, dtype=np.float32)})
    changes: dict[str, Json] = {"serving.correction": "prior", "method.name": "global"}
    _, out = served(server, clients, tmp_path, **changes)
    rows = [row for row in lines(out, "rounds.jsonl") if "accuracy" in row]
    assert names == {"mean"}
    assert float(str(rows[0]["accuracy"])) < 0.7
    assert float(str(rows[0]["corrected_accuracy"])) > 0.8
    last = load_run(newest_checkpoint(out))
    assert last.layout.names == ("mean", "label_mix")
    # A fifth of the way at a time, toward what the participants have.
    assert last.models[0, 3:].sum() == pytest.approx(1.0, abs=1e-5)
    assert last.models[0, 3] != 0.5


def test_a_mistake_on_every_node_ends_the_run_at_its_start_with_their_words(tmp_path: Path) -> None:
    def mistaken(node: DeviceNode, round_index: int) -> Samples:
        return Samples(np.zeros((1, 3)), [2])

    wanted = (
        r"no node can tell of its data; one of 6 said: error 2: InputError: labels of load_data \(classes = 2\) hold 2"
    )
    with pytest.raises(InputError, match=wanted):
        served(plain_app, client_app(load_data=mistaken), tmp_path)


def test_a_mistake_on_some_nodes_is_theirs_alone(tmp_path: Path) -> None:
    def mistaken_at_first(node: DeviceNode, round_index: int) -> Samples:
        if node.partition == 0:
            raise OSError("no card")
        return load_data(node, round_index)

    _, out = served(plain_app, client_app(load_data=mistaken_at_first), tmp_path)
    assert len(lines(out, "rounds.jsonl")) == N_ROUNDS


def test_settings_of_the_users_own_code_are_written_down_and_others_still_checked() -> None:
    config: dict[str, Json] = {**RUN_CONFIG, "out": "run", "own.epochs": 3}
    assert deployment_from(config)[0].own_settings == {"own.epochs": 3}
    with pytest.raises(OptionError, match="unknown key owner"):
        deployment_from({**config, "owner.epochs": 3})


def test_keys_of_the_run_config_count_more_than_those_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "fielding.toml"
    file.write_text("rounds = 3\nseed = 9\n[trace]\nwindow = 2\ngap = 1\n")
    deployment, out = deployment_from({**RUN_CONFIG, "config": str(file), "out": "there"})
    assert (deployment.config.rounds, deployment.config.seed, deployment.config.model.name) == (N_ROUNDS, 9, "softmax")
    assert (deployment.shape, deployment.presence.min_nodes, out) == ((3,), N_NODES, Path("there"))


def test_a_strategy_takes_the_place_of_the_aggregation() -> None:
    deployment, _ = deployment_from({**RUN_CONFIG, "out": "there"}, strategy=FedMedian)
    assert isinstance(deployment.aggregator, FlowerStrategy)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"out": None}, r"out of the run config is None; name a folder"),
        ({"classes": 0}, r"classes of the run config is 0; give a whole number of at least 1"),
        ({"shape": "8,x"}, r'shape of the run config is \'8,x\'; give the shape of a sample, as "64" or "8,8"'),
        ({"deadline": -1}, r"deadline of the run config is -1; give seconds above 0"),
        ({"keep-state": "no"}, r"keep-state of the run config is 'no'; give true or false"),
        ({"ruonds": 3}, r"run config: unknown key ruonds"),
        ({"training.participants": 0}, r"run config: training.participants"),
    ],
)
def test_a_mistake_in_the_run_config_is_named(changes: dict[str, Json], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        deployment_from({**RUN_CONFIG, "out": "there", **changes})


@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_a_representation_brings_along_all_that_goes_with_it(preset: str | None) -> None:
    written: dict[str, Json] = {"coordinator.representation": "auto"}
    if preset is not None:
        written["preset"] = preset
    config = deployment_from({**RUN_CONFIG, **written, "out": "there"})[0].checked_config()

    assert (config.serving.correction, config.coordinator.shared_model) == ("prior", "global")
    assert describing_on_devices(config).needs_model


def test_a_shared_model_that_nobody_can_train_is_refused_if_it_is_asked_for() -> None:
    asked: dict[str, Json] = {"coordinator.representation": "class-means", "coordinator.shared_model": "pool"}
    deployment, _ = deployment_from({**RUN_CONFIG, **asked, "out": "there"})
    with pytest.raises(OptionError, match=r'coordinator\.shared_model is "pool", but a deployment holds no samples'):
        describing_on_devices(deployment.checked_config())


def test_devices_follow_the_servers_config_whatever_they_could_read_themselves(tmp_path: Path) -> None:
    """None reports drift, as the config of the server says and no run config does."""
    server = server_app({"coordinator": {"detector": "never"}})
    _, out = served(server, client_app(load_data=load_data), tmp_path, rounds=3)
    assert [line["n_reports"] for line in lines(out, "rounds.jsonl")] == [N_NODES, 0, 0]
