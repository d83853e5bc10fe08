"""Questions to clients: the answers of the simulator, one exchange each, and nothing from whoever is gone."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Counts, Models
from fielding.federation.ledger import Ledger
from tests.simulation.run_cases import Table, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.server.clients import FlowerClients
from fielding.flower.server.deployment import orders_of, set_up_run
from fielding.flower.server.exchange import Exchange
from fielding.flower.wire.orders import ProbeOrder
from tests.flower.device_wire import FIRST_ADDRESS, Deployed, deployed_config, deployment_of

N_CLIENTS, N_ROUNDS = 12, 8
SOME = np.array([5, 2, 5, 9])
BLOCKS = [np.array(one, dtype=np.int64) for one in ([0], [1, 2], [0, 3], [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The same clients behind both doors, in the same round, and some models."""

    deployed: Deployed
    door: FlowerClients
    models: Models

    @property
    def last_push(self) -> list[ProbeOrder]:
        return [order for _, order in self.deployed.wire.pushes[-1] if isinstance(order, ProbeOrder)]


@pytest.fixture(name="doors")
def _doors(tmp_path: Path) -> Doors:
    return doors_of({}, tmp_path)


def doors_of(sections: Table, tmp_path: Path) -> Doors:
    config = deployed_config(table(rounds=N_ROUNDS, method={"name": "feddrift"}, **sections))
    deployed = Deployed(config, tmp_path)
    deployment, simulated = deployment_of(deployed.simulation), deployed.simulation.clients
    ground = set_up_run(deployment, config, run_id="run")
    door = FlowerClients(
        Exchange(deployed.wire.wire_of(ground.expected, deployment.patience), deployment.patience),
        orders_of(ground, deployment),
        presence=deployment.presence,
        plan=simulated.windows.plan,
    )
    for round_index in range(N_ROUNDS):
        simulated.begin(round_index)
        door.begin(round_index)
    draw = deployed.simulation.trainer.initial_model
    models = np.stack([draw(1), draw(2), draw(1)])
    return Doors(deployed=deployed, door=door, models=models)


def test_intervals_are_counted_as_in_the_simulator(doors: Doors) -> None:
    assert doors.door.interval == doors.deployed.simulation.clients.interval == 3


@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["window", "blocks"])
def test_losses_and_accuracies_are_those_of_the_simulator(doors: Doors, blocks: list[Counts] | None) -> None:
    simulated, models = doors.deployed.simulation.clients, doors.models
    found, wanted = (one.losses(SOME, models, blocks=blocks) for one in (doors.door, simulated))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.isnan(found[3]).all() == (blocks is not None)  # of nothing there is no loss
    found, wanted = (one.accuracies(SOME, models, blocks=blocks) for one in (doors.door, simulated))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("correction", ["none", "prior", "predicted"])
def test_models_are_judged_as_they_would_serve(correction: str, tmp_path: Path) -> None:
    doors = doors_of({"serving": {"correction": correction}}, tmp_path)
    simulated, models = doors.deployed.simulation.clients, doors.models
    for blocks in (None, BLOCKS):
        found, wanted, plain = (
            one.losses(SOME, models, blocks=blocks, corrected=is_corrected)
            for one, is_corrected in ((doors.door, True), (simulated, True), (simulated, False))
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert np.allclose(found, plain, rtol=1e-3, equal_nan=True) == (correction == "none")
        assert {order.corrected for order in doors.last_push} == {correction != "none"}


def test_samples_are_counted_that_left_the_window_long_ago(doors: Doors) -> None:
    found = doors.door.block_sizes(SOME, BLOCKS)
    assert found.tolist() == doors.deployed.simulation.clients.block_sizes(SOME, BLOCKS).tolist()
    assert found[0] > 0  # the window shows intervals 2 and 3
    assert found[3] == 0


def test_a_question_is_one_exchange_in_which_everybody_gets_one_order_with_each_model_once(doors: Doors) -> None:
    n_before = len(doors.deployed.wire.pushes)
    doors.door.losses(SOME, doors.models, blocks=BLOCKS)
    assert len(doors.deployed.wire.pushes) == n_before + 1
    assert [order.blocks for order in doors.last_push] == [((0,), (0, 3)), ((1, 2),), ((),)]
    assert {len(order.models) for order in doors.last_push} == {2}


def test_answers_are_charged_as_probes_to_who_gave_them(doors: Doors) -> None:
    def probes(ledger: Ledger) -> list[bool]:
        return [bool(one) for one in (ledger.client_bytes_up("probe") > 0).tolist()]

    assert not any(probes(doors.door.ledger))
    doors.door.accuracies(SOME, doors.models)
    assert np.flatnonzero(probes(doors.door.ledger)).tolist() == [2, 5, 9]


def test_who_is_gone_dead_or_raises_gives_no_number(doors: Doors) -> None:
    doors.deployed.wire.dead.add(FIRST_ADDRESS + N_CLIENTS - 2)
    del doors.deployed.wire.devices[FIRST_ADDRESS + N_CLIENTS - 9]
    found = doors.door.losses(SOME, doors.models)
    assert np.isnan(found).all(axis=1).tolist() == [False, True, False, True]
    assert doors.door.block_sizes(np.array([2, 5]), BLOCKS[:2]).tolist()[0] == 0


def test_if_nobody_is_asked_nothing_is_sent(doors: Doors) -> None:
    n_before = len(doors.deployed.wire.pushes)
    nobody = np.empty(0, dtype=np.int64)
    assert doors.door.losses(nobody, doors.models).shape == (0, 3)
    assert len(doors.deployed.wire.pushes) == n_before
