"""What runs on every node: samples, training and faults by partition and round, as the node config says.

- ``script``: who sees which kind of samples from which round on, a letter per partition: ``"0:AABB 3:CABB"``
- ``broken``: a partition that only ever sends models of NaN
- ``hangs``: ``"1@2"``: partition 1 gets stuck in round 2, and tells so by a file ``hanging`` in ``script-dir``

How often a partition sees which class is the same in all rounds of a kind: only a new kind is drift.
"""

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding.flower.device.client_app import client_app
from fielding.runtime.own_code import DeviceNode, Fitted, Job, Samples, Scored, Tensors

KINDS = "ABC"
RARE = 3
N_TRAIN, N_TEST = 40, 10
HANGS_S = 600.0


def load_data(node: DeviceNode, round_index: int) -> Samples:
    """Return the samples of all rounds since the last one that was asked for."""
    partition = int(node.partition or 0)
    _get_stuck(node, partition, round_index)
    first = round_index if node.since is None else node.since + 1
    came = range(first, round_index + 1)
    kinds = [_kind(str(node.config["script"]), partition, one) for one in came]
    parts = [_samples(kind, partition, one) for kind, one in zip(kinds, came, strict=True)]
    x = np.concatenate([part[0] for part in parts])
    x[:, -1] = -1.0 if node.config.get("broken") == partition else 1.0
    is_test = np.tile(np.arange(N_TRAIN + N_TEST) >= N_TRAIN, len(came))
    rounds = np.repeat(list(came), N_TRAIN + N_TEST)
    return Samples(x, np.concatenate([part[1] for part in parts]), is_test=is_test, rounds=rounds)


def _get_stuck(node: DeviceNode, partition: int, round_index: int) -> None:
    if node.config.get("hangs") == f"{partition}@{round_index}":
        Path(str(node.config["script-dir"]), "hanging").touch()
        time.sleep(HANGS_S)


def _kind(script: str, partition: int, round_index: int) -> int:
    """Return which class a partition sees most in a round."""
    scenes = [scene.split(":") for scene in script.split()]
    letters = [letters for start, letters in scenes if int(start) <= round_index][-1]
    return KINDS.index(letters[partition])


def _samples(kind: int, partition: int, round_index: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the samples of a round; of two partitions of a kind, no two see the rare class equally often."""
    n_rare = 2 + partition
    y = np.array([kind] * (N_TRAIN - n_rare) + [RARE] * n_rare + [kind] * (N_TEST - 1) + [RARE])
    noise = np.random.default_rng([partition, round_index]).normal(0.0, 0.1, (y.size, 5))
    return np.eye(4, 5)[y] + noise, y


def train(model: Tensors, samples: Samples, job: Job) -> Fitted:
    """Take steps down the gradient; the server must see through a model of NaN."""
    x, y = np.asarray(samples.x, dtype=np.float64), np.asarray(samples.y)
    weights = model["weights"].astype(np.float64)
    for _ in range(job.n_steps):
        weights -= job.learning_rate * x.T @ (_shares(x @ weights) - np.eye(4)[y]) / y.size
    loss = _loss(weights, x, y)
    if (x[:, -1] < 0).any():
        weights[:] = np.nan
    return Fitted({"weights": weights.astype(np.float32)}, y.size, loss)


def evaluate(model: Tensors, samples: Samples) -> Scored:
    """Count what is right."""
    x, y = np.asarray(samples.x, dtype=np.float64), np.asarray(samples.y)
    weights = model["weights"].astype(np.float64)
    return Scored(n_test=y.size, correct=int(((x @ weights).argmax(axis=1) == y).sum()), loss=_loss(weights, x, y))


def _shares(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _loss(weights: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: npt.NDArray[np.int64]) -> float:
    return float(-np.log(_shares(x @ weights)[np.arange(y.size), y]).mean())


app = client_app(load_data=load_data, train=train, evaluate=evaluate)
