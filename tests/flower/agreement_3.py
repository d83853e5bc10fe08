"""A device of a release that speaks agreement 3 alone, and messages that such a release wrote.

``tests/golden/agreement_3.json`` was written by the last release before agreement 4; it is not to be written again.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fielding.errors import InputError
from fielding.flower.device.device import Device
from fielding.flower.wire.messages import order_from, reply_records
from fielding.flower.wire.orders import Verb

if TYPE_CHECKING:
    from flwr.app import RecordDict

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "agreement_3.json").read_text())
"""``orders`` and ``replies`` by verb, as records; ``refusal``, what Flower tells of an order in another agreement."""
ORDER = {"run", "round", "seed", "confirmed", "observe"}
FIELDS: dict[Verb, set[str]] = {
    "train": {*ORDER, "work", "layout", "steps", "start_loss", "is_probe", "rates", "block", "pull", "share"}
    | {"shared", "served"},
    "describe": {*ORDER, "shared"},
    "evaluate": {*ORDER, "work", "layout", "served"},
    "probe": {*ORDER, "wanted", "blocks", "work", "layout", "corrected"},
}
"""All words of an order that such a release understands: one of any other it refuses."""


def recorded(plain: Mapping[str, Any]) -> "RecordDict":
    """Return records that were written down."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

    found = RecordDict()
    for name, record in plain.items():
        values = record["values"]
        if record["kind"] == "ArrayRecord":
            data = {key: base64.b64decode(one) for key, one in values.items()}
            found[name] = ArrayRecord(
                {key: Array("float32", ((len(one) - 128) // 4,), "numpy.ndarray", one) for key, one in data.items()}
            )
        elif record["kind"] == "MetricRecord":
            found[name] = MetricRecord(values)
        else:
            is_coded = {key: isinstance(one, dict) for key, one in values.items()}
            found[name] = ConfigRecord(
                {key: base64.b64decode(one["base64"]) if is_coded[key] else one for key, one in values.items()}
            )
    return found


def written(records: "RecordDict") -> dict[str, dict[str, object]]:
    """Return all that records hold, to compare it."""
    from flwr.app import ArrayRecord

    return {
        name: {key: one.data for key, one in record.items()} if isinstance(record, ArrayRecord) else dict(record)
        for name, record in records.items()
    }


def answer_as_before(device: Device, records: "RecordDict", verb: Verb) -> "RecordDict":
    """Return what a device of such a release answers, or raise as it did."""
    config = dict(records["config"])
    if config["fielding"] != 3:
        raise InputError(
            f"an order follows agreement {config['fielding']!r} but this release agreement 3; install the same release "
            "of fielding on server and clients"
        )
    if unknown := sorted(json.loads(str(config["order"])).keys() - FIELDS[verb]):
        raise InputError(f"an order is not as it should be: Object contains unknown field `{unknown[0]}`")
    return reply_records(device.answer(order_from(records, verb)))
