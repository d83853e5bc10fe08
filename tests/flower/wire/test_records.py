"""Models are written once for many clients, and messages weigh what they should."""

import importlib.util

import numpy as np
import numpy.typing as npt
import pytest

from fielding.flower.wire.messages import MESSAGE_TYPES, SentModels, n_bytes, order_from, order_records, reply_records
from fielding.flower.wire.orders import DescribeOrder, DescribeReply, Report, TrainOrder, Verb
from tests.flower import mail

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import ConfigRecord, Message, Metadata, RecordDict


def test_a_model_for_many_clients_is_written_once() -> None:
    matrix = np.zeros((2, 6), dtype=np.float32)
    sent: SentModels = {}

    first, again, other = (order_records(mail.train_order(model=matrix[row]), sent)["arrays"] for row in (0, 0, 1))

    assert first is again
    assert first is not other


def test_what_is_cut_out_of_a_matrix_is_not_mistaken_for_its_row() -> None:
    matrix = np.arange(36, dtype=np.float32).reshape(6, 6)
    sent: SentModels = {}

    def arrives(model: npt.NDArray[np.float32]) -> list[float]:
        got = order_from(order_records(mail.train_order(model=model), sent), "train")
        assert isinstance(got, TrainOrder)
        return list(got.plan.models[0].tolist())

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
