"""The app on a node, called as Flower calls it, without its processes."""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fielding._extras import EXTRAS
from fielding._typing import Json
from fielding.client.drift import AnyChange
from fielding.client.report_rule import label_report_rule
from fielding.errors import InputError, OptionError
from fielding.flower.device.state import run_folder
from fielding.flower.wire.messages import reply_from
from fielding.flower.wire.orders import (
    Answer,
    DescribeReply,
    EvaluateReply,
    Expected,
    Order,
    ProbeOrder,
    ProbeReply,
    TrainReply,
)
from fielding.runtime.own_code import DeviceNode, Embedded, Fitted, Job, Samples, Scored, Tensors
from tests.flower.devices import describe, evaluate, samples, train
from tests.flower.mail import instruction

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.client_app import _warn_of_number, client_app, device_node
from tests.flower.spoiling import put

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.clientapp import ClientApp

EXPECTED = Expected(n_numbers=6, kind="histogram", n_features=2)
OBSERVED: dict[str, Json] = {"classes": 2, "max_rounds": 2, "describing": label_report_rule(AnyChange()).record()}
RUN_CONFIG: dict[str, int | str] = {"own.epochs": 3}


@pytest.fixture(autouse=True)
def _with_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "flower", "flwr")


def load_data(node: DeviceNode, round_index: int) -> Samples | None:
    return samples([0, 1, 1, 0], n_test=1) if round_index == 0 and node.since is None else None


def context(node_config: Mapping[str, int | str], run_config: Mapping[str, int | str] | None = None) -> "Context":
    from flwr.app import Context, RecordDict

    return Context(
        run_id=1,
        node_id=42,
        node_config=dict(node_config),
        state=RecordDict(),
        run_config=dict(RUN_CONFIG if run_config is None else run_config),
    )


def asked(app: "ClientApp", order: Order, folder: Path) -> Answer:
    """Return what the server makes of the answer to an order."""
    message = instruction(replace(order, observe=OBSERVED))
    reply = app(message, context({"state-dir": str(folder), "partition-id": 3}))
    assert reply.metadata.reply_to_message_id == "asked"
    return reply_from(reply.content, order.verb, EXPECTED)


def test_an_app_answers_questions_about_its_samples(tmp_path: Path) -> None:
    order = ProbeOrder(run_id="run", round_index=0, seed=7, wanted="sizes")
    reply = asked(client_app(load_data=load_data), order, tmp_path)
    assert isinstance(reply, ProbeReply)
    assert reply.sizes.tolist() == [3]


def test_one_line_of_code_describes_trains_and_tests(tmp_path: Path) -> None:
    app = client_app(load_data=load_data)

    described, trained = asked(app, describe(0), tmp_path), asked(app, train(0), tmp_path)
    tested = asked(app, evaluate(0), tmp_path)

    assert isinstance(described, DescribeReply)
    assert (described.n_samples, described.partition) == (3, 3)
    assert isinstance(trained, TrainReply)
    assert trained.n_samples == 3
    assert np.abs(trained.updates.models).max() > 0
    for reply in (described, trained):
        assert reply.report is not None
        assert reply.report.number == 1
        assert reply.report.representation.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert isinstance(tested, EvaluateReply)
    assert tested.scores.n_test.tolist() == [1]


def test_the_same_message_twice_is_answered_with_the_same_bytes(tmp_path: Path) -> None:
    app = client_app(load_data=load_data)
    for order in (describe(0), train(0), train(1)):
        asked_for = replace(order, observe=OBSERVED)
        replies = [app(instruction(asked_for), context({"state-dir": str(tmp_path)})) for _ in range(2)]
        assert replies[0].content.object_id == replies[1].content.object_id


def test_a_users_own_training_code_gets_names_and_shapes(tmp_path: Path) -> None:
    shapes: dict[str, tuple[int, ...]] = {}

    def own_train(model: Tensors, own: Samples, job: Job) -> Fitted:
        shapes.update({name: array.shape for name, array in model.items()})
        model["bias"] += job.learning_rate
        return Fitted(model, len(own), loss=0.25)

    def own_evaluate(model: Tensors, own: Samples) -> Scored:
        return Scored(len(own), int(model["bias"].sum()), 1.0)

    app = client_app(load_data=load_data, train=own_train, evaluate=own_evaluate)
    trained = asked(app, train(0), tmp_path)
    assert isinstance(trained, TrainReply)
    tested = asked(app, evaluate(0, trained.updates.models[0]), tmp_path)

    assert shapes == {"weight": (2, 2), "bias": (2,)}
    assert trained.updates.models.tolist() == [[0.0] * 4 + [0.5] * 2]
    assert (trained.n_samples, trained.updates.loss.tolist()) == (3, [0.25])
    assert isinstance(tested, EvaluateReply)
    found = tested.scores
    assert (found.n_test.tolist(), found.correct.tolist(), found.loss.tolist()) == ([1], [1], [1.0])


def test_training_code_finds_its_settings_and_a_folder_that_lasts(tmp_path: Path) -> None:
    def own_train(model: Tensors, own: Samples, job: Job) -> Fitted:
        seen = job.node.folder / "seen"
        seen.write_text(f"{job.node.config['partition-id']} {job.node.config['own.epochs']} {job.node.since}")
        return Fitted(model, len(own), loss=0.25)

    app = client_app(load_data=load_data, train=own_train, evaluate=lambda *_: Scored(1, 1, 0.0))
    asked(app, train(0), tmp_path)

    assert [path.read_text() for path in tmp_path.rglob("seen")] == ["3 3 0"]


def test_what_to_observe_comes_with_the_order_and_no_run_config_counts(tmp_path: Path) -> None:
    """Of three classes and of one: the server says which there are."""
    app = client_app(load_data=load_data)
    message = instruction(replace(describe(0), observe={**OBSERVED, "classes": 3}))
    contrary: dict[str, int | str] = {"classes": 1, "coordinator.detector": "nonsense", "trace.window": 0}

    reply = app(message, context({"state-dir": str(tmp_path)}, contrary))

    got = reply_from(reply.content, "describe", replace(EXPECTED, n_features=3))
    assert isinstance(got, DescribeReply)
    assert got.report is not None
    assert got.report.representation.tolist() == pytest.approx([1 / 3, 2 / 3, 0.0])


@pytest.mark.parametrize("observe", [{}, {**OBSERVED, "colour": "red"}], ids=["nothing", "an unknown word"])
def test_an_order_that_does_not_say_what_to_observe_is_refused(observe: dict[str, Json], tmp_path: Path) -> None:
    app = client_app(load_data=load_data)
    with pytest.raises(InputError, match=r"^what to observe is not as it should be: .*; use the same release"):
        app(instruction(replace(describe(0), observe=observe)), context({"state-dir": str(tmp_path)}))
    assert list(tmp_path.iterdir()) == [], "nothing is kept of it"


def test_an_order_of_an_older_agreement_is_refused_in_one_clear_line(tmp_path: Path) -> None:
    message = instruction(replace(train(0), observe=OBSERVED))
    put("config", "fielding", 1)(message.content)
    wanted = (
        "an order follows agreement 1 but this release agreement 3, 4; install the same release of fielding on server "
        "and clients"
    )
    with pytest.raises(InputError) as told:
        client_app(load_data=load_data)(message, context({"state-dir": str(tmp_path)}))
    assert str(told.value) == wanted
    assert list(tmp_path.iterdir()) == []


def test_train_and_evaluate_come_together_and_without_a_model() -> None:
    with pytest.raises(OptionError, match="client_app has evaluate alone"):
        client_app(load_data=load_data, evaluate=lambda *_: Scored(0, 0, 0.0))
    with pytest.raises(OptionError, match="leave model out"):
        client_app(
            load_data=load_data,
            train=lambda model, *_: Fitted(model, 1, 0.0),
            evaluate=lambda *_: Scored(0, 0, 0.0),
            model=lambda **_: None,
        )
    with pytest.raises(OptionError, match="client_app has embed without train"):
        client_app(load_data=load_data, embed=lambda *_: Embedded([[0.0]], [[0.0]]))
    with pytest.raises(OptionError, match=r"train without embed.* evaluation\.metrics"):
        client_app(load_data=lambda *_: None, train=no_code, evaluate=no_code, metrics={"f1": no_code})
    with pytest.raises(OptionError, match="metrics of client_app has the name 'f 1'"):
        client_app(load_data=lambda *_: None, metrics={"f 1": no_code})


def test_state_lies_where_node_or_run_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    of_run = {"state-dir": "/of/run"}

    assert device_node(context({"state-dir": "/own", "partition-id": 1}, of_run)).folder == Path("/own")
    assert device_node(context({"partition-id": 1}, of_run)).folder == Path("/of/run/partition-1")
    assert device_node(context({}, of_run)).folder == Path("/of/run/node-42")
    assert device_node(context({}, {})).folder == tmp_path / ".fielding" / "devices" / "node-42"
    assert device_node(context({"partition-id": 1}, {"classes": 2})).config == {"partition-id": 1, "classes": 2}
    with pytest.raises(OptionError, match="partition-id of the node config is 'one'"):
        device_node(context({"partition-id": "one"}))


def test_a_state_that_lies_after_the_number_of_a_node_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    _warn_of_number.cache_clear()
    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        device_node(context({"state-dir": "/own"}))
        device_node(context({"partition-id": 1}))
        assert not caplog.records
        for _ in range(2):
            device_node(context({}, {"state-dir": "/of/run"}))

    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "state lies in /of/run/node-42, after a number that changes if the SuperLink loses its database"
    ]
    assert "name a state-dir in the node config" in caplog.text


def no_code(*_given: object) -> Any:
    """Stand for code of the user's own."""


def test_a_device_forgets_runs_that_it_heard_nothing_of(tmp_path: Path) -> None:
    app = client_app(load_data=load_data)
    asked(app, describe(0, run_id="old"), tmp_path)
    asked(app, describe(0, run_id="recent"), tmp_path)
    (tmp_path / "mine").mkdir()
    os.utime(tmp_path / "mine", (0, 0))
    old, recent = (run_folder(tmp_path, one) for one in ("old", "recent"))
    os.utime(old, (time.time() - 91 * 86400,) * 2)
    os.utime(recent, (time.time() - 89 * 86400,) * 2)
    asked(app, describe(1, run_id="new"), tmp_path)
    assert not old.exists()
    assert recent.exists()
    assert (tmp_path / "mine").exists()


def test_a_run_that_is_heard_of_is_never_old(tmp_path: Path) -> None:
    app = client_app(load_data=load_data)
    asked(app, describe(0), tmp_path)
    here = run_folder(tmp_path, "run")
    os.utime(here, (time.time() - 200 * 86400,) * 2)
    told = asked(app, describe(1, 1), tmp_path)
    assert isinstance(told, DescribeReply)
    assert told.n_samples == 3, "its samples are still there"
    assert time.time() - here.stat().st_mtime < 86400


@pytest.mark.parametrize("days", [0, -1, "long"])
def test_days_that_are_none_are_refused(days: int | str, tmp_path: Path) -> None:
    message = instruction(replace(describe(0), observe=OBSERVED))
    with pytest.raises(OptionError, match="forget-days is"):
        client_app(load_data=load_data)(message, context({"state-dir": str(tmp_path), "forget-days": days}))
