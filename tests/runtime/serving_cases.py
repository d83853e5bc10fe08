"""Clients that differ in which labels they see, and models in doubt, which a correction has to decide."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Models
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Devices, Hardware
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from fielding.training.label_mix import LabelMixTrainer
from fielding.training.trainer import LearningRate, Trainer
from tests.runtime.plans import runtime_of, softmax_trainer
from tests.simulation.run_cases import Sample, planted_windows

RULE = LocalRule(n_steps=2, batch_size=4, rate=LearningRate(initial=0.5))
PRIOR = Serving(correction="prior", smoothing=1.0)
PREDICTED = Serving(correction="predicted", smoothing=1.0)


def labelled(n_intervals: int = 3, *, n_visible: int = 1, empty: Sequence[int] = ()) -> SlidingWindows:
    """Return three clients: all a, all b, and half of each; a comes with -1 and b with 1.

    Every interval brings each 8 training and 4 test samples; clients of ``empty`` have test samples alone.
    """
    labels = {0: [0] * 8, 1: [1] * 8, 2: [0, 1] * 4}
    samples = [
        Sample(client=client, interval=at, label=label, value=2.0 * label - 1.0, for_testing=for_testing)
        for client, own in labels.items()
        for at in range(n_intervals)
        for for_testing in (False, True)
        if for_testing or client not in empty
        for label in (own[:4] if for_testing else own)
    ]
    return planted_windows(samples, n_clients=3, plan=WindowPlan(gap=1, window=n_visible), n_intervals=n_intervals)


def mixed_trainer(*, is_balanced: bool = False) -> Trainer:
    """Return a trainer of softmax models of one feature: two weights, two biases, and the mix of two labels."""
    return LabelMixTrainer(softmax_trainer(), 2, rate=0.5, is_balanced=is_balanced)


def model(slope: float = 0.0, mix: tuple[float, float] = (0.5, 0.5)) -> Models:
    """Return a model that prefers b where the feature is above 0, as much as the slope; without a slope it says a."""
    return np.array([[-slope, slope, 0.0, 0.0, *mix]], dtype=np.float32)


def serving_runtime(
    windows: SlidingWindows | None = None,
    serving: Serving | None = PRIOR,
    *,
    rule: LocalRule = RULE,
    trainer: Trainer | None = None,
    n_workers: int = 1,
) -> ClientRuntime:
    """Return what the clients compute in their first round."""
    return runtime_of(windows or labelled(), trainer or mixed_trainer(), rule, serving=serving, n_workers=n_workers)


def serving_clients(
    windows: SlidingWindows | None = None,
    serving: Serving | None = PRIOR,
    *,
    trainer: Trainer | None = None,
) -> SimulatedClients:
    """Return the clients in their first round; client c computes at 10 * (c + 1) ms per sample."""
    windows = windows or labelled()
    devices = Devices(ms_per_sample=10.0 * np.arange(1.0, 4.0), kbps=np.full(3, 1000.0))
    clients = SimulatedClients(
        windows,
        None,
        trainer or mixed_trainer(),
        rule=RULE,
        hardware=Hardware(devices=devices, availability=AlwaysAvailable()),
        serving=serving,
        seed=3,
    )
    clients.begin(0)
    return clients


EVERYONE = np.zeros(3, dtype=np.int64)
"""All three are served by the first model."""
