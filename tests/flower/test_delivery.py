"""Models reach devices: versions, what is sent to whom, pins, and predictions off-line that equal the tests."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.engine.runner import Watch
from fielding.records.run_checkpoint import LEDGER, load_run
from fielding.records.run_folder import CLIENTS, ROUNDS, newest_checkpoint
from fielding.records.versions import ModelVersions
from fielding.runtime.own_code import Tensors
from tests.rotation import some_of
from tests.simulation.run_cases import Table, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower import served
from fielding.flower.device.delivered import ModelInfo
from fielding.flower.wire.orders import Delivery, ProbeOrder
from tests.flower.device_wire import FIRST_ADDRESS, Deployed, deployed_config, lines

N_CLIENTS = 12


class Diary:
    """Writes down what devices are told of their models."""

    def __init__(self) -> None:
        self.told: dict[int, list[ModelInfo]] = {at: [] for at in range(N_CLIENTS)}

    def on_model(self, model: Tensors, info: ModelInfo) -> None:
        assert all(np.isfinite(one).all() for one in model.values())
        assert info.node.partition is not None
        self.told[info.node.partition].append(info)

    def versions(self, client: int) -> list[str]:
        return [info.version for info in self.told[client]]


def deploy(folder: Path, diary: Diary, *, with_keys: Json = False, **sections: Json) -> Deployed:
    return Deployed(deployed_config(table(**sections)), folder, with_keys=with_keys is True, on_model=diary.on_model)


def until(round_index: int) -> Watch:
    """Return what stops a run after a round."""
    return lambda row: int(str(row["round"])) < round_index


def deliveries(deployed: Deployed) -> list[tuple[int, int, Delivery]]:
    """Return push, client and delivery of all orders that brought one."""
    return [
        (at, FIRST_ADDRESS + N_CLIENTS - address, order.deliver)
        for at, push in enumerate(deployed.wire.pushes)
        for address, order in push
        if not isinstance(order, ProbeOrder) and order.deliver is not None
    ]


def test_every_device_gets_the_version_of_its_cluster_with_the_tests_and_no_bytes_travel_twice(tmp_path: Path) -> None:
    diary = Diary()
    deployed = deploy(tmp_path, diary)
    assert deployed.run() is not None

    end = load_run(newest_checkpoint(deployed.out))
    for client in range(N_CLIENTS):
        cluster = end.cluster_ids[int(end.membership[end.client_ids.index(client)])]
        assert diary.versions(client)[-1] == f"r11-c{cluster}"
        assert served(tmp_path / f"device-{client}").info.version == f"r11-c{cluster}"
    tests = [one for _, _, one in deliveries(deployed) if one.round_index == 11]
    assert len(tests) == N_CLIENTS
    assert not any(one.n_bytes for one in tests), "they are the models that are tested"
    twice = Counter((client, one.key) for _, client, one in deliveries(deployed))
    assert set(twice.values()) == {1}, "what a device has is not sent again"


def test_all_that_devices_hold_costs_no_push_and_changes_no_decision(tmp_path: Path) -> None:
    with_models = deploy(tmp_path / "with", Diary())
    without = Deployed(deployed_config(table()), tmp_path / "without")
    assert with_models.run() is not None
    assert without.run() is not None

    assert len(with_models.wire.pushes) == len(without.wire.pushes)
    rows = [
        [
            {name: row.get(name) for name in ("n_clusters", "n_moved", "n_asked", "accuracy")}
            for row in lines(out, ROUNDS)
        ]
        for out in (with_models.out, without.out)
    ]
    assert rows[0] == rows[1]


def test_a_device_that_was_away_gets_the_newest_with_the_first_contact(tmp_path: Path) -> None:
    """It holds a version of the start; in between the rounds of four evaluations went by."""
    diary = Diary()
    sections: Table = {"rounds": 20, "reports": {"budget": 4}, "training": {"participants": 3}}
    deployed = deploy(tmp_path, diary, with_keys=True, **sections)
    away = FIRST_ADDRESS + N_CLIENTS - 5

    def watch(row: Mapping[str, Json]) -> bool:
        deployed.wire.hidden = {away} if int(str(row["round"])) < 16 else set()
        return True

    assert deployed.run(watch=watch) is not None
    pushed = [order for push in deployed.wire.pushes for address, order in push if address == away]
    first = next(order for order in pushed if order.round_index > 15)
    assert not isinstance(first, ProbeOrder)
    assert first.deliver is not None
    assert first.deliver.round_index == 15
    assert [info.round_index for info in diary.told[5]][:2] == [0, 15]
    assert diary.told[5][1].metrics.keys() >= {"accuracy", "test_loss"}


def test_a_budget_spreads_models_over_rounds_and_the_oldest_come_first(tmp_path: Path) -> None:
    diary = Diary()
    deployed = deploy(tmp_path, diary, rounds=9, evaluation={"every": 4, "clients": 1}, training={"participants": 2})
    assert deployed.run(deliveries=2) is not None

    sent = Counter(at for at, _, one in deliveries(deployed) if one.n_bytes)
    assert max(sent.values()) == 2
    heard = {client for _, client, _ in deliveries(deployed)}
    assert len(heard) == N_CLIENTS, "in nine rounds everybody had its turn"


def test_methods_that_ask_nobody_deliver_all_the_same(tmp_path: Path) -> None:
    diary = Diary()
    deployed = deploy(
        tmp_path,
        diary,
        method={"name": "global"},
        training={"participants": 2},
        evaluation={"every": 100, "clients": 1},
    )
    assert deployed.run(deliveries=3) is not None
    assert all(diary.versions(client) for client in range(N_CLIENTS))


def test_what_travels_is_charged_as_models(tmp_path: Path) -> None:
    few: Table = {"training": {"participants": 2}, "evaluation": {"every": 100, "clients": 1}}
    deployed = deploy(tmp_path, Diary(), **few)
    assert deployed.run(deliveries=2) is not None

    sent = [(client, one.n_bytes) for _, client, one in deliveries(deployed) if one.n_bytes]
    rows = lines(deployed.out, ROUNDS)
    assert sum(int(str(row.get("delivered_bytes", 0))) for row in rows) == sum(one for _, one in sent) > 0
    end = load_run(newest_checkpoint(deployed.out))
    ledger = dict(zip(end.client_ids, end.arrays[f"{LEDGER}model.down_bytes"].tolist(), strict=True))
    assert all(ledger[client] >= one for client, one in sent)


def test_a_pin_is_obeyed_by_what_is_delivered_and_not_by_training_and_survives_a_restart(tmp_path: Path) -> None:
    diary, plain = Diary(), Deployed(deployed_config(table()), tmp_path / "plain")
    deployed = deploy(tmp_path, diary)
    assert plain.run() is not None
    assert deployed.run(watch=until(5)) is None
    versions = ModelVersions(deployed.out)
    first = versions.releases()[0][0]
    versions.pin(("client", "3"), first.name, by="ann")
    deployed.restarted()
    assert deployed.run() is not None

    assert diary.versions(3)[-1] == first.name
    assert diary.told[3][-1].is_pinned
    assert diary.versions(4)[-1].startswith("r11-")
    assert [(line["by"], line["version"]) for line in versions.pin_lines()] == [("ann", first.name)]
    trained = [load_run(newest_checkpoint(out)).models for out in (deployed.out, plain.out)]
    np.testing.assert_array_equal(trained[0], trained[1])
    held = served(tmp_path / "device-3").model
    kept = versions.models([first], load_run(newest_checkpoint(deployed.out)).layout)[0]
    np.testing.assert_array_equal(np.concatenate([one.ravel() for one in held.values()]), kept)


def test_a_cluster_is_pinned_and_let_go_again(tmp_path: Path) -> None:
    diary = Diary()
    deployed = deploy(tmp_path, diary, method={"name": "global"})
    assert deployed.run(watch=until(4)) is None
    versions = ModelVersions(deployed.out)
    versions.pin(("cluster", "0"), "r0-c0")
    deployed.restarted()
    assert deployed.run(watch=until(8)) is None
    assert {diary.versions(client)[-1] for client in range(N_CLIENTS)} == {"r0-c0"}
    versions.pin(("cluster", "0"), None)
    deployed.restarted()
    assert deployed.run() is not None
    assert {diary.versions(client)[-1] for client in range(N_CLIENTS)} == {"r11-c0"}


def test_a_server_that_is_restarted_sends_nobody_what_it_holds(tmp_path: Path) -> None:
    deployed = deploy(tmp_path, Diary())
    assert deployed.run(watch=until(3)) is None
    before = {(client, one.key) for _, client, one in deliveries(deployed)}
    deployed.restarted()
    assert deployed.run(watch=until(5)) is None
    after = {(client, one.key) for _, client, one in deliveries(deployed)}
    assert before
    assert not before & after


SERVED: dict[str, Table] = {
    "model": {},
    "corrected": {"serving": {"correction": "prior"}},
    "experts": {"serving": {"experts": "auto"}, "trace": {"samples": 30}},
    "one body": {"serving": {"experts": "auto"}, "aggregation": {"shared_body": True}, "trace": {"samples": 30}},
}


@pytest.mark.parametrize("name", some_of(SERVED, 1, always=["one body"]))
def test_what_a_device_predicts_alone_is_what_its_tests_scored(name: str, tmp_path: Path) -> None:
    diary = Diary()
    deployed = deploy(tmp_path, diary, **SERVED[name])
    assert deployed.run() is not None

    last = lines(deployed.out, CLIENTS)[-1]
    scored = {"model": "correct", "corrected": "corrected"}.get(name, "served")
    windows = deployed.simulation.clients.windows
    for at, client in enumerate(last["client"]):  # type: ignore[arg-type]
        rows, _ = windows.testing(11).of(np.array([client]))
        x, y = windows.gather(rows)
        here = served(tmp_path / f"device-{client}")
        assert here.info.serves == ("experts" if scored == "served" else name)
        assert int((here.predict(x) == y).sum()) == last[scored][at]  # type: ignore[index]
        shares = here.predict(x, proba=True)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        if scored == "served":
            assert here.info.experts == diary.told[int(str(client))][-1].experts != {}
