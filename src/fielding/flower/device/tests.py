"""How well a model serves a device: as it is, corrected to the label mix of its window, and after steps of its own."""

from dataclasses import replace

import numpy as np

from fielding.errors import InputError
from fielding.flower.device.local_jobs import Beside, settings_from, summed_up, trained_here
from fielding.flower.device.own_code import OwnCode, own_score, shown_model
from fielding.flower.device.samples import Evaluate, Kept
from fielding.flower.device.scoring import DeviceScoring
from fielding.flower.wire.orders import EvaluateOrder, TrainOrder
from fielding.flower.wire.replies import EvaluateReply, Score
from fielding.rng import client_key, hashed
from fielding.training.head import Judged, judged
from fielding.training.trainer import Scores

NO_TEST = EvaluateReply(n_test=0, correct=0, loss=float("nan"))
"""What is said by a device that has nothing to test on, or nothing to train on: models are not made for it."""


def device_test(order: EvaluateOrder, window: Kept, own: OwnCode) -> EvaluateReply:
    """Return how the model of an order does on the test samples of a window.

    Parameters
    ----------
    order
        The model, and what else is to be done with it.
    window
        The samples of the device.
    own
        The user's own code; if she trains, nothing is tuned.
    """
    samples, training = window.testing(), window.training()
    if not samples.y.size or not training.y.size:
        return NO_TEST
    scoring = DeviceScoring(order.layout, settings_from(order.settings), own)
    offsets = scoring.offsets(order.model, training) if scoring.settings.is_corrected else None
    if own.evaluate is not None:
        return _own_test(order, samples, own.evaluate, scoring=scoring, offsets=offsets)
    if offsets is None:
        reply = _reply(scoring.judged(order.model, samples))
    else:
        scores = scoring.seen(order.model, samples)[1]
        reply = _with(_reply(judged(scores, samples.y)), "corrected", judged(scores + offsets, samples.y))
    if not scoring.settings.fine_tune:
        return reply
    return _with(reply, "tuned", _tuned(order, window, own, scoring=scoring, offsets=offsets))


def _reply(found: Judged) -> EvaluateReply:
    correct, loss = summed_up(found)
    return EvaluateReply(n_test=int(found[1].size), correct=correct, loss=loss)


def _with(reply: EvaluateReply, name: str, found: Judged) -> EvaluateReply:
    correct, loss = summed_up(found)
    return replace(reply, also={**reply.also, name: Score(correct=correct, loss=loss)})


def _own_test(
    order: EvaluateOrder, samples: Kept, evaluate: Evaluate, *, scoring: DeviceScoring, offsets: Scores | None
) -> EvaluateReply:
    scored = own_score(evaluate, shown_model(order.layout, order.model), samples)
    reply = EvaluateReply(n_test=scored.n_test, correct=scored.correct, loss=scored.loss)
    if offsets is None:
        return reply
    if reply.n_test != samples.y.size:
        raise InputError(
            f"evaluate tested {reply.n_test} of {samples.y.size} samples, but corrected models are tested on all; "
            "test all of them"
        )
    return _with(reply, "corrected", judged(scoring.seen(order.model, samples)[1] + offsets, samples.y))


def _tuned(
    order: EvaluateOrder, window: Kept, own: OwnCode, *, scoring: DeviceScoring, offsets: Scores | None
) -> Judged:
    """Return how the model does after a few steps of the device, drawn as in the simulator; corrected all along."""
    settings = scoring.settings
    job = TrainOrder(
        run_id=order.run_id,
        round_index=order.round_index,
        model=order.model,
        layout=order.layout,
        settings=replace(settings, balanced=False).record(),
        n_steps=settings.fine_tune,
        seed=order.seed,
    )
    keys = hashed(order.seed, "fine tuning", np.array([client_key(settings.client)], dtype=np.uint64))
    beside = Beside(keys=keys, offsets=offsets)
    tuned = trained_here(job, window.training(), factory=own.model, beside=beside).model
    samples = window.testing()
    if offsets is None:
        return scoring.judged(tuned, samples)
    return judged(scoring.seen(tuned, samples)[1] + offsets, samples.y)
