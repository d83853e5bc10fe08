"""Steps of SGD in PyTorch, on one participant or on many."""

import torch

from fielding.training.trainer import Sgd


class Descent:
    """Steps of :class:`~fielding.training.trainer.Sgd` on a tensor of any shape, in place.

    Parameters
    ----------
    sgd
        The rule.
    weights
        The weights that FedProx pulls toward, as they are now.
    rates
        Learning rates in place of the rule's, to be multiplied with weights; None: the rule's.
    pull
        Other weights to pull toward, in the shape of the weights, and the strength on each number; None: no pull.
    """

    def __init__(
        self,
        sgd: Sgd,
        weights: torch.Tensor,
        *,
        rates: torch.Tensor | None = None,
        pull: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self._sgd = sgd
        self._rates = rates
        self._pull = None if pull is None else (pull[1], pull[0] * pull[1])
        self._anchor = weights.clone() if sgd.prox else None
        self._velocity: torch.Tensor | None = None

    def step(self, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        """Move the weights; the gradient is used up."""
        sgd = self._sgd
        if sgd.weight_decay or sgd.prox:
            gradient.add_(weights, alpha=sgd.weight_decay + sgd.prox)
        if self._anchor is not None:
            gradient.add_(self._anchor, alpha=-sgd.prox)
        if self._pull is not None:
            strength, offset = self._pull
            gradient.addcmul_(weights, strength).sub_(offset)
        if sgd.momentum:
            gradient = self._with_velocity(gradient)
        if self._rates is None:
            weights.add_(gradient, alpha=-sgd.learning_rate)
        else:
            weights.addcmul_(gradient, self._rates, value=-1.0)

    def _with_velocity(self, gradient: torch.Tensor) -> torch.Tensor:
        if self._velocity is None:
            self._velocity = gradient.clone()
        else:
            self._velocity.mul_(self._sgd.momentum).add_(gradient)
        return self._velocity
