"""Plans, trainers that remember or are told what to answer, and clients that compute in process."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Mask, Models
from fielding.federation.clients import TrainingPlan
from fielding.rng import client_key
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.serve import Serving
from fielding.runtime.train import Attack, LocalRule
from fielding.runtime.workers import Workers
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.layout import Layout
from fielding.training.trainer import LocalWork, Scores, Trained, Trainer, TrainingPath


def counts(values: Sequence[int]) -> Counts:
    return np.array(values, dtype=np.int64)


def plan_of(
    clients: Sequence[int], *, models: Models, start: Sequence[int] | None = None, wanted: int | None = None
) -> TrainingPlan:
    """Return a plan of one group; all answers are wanted, and all jobs start from the first model by default."""
    return TrainingPlan(
        models=models,
        clients=counts(clients),
        groups=np.zeros(len(clients), dtype=np.int64),
        start=counts(start or [0] * len(clients)),
        wanted=counts([len(clients) if wanted is None else wanted]),
    )


def softmax_trainer() -> Trainer:
    """Return a trainer of one feature and two classes: models of two weights and two biases."""
    return trainer_for(ModelRequest(name="softmax", input_shape=(1,), n_classes=2, trainer="numpy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingTrainer:
    """A trainer that remembers what it was asked to do."""

    inner: Trainer = field(default_factory=softmax_trainer)
    asked: list[LocalWork] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        return self.inner.layout

    @property
    def path(self) -> TrainingPath:
        return self.inner.path

    def initial_model(self, seed: int) -> Models:
        return self.inner.initial_model(seed)

    def train(self, work: LocalWork) -> Trained:
        self.asked.append(work)
        return self.inner.train(work)

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        return self.inner.scores(model, x, y)

    def features(self, model: Models, x: Features) -> tuple[npt.NDArray[np.float32], Scores]:
        return self.inner.features(model, x)

    def gradient(self, model: Models, x: Features, y: Codes) -> Models:
        return self.inner.gradient(model, x, y)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTrainer(RecordingTrainer):
    """A trainer that answers with models and losses written down; its models name the label that they always say."""

    models: Models
    loss: npt.NDArray[np.float64]

    def train(self, work: LocalWork) -> Trained:
        self.asked.append(work)
        return Trained(models=self.models, loss=self.loss, square_loss=self.loss**2)

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:  # noqa: ARG002
        """Return 0 for a right answer and 2 for a wrong one."""
        right = y == model[0]
        return np.where(right, 0.0, 2.0).astype(np.float32), right


def scripted(models: Models, loss: Sequence[float] | None = None) -> ScriptedTrainer:
    """Return a trainer that gives these models, a row per job that is done; all losses are 1 by default."""
    return ScriptedTrainer(models=models, loss=np.array(loss if loss is not None else [1.0] * models.shape[0]))


def runtime_of(
    windows: SlidingWindows,
    trainer: Trainer,
    rule: LocalRule,
    *,
    serving: Serving | None = None,
    attack: Attack | None = None,
    round_index: int = 0,
    n_workers: int = 1,
) -> ClientRuntime:
    """Return clients in some round."""
    keys = np.array([client_key(one) for one in windows.schedule.client_ids], dtype=np.uint64)
    runtime = ClientRuntime(
        windows, Workers(trainer, n_workers), rule, serving=serving, attack=attack, seed=1, keys=keys
    )
    runtime.begin(round_index)
    return runtime
