"""Simulator = deployment: the same seed, samples, window and rule give the same reports, batches and models."""

from pathlib import Path

import numpy as np
import pytest
from fielding.flower.device.local_jobs import JobSettings

from fielding._typing import Models
from fielding.client.drift import Always, AnyChange, Chi2, DriftTest, Never, Periodic, Threshold
from fielding.client.report import ReportBatch
from fielding.federation.clients import TrainingPlan, Updates
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import DeviceNode, Samples
from fielding.flower.wire.orders import (
    DescribeOrder,
    DescribeReply,
    EvaluateOrder,
    EvaluateReply,
    TrainOrder,
    TrainReply,
)
from fielding.runtime.observe import LabelObserver
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sorted_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.rates import LearningRate
from fielding.training.trainer import Trainer

N_CLIENTS, N_INTERVALS, N_CLASSES, SEED = 4, 8, 3, 11
PLANS = [WindowPlan(gap=1, window=2), WindowPlan(gap=2, window=4), WindowPlan(gap=2, window=5)]
TESTS: list[DriftTest] = [AnyChange(), Chi2(min_fresh=3), Threshold(), Never(), Always(), Periodic(rounds=4)]
RULE = LocalRule(
    n_steps=4,
    batch_size=5,
    rate=LearningRate(initial=0.2, decay=0.9, every=1),
    momentum=0.5,
    weight_decay=0.01,
    prox=0.1,
    balanced=True,
)


def drifting_windows(plan: WindowPlan) -> SlidingWindows:
    """Return clients whose label mix turns over in the middle; some intervals bring a client little or nothing."""
    rng = np.random.default_rng(5)
    rows = []
    for client in range(N_CLIENTS):
        for interval in range(N_INTERVALS):
            favorite = (client + interval // 4) % N_CLASSES
            shares = np.where(np.arange(N_CLASSES) == favorite, 0.8, 0.1)
            n_samples = int(rng.integers(0, 12)) if client != 3 or interval in (2, 3) else 0
            rows += [(client, interval, int(rng.choice(N_CLASSES, p=shares))) for _ in range(n_samples)]
    client_of, interval_of, y = (np.array(column) for column in zip(*rows, strict=True))
    x = (rng.standard_normal((y.size, 4)) + 2.0 * np.eye(N_CLASSES, 4)[y]).astype(np.float32)
    pool = Pool(x=x, y=y.astype(np.int32), classes=("a", "b", "c"))
    ids = tuple(f"client-{at}" for at in range(N_CLIENTS))
    columns = (client_of, interval_of, np.arange(y.size), y, np.zeros(y.size))
    return SlidingWindows(pool, sorted_schedule(ids, N_INTERVALS, columns=columns), plan)


def trainer_of(name: str) -> Trainer:
    return trainer_for(
        ModelRequest(name="mlp", hidden=6, input_shape=(4,), n_classes=N_CLASSES, trainer=name, device="cpu")
    )


def simulated(windows: SlidingWindows, drift_test: DriftTest, trainer: Trainer) -> SimulatedClients:
    devices = Devices(ms_per_sample=np.ones(N_CLIENTS), kbps=np.ones(N_CLIENTS))
    return SimulatedClients(
        windows,
        LabelObserver(windows, drift_test),
        trainer,
        rule=RULE,
        hardware=Hardware(devices=devices, availability=AlwaysAvailable()),
        seed=SEED,
    )


class Deployed:
    """The same clients as devices, each of which reads the schedule as its own data."""

    def __init__(self, windows: SlidingWindows, drift_test: DriftTest, trainer: Trainer, folder: Path) -> None:
        self._windows, self._trainer, self._folder = windows, trainer, folder
        plan = windows.plan
        rule = DeviceRule(
            n_classes=N_CLASSES,
            max_rounds=plan.n_visible * plan.gap,
            drift_test=drift_test,
            gap=plan.gap,
            phase=plan.window,
        )
        self._devices = [self._device(at, rule) for at in range(N_CLIENTS)]
        self.confirmed = [0] * N_CLIENTS

    def _device(self, client: int, rule: DeviceRule) -> Device:
        schedule, plan = self._windows.schedule, self._windows.plan
        rows = np.flatnonzero(schedule.client == client)
        arrivals = (schedule.interval[rows].astype(np.int64) + 1) * plan.gap - plan.window

        def load(node: DeviceNode, round_index: int) -> Samples:
            since = -(10**6) if node.since is None else node.since
            new = rows[(arrivals > since) & (arrivals <= round_index)]
            x, y = self._windows.gather(new)
            is_test = self._windows.pool.is_test()[schedule.sample[new]]
            return Samples(x, y, is_test=is_test, rounds=arrivals[np.isin(rows, new)])

        node = DeviceNode(partition=client, config={}, folder=self._folder / str(client))
        return Device(node, rule, OwnCode(load_data=load))

    def described(self, round_index: int) -> dict[str, tuple[list[float], int]]:
        """Return the reports of a round, zeros for silence, and confirm them."""
        found = {}
        for at, device in enumerate(self._devices):
            reply = device.answer(
                DescribeOrder(run_id="run", round_index=round_index, seed=SEED, confirmed=self.confirmed[at])
            )
            assert isinstance(reply, DescribeReply)
            assert reply.partition == at
            if reply.report is not None:
                self.confirmed[at] = reply.report.number
                row = reply.report.row(N_CLASSES)
                found[f"client-{at}"] = (row.tolist(), reply.report.n_samples)
        return found

    def _settings(self, at: int, round_index: int, trainer: str) -> JobSettings:
        return JobSettings(
            client=f"client-{at}",
            classes=N_CLASSES,
            model="mlp",
            hidden=6,
            trainer=trainer,
            batch_size=RULE.batch_size,
            learning_rate=RULE.rate.at(round_index),
            momentum=RULE.momentum,
            weight_decay=RULE.weight_decay,
            prox=RULE.prox,
            balanced=RULE.balanced,
        )

    def trained(self, at: int, round_index: int, model: Models, *, trainer: str) -> TrainReply:
        reply = self._devices[at].answer(
            TrainOrder(
                run_id="run",
                round_index=round_index,
                model=model,
                layout=self._trainer.layout,
                settings=self._settings(at, round_index, trainer).record(),
                n_steps=RULE.n_steps,
                seed=SEED,
                confirmed=self.confirmed[at],
                with_start_loss=True,
            )
        )
        assert isinstance(reply, TrainReply)
        assert reply.report is None
        return reply

    def tested(self, at: int, round_index: int, model: Models) -> EvaluateReply:
        reply = self._devices[at].answer(
            EvaluateOrder(
                run_id="run",
                round_index=round_index,
                model=model,
                layout=self._trainer.layout,
                settings=self._settings(at, round_index, "numpy").record(),
                seed=SEED,
            )
        )
        assert isinstance(reply, EvaluateReply)
        return reply


def reports_of(batch: ReportBatch) -> dict[str, tuple[list[float], int]]:
    assert batch.n_samples is not None or not batch.client_ids
    n_samples = [] if batch.n_samples is None else batch.n_samples.tolist()
    rows = np.asarray(batch.representations).tolist()
    return {str(client): (row, n) for client, row, n in zip(batch.client_ids, rows, n_samples, strict=True)}


def trained_by_all(clients: SimulatedClients, models: Models) -> Updates:
    """Let everybody who has data train a model of its own."""
    who = np.flatnonzero(clients.has_data())
    return clients.train(
        TrainingPlan(
            models=models,
            clients=who,
            groups=np.zeros(who.size, dtype=np.int64),
            start=who,
            wanted=np.array([who.size]),
            with_start_loss=True,
        )
    )


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("drift_test", TESTS, ids=str)
def test_devices_report_what_the_simulator_says_in_every_round(
    drift_test: DriftTest, plan: WindowPlan, tmp_path: Path
) -> None:
    windows, trainer = drifting_windows(plan), trainer_of("numpy")
    clients, deployed = simulated(windows, drift_test, trainer), Deployed(windows, drift_test, trainer, tmp_path)

    n_rounds = plan.step_of(N_INTERVALS - 1) + 1
    n_reports = 0
    for round_index in range(n_rounds):
        wanted = reports_of(clients.begin(round_index))
        assert deployed.described(round_index) == wanted, round_index
        n_reports += len(wanted)
    assert n_reports >= N_CLIENTS


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_devices_train_and_score_as_the_simulator_does(name: str, tmp_path: Path) -> None:
    if name == "torch":
        pytest.importorskip("torch", reason="the torch extra is not installed")
    windows, trainer = drifting_windows(PLANS[1]), trainer_of(name)
    clients, deployed = simulated(windows, AnyChange(), trainer), Deployed(windows, AnyChange(), trainer, tmp_path)
    models = np.stack([trainer.initial_model(at) for at in range(N_CLIENTS)])

    for round_index in range(4):
        assert deployed.described(round_index) == reports_of(clients.begin(round_index))
        updates = trained_by_all(clients, models)
        assert updates.start_loss is not None
        for row, at in enumerate(updates.clients.tolist()):
            reply = deployed.trained(at, round_index, models[at], trainer=name)
            np.testing.assert_allclose(reply.model, updates.models[row], rtol=0, atol=1e-6)
            assert reply.n_samples == updates.n_samples[row]
            assert reply.loss == pytest.approx(updates.loss[row], abs=1e-6)
            assert reply.square_loss == pytest.approx(updates.square_loss[row], abs=1e-5)
            assert reply.start_loss == pytest.approx(updates.start_loss[row], abs=1e-6)
            models[at] = updates.models[row]
        scores = clients.scores(models, np.arange(N_CLIENTS))
        for row, at in enumerate(scores.clients.tolist()):
            tested = deployed.tested(at, round_index, models[at])
            assert (tested.n_test, tested.correct) == (scores.n_test[row], scores.correct[row])
            assert tested.loss == pytest.approx(scores.loss[row], abs=1e-6)
    assert not np.array_equal(models[0], trainer.initial_model(0))
