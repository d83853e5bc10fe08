"""Orders and replies for tests: small, and each with numbers of its own."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from fielding._typing import Models
from fielding.federation.clients import Updates
from fielding.federation.evaluation import ClientScores
from fielding.flower.device.state import one_update
from fielding.flower.wire.messages import MESSAGE_TYPES, order_records
from fielding.flower.wire.orders import (
    DescribeOrder,
    DescribeReply,
    EvaluateOrder,
    EvaluateReply,
    Expected,
    Order,
    ProbeOrder,
    ProbeReply,
    Report,
    TrainOrder,
    TrainReply,
)
from fielding.training.layout import Layout
from tests.flower.devices import WORK, one_job

if TYPE_CHECKING:
    from flwr.app import Message

LAYOUT = Layout(names=("weight", "bias"), shapes=((2, 2), (2,)), n_parameters=2)
EXPECTED = Expected(n_numbers=6, kind="histogram", n_features=2)


def model(value: float = 0.0) -> Models:
    return np.full(6, value, dtype=np.float32)


def train_order(round_index: int = 0, **wishes: Any) -> TrainOrder:
    return TrainOrder(
        run_id="run",
        round_index=round_index,
        plan=one_job(**wishes),
        layout=LAYOUT,
        work=WORK,
        seed=7,
    )


def describe_order(round_index: int = 0) -> DescribeOrder:
    return DescribeOrder(run_id="run", round_index=round_index, seed=7)


def evaluate_order(round_index: int = 0) -> EvaluateOrder:
    return EvaluateOrder(run_id="run", round_index=round_index, model=model(), layout=LAYOUT, work=WORK, seed=7)


def probe_order(round_index: int = 0) -> ProbeOrder:
    """Return an order to say how two models do on the window, and on two intervals."""
    return ProbeOrder(
        run_id="run",
        round_index=round_index,
        seed=7,
        wanted="losses",
        models=np.stack([model(1.0), model(2.0)]),
        layout=LAYOUT,
        work=WORK,
        blocks=(None, (0, 1)),
    )


def report(number: int = 1) -> Report:
    return Report(number=number, representation=np.array([0.25, 0.75], dtype=np.float32), n_samples=4, kind="label")


def updates(trained: Models, *losses: float, n_samples: int = 4, start: int = -1) -> Updates:
    """Return what one job gave; losses: mean, mean of squares, and perhaps that before training."""
    return one_update(trained, n_samples=n_samples, losses=np.array(losses or (0.5, 0.25)), start=start)


def train_reply(value: float = 1.0) -> TrainReply:
    return TrainReply(updates=updates(model(value)), report=report())


def describe_reply(partition: int | None = None) -> DescribeReply:
    return DescribeReply(n_samples=4, report=report(), partition=partition)


def scores(n_test: int, correct: int, loss: float, **also: ClientScores) -> ClientScores:
    """Return how a model does on the test samples of one client."""
    return ClientScores(
        clients=np.zeros(1, dtype=np.int64),
        n_test=np.array([n_test]),
        correct=np.array([correct]),
        loss=np.array([loss]),
        also=also,
    )


def evaluate_reply() -> EvaluateReply:
    return EvaluateReply(scores=scores(4, 3, 0.5))


def probe_reply() -> ProbeReply:
    """Return an answer to :func:`probe_order`; there are no samples of the two intervals."""
    return ProbeReply(sizes=np.array([4, 0]), values=np.array([[0.5, 1.5], [0.0, 0.0]]))


def instruction(order: Order) -> "Message":
    """Return an order as Flower hands it to a client app; only Flower's own processes may make such a message."""
    from flwr.app import Message, Metadata

    metadata = Metadata(
        run_id=1,
        message_id="asked",
        src_node_id=1,
        dst_node_id=42,
        reply_to_message_id="",
        group_id="0",
        created_at=time.time(),
        ttl=60.0,
        message_type=MESSAGE_TYPES[order.verb],
    )
    return Message(content=order_records(order), metadata=metadata)  # type: ignore[call-overload]
