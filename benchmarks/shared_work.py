"""What all contenders on Flower's nodes do alike: the same samples, the same local steps, tests in the same rounds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fielding._typing import Json
from fielding.client.drift import AnyChange
from fielding.errors import OptionError, echo
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.sample_files import SampleFiles
from fielding.flower.device.samples import checked_samples
from fielding.flower.device.store import DeviceStore
from fielding.rng import client_key, stream
from fielding.runtime.own_code import Samples
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.train import LocalRule
from fielding.runtime.workers import Workers
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LearningRate, Trainer

N_CLASSES, N_FEATURES = 10, 64
"""As of the digits of the example app, so that a network of 64 hidden units has 4,810 numbers."""
N_TRAIN, N_TEST = 80, 20
"""Samples of a node in each half of a run."""
N_STEPS, BATCH_SIZE, LEARNING_RATE = 20, 20, 0.1
SEED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWork:
    """What a run is about.

    Parameters
    ----------
    n_rounds
        At least 2.
    hidden
        Units of the network.

    Examples
    --------
    >>> work = SharedWork(n_rounds=6, hidden=64)
    >>> [round_index for round_index in range(6) if work.is_tested(round_index)]
    [0, 2, 5]
    >>> work.n_numbers
    4810
    """

    n_rounds: int
    hidden: int

    @property
    def gap(self) -> int:
        """Rounds between arrivals of samples, which replace those before; also between tests."""
        return max(1, self.n_rounds // 2)

    @property
    def n_numbers(self) -> int:
        """Numbers of the model."""
        return (N_FEATURES + 1 + N_CLASSES) * self.hidden + N_CLASSES

    def is_tested(self, round_index: int) -> bool:
        """Return whether a run of Fielding is tested after a round, counted from 0: after the first and last always."""
        return (round_index + 1) % self.gap == 0 or round_index in (0, self.n_rounds - 1)

    def arrived(self, partition: int, round_index: int) -> Samples:
        """Return the samples that a node has in a round.

        Nodes with even numbers see the first five classes, the others the rest; node 0 changes sides with the second
        arrival, which is the drift of the run.
        """
        interval = round_index // self.gap
        side = (partition + (partition == 0 and interval > 0)) % 2
        rng = stream(SEED, "bench-flower", partition, interval)
        n_samples = N_TRAIN + N_TEST
        y = rng.integers(0, N_CLASSES // 2, n_samples) + side * (N_CLASSES // 2)
        centers = stream(SEED, "bench-flower-classes").normal(size=(N_CLASSES, N_FEATURES))
        x = centers[y] + rng.normal(size=(n_samples, N_FEATURES))
        rounds = np.full(n_samples, interval * self.gap)
        return Samples(x, y, is_test=np.arange(n_samples) >= N_TRAIN, rounds=rounds)

    def store(self, partition: int, round_index: int) -> DeviceStore:
        """Return the samples that a node has in a round, for training and for tests."""
        rule = DeviceRule(n_classes=N_CLASSES, max_rounds=self.gap, drift_test=AnyChange())
        given = self.arrived(partition, round_index)
        kept, x = checked_samples(given, n_classes=N_CLASSES, now=round_index, since=None)
        return DeviceStore(kept, SampleFiles().add(x), rule, first=int(kept.rounds.min()))

    def trainer(self) -> Trainer:
        """Return who knows the network."""
        return trainer_for(ModelRequest(name="mlp", input_shape=(N_FEATURES,), n_classes=N_CLASSES, hidden=self.hidden))

    def runtime(self, partition: int, round_index: int) -> ClientRuntime:
        """Return the local work of a node in a round: the steps and draws that Fielding's nodes make, too."""
        local = LocalRule(n_steps=N_STEPS, batch_size=BATCH_SIZE, rate=LearningRate(initial=LEARNING_RATE))
        keys = np.array([client_key(partition)], dtype=np.uint64)
        store = self.store(partition, round_index)
        runtime = ClientRuntime(store, Workers(self.trainer()), local, seed=SEED, keys=keys)
        runtime.begin(round_index)
        return runtime


def work_from(run_config: Mapping[str, Json]) -> SharedWork:
    """Return the work that a run config of the benchmark describes."""
    return SharedWork(n_rounds=whole_of(run_config, "rounds"), hidden=whole_of(run_config, "model.hidden"))


def whole_of(config: Mapping[str, Json], key: str) -> int:
    """Return a whole number of a config, or raise."""
    got = config.get(key)
    if type(got) is not int:
        raise OptionError(f"{key} of the run config is {echo(got)}; the benchmark writes a whole number there")
    return got
