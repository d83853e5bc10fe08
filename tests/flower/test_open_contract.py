"""An open contract: the user's code knows where it is, its metrics reach all logs by cluster, mods wrap training."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._extras import EXTRAS
from fielding._typing import Json
from fielding.errors import InputError, OptionError
from fielding.flower.wire.orders import DescribeReply, EvaluateReply, TrainReply
from fielding.records.run_folder import ROUNDS
from fielding.records.versions import ModelVersions, Version
from fielding.reporting.report_page import make_page, read_report
from fielding.runtime.own_code import DeviceNode, Fitted, Job, Samples, Scored, Tensors
from fielding.simulation.experiment import run
from fielding.tracking.tracker import figures_of
from tests.simulation.run_cases import table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod

from fielding.flower.device.client_app import client_app
from fielding.flower.device.own_code import OwnCode
from fielding.flower.server.deployment import run_deployment
from tests.flower.device.test_client_app import OBSERVED, asked, context, load_data
from tests.flower.device_wire import Deployed, deployed_config, deployment_of, lines, rule_of
from tests.flower.devices import describe, evaluate, one_job, samples, train
from tests.flower.mail import instruction
from tests.flower.same_runs import assert_same_runs
from tests.flower.test_own_code_equal import small_file
from tests.simulation.test_own_code import FIRST, own
from tests.simulation.test_own_code import evaluate as plain_evaluate
from tests.simulation.test_own_code import train as plain_train


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "flower", "flwr")


def own_train(model: Tensors, some: Samples, job: Job) -> Fitted:
    fitted = plain_train(model, some, job)
    return Fitted(
        fitted.model, fitted.n_samples, fitted.loss, metrics={"seen": len(some), "place": node_place(job.node)}
    )


def own_evaluate(model: Tensors, some: Samples, node: DeviceNode) -> Scored:
    scored = plain_evaluate(model, some)
    return replace(scored, metrics={"place": node_place(node), "since": node.since or 0})


def node_place(node: DeviceNode) -> float:
    assert node.partition is not None
    return float(node.partition)


def own_run(folder: Path, **more: Any) -> Deployed:
    config = deployed_config(table(trace={"file": str(small_file(folder)), "samples": 40}, rounds=5))
    deployed = Deployed(config, folder)
    for device in deployed.wire.devices.values():
        device._own = OwnCode(load_data=device._own.load_data, train=own_train, evaluate=own_evaluate)
    deployment = replace(deployment_of(deployed.simulation), first_model=lambda: FIRST, **more)
    assert run_deployment(deployment, deployed.wire.wire_of, deployed.out) is not None
    return deployed


def by_cluster(row: dict[str, Json]) -> dict[str, dict[str, float]]:
    found = row["by_cluster"]
    assert isinstance(found, dict)
    return found  # type: ignore[return-value]


def test_metrics_of_training_and_tests_reach_the_log_the_page_and_trackers_by_cluster(tmp_path: Path) -> None:
    deployed = own_run(tmp_path)

    rows = lines(deployed.out, ROUNDS)
    last = rows[-1]
    assert last["metric/place"] == pytest.approx(5.5), "the mean of the partitions of twelve clients"
    assert all("train/seen" in row and "train/place" in row for row in rows)
    assert len(by_cluster(last)) == last["n_clusters"]
    for figures in by_cluster(last).values():
        assert {"accuracy", "test_loss", "metric/place", "train/place"} <= figures.keys()
    cluster = next(iter(by_cluster(last)))
    assert figures_of(last)[f"by_cluster/{cluster}/metric/place"] == by_cluster(last)[cluster]["metric/place"]
    page = make_page(*read_report([deployed.out]))
    table_of = next(one for one in page.sections if one.title == "Your own metrics by cluster")
    assert [row[0] for row in table_of.table[1:]] == sorted(by_cluster(last), key=int)
    version = ModelVersions(deployed.out).releases()[-1][0]
    assert version.scores["metric/place"] == by_cluster(last)[str(version.cluster)]["metric/place"]


def test_they_are_those_of_the_simulator(tmp_path: Path) -> None:
    deployed = own_run(tmp_path)
    simulated = replace(own(), train=own_train, evaluate=own_evaluate, samples=None)
    run(deployed.simulation.config, tmp_path / "simulated", own=simulated, page=False)
    assert_same_runs(deployed.out, tmp_path / "simulated")
    ours, theirs = (lines(out, ROUNDS) for out in (deployed.out, tmp_path / "simulated"))
    assert [row.get("by_cluster") for row in ours] == [row.get("by_cluster") for row in theirs]


def test_a_run_without_metrics_of_its_own_has_no_such_rows(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=2)), tmp_path)
    assert deployed.run() is not None
    assert not any("by_cluster" in row for row in lines(deployed.out, ROUNDS))


def test_the_server_tests_the_models_of_clusters_on_data_of_its_own(tmp_path: Path) -> None:
    asked_of: list[str] = []

    def judge(model: Tensors, version: Version) -> dict[str, float]:
        asked_of.append(version.name)
        return {"norm": float(sum(abs(one).sum() for one in model.values())), "gap": float("nan")}

    deployed = own_run(tmp_path, evaluate=judge)
    last = lines(deployed.out, ROUNDS)[-1]
    for cluster, figures in by_cluster(last).items():
        assert figures["server/norm"] > 0
        assert "server/gap" not in figures
        assert f"r4-c{cluster}" in asked_of
    assert all(one.scores["server/norm"] for one in ModelVersions(deployed.out).releases()[-1])


def test_code_of_the_server_that_fails_costs_its_figures_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def judge(_model: Tensors, _version: Version) -> dict[str, float]:
        raise ValueError("no data")

    deployed = own_run(tmp_path, evaluate=judge)
    assert "is not tested at the server: ValueError: no data" in caplog.text
    assert len(lines(deployed.out, ROUNDS)) == 5


@pytest.mark.parametrize(
    ("metrics", "why"),
    [(3, "give numbers by name"), ({"a b": 1.0}, "has the name"), ({"f1": "high"}, "the metric f1 = 'high'")],
)
def test_metrics_that_are_none_are_refused(metrics: Any, why: str, tmp_path: Path) -> None:
    app = client_app(
        load_data=load_data,
        train=lambda model, some, _job: Fitted(model, len(some), 0.5, metrics=metrics),
        evaluate=lambda _model, some: Scored(len(some), 0, 0.5, metrics),
    )
    for order in (train(0), evaluate(0)):
        with pytest.raises(InputError, match=why):
            asked(app, order, tmp_path)


def test_an_evaluate_with_two_arguments_works_as_before_and_one_with_three_knows_where_it_is(tmp_path: Path) -> None:
    def three(_model: Tensors, some: Samples, node: DeviceNode) -> Scored:
        return Scored(len(some), 0, 0.5, {"epochs": float(str(node.config["own.epochs"])), "at": node.partition or 0})

    both = {"load_data": load_data, "train": lambda model, some, _job: Fitted(model, len(some), 0.5)}
    told = asked(client_app(**both, evaluate=three), evaluate(0), tmp_path)  # type: ignore[arg-type]
    assert isinstance(told, EvaluateReply)
    assert {name: values.tolist() for name, values in told.scores.metrics.items()} == {"epochs": [3.0], "at": [3.0]}
    old = asked(client_app(**both, evaluate=lambda _model, some: Scored(len(some), 1, 0.5)), evaluate(0), tmp_path)  # type: ignore[arg-type]
    assert isinstance(old, EvaluateReply)
    assert old.scores.correct.tolist() == [1]


def test_metrics_of_training_come_again_with_an_answer_from_disk(tmp_path: Path) -> None:
    app = client_app(
        load_data=load_data,
        train=lambda model, some, _job: Fitted(model, len(some), 0.5, metrics={"seen": len(some)}),
        evaluate=lambda _model, some: Scored(len(some), 0, 0.5),
    )
    replies = [asked(app, train(0), tmp_path) for _ in range(2)]
    for reply in replies:
        assert isinstance(reply, TrainReply)
        assert reply.updates.metrics["seen"].tolist() == [3.0]


# ---- mods ----------------------------------------------------------------------------------------------------------


def trained(reply: object) -> np.ndarray:
    assert isinstance(reply, TrainReply), reply
    return reply.updates.models[0]


def test_local_differential_privacy_of_flower_clips_and_adds_noise_to_what_goes_back(tmp_path: Path) -> None:
    plain = trained(asked(client_app(load_data=load_data), train(0), tmp_path / "plain"))
    clipping = LocalDpMod(clipping_norm=0.01, sensitivity=0.0, epsilon=1.0, delta=0.1)
    clipped = trained(asked(client_app(load_data=load_data, mods=[clipping]), train(0), tmp_path / "clipped"))
    assert np.linalg.norm(plain) > 0.02
    assert np.linalg.norm(clipped) == pytest.approx(0.01, rel=1e-4)
    noisy = LocalDpMod(clipping_norm=0.01, sensitivity=1.0, epsilon=1.0, delta=0.1)
    spread = trained(asked(client_app(load_data=load_data, mods=[noisy]), train(0), tmp_path / "noisy"))
    assert np.linalg.norm(spread - clipped) > 0.01


def test_mods_see_the_model_alone_whatever_else_an_order_brings(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    def look(message: Any, context: Any, call_next: Any) -> Any:
        seen.append(set(message.content["arrays"]))
        return call_next(message, context)

    from tests.flower.device.test_delivered import delivering

    order = replace(train(0), deliver=delivering(1).deliver)
    clipping = LocalDpMod(clipping_norm=0.01, sensitivity=0.0, epsilon=1.0, delta=0.1)
    told: list[str] = []
    app = client_app(
        load_data=load_data, mods=[look, clipping], on_model=lambda _model, info: told.append(info.version)
    )
    assert np.linalg.norm(trained(asked(app, order, tmp_path))) == pytest.approx(0.01, rel=1e-4)
    assert seen == [{"model"}]
    assert told == ["r1-c0"]


def test_a_device_without_samples_says_so_through_mods_and_questions_pass_by_them(tmp_path: Path) -> None:
    app = client_app(load_data=lambda _node, _round: None, mods=[LocalDpMod(0.01, 0.0, 1.0, 0.1)])
    for order in (train(0), describe(0)):
        assert isinstance(asked(app, order, tmp_path), DescribeReply)


def test_what_mods_cannot_follow_is_refused_in_one_line(tmp_path: Path) -> None:
    app = client_app(load_data=lambda *_: samples([0, 1]), mods=[LocalDpMod(0.01, 0.0, 1.0, 0.1)])
    several = replace(train(0), plan=one_job(np.zeros((2, 6), dtype=np.float32), chooses=True))
    with pytest.raises(InputError, match="several models to choose from, which mods cannot follow"):
        asked(app, several, tmp_path)
    part = replace(train(0), plan=one_job(upload_shares=np.array([0.5])))
    with pytest.raises(InputError, match="a part of a model, which mods cannot follow"):
        asked(app, part, tmp_path)


def test_mods_that_want_a_number_of_flowers_own_strategies_fail_by_name(tmp_path: Path) -> None:
    app = client_app(load_data=load_data, mods=[fixedclipping_mod])
    reply = app(instruction(replace(train(0), observe=OBSERVED)), context({"state-dir": str(tmp_path)}))
    assert reply.has_error()
    assert "fixedclipping_mod" in str(reply.error.reason)


# ---- labels that are numbers ---------------------------------------------------------------------------------------


def steps(model: Tensors, some: Samples, job: Job) -> Fitted:
    """Take steps of least squares."""
    x, y = np.asarray(some.x, dtype=np.float64).reshape(len(some), -1), np.asarray(some.y)
    assert y.dtype == np.float64
    weights = model["weights"].astype(np.float64)
    for _ in range(20):
        weights -= 0.1 * x.T @ (x @ weights - y) / y.size
    error = x @ weights - y
    return Fitted({"weights": weights}, len(some), float((error**2).mean()), metrics={"mae": float(abs(error).mean())})


def errors(model: Tensors, some: Samples) -> Scored:
    x, y = np.asarray(some.x, dtype=np.float64).reshape(len(some), -1), np.asarray(some.y)
    error = x @ model["weights"].astype(np.float64) - y
    return Scored(len(some), int((abs(error) < 0.5).sum()), float((error**2).mean()), {"mae": float(abs(error).mean())})


def regression(folder: Path, own_vectors: bool = False, **sections: Json) -> tuple[Deployed, Any]:
    """Return devices of two kinds, whose numbers depend on their inputs the other way round."""
    config = deployed_config(table(rounds=5, evaluation={"every": 1}, **sections))
    deployed = Deployed(config, folder)
    for device in deployed.wire.devices.values():
        place = device._node.partition or 0
        sign, draws = (1.0 if place % 2 else -1.0), np.random.default_rng(place)

        def load(node: DeviceNode, _round: int, sign: float = sign, draws: Any = draws) -> Samples | None:
            if node.since is not None:
                return None
            x = draws.normal(size=(40, 3))
            return Samples(x, sign * x @ np.array([1.0, 2.0, 3.0]), rounds=np.zeros(40, int))

        def slopes(some: Samples, _n_classes: int) -> np.ndarray:
            return np.linalg.lstsq(np.asarray(some.x), np.asarray(some.y), rcond=None)[0]

        device._own = OwnCode(load_data=load, train=steps, evaluate=errors, describe=slopes if own_vectors else None)
    first = {"weights": np.zeros(3, dtype=np.float32)}
    deployment = replace(
        deployment_of(deployed.simulation), first_model=lambda: first, classes=1, own_vectors=own_vectors
    )
    for device in deployed.wire.devices.values():
        device.rule = rule_of(deployment)
    return deployed, deployment


def test_a_regression_is_clustered_by_what_the_app_says_of_its_windows(tmp_path: Path) -> None:
    coordinator: Json = {"detector": "periodic", "metric": "l2"}
    deployed, deployment = regression(tmp_path, own_vectors=True, coordinator=coordinator)
    assert run_deployment(deployment, deployed.wire.wire_of, deployed.out) is not None

    rows = lines(deployed.out, ROUNDS)
    assert rows[-1]["n_clusters"] == 2
    assert float(str(rows[-1]["metric/mae"])) < 0.3
    assert all(one["metric/mae"] < 0.3 for one in by_cluster(rows[-1]).values())


def test_one_model_for_all_goes_with_numbers_for_labels_too(tmp_path: Path) -> None:
    deployed, deployment = regression(tmp_path, method={"name": "global"})
    assert run_deployment(deployment, deployed.wire.wire_of, deployed.out) is not None
    assert float(str(lines(deployed.out, ROUNDS)[-1]["metric/mae"])) > 1.0


@pytest.mark.parametrize(
    ("own_vectors", "sections", "why"),
    [
        (False, {}, "whose shares tell nothing of a client; set own-vectors"),
        (True, {"coordinator": {"detector": "chi2"}}, "coordinator.detector is 'chi2', which looks at classes"),
        (False, {"method": {"name": "global"}, "serving": {"correction": "prior"}}, "serving.correction needs classes"),
    ],
)
def test_what_needs_classes_is_refused_in_one_line(
    own_vectors: bool, sections: dict[str, Json], why: str, tmp_path: Path
) -> None:
    deployed, deployment = regression(tmp_path, own_vectors=own_vectors, **sections)
    with pytest.raises(OptionError, match=why):
        run_deployment(deployment, deployed.wire.wire_of, deployed.out)


def test_numbers_where_classes_are_wanted_are_refused_by_the_device(tmp_path: Path) -> None:
    app = client_app(load_data=lambda *_: Samples(np.zeros((2, 2)), np.array([0.5, 1.5])))
    with pytest.raises(InputError, match="numbers and not classes; give client_app train and evaluate"):
        asked(app, describe(0), tmp_path)
