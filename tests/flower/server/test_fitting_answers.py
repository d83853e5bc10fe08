"""Answers to questions about models arrive as they were, or are refused with a reason."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from fielding.flower.device.local_jobs import JobSettings
from fielding.flower.device.partial_uploads import sent_part
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.flower.server.exchange import Outcome, Task
from fielding.flower.wire.messages import reply_from, reply_records
from fielding.flower.wire.orders import Answer, Order, ProbeReply, Refusal, TrainOrder, TrainReply
from tests.flower import mail
from tests.flower.simulated_wire import exchange_with

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from tests.flower.spoiling import drop, over_the_wire, put, replaced, spoiled

counts = st.integers(0, 2**53)


@given(
    sizes=st.lists(counts, min_size=1, max_size=3),
    value=st.floats(0.0, 1e30) | st.just(np.inf),
    n_models=st.integers(0, 3),
)
def test_answers_to_questions_arrive_as_they_were(sizes: list[int], value: float, n_models: int) -> None:
    sent = ProbeReply(sizes=np.array(sizes), values=np.full((len(sizes), n_models), value))

    got = reply_from(over_the_wire(reply_records(sent)), "probe", mail.EXPECTED)

    assert isinstance(got, ProbeReply)
    assert got.sizes.tolist() == sizes
    np.testing.assert_array_equal(got.values, sent.values)


def doubles(*values: float) -> bytes:
    return np.array(values, dtype="<f8").tobytes()


BAD_ANSWERS = {
    "no answers": drop("answers"),
    "no sizes": drop("answers", "sizes"),
    "no values": drop("answers", "values"),
    "NaN": put("answers", "values", doubles(math.nan, 0.5, 0.0, 0.0)),
    "below 0": put("answers", "values", doubles(-1.0, 0.5, 0.0, 0.0)),
    "half a number": put("answers", "values", b"12345"),
    "too few for all questions": put("answers", "values", doubles(0.5, 0.5, 0.5)),
    "a list of numbers": put("answers", "values", [0.5, 0.5, 0.5, 0.5]),
    "sizes in parts": put("answers", "sizes", [1.5, 2.5]),
    "sizes below 0": put("answers", "sizes", [-1, 4]),
    "a size": put("answers", "sizes", 4),
    "no question": put("answers", "sizes", []),
    "an unknown key": put("answers", "extra", 1),
    "an unknown record": replaced("extra", ConfigRecord({})),
    "another record": replaced("answers", MetricRecord({"sizes": [1], "values": [0.5]})),
}


@pytest.mark.parametrize("spoil", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_malformed_answers_to_questions_are_refused(spoil: Callable[[RecordDict], None]) -> None:
    got = reply_from(spoiled(mail.probe_reply(), spoil), "probe", mail.EXPECTED)

    assert isinstance(got, Refusal)
    assert got.reason == "failed"


# ---- answers that do not fit their orders --------------------------------------------------------------------------


def answered(order: Order, answer: Answer) -> Outcome:
    exchange, wire, _ = exchange_with(1)
    wire.answers = {1: answer}
    return exchange.send([Task(address=1, order=order)])


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (ProbeReply(sizes=np.array([4]), values=np.zeros((1, 2))), "answers have shape (1, 2) instead of (2, 2)"),
        (ProbeReply(sizes=np.array([4, 4]), values=np.zeros((2, 3))), "answers have shape (2, 3) instead of (2, 2)"),
        (ProbeReply(sizes=np.array([4, 4]), values=np.full((2, 2), 1.5)), "a share of right answers is above 1"),
    ],
)
def test_answers_that_are_not_those_to_the_questions_are_refused(reply: ProbeReply, text: str) -> None:
    settled = answered(replace(mail.probe_order(), wanted="accuracies"), reply).settled[0]
    assert (settled.reason, settled.text) == ("failed", text)


def choice() -> TrainOrder:
    return replace(mail.train_order(), others=(mail.model(1.0),))


@pytest.mark.parametrize(
    ("order", "start", "text"),
    [
        (choice(), None, "2 models were offered, and number None is said to be trained"),
        (choice(), 2, "2 models were offered, and number 2 is said to be trained"),
        (mail.train_order(), 0, "1 models were offered, and number 0 is said to be trained"),
    ],
)
def test_who_trained_another_model_than_was_offered_counts_for_nothing_but_its_report(
    order: TrainOrder, start: int | None, text: str
) -> None:
    settled = answered(order, replace(mail.train_reply(), start=start)).settled[0]
    assert (settled.reason, settled.text) == ("failed", text)
    assert isinstance(settled.answer, Refusal)
    assert settled.answer.report is not None


def test_of_a_part_of_a_model_the_other_numbers_are_those_that_training_started_from() -> None:
    settings: dict[str, Json] = JobSettings(client=3, classes=2).record()
    order = replace(choice(), share=0.5, settings=settings)
    trained = np.arange(10, 16, dtype=np.float32)
    part = sent_part(order, trained)
    assert 0 < part.size < 6
    reply = replace(mail.train_reply(), model=part, start=1, is_part=True)
    settled = answered(order, reply).settled[0]
    assert isinstance(settled.answer, TrainReply)
    is_sent = settled.answer.model >= 10
    assert settled.answer.model[is_sent].tolist() == part.tolist()
    assert settled.answer.model[~is_sent].tolist() == [1.0] * (6 - part.size)  # of the model that it chose

    for wrong in (replace(reply, model=trained), replace(reply, is_part=False), replace(reply, model=part[1:])):
        assert answered(order, wrong).settled[0].reason == "failed"
    assert answered(replace(order, share=None), reply).settled[0].reason == "failed"
