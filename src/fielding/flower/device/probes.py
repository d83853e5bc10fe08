"""What a device answers to questions about models: how they do on its samples, and which one suits it best."""

from dataclasses import replace

import numpy as np

from fielding._typing import Models
from fielding.flower.device.local_jobs import Scorer, settings_from
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import Kept
from fielding.flower.wire.orders import Block, ProbeOrder, TrainOrder
from fielding.flower.wire.replies import ProbeReply

WORST = float("inf")
"""What a loss that is no number counts as: a model that diverged suits nobody."""


def block_samples(kept: Kept, block: Block, *, window: Kept, rule: DeviceRule) -> Kept:
    """Return the training samples that a question or a job is about.

    Parameters
    ----------
    kept
        All samples that the device still has.
    block
        The intervals that count; None for the window. What the device has thrown away by now is left out.
    window
        The training samples of the window.
    rule
        How rounds map to intervals.
    """
    if block is None:
        return window
    training = kept.training()
    return training.some(np.isin(rule.interval_of(training.rounds), np.array(block, dtype=np.int64)))


def probed(order: ProbeOrder, samples: list[Kept], score: Scorer) -> ProbeReply:
    """Return how the models of an order do on the samples of each of its questions."""
    sizes = np.array([one.y.size for one in samples], dtype=np.int64)
    values = np.zeros((sizes.size, order.n_answers))
    for at in np.flatnonzero(sizes).tolist():
        for column in range(order.n_answers):
            correct, loss = _scored(order.models[column], samples[at], score)
            values[at, column] = loss if order.wanted == "losses" else correct / int(sizes[at])
    return ProbeReply(sizes=sizes, values=values)


def chosen(order: TrainOrder, samples: Kept, score: Scorer) -> tuple[TrainOrder, int | None]:
    """Return an order to train the model that suits the samples best, and which one that is; None without a choice."""
    if not order.others:
        return order, None
    offered = (order.model, *order.others)
    start = int(np.argmin([_scored(model, samples, score)[1] for model in offered]))
    if order.rate_factors:
        settings = replace(settings_from(order.settings), rate_factor=order.rate_factors[start])
        order = replace(order, settings=settings.record())
    return replace(order, model=offered[start], others=(), rate_factors=()), start


def _scored(model: Models, samples: Kept, score: Scorer) -> tuple[int, float]:
    correct, loss = score(model, samples)
    return correct, WORST if np.isnan(loss) else loss
