"""Devices see their samples with models as the simulator's clients do: the same reports, clusters and events."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.engine.report_rule import report_rule_of
from fielding.engine.runner import under
from fielding.errors import InputError, OptionError
from fielding.federation.ledger import Ledger
from fielding.records.model_file import write_model
from fielding.records.run_checkpoint import LEDGER, load_run
from fielding.records.run_folder import EVENTS, MEMBERSHIPS, ROUNDS, newest_checkpoint, read_manifest, read_run_reports
from fielding.simulation.experiment import run
from fielding.training.factory import ModelRequest, trainer_for
from tests.rotation import some_of
from tests.simulation.run_cases import table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.state import SHARED, run_folder, write_state
from fielding.flower.wire.orders import DescribeOrder, Order, SharedView, TrainOrder, digest_of
from fielding.runtime.own_code import Embedded, Fitted, Job, Samples, Scored, Tensors
from tests.flower.device_wire import FIRST_ADDRESS, Deployed, accuracies, decisions, lines
from tests.flower.devices import WORK

N_CLIENTS, N_ROUNDS, SHARED_ROUNDS = 6, 7, 2
TRACE: dict[str, Json] = {
    "scenario": "mixed",
    "share": 0.3,
    "samples": 40,
    "gap": 2,
    "window": 4,
    "clients": N_CLIENTS,
}
"""Labels, looks and meanings drift in rounds 2, 4 and 6."""
TRAINER = trainer_for(ModelRequest(name="mlp", hidden=8, input_shape=(8, 8), n_classes=10, trainer="numpy"))
EMBEDDING: dict[str, Json] = {"representation": "embedding", "detector": "ks", "alpha": 0.2}
CASES: dict[str, dict[str, Json]] = {
    "auto": {"representation": "auto", "alpha": 0.3},
    "embedding by ks": EMBEDDING,
    "embedding by the clock": {"representation": "embedding", "detector": "periodic", "rounds": 2},
    "residuals": {"representation": "residual-embedding", "alpha": 0.2},
    "last layer by mmd": {"representation": "gradient", "detector": "mmd", "alpha": 0.2},
    "all layers": {"representation": "gradient", "layer": "full", "least": 5, "alpha": 0.2},
    "head by class": {"representation": "head-gradient", "detector": "class-shift", "alpha": 0.2},
    "directions": {"representation": "class-directions", "alpha": 0.2},
    "confusion": {"representation": "confusion", "detector": "confusion", "alpha": 0.2},
    "class means": {"representation": "class-means", "detector": "any-change"},
    "predictions": {"representation": "predictions", "detector": "bbsd", "alpha": 0.2},
    "loss": {"representation": "loss", "detector": "threshold", "eps": 0.1},
    "two of them": {"representation": "soft-confusion+class-means", "detector": "bbsd", "alpha": 0.2},
    "labels by kind": {"representation": "label", "detector": "by-kind", "alpha": 0.2},
    "labels by looks": {"representation": "label", "detector": "joint", "alpha": 0.2},
}
BY_ERRORS: dict[str, dict[str, Json]] = {
    "roots by errors": {"representation": "label-sqrt", "detector": "error-rate", "alpha": 0.9},
    "labels by adwin": {"representation": "label", "detector": "adwin", "delta": 1.0},
}


@pytest.fixture(name="model_file", scope="module")
def _model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "shared.safetensors"
    write_model(TRAINER.initial_model(3), TRAINER.layout, path)
    return path


GLOBAL: dict[str, Json] = {"shared_model": "global", "shared_rounds": SHARED_ROUNDS}


def config_of(coordinator: Mapping[str, Json], shared: Mapping[str, Json], **sections: Json) -> Config:
    """Return a short run in which everybody is tested in every round, so that all know the model that serves them."""
    keys = {name: value for name, value in coordinator.items() if name in ("representation", "detector")}
    base: dict[str, Json] = {
        "coordinator": {"detector": None, "reports": "with-training", **keys, **shared},
        "trace": TRACE,
        "training": {"participants": 4},
        "evaluation": {"every": 1},
        "clock": {"overcommit": 1.0},
        "serving": {"correction": "none"},
        **sections,
    }
    config = config_from(table(rounds=N_ROUNDS, **base))
    options = {name: value for name, value in coordinator.items() if name not in keys}
    return replace(config, coordinator=replace(config.coordinator, options=options))


def events(folder: Path) -> list[tuple[dict[str, Json], Json]]:
    """Return what the coordinator decided in every round, and the kinds of drift that it heard of."""
    return list(zip(decisions(folder), [line.get("kinds") for line in lines(folder, EVENTS)], strict=True))


def assert_same_run(folder: Path, simulated: Path, config: Config) -> None:
    """Raise if reports, events, memberships or accuracies differ."""
    kind = report_rule_of(config.coordinator, is_own=False, seed=config.seed).kind
    assert events(folder) == events(simulated)
    assert lines(folder, MEMBERSHIPS) == lines(simulated, MEMBERSHIPS)
    for (now, ours), (then, theirs) in zip(
        read_run_reports(folder, kind), read_run_reports(simulated, kind), strict=True
    ):
        assert (now, list(ours.client_ids)) == (then, list(theirs.client_ids))
        np.testing.assert_allclose(ours.representations, theirs.representations, rtol=0, atol=1e-5)
    assert accuracies(folder) == pytest.approx(accuracies(simulated), abs=1e-6)


def n_reports(folder: Path) -> list[int]:
    return [int(str(line["n_reports"])) for line in lines(folder, ROUNDS)]


def orders_to(deployed: Deployed, client: int) -> list[Order]:
    address = FIRST_ADDRESS + N_CLIENTS - client
    return [order for push in deployed.wire.pushes for at, order in push if at == address]


def brought(orders: list[Order]) -> list[tuple[int, bool, bool]]:
    """Return the round of orders that bring something, and whether it is the model, and the reference."""
    views = [(one.round_index, one.shared) for one in orders if isinstance(one, (TrainOrder, DescribeOrder))]
    return [
        (at, view.model is not None, view.reference is not None)
        for at, view in views
        if view is not None and not view.is_bare
    ]


# ---- simulator = deployment ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", some_of(CASES, 3, always=["auto"]))
def test_windows_are_seen_with_the_mean_of_all_models(name: str, tmp_path: Path) -> None:
    config = config_of(CASES[name], GLOBAL)
    run(config, tmp_path / "simulated", page=False)

    deployed = Deployed(config, tmp_path)
    deployed.run()

    assert_same_run(deployed.out, tmp_path / "simulated", config)
    reports = n_reports(deployed.out)
    # Frozen after round 1, sent with the orders of round 2, and what it shows acts in round 3.
    assert (reports[:3], reports[3]) == ([0, 0, 0], N_CLIENTS)
    assert sum(reports[4:]) > 0
    # One push for a round, one for its test; auto also asks about models that it thinks of.
    assert len(deployed.wire.pushes) == 1 + 2 * N_ROUNDS or name == "auto"


@pytest.mark.parametrize("name", some_of(["auto", "embedding by ks", "class means", "two of them"], 1))
def test_windows_are_seen_with_a_model_of_a_file_from_the_start(name: str, tmp_path: Path, model_file: Path) -> None:
    config = config_of(CASES[name], {"shared_model": str(model_file)})
    run(config, tmp_path / "simulated", page=False)

    deployed = Deployed(config, tmp_path)
    deployed.run()

    assert_same_run(deployed.out, tmp_path / "simulated", config)
    reports = n_reports(deployed.out)
    assert reports[0] == N_CLIENTS
    assert sum(reports[1:]) > 0


@pytest.mark.parametrize("name", BY_ERRORS)
def test_drift_shows_in_the_errors_of_served_models_without_any_shared_one(name: str, tmp_path: Path) -> None:
    if "adwin" in name and find_spec("river") is None:
        pytest.skip("river is not installed: pip install 'fielding[drift]'")
    config = config_of(BY_ERRORS[name], {})
    run(config, tmp_path / "simulated", page=False)

    deployed = Deployed(config, tmp_path)
    deployed.run()

    assert_same_run(deployed.out, tmp_path / "simulated", config)
    assert brought(orders_to(deployed, 0)) == []
    assert "errors" not in name or sum(n_reports(deployed.out)[1:]) > 0


# ---- who is sent what ------------------------------------------------------------------------------------------------


def test_everybody_is_sent_the_model_once_and_what_it_is_compared_with_once(tmp_path: Path) -> None:
    deployed = Deployed(config_of(EMBEDDING, GLOBAL), tmp_path)
    deployed.run()

    for client in range(N_CLIENTS):
        assert brought(orders_to(deployed, client)) == [(2, True, False), (3, False, True)]


def test_what_is_sent_of_the_shared_model_is_charged_as_a_report(tmp_path: Path) -> None:
    deployed, plain = (
        Deployed(config_of(case, shared), tmp_path / name)
        for name, case, shared in (("seen", EMBEDDING, GLOBAL), ("plain", {"representation": "label"}, {}))
    )
    deployed.run()
    plain.run()

    def down(folder: Path) -> tuple[int, int]:
        ledger = load_run(newest_checkpoint(folder)).arrays
        found = Ledger.restored(under(LEDGER, ledger))
        return tuple(int(found.client_bytes_down(name).sum()) for name in ("model", "report"))  # type: ignore[return-value]

    n_sums = 8 + 2  # features of the hidden layer, number and squares
    (model, report), (usual_model, usual_report) = down(deployed.out), down(plain.out)
    assert report - usual_report >= N_CLIENTS * (4 * TRAINER.layout.size + 8 * n_sums)
    # Words about it, and about what to observe, in 28 orders; but not the model, which four of them bring.
    assert abs(model - usual_model) < 28 * 120 < 4 * 4 * TRAINER.layout.size


def test_a_joiner_is_sent_all_of_it_and_reports_at_once(tmp_path: Path) -> None:
    deployed = Deployed(config_of(EMBEDDING, GLOBAL), tmp_path, with_keys=True)
    late = FIRST_ADDRESS + N_CLIENTS - 5
    deployed.wire.hidden.add(late)

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 3:
            deployed.wire.hidden.clear()
        return True

    deployed.run(watch=watch, min_nodes=N_CLIENTS - 1)

    assert brought(orders_to(deployed, 5)) == [(4, True, True)]
    joined = {line["round"]: len(list(line["joined"])) for line in lines(deployed.out, EVENTS) if line["joined"]}  # type: ignore[arg-type]
    assert joined == {3: N_CLIENTS - 1, 5: 1}


# ---- whatever stops --------------------------------------------------------------------------------------------------


def test_a_server_that_stops_after_any_round_ends_alike_and_sends_nothing_twice(tmp_path: Path) -> None:
    config = config_of(CASES["two of them"], GLOBAL)
    whole = Deployed(config, tmp_path / "whole")
    whole.run()
    cut = Deployed(config, tmp_path / "cut")
    sent: list[tuple[int, bool, bool]] = []

    while cut.run(watch=lambda _row: False) is None:
        sent += brought(orders_to(cut, 2))
        cut.restarted()

    assert_same_run(cut.out, whole.out, config)
    assert sent == [(2, True, False), (3, False, True)]


def test_a_device_that_lost_its_disk_is_sent_the_model_again_and_reports_again(tmp_path: Path) -> None:
    deployed = Deployed(config_of(EMBEDDING, GLOBAL), tmp_path)

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 3:
            shutil.rmtree(tmp_path / "device-2")
        return True

    deployed.run(watch=watch)

    # In round 4 it says that it holds nothing, so it is sent everything in round 5, and what it reports acts in 6.
    assert brought(orders_to(deployed, 2))[2:] == [(5, True, True)]
    assert 2 in {line["round"]: list(line["reported"]) for line in lines(deployed.out, EVENTS)}[6]  # type: ignore[arg-type]


def test_a_device_that_stops_before_it_could_write_down_what_it_saw_answers_as_if_it_had_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(CASES["auto"], GLOBAL)
    whole = Deployed(config, tmp_path / "whole")
    whole.run()
    broken = Deployed(config, tmp_path / "broken")
    stops = iter([True, False] * 1000)

    def write(*saved: object) -> None:
        if next(stops):
            raise KeyboardInterrupt
        write_state(*saved)  # type: ignore[arg-type]

    answer = Device.answer

    def twice(self: Device, order: Order) -> object:
        """Answer, in a new process if the first one stops."""
        try:
            return answer(self, order)
        except KeyboardInterrupt:
            return answer(self, order)

    monkeypatch.setattr("fielding.flower.device.device.write_state", write)
    monkeypatch.setattr(Device, "answer", twice)
    broken.run()

    assert_same_run(broken.out, whole.out, config)


def test_a_damaged_model_on_a_device_is_put_aside_and_comes_again(tmp_path: Path) -> None:
    deployed = Deployed(config_of(EMBEDDING, GLOBAL), tmp_path)

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 3:
            own = run_folder(tmp_path / "device-1", str(read_manifest(deployed.out)["run_id"]))
            (own / SHARED).write_bytes(b"damaged")
        return True

    deployed.run(watch=watch)

    assert brought(orders_to(deployed, 1))[2:] == [(5, True, True)]
    assert all(not line["n_failed"] for line in lines(deployed.out, ROUNDS))


# ---- code of the user's own ------------------------------------------------------------------------------------------


def own_code(load: OwnCode, *, with_embed: bool = True) -> OwnCode:
    """Return a user's own training that does what Fielding's does not: it leaves models alone."""

    def train(model: Tensors, samples: Samples, _job: Job) -> Fitted:
        return Fitted(model, len(samples), 1.0)

    def evaluate(_model: Tensors, samples: Samples) -> Scored:
        return Scored(len(samples), 0, 1.0)

    def embed(model: Tensors, samples: Samples) -> Embedded:
        flat = TRAINER.layout.flat(dict(model))
        return Embedded(*TRAINER.features(flat, np.asarray(samples.x)))

    return OwnCode(load_data=load.load_data, train=train, evaluate=evaluate, embed=embed if with_embed else None)


def with_own_code(deployed: Deployed, *, with_embed: bool = True) -> Deployed:
    for device in deployed.wire.devices.values():
        device._own = own_code(device._own, with_embed=with_embed)
    return deployed


@pytest.mark.parametrize("name", ["embedding by ks", "auto", "head by class"])
def test_embed_of_ones_own_shows_what_fieldings_would(name: str, tmp_path: Path, model_file: Path) -> None:
    config = config_of(CASES[name], {"shared_model": str(model_file)}, training={"learning_rate": 1e-9})
    usual = Deployed(config, tmp_path / "usual")
    usual.run()
    own = with_own_code(Deployed(config, tmp_path / "own"))
    own.run()

    assert events(own.out) == events(usual.out)
    assert sum(n_reports(own.out)[1:]) > 0


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (EMBEDDING, "there is train without embed; give embed"),
        (CASES["all layers"], "gradient, which code of one's own for training cannot give; take head-gradient"),
    ],
)
def test_what_own_code_lacks_is_told(case: dict[str, Json], message: str, tmp_path: Path) -> None:
    config = config_of(case, GLOBAL)
    deployed = with_own_code(Deployed(config, tmp_path), with_embed="gradient" in str(case))
    model = TRAINER.initial_model(0)
    view = SharedView(key=digest_of(model), model=model, layout=TRAINER.layout, work=replace(WORK, classes=10))

    with pytest.raises(InputError, match=message):
        deployed.wire.devices[FIRST_ADDRESS + 1].answer(DescribeOrder(run_id="run", round_index=0, seed=0, shared=view))


# ---- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coordinator", "sections", "message"),
    [
        ({**EMBEDDING, "shared_model": "pool"}, {}, 'shared_model is "pool", but a deployment holds no samples'),
        ({**EMBEDDING, **GLOBAL}, {"method": {"name": "static"}}, "'static', which has a drift test of its own"),
        ({**EMBEDDING, "shared_model": "nowhere.safetensors"}, {}, "coordinator.shared_model: cannot read"),
    ],
)
def test_what_a_deployment_cannot_share_is_refused_before_a_node_is_asked(
    coordinator: dict[str, Json], sections: dict[str, Json], message: str, tmp_path: Path
) -> None:
    shared = {name: value for name, value in coordinator.items() if name.startswith("shared")}
    deployed = Deployed(config_of({"representation": "label"}, {}), tmp_path)
    options = {name: value for name, value in coordinator.items() if not name.startswith("shared")}

    with pytest.raises(OptionError, match=message):
        deployed.run_with(config_of(options, shared, **sections))

    assert deployed.wire.pushes == []
