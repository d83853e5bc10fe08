"""The same dense networks in every trainer, and as plain PyTorch modules."""

from functools import cache

import numpy as np
import torch
from torch import nn

from fielding._typing import Models
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.layout import Layout
from fielding.training.trainer import Trainer
from tests.training.jobs import samples

INPUTS, HIDDEN, CLASSES = 4, 5, 3
POOL = samples((INPUTS,), CLASSES)
_MODULE = "tests.training.modules:hidden_layer"


@cache
def trainer_of(kind: str) -> Trainer:
    """Return the trainer of a network of 5 hidden units: ``numpy``, ``stacked`` or ``module``; or of ``softmax``."""
    library = "numpy" if kind.startswith("numpy") else "torch"
    name = "softmax" if kind.endswith("softmax") else _MODULE if kind == "module" else "mlp"
    return trainer_for(
        ModelRequest(name=name, input_shape=(INPUTS,), n_classes=CLASSES, hidden=HIDDEN, trainer=library)
    )


def module_of(layout: Layout, model: Models) -> nn.Module:
    """Return the network of a dense model, for autograd."""
    hidden = [nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)]
    module = nn.Sequential(*hidden) if len(layout.names) > 2 else nn.Linear(INPUTS, CLASSES)
    module.load_state_dict({name: torch.tensor(part) for name, part in layout.tensors(model).items()})
    return module


def gradient_of(module: nn.Module, names: tuple[str, ...]) -> np.ndarray:
    """Return what autograd left at some parameters of a module, as one vector."""
    named = dict(module.named_parameters())
    slopes = [named[name].grad for name in names]
    return np.concatenate([slope.reshape(-1).numpy() for slope in slopes if slope is not None])


def softmax_errors(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of each sample's loss by its scores, float64, shape ``(n_samples, n_classes)``."""
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True) - np.eye(scores.shape[1])[labels])
