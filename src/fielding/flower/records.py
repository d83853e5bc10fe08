"""The records of a Flower message: how a model is put into one, and how one that came is looked at."""

import json
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fielding._typing import Json, Models
from fielding.errors import InputError, echo
from fielding.flower.fields import Fields, npy_floats

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, RecordDict

SentModels: TypeAlias = dict[tuple[int, ...], "ArrayRecord"]
"""Models that were put into records already, by where they lie in memory."""


def model_record(model: Models, sent: SentModels) -> "ArrayRecord":
    """Return a model in a record, the same one for the same piece of memory."""
    from flwr.app import Array, ArrayRecord

    place = (model.ctypes.data, model.size, *model.strides)  # a row of a matrix is a new view each time it is asked for
    if place not in sent:
        sent[place] = ArrayRecord({"model": Array(np.ascontiguousarray(model, dtype="<f4"))})
    return sent[place]


def json_text(record: dict[str, Json]) -> str:
    """Return JSON without blanks."""
    return json.dumps(record, allow_nan=False, separators=(",", ":"))


def check_names(records: "RecordDict", wanted: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Raise if a message lacks a record, or has one that nobody knows."""
    Fields(name="the records of a message", values=records).only(wanted, optional)


def fields_of(records: "RecordDict", name: str) -> Fields:
    """Return the values of a record of the kind that its name promises: ``metrics`` are, all else is config."""
    from flwr.app import ConfigRecord, MetricRecord

    wanted: type[ConfigRecord] | type[MetricRecord] = MetricRecord if name == "metrics" else ConfigRecord
    record = records.get(name)
    if not isinstance(record, wanted):
        got = "missing" if record is None else f"of type {type(record).__name__}"
        raise InputError(f"the record {name!r} is {got}; send a {wanted.__name__}")
    return Fields(name=name, values=record)


def model_of(records: "RecordDict", n_numbers: int | None) -> Models:
    """Return the model that came along, looked at only if it has the right type and length; None: any length."""
    from flwr.app import ArrayRecord

    record = records.get("arrays")
    if not isinstance(record, ArrayRecord) or set(record) != {"model"}:
        raise InputError("the record 'arrays' is missing or holds something else; send an ArrayRecord with 'model'")
    array = record["model"]
    if array.dtype != "float32" or array.stype != "numpy.ndarray" or len(array.shape) != 1:
        raise InputError(f"the model is {echo(array.dtype)} of shape {echo(array.shape)}; send one float32 vector")
    return npy_floats(array.data, n_numbers)


def n_bytes(records: "RecordDict") -> int:
    """Return how many bytes of values and names a message carries, 8 for a number; never raises, whatever came.

    What Flower adds is not counted: some 200 bytes for a message, 150 for each record and 300 for a model.
    """
    from flwr.app import ArrayRecord

    total = 0
    for name, record in records.items():
        sizes = [len(array.data) for array in record.values()] if isinstance(record, ArrayRecord) else []
        values = [] if isinstance(record, ArrayRecord) else list(record.values())
        total += len(name) + sum(len(key) for key in record) + sum(sizes) + _size(values)
    return total


def _size(value: object) -> int:
    """Return the bytes of a value of a record."""
    if isinstance(value, list):
        return sum(_size(one) for one in value)
    return len(value) if isinstance(value, (str, bytes)) else 8
