"""Training on a device, by Fielding's code or the user's own, with what the device keeps for it between rounds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from fielding._typing import Models
from fielding.errors import InputError
from fielding.flower.device.local_jobs import Beside, Training, label_shares, settings_from, trained_here
from fielding.flower.device.own_code import OwnCode, checked_fitted, named_arrays, shown_model
from fielding.flower.device.previous_model import keep_model, previous_model
from fielding.flower.device.rehearsal import rehearsed
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import DeviceNode, Fitted, Job, Kept, Tensors, Train
from fielding.flower.device.scoring import DeviceScoring
from fielding.flower.device.state import DeviceState
from fielding.flower.wire.orders import TrainOrder
from fielding.training.label_mix import LABEL_MIX, moved_mixes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workplace:
    """Where a device trains.

    Parameters
    ----------
    node
        Where this is, with the folder of the run.
    state
        What the device knows of its data.
    rule
        How rounds map to intervals.
    own
        The user's own code.
    """

    node: DeviceNode
    state: DeviceState
    rule: DeviceRule
    own: OwnCode

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.node.folder


def device_training(order: TrainOrder, samples: Kept, place: Workplace) -> Training:
    """Return what a job gives; what the device keeps of it is on disk before that.

    Parameters
    ----------
    order
        To train one model.
    samples
        What the order is about, at least one.
    place
        Where this is.
    """
    scoring = DeviceScoring(order.layout, settings_from(order.settings), place.own)
    beside = _beside(order, place, scoring)
    if place.own.train is None:
        training = trained_here(order, samples, factory=place.own.model, beside=beside)
    else:
        train = partial(_fitted, place.own.train, _job(order, place, scoring))
        training = _own_training(order, samples, train, scoring=scoring, beside=beside)
    if scoring.settings.moon:
        keep_model(place.folder, order, training.model)
    return training


def _beside(order: TrainOrder, place: Workplace, scoring: DeviceScoring) -> Beside:
    """Return what the device brings along: samples that it remembers, and the model that it trained last."""
    settings, beside = scoring.settings, Beside()
    if settings.rehearsal:
        remembered = rehearsed(
            order,
            place.state,
            folder=place.folder,
            interval_of=place.rule.interval_of,
            losses=lambda looked_at: scoring.judged(order.model, looked_at)[0],
        )
        beside = replace(beside, remembered=remembered)
    return replace(beside, previous=previous_model(place.folder, order)) if settings.moon else beside


def _job(order: TrainOrder, place: Workplace, scoring: DeviceScoring) -> Job:
    return scoring.settings.job(order, replace(place.node, since=place.state.round_index))


def _fitted(train: Train, job: Job, tensors: Tensors, samples: Kept) -> Fitted:
    return checked_fitted(train(tensors, samples.shown(), job))


def _own_training(
    order: TrainOrder,
    samples: Kept,
    train: Callable[[Tensors, Kept], Fitted],
    *,
    scoring: DeviceScoring,
    beside: Beside,
) -> Training:
    if order.pull is not None:
        raise InputError("the method pulls models toward others, which one's own train cannot do; choose another")
    if scoring.settings.moon:
        raise InputError(
            "training.moon contrasts models with earlier ones, which one's own train cannot do; leave it out"
        )
    start_loss = scoring.score(order.model, samples)[1] if order.with_start_loss else None
    at_hand = beside.remembered.followed_by(samples)
    fitted = train(shown_model(order.layout, order.model), at_hand)
    return Training(
        model=_flat(order, fitted, at_hand, mix_rate=scoring.settings.mix_rate),
        n_samples=fitted.n_samples,
        loss=fitted.loss,
        square_loss=fitted.loss**2 if fitted.square_loss is None else fitted.square_loss,
        start_loss=start_loss,
    )


def _flat(order: TrainOrder, fitted: Fitted, samples: Kept, *, mix_rate: float) -> Models:
    """Return a model of the user's own training, with the label mix that it carries moved to that of the samples."""
    tensors = named_arrays(fitted.model, "train")
    carried = order.layout.tensors(order.model).get(LABEL_MIX)
    if carried is not None:
        mixes = label_shares(samples, carried.size).astype(np.float32)
        tensors[LABEL_MIX] = moved_mixes(carried[np.newaxis], mixes, rate=mix_rate, is_balanced=False)[0]
    return order.layout.flat(tensors)
