"""Nothing that clients send can stop a server, whatever it is; and what a device cannot read it refuses."""

import contextlib
import importlib.util
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import InputError
from fielding.flower.wire.messages import PROTOCOL, n_bytes, order_from, reply_from
from fielding.flower.wire.orders import (
    LONGEST_TEXT,
    DescribeReply,
    EvaluateReply,
    ProbeReply,
    Refusal,
    Reply,
    TrainReply,
    Verb,
)
from tests.flower import mail

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from tests.flower.spoiling import forged, replaced, spoiled

VERBS: tuple[Verb, ...] = ("train", "describe", "evaluate", "probe")

keys = st.sampled_from(
    [
        *(
            "arrays",
            "metrics",
            "report",
            "about",
            "answers",
            "model",
            "part",
            "loss",
            "num-examples",
            "number",
            "sizes",
        ),
        *("values", "shared", "holds", "tally", "representation", "config", "fielding", "order", "reference"),
    ]
)
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

    assert isinstance(got, (TrainReply, DescribeReply, EvaluateReply, ProbeReply, Refusal))
    assert n_bytes(RecordDict(records)) >= 0


WORDS = ("run", "round", "seed", "work", "layout", "shared", "key", "wanted", "blocks", "pull", "rates", "client")
words = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(st.sampled_from(WORDS), deeper, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(keys, hostile_records, max_size=3), words, st.sampled_from(VERBS))
def test_whatever_is_no_order_is_refused_by_a_device(records: dict[str, Any], told: object, verb: Verb) -> None:
    usual = {"run": "run", "round": 0, "seed": 0, **(told if isinstance(told, dict) else {"observe": told})}
    config = ConfigRecord({"fielding": PROTOCOL, "order": json.dumps(usual)})
    with contextlib.suppress(InputError):
        order_from(RecordDict({**records, "config": config}), verb)
    with contextlib.suppress(InputError):
        order_from(RecordDict(records), verb)


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


MEGABYTE = 1 << 20
HUGE: dict[str, tuple[Verb, Any]] = {
    "a model": ("train", lambda: ArrayRecord({"model": forged(bytes(64 * MEGABYTE))})),
    "many models": ("train", lambda: ArrayRecord({f"model-{at}": forged(bytes(MEGABYTE)) for at in range(64)})),
    "a report": ("describe", lambda: ConfigRecord({"number": 1, "num-examples": 4, "tally": bytes(64 * MEGABYTE)})),
    "words": ("describe", lambda: ConfigRecord({"number": 1, "num-examples": 4, "kind": "x" * 64 * MEGABYTE})),
    "metrics": ("evaluate", lambda: MetricRecord({"expert-losses": [0.0] * (2 * MEGABYTE)})),
    "answers": ("probe", lambda: ConfigRecord({"sizes": [1] * (4 * MEGABYTE), "values": b""})),
}


@pytest.mark.parametrize("what", HUGE)
def test_a_reply_that_is_too_large_is_refused_by_its_length_alone(what: str) -> None:
    verb, make = HUGE[what]
    name = {"train": "arrays", "describe": "report", "evaluate": "metrics", "probe": "answers"}[verb]
    usual: dict[Verb, Reply] = {
        "train": mail.train_reply(),
        "describe": mail.describe_reply(),
        "probe": mail.probe_reply(),
    }
    records = spoiled(usual.get(verb, mail.evaluate_reply()), replaced(name, make()))
    tracemalloc.start()
    try:
        got = reply_from(records, verb, mail.EXPECTED)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert isinstance(got, Refusal)
    assert got.text.endswith("are taken; nothing of it was looked at")
    assert peak < MEGABYTE / 10, "no array was made of it"
