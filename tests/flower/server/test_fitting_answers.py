"""Answers that do not fit their orders count for nothing but their reports; parts of models are made whole."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fielding._typing import Mask
from fielding.flower.server.exchange import Settled, Task
from fielding.flower.wire.orders import Answer, Order, ProbeReply, Refusal, TrainOrder, TrainReply
from fielding.rng import client_key
from fielding.runtime.train import sent_numbers
from tests.flower import mail
from tests.flower.devices import WORK
from tests.flower.simulated_wire import exchange_with

TWO_MODELS = np.stack([mail.model(0.0), mail.model(1.0)])


def answered(order: Order, answer: Answer) -> Settled:
    exchange, wire, _ = exchange_with(1)
    wire.answers = {1: answer}
    (settled,) = exchange.send([Task(address=1, order=order)])[0]
    return settled


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (ProbeReply(sizes=np.array([4]), values=np.zeros((1, 2))), "answers have shape (1, 2) instead of (2, 2)"),
        (ProbeReply(sizes=np.array([4, 4]), values=np.zeros((2, 3))), "answers have shape (2, 3) instead of (2, 2)"),
        (ProbeReply(sizes=np.array([4, 4]), values=np.full((2, 2), 1.5)), "a share of right answers is above 1"),
    ],
)
def test_answers_that_are_not_those_to_the_questions_are_refused(reply: ProbeReply, text: str) -> None:
    settled = answered(replace(mail.probe_order(), wanted="accuracies"), reply)

    assert (settled.reason, settled.text) == ("failed", text)


def choice(**wishes: Any) -> TrainOrder:
    return mail.train_order(model=TWO_MODELS, chooses=True, **wishes)


def trained(*losses: float, start: int = -1) -> TrainReply:
    return replace(mail.train_reply(), updates=mail.updates(mail.model(2.0), *losses, start=start))


@pytest.mark.parametrize(
    ("order", "reply", "text"),
    [
        (choice(), trained(), "2 models were offered, and number None is said to be trained"),
        (choice(), trained(start=2), "2 models were offered, and number 2 is said to be trained"),
        (mail.train_order(), trained(start=0), "1 models were offered, and number 0 is said to be trained"),
        (mail.train_order(with_start_loss=True), trained(), "the loss before training is missing"),
        (
            mail.train_order(upload_shares=np.array([0.5])),
            trained(),
            "a part of a model came",
        ),
    ],
)
def test_training_that_was_not_ordered_counts_for_nothing_but_its_report(
    order: TrainOrder, reply: TrainReply, text: str
) -> None:
    settled = answered(order, reply)

    assert settled.reason == "failed"
    assert settled.text.startswith(text)
    assert isinstance(settled.answer, Refusal)
    assert settled.answer.report is not None
    assert settled.answer.report.number == 1


def test_training_as_it_was_ordered_counts() -> None:
    for order, reply, start in ((choice(), trained(start=1), 1), (mail.train_order(), trained(), 0)):
        settled = answered(order, reply)
        assert settled.reason is None
        assert isinstance(settled.answer, TrainReply)
        assert settled.answer.updates.start.tolist() == [start]
    told = answered(mail.train_order(with_start_loss=True), trained(0.5, 0.25, 9.0))
    assert isinstance(told.answer, TrainReply)
    assert told.answer.updates.start_loss is not None


def sent(share: float) -> Mask:
    """Return which of six numbers the client of these orders sends."""
    key = np.array([client_key(WORK.client)], dtype=np.uint64)
    return np.asarray(sent_numbers(share, 6, seed=7, round_index=0, key=key))


def test_of_a_part_of_a_model_the_other_numbers_are_those_that_training_started_from() -> None:
    order, is_sent = choice(upload_shares=np.array([0.5])), sent(0.5)
    assert 0 < is_sent.sum() < 6
    whole = np.arange(10, 16, dtype=np.float32)
    part = TrainReply(updates=mail.updates(whole[is_sent], start=1), is_part=True)

    settled = answered(order, part)

    assert isinstance(settled.answer, TrainReply)
    model = settled.answer.updates.models[0]
    assert model.tolist() == np.where(is_sent, whole, 1.0).tolist(), "the others are those of the model that it chose"
    assert not settled.answer.is_part
    shorter = replace(part, updates=mail.updates(whole[is_sent][1:], start=1))
    for wrong in (replace(part, updates=mail.updates(whole, start=1)), replace(part, is_part=False), shorter):
        assert answered(order, wrong).reason == "failed"
    assert answered(choice(), part).reason == "failed"
