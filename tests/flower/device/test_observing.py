"""Round by round, a device reports what a client of the simulator does, by labels alone or through models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Counts, Models, Vector
from fielding.client.drift import Always, AnyChange, Chi2, DriftTest, Never, Periodic, Threshold
from fielding.client.drift.detectors import DriftDetector, KindDetector, SampleDetector, VectorDetector
from fielding.client.drift.predictions import ErrorRate
from fielding.client.drift.two_sample import Ks
from fielding.client.report import DRIFT_KINDS, ReportBatch
from fielding.client.representation.embedding import ClassMeans, Embedding
from fielding.client.representation.label import LabelShares
from fielding.client.representation.representation import Representation
from fielding.distance import metric_named
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.server.sharing import Sharing
from fielding.flower.wire.orders import DescribeOrder, DescribeReply, EvaluateOrder, Report, WorkRule
from fielding.runtime.observe import LabelObserver, Observer, SampleObserver, Sight
from fielding.runtime.own_code import DeviceNode, Samples
from fielding.runtime.train import LocalRule
from fielding.runtime.workers import Workers
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from fielding.simulation.reports import SharedModel
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate
from tests.rotation import some_of

N_CLIENTS, N_INTERVALS, N_CLASSES, SEED = 4, 8, 3, 11
PLANS = [
    WindowPlan(gap=1, window=2),
    WindowPlan(gap=2, window=4),
    WindowPlan(gap=2, window=5),
    WindowPlan(interval="1d", gap=1, window="60h"),
]
DAY = 86_400.0
TESTS: list[DriftTest] = [AnyChange(), Chi2(min_fresh=3, alpha=0.2), Threshold(), Never(), Always(), Periodic(rounds=4)]
TRAINER = trainer_for(ModelRequest(name="mlp", hidden=6, input_shape=(4,), n_classes=N_CLASSES))
RULE = LocalRule(n_steps=1, batch_size=2, rate=LearningRate(initial=0.1))
WORK = WorkRule(client="", classes=N_CLASSES, model="mlp", hidden=6, local=RULE)
Told = dict[str, tuple[list[float], int, str]]


def by_vector(test: DriftTest) -> VectorDetector:
    return VectorDetector(drift_test=test, metric=metric_named("l2"))


CASES: dict[str, tuple[Representation, DriftDetector]] = {
    "any change": (ClassMeans(dims=2), by_vector(AnyChange())),
    "threshold": (Embedding(), by_vector(Threshold(eps=0.3))),
    "always": (Embedding(), by_vector(Always())),
    "periodic": (ClassMeans(dims=2), by_vector(Periodic(rounds=3))),
    "ks": (Embedding(), SampleDetector(test=Ks(), alpha=0.3, least=3)),
    "by kind": (ClassMeans(dims=2), KindDetector(alpha=0.4, least=3, growth=4.0)),
    "errors": (LabelShares(), SampleDetector(test=ErrorRate(), alpha=0.5, least=2, needs_errors=True, growth=9.0)),
}


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
    last = plan.last_intervals(sample_times(interval_of), interval_of, np.zeros(y.size))
    return SlidingWindows(pool, sort_schedule(ids, N_INTERVALS, columns=columns, last=last), plan)


def sample_times(interval_of: Counts) -> Vector:
    """Return when each sample of the pool was taken, in some order within its interval."""
    return DAY * (interval_of + np.random.default_rng(6).permutation(interval_of.size) / interval_of.size)


def simulated(windows: SlidingWindows, case: DriftTest | str, model: Models) -> SimulatedClients:
    """Return clients of the simulator that judge by labels, or as a case says see samples with a model."""
    observer: Observer
    if isinstance(case, str):
        representation, judge = CASES[case]
        needs_model = representation.effort != "none"
        sight = Sight(windows, Workers(TRAINER) if needs_model else None)
        observer = SampleObserver(windows, representation, detector=judge, sight=sight)
        if needs_model:
            observer.share(model)
    else:
        observer = LabelObserver(windows, case)
    return SimulatedClients(
        windows,
        observer,
        TRAINER,
        rule=RULE,
        hardware=Hardware(
            devices=Devices(ms_per_sample=np.ones(N_CLIENTS), kbps=np.ones(N_CLIENTS)), availability=AlwaysAvailable()
        ),
        sharing=SharedModel(observer, rounds=0) if isinstance(case, str) else None,
        seed=SEED,
    )


def rule_for(plan: WindowPlan, case: DriftTest | str) -> DeviceRule:
    rule = DeviceRule(
        n_classes=N_CLASSES,
        max_rounds=plan.n_visible * plan.gap,
        drift_test=AnyChange() if isinstance(case, str) else case,
        gap=plan.gap,
        phase=plan.lead,
        window_ms=None if plan.seconds is None else round(plan.seconds * 1000),
    )
    if not isinstance(case, str):
        return rule
    representation, judge = CASES[case]
    return replace(rule, representation=representation, detector=judge, needs_model=representation.effort != "none")


class Deployed:
    """The same clients as devices; the model comes with the first order, the reference with the second."""

    def __init__(self, windows: SlidingWindows, case: DriftTest | str, model: Models, folder: Path) -> None:
        self._windows, self._folder, self._rule = windows, folder, rule_for(windows.plan, case)
        by_sample = np.empty(len(windows.pool), dtype=np.int64)
        by_sample[windows.schedule.sample] = windows.schedule.interval
        self._times = sample_times(by_sample)
        representation = self._rule.representation or LabelShares()
        self._sharing = Sharing(representation, layout=TRAINER.layout, work=WORK, model=model)
        self._sharing.grow(N_CLIENTS)
        self._confirmed = [0] * N_CLIENTS

    def _device(self, client: int) -> Device:
        """Return a device as a new process has it."""
        schedule, plan = self._windows.schedule, self._windows.plan
        rows = np.flatnonzero(schedule.client == client)
        arrivals = (schedule.interval[rows].astype(np.int64) + 1) * plan.gap - plan.lead
        times = self._times[schedule.sample[rows]]

        def load(node: DeviceNode, round_index: int) -> Samples:
            since = -(10**6) if node.since is None else node.since
            is_new = (arrivals > since) & (arrivals <= round_index)
            x, y = self._windows.gather(rows[is_new])
            is_test = self._windows.pool.is_test()[schedule.sample[rows[is_new]]]
            return Samples(x, y, is_test=is_test, rounds=arrivals[is_new], times=times[is_new])

        def clock(_node: DeviceNode, round_index: int) -> float:
            return DAY * self._windows.n_complete(round_index)

        node = DeviceNode(partition=client, config={}, folder=self._folder / str(client))
        return Device(node, self._rule, OwnCode(load_data=load, clock=clock))

    def described(self, round_index: int, *, is_lost: bool = False) -> Told:
        """Return the reports of a round; those that are lost are not confirmed."""
        found = {}
        for at in range(N_CLIENTS):
            view = self._sharing.view_for(at) if self._rule.needs_model else None
            order = DescribeOrder(
                run_id="run", round_index=round_index, seed=SEED, confirmed=self._confirmed[at], shared=view
            )
            reply = self._device(at).answer(order)
            assert isinstance(reply, DescribeReply)
            self._sharing.note(at, reply.holds)
            if reply.report is not None and (taken := self._taken(at, reply.report)) is not None:
                found[at] = taken
        found |= dict(self._sharing.settle())
        for at, report in found.items() if not is_lost else ():
            self._confirmed[at] = report.number
        width = max((report.representation.size for report in found.values()), default=0)
        return {
            f"client-{at}": (np.round(found[at].row(width), 5).tolist(), found[at].n_samples, found[at].kind or "none")
            for at in sorted(found)
        }

    def _taken(self, client: int, report: Report) -> Report | None:
        """Return a report as the server takes it: without a shared model it stands by itself."""
        return self._sharing.accept(client, report) if self._rule.needs_model else report

    def serve(self, round_index: int, model: Models) -> None:
        for at in range(N_CLIENTS):
            order = EvaluateOrder(
                run_id="run", round_index=round_index, model=model, layout=TRAINER.layout, work=WORK, seed=SEED
            )
            self._device(at).answer(order)


def told(batch: ReportBatch) -> Told:
    kinds = [0] * len(batch.client_ids) if batch.kinds is None else batch.kinds.tolist()
    n_samples = [] if batch.n_samples is None else batch.n_samples.tolist()
    rows = np.round(np.asarray(batch.representations, dtype=np.float32), 5).tolist()
    return {
        str(client): (row, n, DRIFT_KINDS[kind])
        for client, row, n, kind in zip(batch.client_ids, rows, n_samples, kinds, strict=True)
    }


def assert_alike(ours: Told, theirs: Told, where: object) -> None:
    assert ours.keys() == theirs.keys(), where
    for client, (row, n_samples, kind) in theirs.items():
        assert ours[client][1:] == (n_samples, kind), where
        if n_samples:
            np.testing.assert_allclose(ours[client][0], row, rtol=0, atol=1e-4)
        else:
            assert not any(ours[client][0])


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("case", some_of([*TESTS, *CASES], 4), ids=str)
def test_devices_report_what_the_simulator_says_in_every_round(
    case: DriftTest | str, plan: WindowPlan, tmp_path: Path
) -> None:
    windows, model = drifting_windows(plan), TRAINER.initial_model(1)
    clients, deployed = simulated(windows, case, model), Deployed(windows, case, model, tmp_path)
    n_reports = 0

    for round_index in range(plan.step_of(N_INTERVALS - 1) + 1):
        theirs = told(clients.begin(round_index))
        assert_alike(deployed.described(round_index), theirs, round_index)
        n_reports += len(theirs)
        if isinstance(case, str):
            served = TRAINER.initial_model(round_index // 3)
            clients.serve(served[np.newaxis], np.zeros(N_CLIENTS, dtype=np.int64))
            deployed.serve(round_index, served)
    assert n_reports >= N_CLIENTS + isinstance(case, str)


def test_a_report_that_is_lost_is_told_again_with_the_window_of_now(tmp_path: Path) -> None:
    windows, model = drifting_windows(PLANS[0]), TRAINER.initial_model(1)
    lossy, whole = (Deployed(windows, "always", model, tmp_path / name) for name in ("lossy", "whole"))

    for round_index in range(3):
        lossy.described(round_index, is_lost=True)
        told_now = whole.described(round_index)

    assert_alike(lossy.described(2), told_now, "the last round, asked again")
