"""What runs on every node: samples, and the training and test of `task.py` in the words of Fielding.

PyTorch is imported inside functions: every message starts a process, and most of them only ask what is new.
"""

from typing import TYPE_CHECKING

import numpy as np

from fielding.flower.client_side import client_app
from fielding.flower.samples import DeviceNode, Fitted, Job, Samples, Scored, Tensors

if TYPE_CHECKING:
    from .task import Batches, Net

SHARE = 10
"""One in so many digits of a place comes to a node in each round."""
MOVER, MOVE = 3, 2
"""Which node moves to the other place, and in which round."""


def load_data(node: DeviceNode, round_index: int) -> Samples:
    """Return the samples that came after round ``node.since``; a real device reads its sensor or table here."""
    from sklearn.datasets import load_digits

    digits, number = load_digits(), node.partition or 0
    rows, rounds = [], []
    for at in range(0 if node.since is None else node.since + 1, round_index + 1):
        place = (number + (number == MOVER and at >= MOVE)) % 2
        seen = np.flatnonzero(digits.target // 5 == place)[(number + 3 * at) % SHARE :: SHARE]
        rows.append(seen)
        rounds.append(np.full(len(seen), at))
    if not rows:
        return Samples(np.empty((0, 1, 8, 8)), np.empty(0, dtype=np.int64))
    chosen = np.concatenate(rows)
    return Samples(digits.images[chosen, np.newaxis] / 16, digits.target[chosen], rounds=np.concatenate(rounds))


def train(model: Tensors, samples: Samples, job: Job) -> Fitted:
    """Train the model that came on the samples of the window."""
    from . import task

    net = _net(model)
    loss = task.train(
        net, _batches(samples, shuffle=True), epochs=int(str(job.node.config["own.epochs"])), lr=job.learning_rate
    )
    return Fitted(net, len(samples), loss)


def evaluate(model: Tensors, samples: Samples) -> Scored:
    """Test the model that came on samples that were never trained on."""
    from . import task

    loss, accuracy = task.test(_net(model), _batches(samples))
    return Scored(len(samples), round(accuracy * len(samples)), loss)


def _net(model: Tensors) -> "Net":
    import torch

    from .task import Net

    net = Net()
    net.load_state_dict({name: torch.from_numpy(array) for name, array in model.items()})
    return net


def _batches(samples: Samples, *, shuffle: bool = False) -> "Batches":
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(torch.as_tensor(samples.x), torch.as_tensor(samples.y)), 20, shuffle=shuffle)


app = client_app(load_data=load_data, train=train, evaluate=evaluate)
