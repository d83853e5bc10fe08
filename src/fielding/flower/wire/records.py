"""The records of a Flower message: how a model is put into one, and how one that came is looked at."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from fielding._typing import Json, Models, Vector
from fielding.errors import InputError, echo
from fielding.flower.wire.fields import Fields, checked_layout, npy_floats
from fielding.flower.wire.orders import LONGEST_KEY, SharedView

if TYPE_CHECKING:
    from flwr.app import Array, ArrayRecord, RecordDict

SentModels: TypeAlias = dict[tuple[object, ...], Any]
"""Models and records of models that were written already, by where the models lie in memory."""


def models_record(models: Mapping[str, Models], sent: SentModels) -> "ArrayRecord":
    """Return models in a record, by their names; the same record for the same pieces of memory.

    Each is an array of its own: Flower sends one that goes to many clients in a push once, whatever goes beside it.
    """
    from flwr.app import ArrayRecord

    places = tuple((name, *_place(model)) for name, model in models.items())
    if places not in sent:
        sent[places] = ArrayRecord({name: _written(model, sent) for name, model in models.items()})
    record: ArrayRecord = sent[places]
    return record


def _place(model: Models) -> tuple[int, ...]:
    """Return where a model lies: a row of a matrix is a new view each time it is asked for."""
    return (model.ctypes.data, model.size, *model.strides)


def _written(model: Models, sent: SentModels) -> "Array":
    from flwr.app import Array

    place = _place(model)
    if place not in sent:
        sent[place] = Array(np.ascontiguousarray(model, dtype="<f4"))
    written: Array = sent[place]
    return written


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


def model_names(records: "RecordDict") -> frozenset[str]:
    """Return the names of the models that came along."""
    from flwr.app import ArrayRecord

    record = records.get("arrays")
    return frozenset(record) if isinstance(record, ArrayRecord) else frozenset()


def model_of(records: "RecordDict", n_numbers: int | None, *, name: str = "model") -> Models:
    """Return the only model that came along, looked at only if it has the right type and length; None: any length."""
    if model_names(records) != {name}:
        raise InputError(f"the record 'arrays' is missing or holds something else; send an ArrayRecord with {name!r}")
    return named_model(records, name, n_numbers)


def named_model(records: "RecordDict", name: str, n_numbers: int | None) -> Models:
    """Return one of the models that came along; it must be there. Otherwise as :func:`model_of`."""
    record = cast("ArrayRecord", records["arrays"])
    array = record[name]
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


if TYPE_CHECKING:
    from flwr.app import ConfigRecord, RecordDict

SHARED = "shared"
"""Name of the key in the config of an order, of the model among its arrays, and of the record of a reply."""
VIEW = (SHARED, "shared-layout", "shared-reference", "shared-settings")
"""All keys of the config of an order that are about the shared model."""
LARGEST = 1e15
"""Sums and vectors of a client are at most this large: distances between them, squared, then fit into a float32."""


def put_view(config: "ConfigRecord", view: SharedView | None) -> dict[str, Models]:
    """Write what an order says of the shared model into its config, and return the model if it goes along."""
    if view is None:
        return {}
    config[SHARED] = view.key
    if view.reference is not None:
        config["shared-reference"] = view.reference.astype("<f8").tobytes()
    if view.model is None or view.layout is None:
        return {}
    config["shared-layout"] = json_text(view.layout.record())
    config["shared-settings"] = json_text(dict(view.settings))
    return {SHARED: view.model}


def view_from(records: "RecordDict", config: Fields) -> SharedView | None:
    """Return what an order says of the shared model; None if it does not speak of one."""
    if SHARED not in config.values:
        return None
    has_reference = "shared-reference" in config.values
    view = SharedView(
        key=config.text(SHARED, longest=LONGEST_KEY),
        reference=finite_doubles(config, "shared-reference") if has_reference else None,
    )
    if SHARED not in model_names(records):
        return view
    model = named_model(records, SHARED, None)
    return SharedView(
        key=view.key,
        model=model,
        layout=checked_layout(config.json("shared-layout"), model.size),
        settings=config.json("shared-settings"),
        reference=view.reference,
    )


def put_holds(records: "RecordDict", holds: str | None) -> None:
    """Add what a client confirms to its reply."""
    from flwr.app import ConfigRecord

    if holds is not None:
        records[SHARED] = ConfigRecord({"holds": holds})


def holds_from(records: "RecordDict") -> str | None:
    """Return what a client confirms; None if it says nothing of it."""
    if SHARED not in records:
        return None
    return fields_of(records, SHARED).only(("holds",)).text("holds", longest=LONGEST_KEY)


def finite_doubles(fields: Fields, key: str) -> Vector:
    """Return finite numbers that came as little-endian float64 bytes, shape ``(n,)``; at least one."""
    numbers = fields.doubles(key)
    if not numbers.size or not np.isfinite(numbers).all():
        raise InputError(f"{key!r} of {fields.name} is empty or holds NaN or infinity; send finite sums")
    return numbers


def tally_from(fields: Fields) -> Vector:
    """Return the sums of a window, each within ``LARGEST``, so that the sums over many windows are finite, too."""
    tally = finite_doubles(fields, "tally")
    if np.abs(tally).max() > LARGEST:
        raise InputError(f"'tally' of {fields.name} holds sums beyond {LARGEST:g}; scale down what is summed up")
    return tally
