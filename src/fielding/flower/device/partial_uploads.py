"""Which numbers of its model a client sends if it may not send all: server and client know them from the same draw."""

import numpy as np

from fielding._typing import Mask, Models
from fielding.errors import InputError
from fielding.flower.device.local_jobs import settings_from
from fielding.flower.wire.orders import TrainOrder
from fielding.rng import client_key, hashed


def sent_part(order: TrainOrder, model: Models) -> Models:
    """Return the numbers of a model that an order wants, float32, shape ``(n_sent,)``."""
    return model if order.share is None else np.ascontiguousarray(model[_is_sent(order, model.size)])


def whole_model(order: TrainOrder, part: Models, start: Models) -> Models:
    """Return the model of which a part was sent; the other numbers are those that training started from.

    Parameters
    ----------
    order
        What was asked.
    part
        What came, shape ``(n_sent,)``.
    start
        What training started from, shape ``(n_numbers,)``.

    Raises
    ------
    InputError
        If it is not as long as the order says.
    """
    is_sent = _is_sent(order, start.size)
    n_sent = int(np.count_nonzero(is_sent))
    if part.size != n_sent:
        raise InputError(f"a part of a model has {part.size} numbers; the order wanted {n_sent}")
    model = start.copy()
    model[is_sent] = part
    return model


def _is_sent(order: TrainOrder, n_numbers: int) -> Mask:
    """Return which numbers are sent, shape ``(n_numbers,)``; drawn as in the simulator."""
    if order.share is None or order.share >= 1.0:
        return np.ones(n_numbers, dtype=np.bool_)
    key = np.array([client_key(settings_from(order.settings).client)], dtype=np.uint64)
    draw = hashed(order.seed, "send", order.round_index, key)
    numbers = np.arange(n_numbers, dtype=np.uint64)
    return np.asarray(hashed(0, "sent numbers", draw[0], numbers) < np.uint64(order.share * 2**64))
