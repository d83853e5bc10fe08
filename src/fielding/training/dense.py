"""Softmax regression and one-hidden-layer networks: their tensors and their first weights, for both trainers."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from fielding._typing import Models
from fielding.errors import OptionError, echo
from fielding.rng import stream
from fielding.training.layout import Layout

HIDDEN = 64
"""Hidden units of an ``"mlp"`` if nobody says how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Fully connected layers: inputs, hidden units with ReLU if there are any, scores of the classes.

    Tensors have the names, shapes and order of ``torch.nn.Linear(n_inputs, n_classes)`` or of
    ``torch.nn.Sequential(Linear(n_inputs, n_hidden), ReLU(), Linear(n_hidden, n_classes))``.

    Parameters
    ----------
    n_inputs
        Numbers per sample; samples of more dimensions are flattened.
    n_hidden
        Hidden units; 0 for softmax regression.
    n_classes
        Classes.

    Examples
    --------
    >>> Dense(n_inputs=100, n_hidden=64, n_classes=10).layout.size
    7114
    """

    n_inputs: int
    n_hidden: int
    n_classes: int

    def __post_init__(self) -> None:
        for name, number, least in (
            ("n_inputs", self.n_inputs, 1),
            ("hidden", self.n_hidden, 0),
            ("n_classes", self.n_classes, 1),
        ):
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise OptionError(f"{name} is {echo(number)}; give a whole number of at least {least}")

    @property
    def layout(self) -> Layout:
        """The tensors."""
        if not self.n_hidden:
            return Layout(
                names=("weight", "bias"),
                shapes=((self.n_classes, self.n_inputs), (self.n_classes,)),
                n_parameters=2,
            )
        return Layout(
            names=("0.weight", "0.bias", "2.weight", "2.bias"),
            shapes=(
                (self.n_hidden, self.n_inputs),
                (self.n_hidden,),
                (self.n_classes, self.n_hidden),
                (self.n_classes,),
            ),
            n_parameters=4,
        )

    def initial_model(self, seed: int) -> Models:
        """Return weights and biases drawn evenly from +-1/sqrt(inputs of the layer), PyTorch's default."""
        rng = stream(seed, "initial model")
        fans = (self.n_inputs, self.n_inputs, self.n_hidden, self.n_hidden)
        parts = [
            rng.uniform(-1.0 / sqrt(fan), 1.0 / sqrt(fan), size=size)
            for fan, size in zip(fans, self.layout.sizes, strict=False)
        ]
        return np.concatenate(parts).astype(np.float32)
