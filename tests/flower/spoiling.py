"""Records as they arrive, and as somebody might spoil them; for tests that have Flower."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, RecordDict

from fielding.flower.wire.messages import reply_records
from fielding.flower.wire.orders import Reply


def over_the_wire(records: RecordDict) -> RecordDict:
    """Return records as they are unpacked at the other end."""
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    contents = {key: one.deflate() for key, one in get_all_nested_objects(records).items()}
    unpacked = inflate_object_from_contents(records.object_id, contents)
    assert isinstance(unpacked, RecordDict)
    return unpacked


def sent(reply: Reply) -> str:
    """Return the name of what a device sends, by its content: equal names, equal bytes."""
    return str(reply_records(reply).object_id)


def assert_same(got: object, sent: object, where: str = "") -> None:
    """Compare what arrived with what was sent, field by field: arrays by type and numbers, all else exactly."""
    if is_dataclass(sent):
        assert type(got) is type(sent), where
        for one in fields(sent):
            assert_same(getattr(got, one.name), getattr(sent, one.name), f"{where}.{one.name}")
    elif isinstance(sent, np.ndarray):
        assert isinstance(got, np.ndarray), where
        assert got.dtype == sent.dtype, where
        np.testing.assert_array_equal(got, sent, err_msg=where)
    elif isinstance(sent, Mapping):
        assert isinstance(got, Mapping), where
        assert got.keys() == sent.keys(), where
        for name, one in sent.items():
            assert_same(got[name], one, f"{where}.{name}")
    elif isinstance(sent, list):
        assert isinstance(got, list), where
        for at, (one, other) in enumerate(zip(got, sent, strict=True)):
            assert_same(one, other, f"{where}[{at}]")
    else:
        assert got == sent, where


def spoiled(reply: Reply, spoil: Callable[[RecordDict], None]) -> RecordDict:
    records = reply_records(reply)
    spoil(records)
    return records


def put(record: str, key: str, value: object) -> Callable[[RecordDict], None]:
    def spoil(records: RecordDict) -> None:
        records[record][key] = value  # type: ignore[assignment]

    return spoil


def put_all(record: str, values: Mapping[str, object]) -> Callable[[RecordDict], None]:
    def spoil(records: RecordDict) -> None:
        for key, value in values.items():
            put(record, key, value)(records)

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
