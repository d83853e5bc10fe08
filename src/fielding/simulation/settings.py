"""How simulated clients train, and what they run on."""

from dataclasses import dataclass

from fielding.simulation.availability import Availability
from fielding.simulation.devices import Devices
from fielding.training.rates import LearningRate
from fielding.training.trainer import Sgd


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRule:
    """How every participant trains.

    Parameters
    ----------
    n_steps, batch_size
        Local steps per round, and samples per step.
    rate
        Learning rate by round.
    momentum, weight_decay, prox
        As in :class:`~fielding.training.trainer.Sgd`.
    moon, moon_temperature
        MOON: weight of the contrastive part of the loss, 0 for none, and its temperature; see
        :class:`~fielding.training.trainer.Contrast`.
    rehearsal
        CDA-FedAvg: whether clients watch for drift, and train on samples from before it, too; see
        :class:`~fielding.simulation.rehearsal.Rehearsal`.
    balanced
        Whether the logarithm of a participant's label mix is added to the scores inside its loss, so that the model
        learns what does not depend on the mix (FedLC).
    """

    n_steps: int
    batch_size: int
    rate: LearningRate
    momentum: float = 0.0
    weight_decay: float = 0.0
    prox: float = 0.0
    moon: float = 0.0
    moon_temperature: float = 0.5
    rehearsal: bool = False
    balanced: bool = False

    def sgd(self, round_index: int) -> Sgd:
        """Return the rule of a step in a round."""
        return Sgd(
            learning_rate=self.rate.at(round_index),
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            prox=self.prox,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hardware:
    """What clients run on.

    Parameters
    ----------
    devices
        How fast each computes and transfers.
    availability
        Who is there when.
    overcommit
        How many are asked for each answer that is wanted.
    """

    devices: Devices
    availability: Availability
    overcommit: float = 1.0
