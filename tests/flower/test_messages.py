"""What travels arrives as it was, and whatever else arrives is refused with a reason."""

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding._typing import Json
from fielding.client.report import DRIFT_KINDS
from fielding.errors import InputError
from fielding.flower.fields import MOST_FEATURES
from fielding.flower.messages import MESSAGE_TYPES, order_from, order_records, reply_from, reply_records
from fielding.flower.orders import DescribeOrder, EvaluateOrder, TrainOrder, Verb
from fielding.flower.records import SentModels, n_bytes
from fielding.flower.replies import (
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
)
from fielding.training.layout import Layout
from tests.flower import mail

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict

VECTORS = Expected(n_numbers=6, kind="vector")
VERBS: tuple[Verb, ...] = ("train", "describe", "evaluate")

numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**53)
vectors = hnp.arrays(np.float32, st.integers(1, 20), elements=st.floats(-(2.0**99), 2.0**99, width=32))
reports = st.builds(
    Report,
    number=st.integers(1, 2**53),
    representation=vectors | st.just(np.empty(0, dtype=np.float32)),
    n_samples=counts,
    kind=st.sampled_from(DRIFT_KINDS) | st.none(),
)
models = hnp.arrays(np.float32, 6, elements=st.floats(-(2.0**99), 2.0**99, width=32))


def over_the_wire(records: RecordDict) -> RecordDict:
    """Return records as they are unpacked at the other end."""
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    contents = {key: one.deflate() for key, one in get_all_nested_objects(records).items()}
    unpacked = inflate_object_from_contents(records.object_id, contents)
    assert isinstance(unpacked, RecordDict)
    return unpacked


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
    scores = st.builds(Score, correct=st.integers(0, n_test), loss=st.floats(allow_nan=False))
    plain = data.draw(scores)
    also = data.draw(st.dictionaries(st.sampled_from(["corrected", "tuned"]), scores))
    sent = EvaluateReply(n_test=n_test, correct=plain.correct, loss=plain.loss, also=also)

    assert reply_from(over_the_wire(reply_records(sent)), "evaluate", VECTORS) == sent


@given(
    model=models,
    text=st.text(max_size=20),
    whole=st.tuples(counts, st.integers(1, 2**53), st.integers(0, 2**63 - 1), counts),
    flag=st.booleans(),
)
def test_orders_arrive_as_they_were(
    model: npt.NDArray[np.float32], text: str, whole: tuple[int, int, int, int], flag: bool
) -> None:
    round_index, n_steps, seed, confirmed = whole
    layout = Layout(names=(f"a{text}", f"b{text}"), shapes=((2, 2), (2,)), n_parameters=1)
    settings: dict[str, Json] = {"learning_rate": 0.1, text: [None, flag, text]}
    common: dict[str, Any] = {"run_id": text, "round_index": round_index, "seed": seed}
    train = TrainOrder(
        **common,
        model=model,
        layout=layout,
        settings=settings,
        n_steps=n_steps,
        confirmed=confirmed,
        with_start_loss=flag,
    )
    evaluate = EvaluateOrder(**common, model=model, layout=layout, settings=settings)
    describe = DescribeOrder(**common, confirmed=confirmed)

    for sent in (train, evaluate, describe):
        got = order_from(over_the_wire(order_records(sent)), sent.verb)

        assert type(got) is type(sent)
        for name in sent.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(got, name), getattr(sent, name))


def test_a_client_without_data_may_answer_a_train_order_with_a_description() -> None:
    got = reply_from(reply_records(DescribeReply(n_samples=0)), "train", mail.EXPECTED)

    assert isinstance(got, DescribeReply)


def test_a_test_may_say_that_the_model_is_useless() -> None:
    got = reply_from(reply_records(EvaluateReply(n_test=1, correct=0, loss=math.inf)), "evaluate", mail.EXPECTED)

    assert isinstance(got, EvaluateReply)
    assert got.loss == math.inf


def test_a_model_for_many_clients_is_written_once() -> None:
    matrix = np.zeros((2, 6), dtype=np.float32)
    sent: SentModels = {}

    def order(row: int) -> TrainOrder:
        return TrainOrder(run_id="r", round_index=0, model=matrix[row], layout=mail.LAYOUT, n_steps=1, seed=0)

    first, again, other = (order_records(order(row), sent)["arrays"] for row in (0, 0, 1))

    assert first is again
    assert first is not other


def test_what_is_cut_out_of_a_matrix_is_not_mistaken_for_its_row() -> None:
    matrix = np.arange(36, dtype=np.float32).reshape(6, 6)
    sent: SentModels = {}

    def arrives(model: npt.NDArray[np.float32]) -> list[float]:
        order = TrainOrder(run_id="r", round_index=0, model=model, layout=mail.LAYOUT, n_steps=1, seed=0)
        got = order_from(order_records(order, sent), "train")
        assert isinstance(got, TrainOrder)
        return list(got.model.tolist())

    assert arrives(matrix[0]) == [0, 1, 2, 3, 4, 5]
    assert arrives(matrix[:, 0]) == [0, 6, 12, 18, 24, 30]


def test_a_description_weighs_less_than_a_kilobyte_beyond_the_representation() -> None:
    def weight(records: RecordDict, verb: Verb) -> int:
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

        metadata = Metadata(
            run_id=2**63, message_id="a" * 64, src_node_id=1, dst_node_id=2**63, reply_to_message_id="b" * 64,
            group_id="1000", created_at=1.7e9, ttl=600.0, message_type=MESSAGE_TYPES[verb],
        )  # fmt: skip
        message = Message(content=records, metadata=metadata)  # type: ignore[call-overload]
        nested = get_all_nested_objects(message)
        return sum(len(one.deflate()) for one in nested.values())

    representation = np.full(100, 0.01, dtype=np.float32)
    report = Report(number=2**40, representation=representation, n_samples=2**40, kind="unexplained")
    reply = DescribeReply(n_samples=2**40, report=report, partition=1000)
    order = DescribeOrder(run_id="r" * 32, round_index=1000, seed=2**60, confirmed=2**40)

    assert weight(reply_records(reply), "describe") < representation.nbytes + 1000
    assert weight(order_records(order), "describe") < 1000


def test_bytes_are_those_of_values_and_names() -> None:
    records = RecordDict({"about": ConfigRecord({"num-examples": 4, "words": ["ab", "c"], "raw": b"xyz", "empty": []})})

    assert n_bytes(records) == len("about" + "num-examples" + "words" + "raw" + "empty") + 8 + 3 + 3


# ---- what is not -----------------------------------------------------------------------------------------------


def spoiled(reply: Reply, spoil: Callable[[RecordDict], None]) -> RecordDict:
    records = reply_records(reply)
    spoil(records)
    return records


def put(record: str, key: str, value: object) -> Callable[[RecordDict], None]:
    def spoil(records: RecordDict) -> None:
        records[record][key] = value  # type: ignore[assignment]

    return spoil


def drop(record: str, key: str | None = None) -> Callable[[RecordDict], None]:
    def spoil(records: RecordDict) -> None:
        if key is None:
            del records[record]
        else:
            del records[record][key]

    return spoil


def replaced(record: str, value: Any) -> Callable[[RecordDict], None]:
    def spoil(records: RecordDict) -> None:
        records[record] = value

    return spoil


def array(value: npt.NDArray[Any]) -> Array:
    return Array(value)


def forged(
    data: bytes, *, dtype: str = "float32", shape: tuple[int, ...] = (6,), stype: str = "numpy.ndarray"
) -> Array:
    return Array(dtype=dtype, shape=shape, stype=stype, data=data)


def npy(claimed: str, n_bytes: int = 24) -> bytes:
    """Return a file in NumPy's format whose header says what it likes."""
    header = claimed.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(n_bytes)


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


keys = st.sampled_from(
    ["arrays", "metrics", "report", "about", "model", "loss", "num-examples", "number", "representation", "correct"]
)  # fmt: skip
scalars = st.integers(-(2**63), 2**63 - 1) | st.floats()
hostile_arrays = st.builds(
    forged,
    st.binary(max_size=200) | st.binary(max_size=64).map(lambda tail: b"\x93NUMPY\x01\x00" + tail),
    dtype=st.sampled_from(["float32", "object", "<f4", ""]),
    shape=st.lists(st.integers(-3, 2**70), max_size=2).map(tuple),
    stype=st.sampled_from(["numpy.ndarray", "", "torch"]),
)
hostile_metrics: st.SearchStrategy[Any] = scalars | st.lists(st.floats(), max_size=3)
hostile_values: st.SearchStrategy[Any] = st.one_of(
    scalars, st.text(max_size=9), st.binary(max_size=9), st.booleans(), st.lists(st.text(), max_size=2)
)
hostile_records = st.one_of(
    st.dictionaries(keys, hostile_arrays, max_size=2).map(ArrayRecord),
    st.dictionaries(keys, hostile_metrics, max_size=4).map(MetricRecord),
    st.dictionaries(keys, hostile_values, max_size=4).map(ConfigRecord),
)


@given(st.dictionaries(keys, hostile_records, max_size=4), st.sampled_from(VERBS))
def test_nothing_that_clients_send_raises(records: dict[str, Any], verb: Verb) -> None:
    got = reply_from(RecordDict(records), verb, mail.EXPECTED)

    assert isinstance(got, (TrainReply, DescribeReply, EvaluateReply, Refusal))
    assert n_bytes(RecordDict(records)) >= 0


@given(st.binary(max_size=300))
def test_random_bytes_are_no_model(content: bytes) -> None:
    records = spoiled(mail.train_reply(), replaced("arrays", ArrayRecord({"model": forged(content)})))

    assert isinstance(reply_from(records, "train", mail.EXPECTED), Refusal)


def test_words_of_a_client_are_cut_to_one_printable_line() -> None:
    records = spoiled(mail.train_reply(), replaced("evil\n\x1b[31m" * 1000, ConfigRecord({})))

    got = reply_from(records, "train", mail.EXPECTED)

    assert isinstance(got, Refusal)
    assert got.text.isprintable()
    assert len(got.text) <= LONGEST_TEXT


# ---- orders ----------------------------------------------------------------------------------------------------


def test_a_client_of_another_release_says_so() -> None:
    records = order_records(mail.train_order())
    put("config", "fielding", 2)(records)

    with pytest.raises(InputError, match=r"agreement 2 .* install the same release"):
        order_from(records, "train")


BAD_ORDERS = {
    "no config": drop("config"),
    "no model": drop("arrays"),
    "no steps": drop("config", "steps"),
    "0 steps": put("config", "steps", 0),
    "an unknown key": put("config", "extra", 1),
    "a negative round": put("config", "round", -1),
    "a number for a flag": put("config", "start-loss", 1),
    "settings that are no JSON": put("config", "settings", "{"),
    "settings that are a list": put("config", "settings", "[]"),
    "settings in themselves": put("config", "settings", "[" * 100_000),
    "a layout of another model": put("config", "layout", '{"names":["w"],"shapes":[[7]],"n_parameters":1}'),
    "a layout with fewer shapes": put("config", "layout", '{"names":["w","b"],"shapes":[[6]],"n_parameters":1}'),
    "a layout with odd shapes": put("config", "layout", '{"names":["w"],"shapes":[[-1,-6]],"n_parameters":1}'),
    "a layout with names twice": put("config", "layout", '{"names":["w","w"],"shapes":[[3],[3]],"n_parameters":1}'),
    "a layout with too many parameters": put("config", "layout", '{"names":["w"],"shapes":[[6]],"n_parameters":2}'),
    "a run id without end": put("config", "run", "x" * 1000),
}


@pytest.mark.parametrize("spoil", BAD_ORDERS.values(), ids=BAD_ORDERS)
def test_a_malformed_order_is_an_error(spoil: Callable[[RecordDict], None]) -> None:
    records = order_records(mail.train_order())
    spoil(records)

    with pytest.raises(InputError):
        order_from(records, "train")


def test_an_order_for_something_else_is_an_error() -> None:
    with pytest.raises(InputError):
        order_from(order_records(mail.train_order()), "describe")
    with pytest.raises(InputError):
        order_from(order_records(mail.describe_order()), "evaluate")
