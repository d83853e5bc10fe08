"""Devices for tests: two features, two classes, and samples that are told by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fielding.client.drift import AnyChange
from fielding.federation.clients import TrainingPlan
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.wire.orders import DescribeOrder, EvaluateOrder, TrainOrder, WorkRule
from fielding.runtime.own_code import DeviceNode, Samples
from fielding.runtime.train import LocalRule
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate

RULE = DeviceRule(n_classes=2, max_rounds=2, drift_test=AnyChange())
TRAINER = trainer_for(ModelRequest(name="softmax", input_shape=(2,), n_classes=2))
LOCAL = LocalRule(n_steps=3, batch_size=2, rate=LearningRate(initial=0.5))
WORK = WorkRule(client="phone", classes=2, model="softmax", local=LOCAL)


def samples(labels: list[int], *, n_test: int = 0, rounds: list[int] | None = None) -> Samples:
    """Return samples that are easy to tell apart; the last ones are for tests."""
    y = np.array(labels, dtype=np.int64)
    x = np.eye(6, 2)[y] + np.arange(y.size)[:, np.newaxis] / 100
    return Samples(x, y, is_test=np.arange(y.size) >= y.size - n_test, rounds=rounds)


@dataclass(slots=True)
class Diary:
    """Hands out the samples of each round, and writes down when it was asked."""

    by_round: Mapping[int, Samples]
    asked: list[tuple[int | None, int]] = field(default_factory=list)

    def load(self, node: DeviceNode, round_index: int) -> Samples | None:
        self.asked.append((node.since, round_index))
        return self.by_round.get(round_index)


def device(folder: Path, diary: Diary, rule: DeviceRule = RULE, own: OwnCode | None = None) -> Device:
    """Return a device as a new process has it: nothing is known but what lies in the folder."""
    node = DeviceNode(partition=None, config={}, folder=folder)
    return Device(node, rule, own or OwnCode(load_data=diary.load))


def describe(round_index: int, confirmed: int = 0, *, run_id: str = "run") -> DescribeOrder:
    return DescribeOrder(run_id=run_id, round_index=round_index, seed=7, confirmed=confirmed)


def one_job(model: np.ndarray | None = None, **wishes: Any) -> TrainingPlan:
    """Return the plan of one job for the only client."""
    none = np.zeros(1, dtype=np.int64)
    models = np.zeros((1, 6), dtype=np.float32) if model is None else np.atleast_2d(model)
    return TrainingPlan(models=models, clients=none, groups=none, start=none, wanted=none + 1, **wishes)


def train(
    round_index: int, confirmed: int = 0, *, plan: TrainingPlan | None = None, work: WorkRule = WORK, **wishes: Any
) -> TrainOrder:
    return TrainOrder(
        run_id="run",
        round_index=round_index,
        seed=7,
        plan=plan or one_job(**wishes),
        layout=TRAINER.layout,
        work=work,
        confirmed=confirmed,
    )


def evaluate(round_index: int, model: np.ndarray | None = None, *, work: WorkRule = WORK) -> EvaluateOrder:
    return EvaluateOrder(
        run_id="run",
        round_index=round_index,
        model=np.zeros(6, dtype=np.float32) if model is None else model,
        layout=TRAINER.layout,
        work=work,
        seed=7,
    )
