"""A run whose class list becomes longer while it goes on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.run_checkpoint import RunCheckpoint, load_run
from fielding.records.run_folder import ROUNDS, newest_checkpoint, read_manifest
from fielding.reporting.report_page import report_page
from fielding.runtime.own_code import DeviceNode, Samples
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.layout import Layout
from tests.rotation import some_of
from tests.simulation.run_cases import stopped_after

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.server.class_growth import check_growth, grow_classes
from fielding.flower.server.deployment import Deployment, run_deployment
from fielding.flower.server.server_app import deployment_from
from tests.flower.device_wire import DeviceWire, lines, rule_of

N_FIRST, N_ALL = 5, 25
SETTINGS: dict[str, Json] = {
    "out": "unused",
    "classes": 2,
    "shape": "4",
    "min-nodes": 4,
    "rounds": N_FIRST,
    "deadline": 5.0,
    "trace.window": 4,
    "trace.gap": 1,
    "training.participants": 4,
    "training.local_steps": 4,
    "training.learning_rate": 0.3,
    "coordinator.representation": "label",
    "coordinator.detector": "any-change",
    "evaluation.every": 5,
}


def deployment(**changes: Json) -> Deployment:
    return deployment_from({**SETTINGS, **{name.replace("__", "."): one for name, one in changes.items()}})[0]


def load_data(node: DeviceNode, round_index: int) -> Samples | None:
    """Return samples of two classes, and of a third one from round ``N_FIRST`` on on half of the devices."""
    first = 0 if node.since is None else node.since + 1
    if first > round_index:
        return None
    part, rounds = int(node.partition or 0), np.repeat(np.arange(first, round_index + 1), 20)
    y = np.arange(rounds.size) % 2
    y[(rounds >= N_FIRST) & (part < 2)] = 2
    x = np.eye(3, 4)[y] + np.random.default_rng([part, first]).normal(0.0, 0.1, (y.size, 4))
    x[:, 3] = 1.0
    return Samples(x, y, is_test=np.arange(y.size) % 4 == 3, rounds=rounds)


def wire_of(folder: Path, one: Deployment) -> DeviceWire:
    nodes = {at: DeviceNode(partition=at, config={}, folder=folder / f"device-{at}") for at in range(4)}
    own = OwnCode(load_data=load_data)
    return DeviceWire({900 - at: Device(node, rule_of(one), own) for at, node in nodes.items()}, with_keys=True)


def run_on(folder: Path, one: Deployment, n_rounds: int | None = None) -> dict[str, Json] | None:
    watch = (lambda _row: True) if n_rounds is None else stopped_after(n_rounds)
    return run_deployment(one, wire_of(folder, one).wire_of, folder / "out", watch=watch)


@pytest.mark.parametrize(
    "settings",
    some_of(
        [
            {},
            {"aggregation__name": "fedadam"},
            {"aggregation__shared_body": True},
            {"method__name": "global"},
            {"serving__correction": "prior"},
            {"model__name": "softmax"},
        ],
        2,
    ),
    ids=str,
)
def test_a_run_goes_on_with_a_class_more_and_learns_it(tmp_path: Path, settings: dict[str, Json]) -> None:
    assert run_on(tmp_path, deployment(**settings)) is not None
    before = load_run(newest_checkpoint(tmp_path / "out"))
    longer = deployment(classes=3, rounds=N_ALL, **settings)

    assert run_on(tmp_path, longer, N_FIRST + 1) is None  # and it is stopped, and resumed
    assert run_on(tmp_path, longer) is not None

    after, rows = load_run(newest_checkpoint(tmp_path / "out")), lines(tmp_path / "out", ROUNDS)
    assert after.client_ids == before.client_ids
    assert after.layout.size > before.layout.size
    assert [one["key"] for one in read_manifest(tmp_path / "out")["changes"]] == ["rounds", "classes"]  # type: ignore[union-attr, index, call-overload]
    assert read_manifest(tmp_path / "out")["classes"] == ["0", "1", "2"]
    assert len(rows) == N_ALL
    assert all(row["n_participants"] == 4 and not row.get("n_failed") for row in rows)
    assert float(str(rows[-1]["accuracy"])) > 0.9
    assert "cannot be drawn" not in report_page([tmp_path / "out"])


def test_what_a_model_says_of_old_classes_stays() -> None:
    small, large = (trainer_for(ModelRequest(name="mlp", input_shape=(4,), n_classes=n, hidden=8)) for n in (3, 5))
    model = np.random.default_rng(0).normal(size=small.layout.size).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    checkpoint = replace(_checkpoint(small.layout), models=model[np.newaxis])

    (grown,) = grow_classes(checkpoint, large.layout, 5).models

    scores, wider = small.features(model, x)[1], large.features(grown, x)[1]
    assert np.allclose(wider[:, :3], scores, atol=1e-5)
    assert (wider[:, 3:] == small.layout.tensors(model)[small.layout.names[-1]].min()).all()


def _checkpoint(layout: Layout) -> RunCheckpoint:
    return RunCheckpoint(
        round_index=0, time_s=0.0, method="fielding", layout=layout, models=np.empty((0, 0), dtype=np.float32),
        cluster_ids=(0,), client_ids=(), membership=np.empty(0, dtype=np.int32), values={}, arrays={}, progress={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "changed", "words"),
    [
        ({"classes": 3}, {"classes": 2}, "classes was 3, now it is 2: a class list can only grow"),
        ({"method__name": "cfl"}, {"method__name": "cfl", "classes": 3}, "the method cfl cannot take it; fielding, "),
        (
            {"coordinator__representation": "embedding"},
            {"coordinator__representation": "embedding", "classes": 3},
            "devices describe their windows by more than labels",
        ),
    ],
    ids=["fewer", "method", "representation"],
)
def test_a_class_list_that_cannot_grow_is_refused_in_one_line(
    tmp_path: Path, first: dict[str, Json], changed: dict[str, Json], words: str
) -> None:
    assert run_on(tmp_path, deployment(rounds=2, **first)) is not None
    files = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}

    with pytest.raises(InputError, match=words) as told:
        run_on(tmp_path, deployment(rounds=4, **changed))

    assert "\n" not in str(told.value)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == files


def test_a_model_of_ones_own_cannot_grow() -> None:
    with pytest.raises(InputError, match=r"the model is your own \(first_model\), and its last layer cannot grow"):
        check_growth("fielding", has_own_model=True, is_label=True)
