"""With a budget of questions a deployment goes as the simulator with the same budget, and a stop does no harm."""

from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.flower.wire.orders import Order
from fielding.methods import METHODS
from fielding.records.run_folder import CLIENTS, ROUNDS
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.rotation import some_of
from tests.simulation.run_cases import Table, crash_and_resume, left_behind, stop_and_resume, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.device_wire import Deployed, deployed_config, lines
from tests.flower.same_runs import assert_stops_do_no_harm, deployed_as_simulated
from tests.flower.test_methods_equal import ONLY_SIMULATED, OPTIONS

STOPPED: dict[str, Table] = {"fielding": {}, "flexcfl": OPTIONS["flexcfl"], "ifca": {"k": 2, "reassess": "drifted"}}
"""Methods that hear reports, flags alone, and reports as a reason to choose anew."""


def budgeted(budget: Json = 2, **sections: Json) -> Table:
    """Return a run in which three of twelve clients train and some of the others are asked."""
    few: Table = {"reports": {"budget": budget}, "training": {"participants": 3}, **sections}
    return table(**few)


def asked(deployed: Deployed) -> list[set[int]]:
    """Return the addresses that were asked what is new in each round."""
    return [{at for at, order in orders if order.verb == "describe"} for orders in orders_by_round(deployed)]


def orders_by_round(deployed: Deployed) -> list[list[tuple[int, Order]]]:
    """Return the orders of each round; many questions follow the models in a push of their own."""
    found: list[list[tuple[int, Order]]] = []
    for push in deployed.wire.pushes:
        verbs = {order.verb for _, order in push}
        if "train" in verbs:
            found.append(list(push))
        elif found and verbs == {"describe"}:
            found[-1] += push
    return found


@pytest.mark.parametrize("name", some_of(sorted(METHODS.keys() - ONLY_SIMULATED.keys()), 2, always=["fielding"]))
def test_a_deployment_asks_whom_the_simulator_asks(name: str, tmp_path: Path) -> None:
    config = deployed_config(budgeted(method={"name": name, **OPTIONS.get(name, {})}))
    deployed = deployed_as_simulated(config, tmp_path)
    assert all(len(one) <= 2 for one in asked(deployed))


def test_so_it_does_if_drifted_clients_choose_their_models(tmp_path: Path) -> None:
    deployed_as_simulated(deployed_config(budgeted(method={"name": "ifca", **STOPPED["ifca"]})), tmp_path)


@pytest.mark.parametrize(
    "coordinator",
    [
        {"detector": "chi2", "alpha": 0.2},
        {"representation": "embedding", "shared_model": "global", "shared_rounds": 2, "detector": "any-change"},
    ],
    ids=["chi2", "late start"],
)
def test_so_it_does_whatever_clients_report(coordinator: Table, tmp_path: Path) -> None:
    deployed_as_simulated(deployed_config(budgeted(3, rounds=16, coordinator=coordinator)), tmp_path)


def test_so_it_does_if_a_sample_of_the_clients_is_tested(tmp_path: Path) -> None:
    config = deployed_config(budgeted(evaluation={"every": 2, "clients": 5}))
    deployed = deployed_as_simulated(config, tmp_path)
    for row in lines(deployed.out, ROUNDS):
        if "accuracy" in row:
            assert (row["n_tested"], row["n_testable"]) == (5, 12)
            assert 0.0 <= float(str(row["accuracy_ci95"])) < 1.0
    tested = [line["client"] for line in lines(deployed.out, CLIENTS)]
    assert all(len(one) == 5 for one in tested if isinstance(one, list))
    assert len({str(one) for one in tested}) > 1, "each evaluation draws anew"


def test_each_client_is_asked_or_trains_within_the_bound(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(budgeted(4)), tmp_path)
    deployed.run()
    pushes = orders_by_round(deployed)
    for first in range(len(pushes) - 6):
        heard = {at for push in pushes[first : first + 6] for at, _ in push}
        assert len(heard) == 12


def test_a_budget_of_a_deployment_that_names_none_is_four_for_each_participant(tmp_path: Path) -> None:
    config = deployed_config(table(trace={"clients": 40}, training={"participants": 3}, rounds=3))
    deployed = Deployed(config, tmp_path)
    deployed.run()
    assert [len(one) for one in asked(deployed)] == [20, 20, 20]


def test_with_all_everybody_is_asked_and_waited_for(tmp_path: Path) -> None:
    config = deployed_config(table(trace={"clients": 40}, reports={"budget": "all"}, rounds=3))
    deployed = deployed_as_simulated(config, tmp_path)
    assert [len(one) for one in asked(deployed)] == [32, 32, 32]


def test_a_deployment_with_a_budget_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    assert_stops_do_no_harm(deployed_config(budgeted()), tmp_path)


LATE: Table = {"representation": "embedding", "shared_model": "global", "shared_rounds": 2, "detector": "any-change"}


WHEN: dict[str, Table] = {"plain": {}, "delayed": {"reports": "with-training"}, "late start": LATE}


@pytest.mark.parametrize(("name", "when"), some_of([(name, when) for name in STOPPED for when in WHEN], 3))
def test_a_simulation_with_a_budget_that_is_stopped_or_killed_is_the_same(name: str, when: str, tmp_path: Path) -> None:
    config = budgeted(
        method={"name": name, **STOPPED[name]}, coordinator=WHEN[when], evaluation={"every": 3, "clients": 6}
    )
    run(config, tmp_path / "whole", page=False)
    stop_and_resume(config, tmp_path / "stopped", [1, 5, 6], Own())
    crash_and_resume(config, tmp_path / "killed", [2, 7], Own())

    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert left_behind(tmp_path / "killed") == left_behind(tmp_path / "whole")
