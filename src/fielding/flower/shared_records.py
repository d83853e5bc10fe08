"""The shared model in Flower's records: what an order says of it, and what a reply confirms.

A key in the ``config`` of an order says which model is meant. What the client lacks comes along: layout, settings and
reference in the ``config``, too, and the model among the ``arrays``. A reply that has something to confirm has
``shared`` (ConfigRecord) with the key of what the client holds.
"""

from typing import TYPE_CHECKING

import numpy as np

from fielding._typing import Models, Vector
from fielding.errors import InputError
from fielding.flower.fields import Fields, checked_layout
from fielding.flower.records import fields_of, json_text, model_names, named_model
from fielding.flower.shared_view import LONGEST_KEY, SharedView

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
