"""Replies arrive as they were, and whatever else arrives is refused with a reason in one line."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding.client.report import DRIFT_KINDS
from fielding.flower.wire.messages import MOST_FEATURES, reply_from, reply_records
from fielding.flower.wire.orders import (
    LONGEST_TEXT,
    Answer,
    DescribeReply,
    EvaluateReply,
    Expected,
    Holding,
    ProbeReply,
    Refusal,
    Reply,
    Report,
    TrainReply,
    Verb,
)
from tests.flower import mail

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from tests.flower.spoiling import array, assert_same, drop, forged, npy, over_the_wire, put, put_all, replaced, spoiled

VECTORS = Expected(n_numbers=6, kind="vector")
NOTHING = np.empty(0, dtype=np.float32)

numbers = st.floats(-1e30, 1e30)
counts = st.integers(0, 2**53)
keys = st.none() | st.text(max_size=64)
vectors = hnp.arrays(np.float32, st.integers(1, 20), elements=st.floats(-(2.0**49), 2.0**49, width=32))
sums = hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e15, 1e15))
told = {"number": st.integers(1, 2**53), "n_samples": counts, "kind": st.sampled_from(DRIFT_KINDS) | st.none()}
reports = st.builds(Report, representation=vectors | st.just(NOTHING), **told) | st.builds(
    Report, representation=st.just(NOTHING), tally=sums, **told
)
models = hnp.arrays(np.float32, 6, elements=st.floats(-(2.0**99), 2.0**99, width=32))


# ---- what is sound ---------------------------------------------------------------------------------------------


def assert_arrives(sent: Reply, verb: Verb) -> None:
    assert_same(reply_from(over_the_wire(reply_records(sent)), verb, VECTORS), sent)


@given(
    model=models,
    whole=st.tuples(st.integers(1, 2**53), st.integers(-1, 2**53)),
    losses=st.lists(numbers, min_size=2, max_size=3),
    length=st.none() | st.integers(0, 6),
    report=st.none() | reports,
    holds=keys,
)
def test_a_trained_model_arrives_as_it_was(
    model: npt.NDArray[np.float32],
    whole: tuple[int, int],
    losses: list[float],
    length: int | None,
    report: Report | None,
    holds: str | None,
) -> None:
    updates = mail.updates(model[:length], *losses, n_samples=whole[0], start=whole[1])
    assert_arrives(TrainReply(updates=updates, is_part=length is not None, report=report, holds=holds), "train")


@given(n_samples=counts, report=st.none() | reports, partition=st.none() | counts, holds=keys)
def test_a_description_arrives_as_it_was_also_as_the_answer_to_a_train_order(
    n_samples: int, report: Report | None, partition: int | None, holds: str | None
) -> None:
    sent = DescribeReply(n_samples=n_samples, report=report, partition=partition, holds=holds)
    assert_arrives(sent, "describe")
    assert_arrives(sent, "train")


@given(st.data())
def test_a_test_arrives_as_it_was(data: st.DataObject) -> None:
    n_test = data.draw(st.integers(1, 2**53))
    scores = st.builds(mail.scores, st.just(n_test), st.integers(0, n_test), numbers | st.just(math.inf))
    also = data.draw(st.dictionaries(st.sampled_from(["corrected", "tuned"]), scores))
    assert_arrives(EvaluateReply(scores=replace(data.draw(scores), also=also)), "evaluate")


JUDGED = replace(VECTORS, experts=("served", "window"))


def judged_test(*right: int, n_test: int = 5) -> EvaluateReply:
    """Return a test of a client with two experts, of which each alone gets some samples right."""
    served = replace(
        mail.scores(n_test, 3, 0.4),
        expert_weights={"served": np.array([1.0])},
        expert_losses={"served": np.array([np.nan]), "window": np.array([0.5])},
        expert_correct={name: np.array([one]) for name, one in zip(JUDGED.experts, right, strict=True)},
    )
    return EvaluateReply(scores=replace(mail.scores(n_test, 4, 0.5), also={"served": served}))


def test_what_experts_are_worth_arrives_as_it_was() -> None:
    assert_same(reply_from(over_the_wire(reply_records(judged_test(0, 5))), "evaluate", JUDGED), judged_test(0, 5))


def test_metrics_of_what_a_client_is_served_arrive_as_they_were() -> None:
    reply = judged_test(0, 5)
    served = replace(reply.scores.also["served"], metrics={"f1": np.array([0.75])})
    reply = EvaluateReply(scores=replace(reply.scores, also={"served": served}, metrics={"f1": np.array([0.5])}))

    assert_same(reply_from(over_the_wire(reply_records(reply)), "evaluate", JUDGED), reply)


def test_an_expert_cannot_have_more_right_than_were_tested() -> None:
    got = reply_from(over_the_wire(reply_records(judged_test(6, 5))), "evaluate", JUDGED)

    assert isinstance(got, Refusal)
    assert got.text == "an expert has 6 right of 5; send at most as many as were tested"


@pytest.mark.parametrize("bad", [[1], [1, 2, 3], [-1, 2], [0.5, 1.0]])
def test_numbers_right_are_whole_and_one_for_each_expert(bad: list[int]) -> None:
    records = reply_records(judged_test(1, 2))
    put("metrics", "expert-correct", bad)(records)

    assert isinstance(reply_from(over_the_wire(records), "evaluate", JUDGED), Refusal)


def test_so_does_a_test_on_no_samples() -> None:
    none = np.empty(0, dtype=np.int64)
    empty = replace(mail.scores(0, 0, 0.0), clients=none, n_test=none, correct=none, loss=np.empty(0))
    assert_arrives(EvaluateReply(scores=empty), "evaluate")


@given(
    sizes=st.lists(counts, min_size=1, max_size=3),
    value=st.floats(0.0, 1e30) | st.just(np.inf),
    n_models=st.integers(0, 3),
)
def test_answers_to_questions_arrive_as_they_were(sizes: list[int], value: float, n_models: int) -> None:
    assert_arrives(ProbeReply(sizes=np.array(sizes), values=np.full((len(sizes), n_models), value)), "probe")


@pytest.mark.parametrize("loss", [1.1e30, -1.1e30, 1.7e308, -math.inf])
def test_the_loss_of_a_test_that_is_too_large_for_a_mean_counts_as_infinite(loss: float) -> None:
    got = reply_from(reply_records(EvaluateReply(scores=mail.scores(1, 0, loss))), "evaluate", VECTORS)

    assert isinstance(got, EvaluateReply)
    assert got.scores.loss.tolist() == [math.inf]


def test_so_does_that_of_an_answer_to_a_question() -> None:
    got = reply_from(reply_records(ProbeReply(sizes=np.array([1]), values=np.array([[1.1e30]]))), "probe", VECTORS)

    assert isinstance(got, ProbeReply)
    assert got.values.tolist() == [[math.inf]]


# ---- what is not -----------------------------------------------------------------------------------------------


def refused(records: RecordDict, verb: Verb, expected: Expected = mail.EXPECTED) -> Refusal:
    """Return why an answer counts for nothing, as one printable line."""
    got = reply_from(records, verb, expected)
    assert isinstance(got, Refusal)
    assert got.reason == "failed"
    assert 0 < len(got.text) <= LONGEST_TEXT
    assert got.text.isprintable()
    return got


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
    got = refused(spoiled(mail.train_reply(), replaced("arrays", ArrayRecord({"model": bad}))), "train")

    assert_same(got.report, mail.report())


def floats(*shares: float) -> bytes:
    return np.array(shares, dtype="<f4").tobytes()


def doubles(*values: float) -> bytes:
    return np.array(values, dtype="<f8").tobytes()


Spoils = dict[str, Callable[[RecordDict], None]]
BAD_TRAINING: Spoils = {
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
    "a start below 0": put("metrics", "start", -1),
    "samples in parts": put("metrics", "num-examples", 1.5),
    "no samples": put("metrics", "num-examples", 0),
    "less than no samples": put("metrics", "num-examples", -1),
    "too many samples": put("metrics", "num-examples", 2**62),
    "an unknown metric": put("metrics", "extra", 1.0),
    "an unknown record": replaced("extra", ConfigRecord({})),
    "a part that is longer than the whole": replaced("arrays", ArrayRecord({"part": array(np.zeros(7, np.float32))})),
    "a part and a whole": put("arrays", "part", array(np.zeros(3, np.float32))),
}
BAD_HOLDS: Spoils = {
    "a number held": replaced("shared", ConfigRecord({"holds": 1})),
    "a key without end": replaced("shared", ConfigRecord({"holds": "x" * 65})),
    "nothing said of what is held": replaced("shared", ConfigRecord({})),
    "more than what is held": replaced("shared", ConfigRecord({"holds": "ab", "extra": 1})),
    "what is held as metrics": replaced("shared", MetricRecord({"holds": 1})),
}
BAD_DESCRIPTIONS: Spoils = {
    "nothing about it": drop("about"),
    "no samples told": drop("about", "num-examples"),
    "less than no samples": put("about", "num-examples", -1),
    "a flag for a number": put("about", "num-examples", True),
    "a partition below 0": put("about", "partition", -1),
    "a text for a partition": put("about", "partition", "3"),
    "an unknown key": put("about", "extra", 1),
    "a model": replaced("arrays", ArrayRecord({"model": array(np.zeros(6, dtype=np.float32))})),
}
BAD_REPORTS: Spoils = {
    "NaN": put("report", "representation", floats(math.nan, 1)),
    "no histogram": put("report", "representation", floats(0.7, 0.7)),
    "negative": put("report", "representation", floats(-0.5, 1.5)),
    "too long": put("report", "representation", floats(0.5, 0.25, 0.25)),
    "half a number": put("report", "representation", b"\0\0\0\0\0"),
    "no bytes": put("report", "representation", b""),
    "a text": put("report", "representation", "0.5"),
    "far too long": put("report", "representation", bytes(4 * (1 << 20) + 4)),
    "infinite sums": put("report", "tally", doubles(math.inf)),
    "no sums": put("report", "tally", b""),
    "half a sum": put("report", "tally", b"\0\0\0\0"),
    "number 0": put("report", "number", 0),
    "no number": drop("report", "number"),
    "a flag for a number": put("report", "number", True),
    "an unknown kind": put("report", "kind", "cosmic"),
    "an endless kind": put("report", "kind", "x" * 10_000),
    "an unknown key": put("report", "extra", 1),
    "samples below 0": put("report", "num-examples", -1),
    "another record": replaced("report", MetricRecord({"number": 1})),
}
BAD_TESTS: Spoils = {
    "more right than there are": put("metrics", "correct", 5),
    "half a score": put("metrics", "tuned-loss", 0.5),
    "the other half": put("metrics", "tuned-correct", 1),
    "more right when tuned": put_all("metrics", {"tuned-correct": 5, "tuned-loss": 0.5}),
    "an unknown score": put("metrics", "wild-correct", 1),
    "no loss": drop("metrics", "loss"),
    "a model": replaced("arrays", ArrayRecord({"model": array(np.zeros(6, dtype=np.float32))})),
}
BAD_ANSWERS: Spoils = {
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
TABLES: list[tuple[Reply, Verb, Spoils]] = [
    (mail.train_reply(), "train", BAD_TRAINING | BAD_HOLDS),
    (mail.describe_reply(3), "describe", BAD_DESCRIPTIONS | BAD_HOLDS),
    (mail.evaluate_reply(), "evaluate", BAD_TESTS),
    (mail.probe_reply(), "probe", BAD_ANSWERS),
]
CASES = [(reply, verb, name, spoil) for reply, verb, bad in TABLES for name, spoil in bad.items()]


@pytest.mark.parametrize(
    ("reply", "verb", "spoil"),
    [(reply, verb, spoil) for reply, verb, _, spoil in CASES],
    ids=[f"{verb}, {name}" for _, verb, name, _ in CASES],
)
def test_a_malformed_reply_is_refused_but_not_the_report_that_came_along(
    reply: Reply, verb: Verb, spoil: Callable[[RecordDict], None]
) -> None:
    assert not isinstance(reply_from(reply_records(reply), verb, mail.EXPECTED), Refusal)

    got = refused(spoiled(reply, spoil), verb)

    assert (got.report is not None) == (verb in ("train", "describe"))


@pytest.mark.parametrize("reply", [mail.train_reply(), mail.describe_reply()], ids=["train", "describe"])
@pytest.mark.parametrize("spoil", BAD_REPORTS.values(), ids=BAD_REPORTS)
def test_a_malformed_report_is_refused_with_all_that_came_along(
    reply: TrainReply | DescribeReply, spoil: Callable[[RecordDict], None]
) -> None:
    verb: Verb = "train" if isinstance(reply, TrainReply) else "describe"

    assert refused(spoiled(reply, spoil), verb).report is None


@pytest.mark.parametrize("number", [1.1e15, -1.1e15])
@pytest.mark.parametrize("is_tally", [False, True])
def test_numbers_of_a_report_are_bounded(number: float, is_tally: bool) -> None:
    row = np.array([1.0, number], dtype=np.float32)
    sound = Report(number=1, representation=row, n_samples=3)
    report = replace(sound, representation=NOTHING, tally=row.astype(float)) if is_tally else sound

    got = refused(reply_records(DescribeReply(n_samples=3, report=report)), "describe", VECTORS)

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

    assert refused(records, "train").text == "a model came as 10000 bytes; 6 float32 numbers have 24"


@pytest.mark.parametrize(
    ("reply", "verb"),
    [
        (mail.train_reply(), "describe"),
        (mail.train_reply(), "evaluate"),
        (mail.describe_reply(), "evaluate"),
        (mail.evaluate_reply(), "train"),
        (mail.evaluate_reply(), "describe"),
        (mail.evaluate_reply(), "probe"),
        (mail.probe_reply(), "train"),
    ],
)
def test_an_answer_to_another_question_is_refused(reply: Reply, verb: Verb) -> None:
    refused(reply_records(reply), verb)


# ---- metrics of the user's own ---------------------------------------------------------------------------------------


def answer_with(**own: object) -> Answer:
    record = MetricRecord({"num-examples": 4, "correct": 3, "loss": 0.5})
    for name, value in own.items():
        record[f"metric/{name}"] = value  # type: ignore[assignment]
    return reply_from(RecordDict({"metrics": record}), "evaluate", VECTORS)


def test_metrics_of_ones_own_arrive_as_they_are_or_as_none() -> None:
    found = answer_with(f1=0.25, auc=math.nan, high=math.inf, huge=1e300)
    assert isinstance(found, EvaluateReply)
    assert found.scores.metrics["f1"].tolist() == [0.25]
    assert all(np.isnan(found.scores.metrics[name]).all() for name in ("auc", "high", "huge"))
    again = reply_from(reply_records(found), "evaluate", VECTORS)
    assert isinstance(again, EvaluateReply)
    assert again.scores.metrics.keys() == found.scores.metrics.keys()


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"a" * 41: 1.0}, "give up to 40 letters"),
        ({"f\n1": 1.0}, "give up to 40 letters"),
        ({"": 1.0}, "give up to 40 letters"),
        ({"f1": [1.0, 2.0]}, "is not as it should be"),
        ({f"m{at}": 1.0 for at in range(21)}, "are 21; give at most 20"),
    ],
)
def test_metrics_of_ones_own_that_cannot_be_are_refused(own: dict[str, object], words: str) -> None:
    found = answer_with(**own)
    assert isinstance(found, Refusal)
    assert words in found.text


HOLDING = Holding(key="ab12", trouble="on_model failed")


@pytest.mark.parametrize("holding", [Holding(key=""), HOLDING])
def test_what_a_device_holds_arrives_with_every_answer_but_probes(holding: Holding) -> None:
    assert_arrives(replace(mail.train_reply(), holding=holding), "train")
    assert_arrives(DescribeReply(n_samples=3, holding=holding), "describe")
    assert_arrives(replace(mail.evaluate_reply(), holding=holding), "evaluate")


@pytest.mark.parametrize("value", [{"key": 3}, {"key": "a" * 65}, {"trouble": ""}, {"key": "", "colour": "red"}])
def test_what_is_no_holding_is_refused(value: dict[str, int | str]) -> None:
    records = reply_records(DescribeReply(n_samples=3, holding=HOLDING))
    records["holding"] = ConfigRecord({**value})
    assert isinstance(reply_from(records, "describe", VECTORS), Refusal)


def test_a_server_of_agreement_3_is_told_nothing_of_what_a_device_holds() -> None:
    for reply in (mail.train_reply(), DescribeReply(n_samples=3), mail.evaluate_reply()):
        plain = reply_records(reply, agreement=3)
        assert set(reply_records(replace(reply, holding=HOLDING), agreement=3)) == set(plain)
