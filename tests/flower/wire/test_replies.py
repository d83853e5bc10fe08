"""Replies arrive as they were, and whatever else arrives is refused with a reason."""

import importlib.util
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from fielding.flower.wire.fields import MOST_FEATURES
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding.client.report import DRIFT_KINDS
from fielding.flower.wire.messages import reply_from, reply_records
from fielding.flower.wire.orders import (
    LONGEST_TEXT,
    Answer,
    DescribeReply,
    EvaluateReply,
    Expected,
    Refusal,
    Reply,
    Report,
    Score,
    TrainReply,
    Verb,
)
from tests.flower import mail

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from tests.flower.spoiling import array, drop, forged, npy, over_the_wire, put, replaced, spoiled

VECTORS = Expected(n_numbers=6, kind="vector")

numbers = st.floats(-1e30, 1e30)
counts = st.integers(0, 2**53)
vectors = hnp.arrays(np.float32, st.integers(1, 20), elements=st.floats(-(2.0**49), 2.0**49, width=32))
reports = st.builds(
    Report,
    number=st.integers(1, 2**53),
    representation=vectors | st.just(np.empty(0, dtype=np.float32)),
    n_samples=counts,
    kind=st.sampled_from(DRIFT_KINDS) | st.none(),
)
models = hnp.arrays(np.float32, 6, elements=st.floats(-(2.0**99), 2.0**99, width=32))


def assert_same_report(got: Report | None, sent: Report | None) -> None:
    if got is None or sent is None:
        assert got is sent
        return
    assert (got.number, got.n_samples, got.kind) == (sent.number, sent.n_samples, sent.kind)
    assert got.representation.dtype == np.float32
    np.testing.assert_array_equal(got.representation, sent.representation)


# ---- what is sound ---------------------------------------------------------------------------------------------


@given(
    model=models,
    n_samples=st.integers(1, 2**53),
    losses=st.tuples(numbers, numbers, numbers | st.none()),
    report=st.none() | reports,
)
def test_a_trained_model_arrives_as_it_was(
    model: npt.NDArray[np.float32],
    n_samples: int,
    losses: tuple[float, float, float | None],
    report: Report | None,
) -> None:
    loss, square_loss, start_loss = losses
    sent = TrainReply(
        model=model, n_samples=n_samples, loss=loss, square_loss=square_loss, start_loss=start_loss, report=report
    )

    got = reply_from(over_the_wire(reply_records(sent)), "train", VECTORS)

    assert isinstance(got, TrainReply)
    assert got.model.dtype == np.float32
    assert got.model.tobytes() == model.tobytes()
    assert (got.n_samples, got.loss, got.square_loss, got.start_loss) == (n_samples, loss, square_loss, start_loss)
    assert_same_report(got.report, report)


@given(n_samples=counts, report=st.none() | reports, partition=st.none() | counts)
def test_a_description_arrives_as_it_was(n_samples: int, report: Report | None, partition: int | None) -> None:
    sent = DescribeReply(n_samples=n_samples, report=report, partition=partition)

    got = reply_from(over_the_wire(reply_records(sent)), "describe", VECTORS)

    assert isinstance(got, DescribeReply)
    assert (got.n_samples, got.partition) == (n_samples, partition)
    assert_same_report(got.report, report)


@given(st.data())
def test_a_test_arrives_as_it_was(data: st.DataObject) -> None:
    n_test = data.draw(counts)
    scores = st.builds(Score, correct=st.integers(0, n_test), loss=numbers | st.just(math.inf))
    plain = data.draw(scores)
    also = data.draw(st.dictionaries(st.sampled_from(["corrected", "tuned"]), scores))
    sent = EvaluateReply(n_test=n_test, correct=plain.correct, loss=plain.loss, also=also)

    assert reply_from(over_the_wire(reply_records(sent)), "evaluate", VECTORS) == sent


def test_a_part_of_a_model_and_a_choice_arrive_as_they_were() -> None:
    sent = TrainReply(model=mail.model()[:4], n_samples=1, loss=0.5, square_loss=0.25, start=2, is_part=True)

    got = reply_from(over_the_wire(reply_records(sent)), "train", VECTORS)

    assert isinstance(got, TrainReply)
    assert (got.model.tolist(), got.start, got.is_part) == ([0.0] * 4, 2, True)


def test_a_client_without_data_may_answer_a_train_order_with_a_description() -> None:
    got = reply_from(reply_records(DescribeReply(n_samples=0)), "train", mail.EXPECTED)

    assert isinstance(got, DescribeReply)


def test_a_test_may_say_that_the_model_is_useless() -> None:
    got = reply_from(reply_records(EvaluateReply(n_test=1, correct=0, loss=math.inf)), "evaluate", mail.EXPECTED)

    assert isinstance(got, EvaluateReply)
    assert got.loss == math.inf


@pytest.mark.parametrize("loss", [1.1e30, -1.1e30, 1.7e308, -math.inf])
def test_the_loss_of_a_test_that_is_too_large_for_a_mean_counts_as_infinite(loss: float) -> None:
    got = reply_from(reply_records(EvaluateReply(n_test=1, correct=0, loss=loss)), "evaluate", mail.EXPECTED)

    assert isinstance(got, EvaluateReply)
    assert got.loss == math.inf


# ---- what is not -----------------------------------------------------------------------------------------------


BAD_MODELS = {
    "float64": array(np.zeros(6)),
    "int32": array(np.zeros(6, dtype=np.int32)),
    "a matrix": array(np.zeros((2, 3), dtype=np.float32)),
    "too short": array(np.zeros(5, dtype=np.float32)),
    "too long": array(np.zeros(7, dtype=np.float32)),
    "huge": array(np.zeros(10_000, dtype=np.float32)),
    "NaN": array(np.array([0, 0, 0, 0, 0, np.nan], dtype=np.float32)),
    "infinite": array(np.array([np.inf, 0, 0, 0, 0, 0], dtype=np.float32)),
    "infinities that cancel out": array(np.array([np.inf, -np.inf, 0, 0, 0, 0], dtype=np.float32)),
    "big-endian": forged(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }")),
    "no bytes": forged(b""),
    "other bytes": forged(b"PK\x03\x04" + bytes(100)),
    "a header only": forged(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 0)),
    "a header that lies": forged(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,), }")),
    "a header with less than none": forged(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }")),
    "a header that is none": forged(npy("__import__('os')")),
    "objects": forged(npy("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }")),
    "a later version": forged(
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }").replace(b"Y\x01", b"Y\x02")
    ),
    "another claim": forged(array(np.zeros(6, dtype=np.float32)).data, dtype="float16"),
    "another serializer": forged(array(np.zeros(6, dtype=np.float32)).data, stype="pickle"),
}


@pytest.mark.parametrize("bad", BAD_MODELS.values(), ids=BAD_MODELS)
def test_what_is_no_model_is_refused_and_the_report_is_kept(bad: Array) -> None:
    records = spoiled(mail.train_reply(), replaced("arrays", ArrayRecord({"model": bad})))

    got = reply_from(records, "train", mail.EXPECTED)

    assert isinstance(got, Refusal)
    assert got.reason == "failed"
    assert got.report is not None
    assert got.report.number == 1


BAD_TRAINING = {
    "no model": drop("arrays"),
    "no metrics": drop("metrics"),
    "metrics of another type": replaced("metrics", ConfigRecord({"loss": 1.0, "num-examples": 1, "square-loss": 1.0})),
    "arrays of another type": replaced("arrays", ConfigRecord({"model": b""})),
    "two models": put("arrays", "other", array(np.zeros(1))),
    "no loss": drop("metrics", "loss"),
    "NaN loss": put("metrics", "loss", math.nan),
    "infinite square loss": put("metrics", "square-loss", math.inf),
    "NaN start loss": put("metrics", "start-loss", math.nan),
    "a loss beyond all means": put("metrics", "loss", 1.1e30),
    "a loss below all means": put("metrics", "loss", -1.1e30),
    "a square loss beyond all means": put("metrics", "square-loss", 1.7e308),
    "a start loss beyond all means": put("metrics", "start-loss", 1.7e308),
    "a list for a loss": put("metrics", "loss", [0.5]),
    "samples in parts": put("metrics", "num-examples", 1.5),
    "no samples": put("metrics", "num-examples", 0),
    "less than no samples": put("metrics", "num-examples", -1),
    "too many samples": put("metrics", "num-examples", 2**62),
    "an unknown metric": put("metrics", "extra", 1.0),
    "an unknown record": replaced("extra", ConfigRecord({})),
}


@pytest.mark.parametrize("spoil", BAD_TRAINING.values(), ids=BAD_TRAINING)
def test_a_malformed_train_reply_is_refused(spoil: Callable[[RecordDict], None]) -> None:
    got = reply_from(spoiled(mail.train_reply(), spoil), "train", mail.EXPECTED)

    assert isinstance(got, Refusal)
    assert got.reason == "failed"
    assert 0 < len(got.text) <= LONGEST_TEXT


def floats(*shares: float) -> bytes:
    return np.array(shares, dtype="<f4").tobytes()


BAD_REPORTS = {
    "NaN": put("report", "representation", floats(math.nan, 1)),
    "no histogram": put("report", "representation", floats(0.7, 0.7)),
    "negative": put("report", "representation", floats(-0.5, 1.5)),
    "too long": put("report", "representation", floats(0.5, 0.25, 0.25)),
    "half a number": put("report", "representation", b"\0\0\0\0\0"),
    "no bytes": put("report", "representation", b""),
    "a text": put("report", "representation", "0.5"),
    "far too long": put("report", "representation", bytes(4 * (1 << 20) + 4)),
    "number 0": put("report", "number", 0),
    "no number": drop("report", "number"),
    "a flag for a number": put("report", "number", True),
    "an unknown kind": put("report", "kind", "cosmic"),
    "an endless kind": put("report", "kind", "x" * 10_000),
    "an unknown key": put("report", "extra", 1),
    "samples below 0": put("report", "num-examples", -1),
    "another record": replaced("report", MetricRecord({"number": 1})),
}


@pytest.mark.parametrize("reply", [mail.train_reply(), mail.describe_reply()], ids=["train", "describe"])
@pytest.mark.parametrize("spoil", BAD_REPORTS.values(), ids=BAD_REPORTS)
def test_a_malformed_report_is_refused_with_all_that_came_along(
    reply: TrainReply | DescribeReply, spoil: Callable[[RecordDict], None]
) -> None:
    verb: Verb = "train" if isinstance(reply, TrainReply) else "describe"

    got = reply_from(spoiled(reply, spoil), verb, mail.EXPECTED)

    assert isinstance(got, Refusal)
    assert (got.reason, got.report) == ("failed", None)


@pytest.mark.parametrize("number", [1.1e15, -1.1e15])
@pytest.mark.parametrize("is_tally", [False, True])
def test_numbers_of_a_report_are_bounded(number: float, is_tally: bool) -> None:
    row = np.array([1.0, number], dtype=np.float32)
    sound = Report(number=1, representation=row, n_samples=3)
    report = Report(number=1, representation=row[:0], n_samples=3, tally=row.astype(float)) if is_tally else sound
    got = reply_from(reply_records(DescribeReply(n_samples=3, report=report)), "describe", VECTORS)

    assert isinstance(got, Refusal)
    assert "beyond 1e+15" in got.text


def test_a_representation_has_a_bound_even_before_its_length_is_known() -> None:
    def got(n_features: int) -> Answer:
        representation = np.zeros(n_features, dtype=np.float32)
        report = Report(number=1, representation=representation, n_samples=1)
        return reply_from(reply_records(DescribeReply(n_samples=1, report=report)), "describe", VECTORS)

    assert isinstance(got(MOST_FEATURES), DescribeReply)
    assert isinstance(got(MOST_FEATURES + 1), Refusal)


def test_a_model_of_another_length_is_not_even_looked_at() -> None:
    records = spoiled(mail.train_reply(), replaced("arrays", ArrayRecord({"model": forged(bytes(10_000))})))

    got = reply_from(records, "train", mail.EXPECTED)

    assert isinstance(got, Refusal)
    assert got.text == "a model came as 10000 bytes; 6 float32 numbers have 24"


def test_a_part_that_is_longer_than_the_whole_is_refused() -> None:
    sent = TrainReply(model=np.zeros(7, dtype=np.float32), n_samples=1, loss=0.5, square_loss=0.25, is_part=True)
    assert isinstance(reply_from(reply_records(sent), "train", mail.EXPECTED), Refusal)


BAD_TESTS = {
    "more right than there are": put("metrics", "correct", 5),
    "half a score": put("metrics", "tuned-loss", 0.5),
    "the other half": put("metrics", "tuned-correct", 1),
    "an unknown score": put("metrics", "wild-correct", 1),
    "no loss": drop("metrics", "loss"),
    "a model": replaced("arrays", ArrayRecord({"model": array(np.zeros(6, dtype=np.float32))})),
}


@pytest.mark.parametrize("spoil", BAD_TESTS.values(), ids=BAD_TESTS)
def test_a_malformed_test_is_refused(spoil: Callable[[RecordDict], None]) -> None:
    assert isinstance(reply_from(spoiled(mail.evaluate_reply(), spoil), "evaluate", mail.EXPECTED), Refusal)


@pytest.mark.parametrize(
    ("reply", "verb"),
    [
        (mail.train_reply(), "describe"),
        (mail.train_reply(), "evaluate"),
        (mail.describe_reply(), "evaluate"),
        (mail.evaluate_reply(), "train"),
        (mail.evaluate_reply(), "describe"),
    ],
)
def test_an_answer_to_another_question_is_refused(reply: Reply, verb: Verb) -> None:
    assert isinstance(reply_from(reply_records(reply), verb, mail.EXPECTED), Refusal)
