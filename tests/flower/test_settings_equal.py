"""Whatever a config has devices do, and keep, beside plain training goes in a deployment as in the simulator."""

from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.config.presets import PRESETS
from fielding.flower.server.deployment import check_deployable
from fielding.flower.server.deployment import deployed_config as as_deployed
from fielding.flower.wire.orders import Order, ProbeOrder, Reply
from fielding.records.container import read_contents
from tests.rotation import some_of
from tests.simulation.run_cases import Table, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.device import Device
from fielding.flower.device.state import MEMORY, TRAINED
from tests.flower.device_wire import Deployed, deployed_config
from tests.flower.same_runs import assert_same_runs, assert_stops_do_no_harm, deployed_as_simulated

MANY: dict[str, Json] = {"samples": 30}
"""Samples enough for a look at what is new."""
SERVING: dict[str, Table] = {
    "by labels": {"serving": {"correction": "prior"}},
    "by labels, a number": {"serving": {"correction": "prior", "smoothing": 2.0, "mix_rate": 0.7}},
    "by predictions": {"serving": {"correction": "predicted"}},
    "by predictions, a number": {"serving": {"correction": "predicted", "smoothing": 3.0}},
    "and tuned": {"serving": {"correction": "prior", "fine_tune": 3}},
    "balanced": {"serving": {"correction": "prior", "fine_tune": 2}, "training": {"balanced": True}},
    "one body": {"serving": {"correction": "prior"}, "aggregation": {"shared_body": True}},
    "experts": {"serving": {"experts": "auto"}, "evaluation": {"every": 1}, "trace": MANY, "rounds": 8},
    "experts and one body": {
        "serving": {"experts": "auto"},
        "aggregation": {"shared_body": True},
        "evaluation": {"every": 1},
        "trace": MANY,
        "rounds": 8,
    },
    "ifca": {"serving": {"correction": "prior"}, "method": {"name": "ifca", "k": 2}},
    "fedac": {"serving": {"correction": "prior"}, "method": {"name": "fedac", "clusters": 2, "rank": 2}},
    "drift by errors": {
        "serving": {"correction": "prior"},
        "coordinator": {"representation": "label-sqrt", "detector": "error-rate", "alpha": 0.9, "least": 2},
        "evaluation": {"every": 1},
        "trace": MANY,
    },
    "guarded": {"serving": {"correction": "prior"}, "method": {"name": "fielding", "guard": True}},
    "guarded by predictions": {
        "serving": {"correction": "predicted"},
        "method": {"name": "fielding", "guard": True},
    },
    "guarded alone": {"method": {"name": "fielding", "guard": True}},
}
KEEPING: dict[str, Table] = {
    "moon": {"training": {"moon": 1.0}},
    "moon, sharper": {"training": {"moon": 2.0, "moon_temperature": 0.1, "local_steps": 4}},
    "moon, corrected": {"training": {"moon": 1.0}, "serving": {"correction": "prior"}},
    "moon, several jobs": {"training": {"moon": 1.0}, "method": {"name": "feddrift", "delta": 0.05}},
    "moon, probes": {"training": {"moon": 1.0}, "method": {"name": "flexcfl", "k": 3, "alpha": 2, "pretrain_steps": 2}},
    "moon, parts": {"training": {"moon": 1.0}, "selection": {"name": "pyramidfl"}, "rounds": 1},
    "rehearsal": {"training": {"rehearsal": True, "participants": 12}, "trace": MANY},
    "rehearsal, losses": {"training": {"rehearsal": True}, "trace": MANY, "aggregation": {"name": "q-fedavg"}},
    "rehearsal, balanced": {"training": {"rehearsal": True, "balanced": True}, "trace": MANY},
    "rehearsal, choices": {"training": {"rehearsal": True}, "trace": MANY, "method": {"name": "ifca", "k": 2}},
    "blocks, no rehearsal": {"training": {"rehearsal": True}, "trace": MANY, "method": {"name": "feddrift"}},
    "both": {"training": {"rehearsal": True, "moon": 0.5}, "trace": MANY, "serving": {"correction": "prior"}},
}


@pytest.mark.parametrize("name", some_of(SERVING, 3))
def test_models_serve_devices_as_they_do_clients(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(**SERVING[name]))
    deployed_as_simulated(config, tmp_path)


def asked(deployed: Deployed) -> list[ProbeOrder]:
    return [order for push in deployed.wire.pushes for _, order in push if isinstance(order, ProbeOrder)]


@pytest.mark.parametrize("is_corrected", [False, True])
def test_a_guard_asks_about_the_newest_samples_as_clients_correct(is_corrected: bool, tmp_path: Path) -> None:
    sections: Table = {"serving": {"correction": "prior"}} if is_corrected else {}
    deployed = Deployed(deployed_config(table(method={"name": "fielding", "guard": True}, **sections)), tmp_path)
    assert deployed.run() is not None
    assert {order.corrected for order in asked(deployed)} == {is_corrected}
    assert all(order.blocks != (None,) for order in asked(deployed))
    assert len({order.round_index for order in asked(deployed)}) == sum(  # one exchange each time
        any(isinstance(order, ProbeOrder) for _, order in push) for push in deployed.wire.pushes
    )


@pytest.mark.parametrize(
    ("preset", "representation"),
    some_of(
        [(None, "label"), (None, "auto"), ("paper", "label"), ("paper", "auto"), ("auto", "auto"), ("auto", "label")], 2
    ),
)
def test_every_preset_runs_as_it_is_written(preset: str | None, representation: str, tmp_path: Path) -> None:
    """Everybody is tested in every round, so that all know the model that serves them."""
    assert preset is None or preset in PRESETS
    written: Table = {} if preset is None else {"preset": preset}
    written |= table(rounds=10, evaluation={"every": 1})
    written["trace"] = {"scenario": "mixed", "share": 0.3, "samples": 40, "gap": 2, "window": 4, "clients": 6}
    written["coordinator"] = {"representation": representation, "reports": "with-training"}
    written["clock"] = {"overcommit": 1.0}
    written["training"] = {"participants": 4, "local_steps": 2, "batch_size": 5}
    config = as_deployed(written)
    check_deployable(config)
    deployed = deployed_as_simulated(config, tmp_path)
    assert any(order.corrected for order in asked(deployed)) == (representation == "auto")


@pytest.mark.parametrize(
    "name", some_of(["guarded by predictions", "experts and one body", "moon, several jobs", "both"], 1)
)
@pytest.mark.usefixtures("easily_alarmed")
def test_a_run_that_is_stopped_goes_on_as_if_nothing_had_happened(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(**{**SERVING, **KEEPING}[name]))
    assert_stops_do_no_harm(config, tmp_path)


@pytest.mark.parametrize("name", some_of(["moon, several jobs", "both"], 1))
@pytest.mark.usefixtures("easily_alarmed")
def test_a_device_that_does_everything_twice_ends_where_it_would_have(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is lost each time, and what it trained with it."""
    config = deployed_config(table(**KEEPING[name]))
    once, twice = Deployed(config, tmp_path / "once"), Deployed(config, tmp_path / "twice")
    assert once.run() is not None
    answer = Device.answer

    def again(self: Device, order: Order) -> Reply:
        answer(self, order)
        for path in tmp_path.glob(f"twice/device-*/*/{TRAINED}"):
            path.unlink()
        return answer(self, order)

    monkeypatch.setattr(Device, "answer", again)
    assert twice.run() is not None
    assert_same_runs(twice.out, once.out)


@pytest.fixture(name="easily_alarmed")
def _easily_alarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients remember in a dozen rounds what would take more."""
    monkeypatch.setattr("fielding.client.rehearsal.SLACK", -1.0)
    monkeypatch.setattr("fielding.client.rehearsal.THRESHOLD", 1.0)
    monkeypatch.setattr("fielding.client.rehearsal.PER_LABEL", 2)


@pytest.mark.parametrize("name", some_of(KEEPING, 2, always=["both"]))
@pytest.mark.usefixtures("easily_alarmed")
def test_devices_keep_what_clients_do(name: str, tmp_path: Path) -> None:
    config = deployed_config(table(**KEEPING[name]))
    deployed_as_simulated(config, tmp_path)
    assert kept(tmp_path, MEMORY, "now") == ("moon" in name or name == "both")
    assert kept(tmp_path, MEMORY, "rehearsal.memory_row") == (name == "both" or name.startswith("rehearsal"))


def kept(folder: Path, name: str, array: str) -> bool:
    """Return whether some device keeps something of a name."""
    found = [read_contents(path).arrays.get(array) for path in folder.glob(f"device-*/*/{name}")]
    return any(one is not None and one.size for one in found)
