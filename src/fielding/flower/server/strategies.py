"""Flower's own aggregation strategies, one cluster at a time."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from fielding._extras import require
from fielding._typing import Models
from fielding.errors import OptionError
from fielding.federation.aggregation import Uploads
from fielding.federation.models import mean_model

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp.strategy import Strategy

REMEMBERING = {
    "FedOpt": "fedadam, fedyogi or fedadagrad",
    "QFedAvg": "q-fedavg",
    "FedProx": "mean and training.prox",
}
"""Flower's strategies that need more than the models of one round, and what Fielding has in their place."""
MOMENTUM = "momentum"  # what FedAvgM remembers of a cluster, as Fielding keeps it
_PARAMETERS, _EXAMPLES = "parameters", "num-examples"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlowerStrategy:
    """Combines the models of each cluster's participants as a strategy of Flower does.

    Every cluster in every round gets a strategy of its own, so nothing of one cluster reaches another. Participants
    count by their numbers of samples. A result that is none, or not finite, is not taken: the cluster keeps its model.
    The momentum of FedAvgM is kept for each cluster outside of the strategy: it is in checkpoints, and a re-clustering
    shares it out with the models.

    Parameters
    ----------
    make
        Makes the strategy, as ``lambda: FedTrimmedAvg(beta=0.2)``.

    Raises
    ------
    OptionError
        If the strategy remembers anything else from round to round: it would be lost with the process, and clusters
        come and go. Fielding has such aggregations of its own.
    """

    make: "Callable[[], Strategy]"
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require("flower")
        made = self.make()
        if not callable(getattr(made, "aggregate_train", None)):
            raise OptionError(f"make gave a {type(made).__name__}; give a function that returns a strategy of Flower")
        for family in type(made).__mro__:
            if family.__name__ in REMEMBERING:
                raise OptionError(
                    f"{type(made).__name__} needs more than the models of one round; set aggregation.name to "
                    f"{REMEMBERING[family.__name__]} instead"
                )

    def __repr__(self) -> str:
        """Return what a manifest says: the strategy's name."""
        return f"FlowerStrategy({type(self.make()).__name__})"

    @property
    def memory(self) -> Mapping[str, float]:
        """The momentum of FedAvgM; other strategies remember nothing."""
        return {MOMENTUM: 0.0} if _has_momentum(self.make()) else {}

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the model that the strategy makes of the uploads, and its momentum; buffers take their mean."""
        n_parameters, replies = uploads.n_parameters, _replies(uploads)
        strategy: Any = self.make()
        if _has_momentum(strategy):
            from flwr.app import Array, ArrayRecord

            strategy.current_arrays = ArrayRecord({_PARAMETERS: Array(model[:n_parameters].astype(np.float32))})
            strategy.momentum_vector = [memory[MOMENTUM][:n_parameters].astype(np.float32)]
        try:
            arrays, _ = strategy.aggregate_train(1, replies)
        except Exception as error:  # the run goes on: a cluster may be too small for a strategy
            return self._keep(model, memory, f"failed with {type(error).__name__}: {error}")
        found = None if arrays is None else arrays.to_numpy_ndarrays()
        if not found or found[0].shape != (n_parameters,) or not np.isfinite(found[0]).all():
            return self._keep(model, memory, "gave no model")
        combined = model.copy()
        combined[:n_parameters] = found[0]
        if n_parameters < model.size:
            combined[n_parameters:] = mean_model(uploads.models[:, n_parameters:], uploads.weights)
        remembered = {name: array.copy() for name, array in memory.items()}
        if MOMENTUM in remembered:
            (momentum,) = strategy.momentum_vector
            remembered[MOMENTUM][: momentum.size] = momentum
        return combined, remembered

    def _keep(self, model: Models, memory: Mapping[str, Models], why: str) -> tuple[Models, dict[str, Models]]:
        _LOG.warning("%r %s; the cluster keeps its model", self, why)
        return model.copy(), {name: array.copy() for name, array in memory.items()}


def _has_momentum(strategy: object) -> bool:
    return any(family.__name__ == "FedAvgM" for family in type(strategy).__mro__)


def _replies(uploads: Uploads) -> "list[Message]":
    """Return the uploads as replies that a strategy may do with what it wants: some empty them."""
    from flwr.app import Array, ArrayRecord, Message, Metadata, MetricRecord, RecordDict

    weights = np.ones(uploads.models.shape[0]) if uploads.weights is None else uploads.weights
    replies = []
    for at, (model, weight) in enumerate(zip(uploads.models, weights.tolist(), strict=True), start=1):
        content = RecordDict(
            {
                "arrays": ArrayRecord({_PARAMETERS: Array(model[: uploads.n_parameters].astype(np.float32))}),
                "metrics": MetricRecord({_EXAMPLES: int(weight) if float(weight).is_integer() else weight}),
            }
        )
        asked = Metadata(
            run_id=1,
            message_id=str(at),
            src_node_id=1,
            dst_node_id=at,
            reply_to_message_id="",
            group_id="",
            created_at=time.time(),
            ttl=60.0,
            message_type="train",
        )
        # A message of one's own would need a task of Flower's around it; one with its metadata needs nothing.
        question = cast(Any, Message)(content=RecordDict(), metadata=asked)
        replies.append(Message(content, reply_to=question))
    return replies
