"""The apps that take turns on Flower's nodes: their folders and samples, and plain FedAvg without processes."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.contenders import CONTENDERS, FIELDING, PAIRS, log_of, run_config, write_app
from benchmarks.shared_work import SharedWork
from benchmarks.traffic import exchanges_of

WORK = SharedWork(n_rounds=4, hidden=2)


def test_node_0_changes_sides_in_the_middle_and_nobody_else_does() -> None:
    def sides(partition: int, round_index: int) -> set[int]:
        return {label // 5 for label in np.asarray(WORK.arrived(partition, round_index).y).tolist()}

    assert [sides(0, round_index) for round_index in range(4)] == [{0}, {0}, {1}, {1}]
    assert [sides(1, round_index) for round_index in range(4)] == [{1}] * 4
    assert [sides(2, round_index) for round_index in range(4)] == [{0}] * 4


def test_samples_of_a_half_are_the_same_whenever_they_are_asked_for() -> None:
    first, again, later = (WORK.store(1, round_index) for round_index in (2, 3, 0))
    x, same, others = (store.gather(store.all_rows())[0] for store in (first, again, later))

    assert np.array_equal(x, same)
    assert not np.array_equal(x, others)
    assert (first.kept.training().y.size, first.kept.testing().y.size) == (80, 20)


def test_the_model_has_as_many_numbers_as_is_told() -> None:
    assert WORK.trainer().layout.size == WORK.n_numbers == 75 * 2 + 10


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_an_app_is_a_folder_that_names_code_of_this_package(contender: Any, tmp_path: Path) -> None:
    config = run_config(contender, WORK, 4, tmp_path / "run")

    folder = write_app(tmp_path / "app", contender, config)

    app = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert app["config"] == config
    assert app["config"]["log"] == str(log_of(tmp_path / "run"))
    assert app["config"]["training"]["participants"] == (2 if "half" in contender.name else 4)
    for component in app["components"].values():
        module = folder / f"{component.partition(':')[0].replace('.', '/')}.py"
        assert f"from benchmarks.{contender.engine}_app import" in module.read_text()


def test_only_contenders_that_train_and_test_alike_are_held_against_each_other() -> None:
    for one, against in PAIRS:
        assert (one.engine, against.engine) == ("fielding", "fedavg")
        assert (one.share, one.tests) == (against.share, against.tests)
        assert one in CONTENDERS
        assert against in CONTENDERS


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run config as Flower hands it out: without tables."""
    rows = [(name, one) for name, one in table.items() if not isinstance(one, dict)]
    rows += [
        (f"{name}.{key}", one) for name, inner in table.items() if isinstance(inner, dict) for key, one in inner.items()
    ]
    return dict(rows)


def test_the_server_of_fielding_takes_the_run_config(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")
    from benchmarks.fielding_app import OWN_KEYS
    from fielding.flower.server.server_app import deployment_from

    config = flat(run_config(FIELDING, WORK, 4, tmp_path / "run"))

    deployment, out = deployment_from({key: value for key, value in config.items() if key not in OWN_KEYS})

    settled = deployment.checked_config()
    assert out == tmp_path / "run"
    assert (settled.evaluation.every, settled.trace.gap, settled.trace.window) == (2, 2, 2)
    assert [round_index for round_index in range(4) if WORK.is_tested(round_index)] == [0, 1, 3]


def test_a_device_takes_the_samples_of_each_half_once(tmp_path: Path) -> None:
    from benchmarks.fielding_app import load_data
    from fielding.runtime.own_code import DeviceNode

    config = flat(run_config(FIELDING, WORK, 4, tmp_path / "run"))

    def loaded(since: int | None, round_index: int) -> bool:
        node = DeviceNode(partition=1, config=config, folder=tmp_path, since=since)
        return load_data(node, round_index) is not None

    assert [loaded(None, 0), loaded(0, 1), loaded(1, 2), loaded(2, 3)] == [True, False, True, False]


# ---- plain FedAvg, without processes ---------------------------------------------------------------------------------


class FakeGrid:
    """Lets nodes answer at once, by the plain client app; one more question is needed for every reply if polled."""

    def __init__(self, n_nodes: int, config: Mapping[str, Any]) -> None:
        self.n_nodes, self.config, self.waiting, self.n_pushes = n_nodes, config, {}, 0  # type: ignore[var-annotated]

    def get_node_ids(self) -> list[int]:
        return list(range(self.n_nodes))

    def push_messages(self, messages: Sequence[Any]) -> list[str]:
        from flwr.app import Context, RecordDict

        from benchmarks.fedavg_app import client_app

        self.n_pushes += 1
        app = client_app()
        for message in messages:
            name = f"{self.n_pushes}-{message.metadata.dst_node_id}"
            message.metadata.__dict__["_message_id"] = name
            context = Context(
                run_id=1,
                node_id=message.metadata.dst_node_id,
                node_config={"partition-id": message.metadata.dst_node_id},
                state=RecordDict(),
                run_config=dict(self.config),
            )
            self.waiting[name] = app(message, context)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids: Sequence[str]) -> list[Any]:
        name = sorted(ids)[0]  # one at a time
        return [self.waiting.pop(name)]

    def send_and_receive(self, messages: Sequence[Any], *, timeout: float) -> list[Any]:
        assert timeout > 0
        return [self.waiting.pop(name) for name in self.push_messages(messages)] if messages else []


@pytest.mark.parametrize("contender", [one for one in CONTENDERS if one.engine == "fedavg"], ids=lambda one: one.name)
def test_plain_fedavg_trains_every_round_and_tests_when_fielding_would(
    contender: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")
    from flwr.app import Context, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    from benchmarks import fedavg_app

    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)
    monkeypatch.setattr(fedavg_app, "POLL_S", 1e-3)
    config = flat(run_config(contender, WORK, 4, tmp_path / "run"))
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=config)

    fedavg_app.served(FakeGrid(4, config), context)  # type: ignore[arg-type]

    found = exchanges_of([json.loads(line) for line in log_of(tmp_path / "run").read_text().splitlines()])
    assert (found.n_before, found.n_training, found.n_tests) == (0, 4, 3 if contender.tests else 0)
    assert found.n_trained == 4 * contender.n_trained(4)
    assert found.n_described == 0
    arrays = 1 if contender.is_lean else 4
    assert found.untested_up > found.n_trained * (4 * WORK.n_numbers + 128 * arrays)
    assert found.untested_up < found.n_trained * (4 * WORK.n_numbers + 128 * arrays + 100)
