"""Every method goes in a deployment as in the simulator, through the messages that Flower would carry."""

from pathlib import Path

import pytest

from fielding.flower.wire.orders import ProbeOrder, TrainOrder
from fielding.methods import METHODS
from tests.rotation import some_of
from tests.simulation.run_cases import Table, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.device_wire import Deployed, deployed_config
from tests.flower.same_runs import assert_stops_do_no_harm, deployed_as_simulated

ONLY_SIMULATED = {"oracle": "it knows the true concepts, and in life nobody does"}
"""Methods that cannot be deployed, and why."""
OPTIONS: dict[str, Table] = {
    "ifca": {"k": 3},
    "cfl": {"eps1": 1.0, "eps2": 0.0, "gamma_max": 0.0, "start_after": 2},
    "auxo": {"split": "forced", "forced_rounds": [2, 4], "min_results": 3},
    "fedac": {"clusters": 2, "rank": 2, "pca_every": 2, "tune_every": 2},
    "flexcfl": {"k": 3, "alpha": 2, "pretrain_steps": 2},
    "feddrift": {"delta": 0.05},
    "feddrift-eager": {"delta": 0.05},
}
"""Options with which methods show in a dozen rounds what they do."""
ASKED: dict[str, set[str]] = {
    "clustered-sgd": {"several jobs"},
    "fedac": {"pull"},
    "feddrift": {"block", "questions", "several jobs"},
    "feddrift-eager": {"block", "questions", "several jobs"},
    "flexcfl": {"probes"},
    "ifca": {"choices", "questions"},
}
"""What devices are asked for in these rounds beside what all are; nothing, by methods that are not named."""
VARIANTS: dict[str, Table] = {
    "guard": {"method": {"name": "fielding", "guard": True}},
    "reuse": {"method": {"name": "fielding", "reuse": 3}, "coordinator": {"tau": 0.01}},
    "ifca, drifted choose": {"method": {"name": "ifca", "k": 2, "reassess": "drifted", "init": "random"}},
    "ifca, all choose": {"method": {"name": "ifca", "k": 2, "reassess": "evaluated"}, "pace": {"name": "adaptive"}},
    "ifca, one body": {"method": {"name": "ifca", "k": 2, "init": "shared-backbone", "warm_up": 2}},
    "feddrift, sampled": {"method": {"name": "feddrift", "delta": 0.05, "participation": "sampled"}},
    "feddrift, every model": {"method": {"name": "feddrift", "delta": 0.05, "train_all": True}},
    "cfl, sampled": {"method": {"name": "cfl", **OPTIONS["cfl"], "participation": "sampled"}},
    "pyramidfl": {"selection": {"name": "pyramidfl"}, "rounds": 1},
    "pyramidfl, ifca": {"selection": {"name": "pyramidfl"}, "rounds": 1, "method": {"name": "ifca", "k": 2}},
    "fine tuning": {"serving": {"fine_tune": 3}, "training": {"balanced": True, "momentum": 0.5, "lr_decay": 0.9}},
    "one body": {"aggregation": {"shared_body": True}},
    "flexcfl, as coded": {"method": {"name": "flexcfl", **OPTIONS["flexcfl"], "detector": "original", "eta_g": 0.1}},
}


@pytest.mark.parametrize("name", some_of(sorted(METHODS.keys() - ONLY_SIMULATED.keys()), 4, always=["fielding"]))
def test_a_method_goes_in_a_deployment_as_in_the_simulator(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(method={"name": name, **OPTIONS.get(name, {})}))
    deployed = deployed_as_simulated(config, tmp_path)
    assert asked(deployed) == ASKED.get(name, set())


def asked(deployed: Deployed) -> set[str]:
    """Return what devices were asked for beside training, descriptions and tests."""
    found = {"several jobs"} if any(len({at for at, _ in push}) < len(push) for push in deployed.wire.pushes) else set()
    for order in (order for push in deployed.wire.pushes for _, order in push):
        if isinstance(order, ProbeOrder):
            found.add("questions")
        elif isinstance(order, TrainOrder):
            plan = order.plan
            wishes = {
                "probes": plan.is_probe,
                "choices": plan.chooses,
                "rates": plan.rate_factors is not None,
                "block": plan.blocks is not None,
                "pull": plan.pull is not None,
                "share": plan.upload_shares is not None,
            }
            found |= {name for name, is_asked in wishes.items() if is_asked}
    return found


@pytest.mark.parametrize("name", some_of(["fedac", "feddrift", "flexcfl", "ifca"], 1))
def test_a_run_of_it_that_is_stopped_goes_on_as_if_nothing_had_happened(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(method={"name": name, **OPTIONS[name]}))
    assert_stops_do_no_harm(config, tmp_path)


def test_so_does_training_with_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    training: Table = {"trainer": "torch", "prox": 0.3, "weight_decay": 0.01, "momentum": 0.5, "balanced": True}
    deployed_as_simulated(deployed_config(table(rounds=4, training=training)), tmp_path)


@pytest.mark.parametrize("name", some_of(VARIANTS, 3))
def test_so_do_its_options(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(**VARIANTS[name]))
    deployed_as_simulated(config, tmp_path)
