"""Models that are delivered to a device: whole at any moment, the last few kept, told to the app until it took them."""

import errno
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.flower.device.delivered import MOST_VERSIONS, ModelInfo, versions_in
from fielding.flower.device.device import Device
from fielding.flower.device.offline import served
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.state import run_folder
from fielding.flower.wire.orders import (
    Delivery,
    DescribeOrder,
    DescribeReply,
    EvaluateReply,
    Holding,
    Order,
    TrainReply,
)
from fielding.runtime.own_code import DeviceNode, Embedded, Fitted, Samples, Scored, Tensors
from tests.flower.devices import RULE, TRAINER, WORK, Diary, describe, evaluate, samples, train

RECORD: dict[str, Json] = {
    "classes": 2,
    "max_rounds": 2,
    "describing": {
        "representation": "label",
        "of_representation": {},
        "metric": "l1",
        "detector": "any-change",
        "options": {},
    },
}


def delivering(round_index: int, value: float | None = None) -> DescribeOrder:
    """Return a question that brings a model of equal numbers."""
    value = float(round_index) if value is None else value
    delivery = Delivery(
        key=f"{int(value):x}" * 4,
        version=f"r{int(value)}-c0",
        round_index=int(value),
        cluster=0,
        metrics={"accuracy": 0.5},
        model=np.full(6, value, dtype=np.float32),
        layout=TRAINER.layout,
        work=WORK,
    )
    return replace(describe(round_index), deliver=delivery, observe=RECORD)


class App:
    """An app that writes down what it is told, and refuses some versions."""

    def __init__(self, *refused: str) -> None:
        self.told: list[ModelInfo] = []
        self.refused = set(refused)

    def on_model(self, model: Tensors, info: ModelInfo) -> None:
        self.told.append(info)
        if info.version in self.refused:
            raise ValueError("a bad\nmodel")
        assert {float(one) for array in model.values() for one in array.ravel()} == {float(info.round_index)}


def phone(folder: Path, app: App | None, data: Diary | None = None) -> Device:
    data = data or Diary({0: samples([0, 1, 1, 0], n_test=2)})
    own = OwnCode(load_data=data.load, on_model=None if app is None else app.on_model)
    return Device(DeviceNode(partition=None, config={"own.place": "attic"}, folder=folder), RULE, own)


def holding(device: Device, order: Order) -> Holding | None:
    reply = device.answer(order)
    assert isinstance(reply, (TrainReply, DescribeReply, EvaluateReply))
    return reply.holding


def test_a_device_without_use_for_models_says_nothing_of_them_and_keeps_none(tmp_path: Path) -> None:
    assert holding(phone(tmp_path, None), delivering(0)) is None
    assert not versions_in(run_folder(tmp_path, "run"))


def test_an_app_is_told_once_with_node_settings_and_metrics(tmp_path: Path) -> None:
    app = App()
    assert holding(phone(tmp_path, app), describe(0)) == Holding(key="")
    assert holding(phone(tmp_path, app), delivering(1)) == Holding(key="1111")
    assert holding(phone(tmp_path, app), describe(2)) == Holding(key="1111")

    (info,) = app.told
    assert (info.version, info.run, info.round_index, info.cluster, info.serves) == ("r1-c0", "run", 1, 0, "model")
    assert (info.metrics, info.experts, info.is_pinned) == ({"accuracy": 0.5}, {}, False)
    assert info.node.config["own.place"] == "attic"
    assert info.node.folder == run_folder(tmp_path, "run")


def test_the_model_of_a_test_or_of_training_may_be_the_version(tmp_path: Path) -> None:
    app = App()
    bare = replace(delivering(2).deliver or Delivery(key="", version="", round_index=0, cluster=0), model=None)
    test = replace(evaluate(2, np.full(6, 2, dtype=np.float32)), deliver=bare)
    job = replace(train(3, model=np.full(6, 2, dtype=np.float32)), deliver=replace(bare, key="77"))
    assert holding(phone(tmp_path, app), test) == Holding(key="2222")
    assert holding(phone(tmp_path, app), job) == Holding(key="77")
    assert [info.version for info in app.told] == ["r2-c0", "r2-c0"]


def test_a_version_that_the_app_refuses_is_not_served_nor_sent_nor_told_again(tmp_path: Path) -> None:
    app = App("r2-c0")
    assert holding(phone(tmp_path, app), delivering(1)) == Holding(key="1111")
    assert holding(phone(tmp_path, app), delivering(2)) == Holding(key="2222", trouble="ValueError: a bad model")
    assert served(tmp_path).info.version == "r1-c0"
    assert holding(phone(tmp_path, app), describe(3)) == Holding(key="2222")
    assert [info.version for info in app.told] == ["r1-c0", "r2-c0"]
    assert holding(phone(tmp_path, app), delivering(4)) == Holding(key="4444")
    assert served(tmp_path).info.version == "r4-c0"


def test_an_app_that_was_killed_while_it_was_told_is_told_again(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(_model: Tensors, _info: ModelInfo) -> None:
        raise Killed

    data = Diary({0: samples([0, 1])})
    dying = Device(
        DeviceNode(partition=None, config={}, folder=tmp_path), RULE, OwnCode(load_data=data.load, on_model=die)
    )
    with pytest.raises(Killed):
        dying.answer(delivering(1))
    with pytest.raises(InputError, match="no model serves"):
        served(tmp_path)
    app = App()
    assert holding(phone(tmp_path, app), describe(2)) == Holding(key="1111")
    assert [info.version for info in app.told] == ["r1-c0"]


def test_the_last_few_are_kept_and_a_roll_back_brings_an_old_one_again(tmp_path: Path) -> None:
    app = App()
    for at in range(1, 7):
        phone(tmp_path, app).answer(delivering(at))
    assert served(tmp_path).versions == ("r6-c0", "r5-c0", "r4-c0")
    assert len(versions_in(run_folder(tmp_path, "run"))) == MOST_VERSIONS
    assert float(next(iter(served(tmp_path, version="r4-c0").model.values())).max()) == 4.0
    with pytest.raises(InputError, match=r"no version 'r1-c0' in .*; there are r6-c0, r5-c0, r4-c0"):
        served(tmp_path, version="r1-c0")
    phone(tmp_path, app).answer(delivering(7, 3.0))
    assert served(tmp_path).info.version == "r3-c0"


def test_an_order_of_an_earlier_round_changes_nothing(tmp_path: Path) -> None:
    app = App()
    phone(tmp_path, app).answer(delivering(5))
    assert holding(phone(tmp_path, app), delivering(4)) == Holding(key="5555")
    assert served(tmp_path).info.version == "r5-c0"


def test_a_damaged_version_is_asked_for_again(tmp_path: Path) -> None:
    app = App()
    phone(tmp_path, app).answer(delivering(1))
    (path,) = versions_in(run_folder(tmp_path, "run"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="no model serves"):
        served(tmp_path)
    assert holding(phone(tmp_path, app), describe(2)) == Holding(key="")
    assert holding(phone(tmp_path, app), delivering(3, 1.0)) == Holding(key="1111")
    assert served(tmp_path).info.version == "r1-c0"


def test_what_a_device_has_and_cannot_read_now_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone(tmp_path, App()).answer(delivering(1))

    def fail(_path: Path) -> bytes:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", fail)
        with pytest.raises(InputError, match="it is kept, ask again later"):
            phone(tmp_path, App()).answer(delivering(2))

    assert served(tmp_path).info.version == "r1-c0"


def test_a_folder_without_models_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model was delivered to"):
        served(tmp_path)


def test_of_several_runs_the_last_one_serves_unless_one_is_named(tmp_path: Path) -> None:
    app = App()
    phone(tmp_path, app).answer(delivering(1))
    os.utime(run_folder(tmp_path, "run") / "serving.json", ns=(0, 0))
    phone(tmp_path, app).answer(replace(delivering(2), run_id="other"))
    assert served(tmp_path).info.run == "other"
    assert served(tmp_path, run="run").info.version == "r1-c0"
    assert served(run_folder(tmp_path, "run")).info.run == "run"


def test_a_model_of_the_apps_own_training_predicts_with_embed(tmp_path: Path) -> None:
    def fit(model: Tensors, own: Samples, _job: object) -> Fitted:
        return Fitted(model, len(own), 0.0)

    def score(_model: Tensors, own: Samples) -> Scored:
        return Scored(len(own), 0, 0.0)

    def embed(_model: Tensors, own: Samples) -> Embedded:
        x = np.asarray(own.x)
        return Embedded(x, x)

    own = OwnCode(
        load_data=Diary({0: samples([0, 1])}).load,
        train=fit,
        evaluate=score,
        embed=embed,
        on_model=lambda _model, _info: None,
    )
    Device(DeviceNode(partition=None, config={}, folder=tmp_path), RULE, own).answer(delivering(1))
    x = np.array([[0.0, 1.0], [2.0, 1.0]])
    assert served(tmp_path, embed=embed).predict(x).tolist() == [1, 0]
    with pytest.raises(InputError, match="give embed"):
        served(tmp_path).predict(x)


def test_samples_of_another_shape_are_refused_and_none_give_none(tmp_path: Path) -> None:
    phone(tmp_path, App()).answer(delivering(0))
    with pytest.raises(InputError, match=r"samples have shape \(3,\); those of this device have \(2,\)"):
        served(tmp_path).predict(np.zeros((1, 3)))
    assert served(tmp_path).predict(np.empty((0, 2))).shape == (0,)


LOOP = """
import sys, os
sys.path[:0] = {path!r}
from pathlib import Path
from tests.flower.device.test_delivered import App, delivering, phone
for at in range(1, 10**6):
    phone(Path({folder!r}), App()).answer(delivering(at))
    print(at, flush=True)
"""


def test_whoever_reads_while_a_device_is_killed_finds_a_whole_version(tmp_path: Path) -> None:
    """Kill -9 at any moment: the model is that of the version that it is said to be, old or new."""
    seen: set[str] = set()
    for _ in range(2):
        code = LOOP.format(path=sys.path, folder=str(tmp_path / f"phone-{len(seen)}"))
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.strip() == "1"
            folder, end = tmp_path / f"phone-{len(seen)}", time.monotonic() + 0.5
            while time.monotonic() < end:
                seen.add(_whole(folder))
            process.kill()
        seen.add(_whole(folder))
    assert len(seen) > 2


def _whole(folder: Path) -> str:
    """Return the version that serves, or fail if it is not whole."""
    here = served(folder)
    assert {float(one) for array in here.model.values() for one in array.ravel()} == {float(here.info.round_index)}
    return here.info.version
