"""Orders and replies as Flower's records, both ways: what is written where, and every check of what came.

=============  =============================================================================================
an order       ``config`` (ConfigRecord) with ``fielding``, the agreement, and ``order``, JSON; ``arrays`` (ArrayRecord)
               with the models that it is about: ``model``, and behind it ``model-1``, ``model-2`` if there are several;
               ``anchor`` to be pulled toward, ``shared`` to see samples with, ``heads`` for the device's experts,
               ``deliver`` to be served, with ``deliver-heads``
a train reply  ``arrays`` with ``model``, or ``part`` if only some numbers were wanted; ``metrics`` (MetricRecord), and
               ``report`` (ConfigRecord) if there is one
a description  ``about`` (ConfigRecord), and ``report`` if there is one
a test         ``metrics`` (MetricRecord)
each of these  also ``holding`` (ConfigRecord) if the device's app takes models
a probe        ``answers`` (ConfigRecord)
to any order   ``agreement`` (ConfigRecord) with ``speaks``, if the device does not speak that of the order
=============  =============================================================================================

A model is one flat vector in NumPy's file format, so that Flower's own mods can work on it; a representation is a few
bytes in the report, since every further array costs a call. A server reads replies of devices that it cannot trust:
whatever is not as it should be becomes a :class:`~fielding.flower.wire.orders.Refusal`. All that is JSON or a record
of plain values is declared once, as a struct below, and checked by it.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Meta, Struct, UnsetType, field

from fielding._typing import Json, Models, Vector
from fielding.client.report import DRIFT_KINDS, checked_rows
from fielding.errors import InputError, echo
from fielding.federation.clients import Pull, TrainingPlan, Updates
from fielding.federation.evaluation import NO_SCORES, TREATMENTS, ClientScores
from fielding.federation.models import finite_rows
from fielding.flower.wire.orders import (
    LONGEST_TEXT,
    NO_LAYOUT,
    OF_CENTERS,
    Answer,
    Asked,
    Delivery,
    DescribeOrder,
    DescribeReply,
    EvaluateOrder,
    EvaluateReply,
    Expected,
    Holding,
    Order,
    ProbeOrder,
    ProbeReply,
    Refusal,
    Reply,
    Report,
    ServedView,
    SharedView,
    TrainOrder,
    TrainReply,
    Verb,
    Wanted,
    WorkRule,
    one_line,
)
from fielding.runtime.own_code import check_metric_names
from fielding.training.layout import Layout

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, RecordDict

OWN_METRIC = "metric/"  # before the name of a metric of the user's own
AGREEMENTS = (3, 4)
"""The agreements that this release speaks, rising: a message follows one of them. Whatever an older device would not
understand, a new field or a new word in one, takes a new number, and :func:`_say_as` says it in the older ones.

- 3: the messages of ``tests/golden/agreement_3.json``
- 4: a description may be asked for otherwise than by ``"report"``; a device that is spoken to in an agreement which it
  does not know answers with those that it speaks, where one of 3 fails with a text; models may be delivered, and a
  device may say which one it holds; metrics of the user's own may come with a trained model
"""
PROTOCOL = AGREEMENTS[-1]
ANSWERS_SINCE = 4  # servers of older agreements cannot read an answer that is a list of agreements
MESSAGE_TYPES: dict[Verb, str] = {
    "train": "train",
    "describe": "query.describe",
    "evaluate": "evaluate",
    "probe": "query.probe",
}
"""What Flower calls each verb."""
MOST = 2**53  # whole numbers beyond this are mistakes
LONGEST_JSON = 1 << 20  # characters of JSON that are parsed
LONGEST_NPY_HEADER = 1024  # bytes before the numbers of an array; NumPy writes 128
MOST_FEATURES = 1 << 20  # numbers of a representation
MOST_VALUES = 1 << 16  # bytes of names, metrics and all other values of a reply
MOST_EXPERTS = 100  # of a device
MOST_AGREEMENTS = 100  # that a device may speak
MOST_PARTS = 1000  # parts of a model that a pull may treat differently
LARGEST = 1e15
"""Sums and vectors of a client are at most this large: distances between them, squared, then fit into a float32."""
LARGEST_LOSS = 1e30
"""Means over the losses of clients have to be finite: a larger loss says nothing, and could make them infinite."""
SHARED, PART, REFERENCE, HEADS = "shared", "part", "reference", "heads"
AGREEMENT, SPEAKS = "agreement", "speaks"
"""Record and value by which a device says which agreements it speaks; they stay as they are in all agreements."""
DELIVER, DELIVER_HEADS, HOLDING = "deliver", "deliver-heads", "holding"

SentModels: TypeAlias = dict[tuple[object, ...], Any]
"""Models and records of models that were written already, by where the models lie in memory."""
Read = TypeVar("Read")
_SPOKEN = re.compile(r"an order follows agreement \d+ but this release agreement (\d{1,6}(?:, \d{1,6}){0,99});")

Whole: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]
FromOne: TypeAlias = Annotated[int, Meta(ge=1, le=MOST)]
Factor: TypeAlias = Annotated[float, Meta(ge=0, le=1e300)]
Key: TypeAlias = Annotated[str, Meta(max_length=64)]


class _Layout(Struct, forbid_unknown_fields=True):
    names: list[str]
    shapes: list[Annotated[list[Whole], Meta(max_length=32)]]
    n_parameters: Whole


class _Order(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What every order says."""

    run: Annotated[str, Meta(max_length=256)]
    round: Whole
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    confirmed: Whole = 0
    observe: dict[str, Any] = {}


class _Shared(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    key: Key
    layout: _Layout | None = None
    work: WorkRule | None = None


class _Served(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    heard: Annotated[list[float | None], Meta(min_length=1, max_length=MOST_EXPERTS)]
    n_heads: Annotated[int, Meta(ge=0, le=MOST_FEATURES)] = 0
    row: Whole = 0


class _Deliver(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    key: Annotated[str, Meta(pattern=r"^[0-9a-f]{1,64}$")]
    version: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$")]
    round: Whole
    cluster: Annotated[int, Meta(ge=-1, le=MOST)]
    metrics: Annotated[dict[Key, float], Meta(max_length=100)] = {}
    pinned: bool = False
    layout: _Layout | None = None
    work: WorkRule | None = None
    served: _Served | None = None


class _Train(_Order):
    work: WorkRule
    layout: _Layout
    steps: FromOne | None = None
    start_loss: bool = False
    is_probe: bool = False
    rates: list[Factor] | None = None
    block: list[Whole] | None = None
    pull: Annotated[list[tuple[FromOne, Factor]], Meta(max_length=MOST_PARTS)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    shared: _Shared | None = None
    served: _Served | None = None
    deliver: _Deliver | None = None


class _Describe(_Order):
    shared: _Shared | None = None
    asks: Asked = "report"
    deliver: _Deliver | None = None


class _Evaluate(_Order):
    work: WorkRule
    layout: _Layout
    served: _Served | None = None
    deliver: _Deliver | None = None


class _Probe(_Order):
    wanted: Wanted
    blocks: Annotated[list[list[Whole] | None], Meta(min_length=1)]
    work: WorkRule | None = None
    layout: _Layout | None = None
    corrected: bool = False
    sets: list[FromOne] = []
    id_epsilon: float | None = None


class _Trained(Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    n_samples: FromOne = field(name="num-examples")
    loss: float
    square_loss: float
    start: Whole | UnsetType = UNSET
    start_loss: float | UnsetType = UNSET
    expert_losses: Annotated[list[float], Meta(min_length=1, max_length=MOST_EXPERTS)] | UnsetType = UNSET


class _Tested(Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    n_test: Whole = field(name="num-examples")
    correct: Whole
    loss: float
    corrected_correct: Whole | UnsetType = UNSET
    corrected_loss: float | UnsetType = UNSET
    tuned_correct: Whole | UnsetType = UNSET
    tuned_loss: float | UnsetType = UNSET
    served_correct: Whole | UnsetType = UNSET
    served_loss: float | UnsetType = UNSET
    expert_weights: Annotated[list[float], Meta(min_length=1, max_length=MOST_EXPERTS)] | UnsetType = UNSET
    expert_losses: Annotated[list[float], Meta(min_length=1, max_length=MOST_EXPERTS)] | UnsetType = UNSET
    expert_correct: Annotated[list[Whole], Meta(min_length=1, max_length=MOST_EXPERTS)] | UnsetType = UNSET


class _About(Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    n_samples: Whole = field(name="num-examples")
    partition: Whole | UnsetType = UNSET


class _Holding(Struct, kw_only=True, forbid_unknown_fields=True):
    key: Key
    trouble: Annotated[str, Meta(max_length=4 * LONGEST_TEXT)] = ""


class _Report(Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    number: FromOne
    n_samples: Whole = field(name="num-examples")
    kind: Annotated[str, Meta(max_length=32)] | UnsetType = UNSET
    representation: bytes | UnsetType = UNSET
    tally: bytes | UnsetType = UNSET


class _Answers(Struct, kw_only=True, forbid_unknown_fields=True):
    sizes: Annotated[list[Whole], Meta(min_length=1, max_length=MOST_FEATURES)]
    values: bytes


# ---- orders --------------------------------------------------------------------------------------------------------


def order_records(order: Order, sent: SentModels | None = None, *, agreement: int = PROTOCOL) -> "RecordDict":
    """Return an order as Flower sends it, or raise if it cannot be said in an agreement.

    ``sent`` remembers models for the next order of the same push, so that a model for many devices is written once.
    Good only as long as all those orders live.
    """
    from flwr.app import ConfigRecord, RecordDict

    text, models = order_parts(_say_as(order, agreement))
    config = ConfigRecord({"fielding": agreement, "order": text})
    view = order.shared if isinstance(order, (TrainOrder, DescribeOrder)) else None
    if view is not None and view.reference is not None:
        config[REFERENCE] = view.reference.astype("<f8").tobytes()
    if not models:
        return RecordDict({"config": config})
    return RecordDict({"arrays": models_record(models, {} if sent is None else sent), "config": config})


def _say_as(order: Order, agreement: int) -> Order:
    """Return an order in the words of an agreement, or raise if it has none for it."""
    if agreement < 4 and not isinstance(order, ProbeOrder):
        order = replace(order, deliver=None)
    if agreement < 4 and isinstance(order, DescribeOrder) and order.asks != "report":
        if order.asks == "name":  # it comes with every description
            return replace(order, asks="report")
        raise InputError(
            f"it speaks agreement {agreement}, in which it cannot be asked for {echo(order.asks)}; install this "
            "release of fielding on it"
        )
    return order


def order_parts(order: Order) -> tuple[str, dict[str, Models]]:
    """Return what an order says, as JSON, and the models that go with it, by name."""
    common: dict[str, Any] = {"run": order.run_id, "round": order.round_index, "seed": order.seed}
    common["observe"] = dict(order.observe)
    if not isinstance(order, EvaluateOrder):
        common["confirmed"] = order.confirmed
    body, models = _body(order, common)
    view = order.shared if isinstance(order, (TrainOrder, DescribeOrder)) else None
    if view is not None and isinstance(body, (_Train, _Describe)):
        body.shared = _Shared(key=view.key)
        if view.model is not None and view.layout is not None:
            body.shared = _Shared(key=view.key, layout=_layout(view.layout), work=_drop_defaults(view.work))
            models = {**models, SHARED: view.model}
    if isinstance(order, (TrainOrder, EvaluateOrder)) and isinstance(body, (_Train, _Evaluate)):
        body.served, heads = _served(order.served, HEADS)
        models = {**models, **heads}
    if not isinstance(order, ProbeOrder) and isinstance(body, (_Train, _Describe, _Evaluate)):
        body.deliver, brought = _deliver(order.deliver)
        models = {**models, **brought}
    return msgspec.json.encode(body, enc_hook=_encode_number).decode(), models


def _served(served: ServedView | None, name: str) -> tuple[_Served | None, dict[str, Models]]:
    """Return what experts need, as JSON holds it, and the heads that go with it, under a name."""
    if served is None:
        return None, {}
    body = _Served(heard=[None if np.isnan(one) else one for one in served.heard.tolist()])
    if served.heads is None:
        return body, {}
    body.n_heads, body.row = len(served.heads), served.row
    return body, {name: served.heads.reshape(-1)}


def _deliver(delivery: Delivery | None) -> tuple[_Deliver | None, dict[str, Models]]:
    """Return a version that is delivered, as JSON holds it, and the models that go with it."""
    if delivery is None:
        return None, {}
    body = _Deliver(
        key=delivery.key,
        version=delivery.version,
        round=delivery.round_index,
        cluster=delivery.cluster,
        metrics=dict(delivery.metrics),
        pinned=delivery.is_pinned,
    )
    if delivery.model is None or delivery.layout is None:
        return body, {}
    body.layout, body.work = _layout(delivery.layout), _drop_defaults(delivery.work)
    body.served, heads = _served(delivery.served, DELIVER_HEADS)
    return body, {DELIVER: delivery.model, **heads}


def _body(order: Order, common: dict[str, Any]) -> tuple[_Order, dict[str, Models]]:
    """Return what an order says, and the models that go with it, by name."""
    if isinstance(order, DescribeOrder):
        return _Describe(**common, asks=order.asks), {}
    if isinstance(order, EvaluateOrder):
        return _Evaluate(**common, work=_drop_defaults(order.work), layout=_layout(order.layout)), {
            "model": order.model
        }
    if isinstance(order, ProbeOrder):
        blocks = [None if one is None else list(one) for one in order.blocks]
        body = _Probe(**common, wanted=order.wanted, blocks=blocks, corrected=order.corrected)
        if order.wanted in OF_CENTERS:
            body.sets, body.id_epsilon = list(order.sets), order.id_epsilon
        elif len(order.models):
            body.layout, body.work = _layout(order.layout), _drop_defaults(order.work)
        return body, _number_models(order.models)
    plan, models = order.plan, _number_models(order.plan.models)
    train = _Train(
        **common,
        work=_drop_defaults(order.work),
        layout=_layout(order.layout),
        steps=None if plan.n_steps is None else int(plan.n_steps),
        start_loss=plan.with_start_loss,
        is_probe=plan.is_probe,
        rates=None if plan.rate_factors is None else plan.rate_factors.tolist(),
        block=None if plan.blocks is None else plan.blocks[0].tolist(),
        share=order.share,
    )
    if plan.pull is not None:
        parts = pull_parts(plan.pull)
        if parts:
            train.pull = parts
            models["anchor"] = plan.pull.anchors[plan.pull.row[0], : parts[-1][0]]
    return train, models


def pull_parts(pull: Pull) -> list[tuple[int, float]]:
    """Return how strongly parts of a model are pulled: up to which number, and how much, from the first on.

    Raises if every number is pulled differently: an order would be as large as another model.

    Examples
    --------
    >>> anchors = np.array([[1, 2, 3]], dtype=np.float32)
    >>> pull_parts(Pull(anchors=anchors, row=np.array([0]), strength=np.array([0.5, 0.5, 0.0])))
    [(2, 0.5)]
    """
    stops = [*(np.flatnonzero(np.diff(pull.strength)) + 1).tolist(), pull.strength.size]
    parts = [(stop, float(pull.strength[stop - 1])) for stop in stops]
    if parts[-1][1] == 0.0:
        parts.pop()
    if len(parts) > MOST_PARTS:
        raise InputError(
            f"the method pulls {len(parts)} parts of a model differently; an order names {MOST_PARTS}, use the "
            "simulator"
        )
    return parts


def _layout(layout: Layout) -> _Layout:
    return _Layout(
        names=list(layout.names), shapes=[list(shape) for shape in layout.shapes], n_parameters=layout.n_parameters
    )


def _number_models(models: Models) -> dict[str, Models]:
    return {f"model-{at}" if at else "model": model for at, model in enumerate(models)}


def _drop_defaults(rule: object) -> Any:
    """Return a rule as JSON holds it; what is as usual takes no room."""
    if not is_dataclass(rule):
        return rule
    found: dict[str, Json] = {}
    for one in fields(rule):
        value = getattr(rule, one.name)
        usual = one.default_factory() if one.default_factory is not MISSING else one.default
        if value != usual:
            found[one.name] = _drop_defaults(value)
    return found


def _encode_number(value: object) -> object:
    """Return numbers of NumPy as plain ones; a tuple of settings is a list."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"an order cannot hold {value!r}")


def check_agreement(agreement: object) -> None:
    """Raise if an order follows an agreement that this release does not speak."""
    if type(agreement) is not int or agreement not in AGREEMENTS:
        raise InputError(
            f"an order follows agreement {echo(agreement)} but this release agreement "
            f"{', '.join(map(str, AGREEMENTS))}; install the same release of fielding on server and clients"
        )


def agreement_of(records: "RecordDict") -> int:
    """Return the agreement of an order that this release speaks, or raise."""
    agreement = _values(records, "config").get("fielding")
    check_agreement(agreement)
    return int(str(agreement))


def foreign_agreement(records: "RecordDict") -> object | None:
    """Return the agreement of an order if this release does not speak it but can say so; None for all other orders."""
    agreement = _values(records, "config").get("fielding")
    is_foreign = type(agreement) is int and agreement >= ANSWERS_SINCE and agreement not in AGREEMENTS
    return agreement if is_foreign else None


def spoken_records() -> "RecordDict":
    """Return the agreements that this release speaks, as an answer to an order in another one."""
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({AGREEMENT: ConfigRecord({SPEAKS: list(AGREEMENTS)})})


def spoken_from(records: "RecordDict") -> tuple[int, ...] | None:
    """Return the agreements that a device says it speaks; None if it says nothing of them, or no numbers."""
    record = records.get(AGREEMENT)
    spoken = None if record is None else dict(record).get(SPEAKS)
    if not isinstance(spoken, list) or len(spoken) > MOST_AGREEMENTS:
        return None
    return tuple(one for one in spoken if type(one) is int) or None


def spoken_in(text: str) -> tuple[int, ...] | None:
    """Return the agreements that a device speaks which failed with a text of :func:`check_agreement`; else None.

    Examples
    --------
    >>> spoken_in("InputError: an order follows agreement 4 but this release agreement 3; install the same release")
    (3,)
    """
    found = _SPOKEN.search(text)
    return tuple(int(one) for one in found.group(1).split(",")) if found else None


def order_from(records: "RecordDict", verb: Verb) -> Order:
    """Return the order that a device got, or raise if it is none that this release understands."""
    agreement_of(records)
    config = _values(records, "config")
    text = config.get("order")
    if not isinstance(text, str) or len(text) > LONGEST_JSON or config.keys() - {"fielding", "order", REFERENCE}:
        raise InputError("the config of an order must hold 'fielding', 'order' as JSON and perhaps 'reference'")
    if verb == "describe":
        body = _parse(text, _Describe)
        view, delivery = _view(records, config, body.shared), _delivery(records, body.deliver, in_order=False)
        _check_models(records, _shared_of(view) | _delivered_of(delivery), {"config"})
        return DescribeOrder(**_common(body), confirmed=body.confirmed, shared=view, asks=body.asks, deliver=delivery)
    if verb == "evaluate":
        test = _parse(text, _Evaluate)
        model = named_model(records, "model", None) if "model" in model_names(records) else None
        served = _served_view(records, test.served, None if model is None else model.size)
        delivery = _delivery(records, test.deliver)
        _check_models(records, {"model"} | _heads_of(served) | _delivered_of(delivery), {"config"})
        if model is None:
            raise InputError("an order to test lacks its 'model'")
        layout = checked_layout(test.layout, model.size)
        return EvaluateOrder(
            **_common(test), model=model, layout=layout, work=test.work, served=served, deliver=delivery
        )
    if verb == "probe":
        return _probe_order(records, _parse(text, _Probe))
    return _train_order(records, config, _parse(text, _Train))


def _train_order(records: "RecordDict", config: Mapping[str, object], body: _Train) -> TrainOrder:
    names = model_names(records) - {"anchor", SHARED, HEADS, DELIVER, DELIVER_HEADS}
    models = _read_models(records, names)
    served = _served_view(records, body.served, models.shape[1])
    view, delivery = _view(records, config, body.shared), _delivery(records, body.deliver)
    beside = _heads_of(served) | _shared_of(view) | _delivered_of(delivery) | ({"anchor"} if body.pull else set())
    _check_models(records, names | beside, {"config"})
    if delivery is not None and delivery.model is None and len(models) > 1:
        raise InputError(f"an order of {len(models)} models delivers one of them; send it along")
    if body.rates is not None and len(body.rates) != len(models):
        raise InputError(f"an order has {len(models)} models and {len(body.rates)} factors on rates; send as many")
    none = np.zeros(1, dtype=np.int64)
    plan = TrainingPlan(
        models=models,
        clients=none,
        groups=none,
        start=none,
        wanted=np.ones(1, dtype=np.int64),
        is_probe=body.is_probe,
        n_steps=body.steps,
        with_start_loss=body.start_loss,
        chooses=len(models) > 1,
        rate_factors=None if body.rates is None else np.array(body.rates),
        blocks=None if body.block is None else [np.array(body.block, dtype=np.int64)],
        upload_shares=None if body.share is None else np.array([body.share]),
        pull=_pull(records, body.pull, models.shape[1]) if body.pull else None,
    )
    return TrainOrder(
        **_common(body),
        confirmed=body.confirmed,
        plan=plan,
        layout=checked_layout(body.layout, models.shape[1]),
        work=body.work,
        shared=view,
        served=served,
        deliver=delivery,
    )


def _delivery(records: "RecordDict", body: _Deliver | None, *, in_order: bool = True) -> Delivery | None:
    """Return the version that comes with an order; without a model of its own it is that of the order."""
    if body is None:
        return None
    told = Delivery(
        key=body.key,
        version=body.version,
        round_index=body.round,
        cluster=body.cluster,
        metrics=body.metrics,
        is_pinned=body.pinned,
    )
    if DELIVER not in model_names(records):
        if not in_order:
            raise InputError("a model is delivered, but none came along; send 'deliver'")
        return told
    if body.layout is None or body.work is None:
        raise InputError("a model that is delivered lacks its 'layout' or the rule of 'work'")
    model = named_model(records, DELIVER, None)
    if not np.isfinite(model).all():
        raise InputError("a model that is delivered holds NaN or infinity; deliver another version")
    return replace(
        told,
        model=model,
        layout=checked_layout(body.layout, model.size),
        work=body.work,
        served=_served_view(records, body.served, model.size, DELIVER_HEADS),
    )


def _delivered_of(delivery: Delivery | None) -> set[str]:
    if delivery is None or delivery.model is None:
        return set()
    has_heads = delivery.served is not None and delivery.served.heads is not None
    return {DELIVER, DELIVER_HEADS} if has_heads else {DELIVER}


def _shared_of(view: SharedView | None) -> set[str]:
    return {SHARED} if view is not None and view.model is not None else set()


def _served_view(
    records: "RecordDict", body: _Served | None, n_numbers: int | None, name: str = HEADS
) -> ServedView | None:
    """Return what the experts of a device need, or raise if it does not fit the model of an order."""
    if body is None:
        return None
    heard = np.array([np.nan if one is None else one for one in body.heard])
    if not body.n_heads:
        return ServedView(heard=heard)
    flat = named_model(records, name, None) if name in model_names(records) else np.empty(0, dtype=np.float32)
    if not flat.size or flat.size % body.n_heads or flat.size // body.n_heads > (n_numbers or 0):
        raise InputError(f"{body.n_heads} heads of an order have {flat.size} numbers; send as many of each")
    if body.row >= body.n_heads:
        raise InputError(f"head {body.row} of {body.n_heads} serves a device; name one that there is")
    return ServedView(heard=heard, heads=flat.reshape(body.n_heads, -1), row=body.row)


def _heads_of(served: ServedView | None) -> set[str]:
    return {HEADS} if served is not None and served.heads is not None else set()


def _probe_order(records: "RecordDict", body: _Probe) -> ProbeOrder:
    names = model_names(records)
    if (body.wanted == "sizes") == bool(names):
        raise InputError(f"a question is about {body.wanted!r}; ask for losses or accuracies of models, or for sizes")
    _check_models(records, names, {"config"})
    models = _read_models(records, names) if names else np.empty((0, 0), dtype=np.float32)
    if body.wanted in OF_CENTERS:
        if sum(body.sets) != len(models) or len(body.blocks) != 1:
            raise InputError(f"{len(models)} centers came for sets of {body.sets}; use the same release on both sides")
    elif names and (body.layout is None or body.work is None):
        raise InputError("an order about models lacks their 'layout' or the rule of 'work'")
    return ProbeOrder(
        **_common(body),
        confirmed=body.confirmed,
        wanted=body.wanted,
        models=models,
        layout=NO_LAYOUT if body.layout is None else checked_layout(body.layout, models.shape[1]),
        work=body.work,
        blocks=tuple(None if one is None else tuple(one) for one in body.blocks),
        corrected=body.corrected,
        sets=tuple(body.sets),
        id_epsilon=body.id_epsilon,
    )


def _common(body: _Order) -> dict[str, Any]:
    return {"run_id": body.run, "round_index": body.round, "seed": body.seed, "observe": body.observe}


def _pull(records: "RecordDict", parts: list[tuple[int, float]], n_numbers: int) -> Pull:
    """Return the pull of an order, or raise if it does not fit its models."""
    strength, first = np.zeros(n_numbers), 0
    for stop, value in parts:
        if not first < stop <= n_numbers:
            raise InputError(
                f"a pull of an order has the part {echo([stop, value])}; send [stop, strength], stops rising"
            )
        strength[first:stop], first = value, stop
    if "anchor" not in model_names(records):
        raise InputError("an order pulls models toward none; send an 'anchor' along")
    anchors = np.zeros((1, n_numbers), dtype=np.float32)
    anchors[0, :first] = named_model(records, "anchor", first)
    return Pull(anchors=anchors, row=np.zeros(1, dtype=np.int64), strength=strength)


def _view(records: "RecordDict", config: Mapping[str, object], shared: _Shared | None) -> SharedView | None:
    """Return what an order says of the shared model; None if it does not speak of one."""
    if shared is None:
        return None
    reference = _doubles(config[REFERENCE], REFERENCE) if REFERENCE in config else None
    if SHARED not in model_names(records):
        return SharedView(key=shared.key, reference=reference)
    if shared.layout is None or shared.work is None:
        raise InputError("a shared model lacks its 'layout' or the rule of 'work'")
    model = named_model(records, SHARED, None)
    layout = checked_layout(shared.layout, model.size)
    return SharedView(key=shared.key, model=model, layout=layout, work=shared.work, reference=reference)


def _read_models(records: "RecordDict", names: frozenset[str]) -> Models:
    """Return the models of an order, all of one length, in the order of their numbers."""
    if not names or names != set(_number_models(np.empty((len(names), 0), dtype=np.float32))):
        raise InputError("the record 'arrays' is missing or holds something else; send an ArrayRecord with 'model'")
    first = named_model(records, "model", None)
    rest = [named_model(records, f"model-{at}", first.size) for at in range(1, len(names))]
    return np.stack([first, *rest])


# ---- replies -------------------------------------------------------------------------------------------------------


def reply_records(reply: Reply, *, agreement: int = PROTOCOL) -> "RecordDict":
    """Return a reply as Flower sends it, in the words of the agreement of its order."""
    from flwr.app import ConfigRecord, MetricRecord, RecordDict

    if agreement < 4 and not isinstance(reply, ProbeReply):
        reply = replace(reply, holding=None)
        if isinstance(reply, TrainReply):
            reply = replace(reply, updates=replace(reply.updates, metrics={}))
    if isinstance(reply, EvaluateReply):
        tested = RecordDict({"metrics": MetricRecord(dict(_test_metrics(reply.scores)))})
        return _with_holding(tested, reply.holding)
    if isinstance(reply, ProbeReply):
        values = reply.values.astype("<f8").tobytes()
        return RecordDict({"answers": ConfigRecord({"sizes": reply.sizes.tolist(), "values": values})})
    if isinstance(reply, DescribeReply):
        about = ConfigRecord({"num-examples": reply.n_samples})
        if reply.partition is not None:
            about["partition"] = reply.partition
        records = RecordDict({"about": about})
    else:
        updates = reply.updates
        arrays = models_record({PART if reply.is_part else "model": updates.models[0]}, {})
        records = RecordDict({"arrays": arrays, "metrics": MetricRecord(dict(_train_metrics(updates)))})
    if (report := reply.report) is not None:  # what it does not say takes no room
        record = ConfigRecord({"number": report.number, "num-examples": report.n_samples})
        if report.tally is not None:
            record["tally"] = report.tally.astype("<f8").tobytes()
        elif not report.is_silent:
            record["representation"] = report.representation.astype("<f4").tobytes()
        if report.kind is not None:
            record["kind"] = report.kind
        records["report"] = record
    if reply.holds is not None:
        records[SHARED] = ConfigRecord({"holds": reply.holds})
    return _with_holding(records, reply.holding)


def _with_holding(records: "RecordDict", holding: Holding | None) -> "RecordDict":
    """Return the records of a reply with what it says of models that are delivered."""
    from flwr.app import ConfigRecord

    if holding is not None:
        trouble = {"trouble": holding.trouble} if holding.trouble else {}
        records[HOLDING] = ConfigRecord({"key": holding.key, **trouble})
    return records


def _train_metrics(updates: Updates) -> dict[str, int | float | list[float]]:
    metrics: dict[str, int | float | list[float]] = {
        "num-examples": int(updates.n_samples[0]),
        "loss": float(updates.loss[0]),
        "square-loss": float(updates.square_loss[0]),
    }
    if updates.start_loss is not None:
        metrics["start-loss"] = float(updates.start_loss[0])
    if updates.start[0] >= 0:
        metrics["start"] = int(updates.start[0])
    if updates.expert_losses is not None and np.isfinite(updates.expert_losses).all():
        metrics["expert-losses"] = updates.expert_losses[0].tolist()
    return metrics | {f"{OWN_METRIC}{name}": float(values[0]) for name, values in updates.metrics.items()}


def _test_metrics(scores: ClientScores) -> dict[str, int | float | list[float]]:
    if not scores.clients.size:
        return {"num-examples": 0, "correct": 0, "loss": math.nan}
    metrics: dict[str, int | float | list[float]] = {
        "num-examples": int(scores.n_test[0]),
        "correct": int(scores.correct[0]),
        "loss": float(scores.loss[0]),
    }
    for name, also in scores.also.items():
        metrics |= {f"{name}-correct": int(also.correct[0]), f"{name}-loss": float(also.loss[0])}
        for what in ("weights", "losses", "correct"):
            if numbers := getattr(also, f"expert_{what}"):
                metrics[f"expert-{what}"] = [one[0].item() for one in numbers.values()]
        metrics |= {f"{name}-{OWN_METRIC}{one}": float(values[0]) for one, values in also.metrics.items()}
    return metrics | {f"{OWN_METRIC}{name}": float(values[0]) for name, values in scores.metrics.items()}


def reply_from(records: "RecordDict", verb: Verb, expected: Expected) -> Answer:
    """Return what a device answered, or why it counts for nothing; never raises, whatever came.

    Asked to train, a device may also answer with a description: it has no data.
    """
    report = None
    try:
        if (size := n_bytes(records)) > (most := most_bytes(verb, expected)):
            raise InputError(f"a reply has {size} bytes, at most {most} are taken; nothing of it was looked at")
        if verb == "evaluate":
            return _evaluate_reply(records, expected)
        if verb == "probe":
            return _probe_reply(records)
        report = _report(records, expected)
        if verb == "describe" or "about" in records:
            _check_names(records, {"about"}, {"report", SHARED, HOLDING})
            about = _convert(_values(records, "about"), _About, "about")
            partition = None if about.partition is UNSET else about.partition
            return DescribeReply(
                n_samples=about.n_samples,
                report=report,
                partition=partition,
                holds=_holds(records),
                holding=_holding(records),
            )
        return _train_reply(records, report, expected)
    except Exception as error:  # no device can stop the server, whatever it sends
        return Refusal(reason="failed", text=one_line(error), report=report)


def most_bytes(verb: Verb, expected: Expected) -> int:
    """Return how many bytes a reply may carry: its model, a report and values; all else is not looked at.

    Examples
    --------
    >>> expected = Expected(n_numbers=1000, kind="histogram")
    >>> most_bytes("train", expected) - most_bytes("describe", expected)
    5024
    """
    model = 4 * expected.n_numbers + LONGEST_NPY_HEADER if verb == "train" else 0
    lists = 2 if verb == "probe" else 1  # of numbers of 8 bytes: those of a report, or sizes and values of answers
    return model + lists * 8 * MOST_FEATURES + MOST_VALUES


def _train_reply(records: "RecordDict", report: Report | None, expected: Expected) -> TrainReply:
    _check_names(records, {"arrays", "metrics"}, {"report", SHARED, HOLDING})
    given = _values(records, "metrics")
    own, metrics = _own_metrics(given, OWN_METRIC), _convert(given, _Trained, "metrics")
    is_part = model_names(records) == {PART}
    _check_models(records, {PART if is_part else "model"}, set(records))
    model = named_model(records, PART if is_part else "model", None if is_part else expected.n_numbers)
    if model.size > expected.n_numbers:
        raise InputError(f"a part of a model has {model.size} numbers; the whole has {expected.n_numbers}")
    if not finite_rows(model[np.newaxis]).all():
        raise InputError("a model holds numbers that are not finite; look at the client's learning rate and data")
    told = None if metrics.expert_losses is UNSET else np.array([metrics.expert_losses])
    if told is not None and (told.shape[1] != len(expected.experts) or not np.isfinite(told).all()):
        raise InputError(f"{told.shape[1]} losses of experts came; send {len(expected.experts)} finite numbers")
    start_loss = None if metrics.start_loss is UNSET else np.array([_loss(metrics.start_loss, "start-loss")])
    updates = Updates(
        clients=np.zeros(1, dtype=np.int64),
        groups=np.zeros(1, dtype=np.int64),
        start=np.array([-1 if metrics.start is UNSET else metrics.start]),
        models=model[np.newaxis],
        n_samples=np.array([metrics.n_samples]),
        loss=np.array([_loss(metrics.loss, "loss")]),
        square_loss=np.array([_loss(metrics.square_loss, "square-loss")]),
        start_loss=start_loss,
        expert_losses=told,
        metrics=own,
        n_parameters=0,
        learning_rate=0.0,
    )
    return TrainReply(updates=updates, is_part=is_part, report=report, holds=_holds(records), holding=_holding(records))


def _loss(loss: float, key: str) -> float:
    """Return a loss of training, or raise if it is so large that a mean over clients would lose its meaning."""
    if not abs(loss) <= LARGEST_LOSS:
        raise InputError(f"{key!r} of metrics is {loss:g}; it must be a finite number within {LARGEST_LOSS:g}")
    return float(loss)


def _probe_reply(records: "RecordDict") -> ProbeReply:
    _check_names(records, {"answers"})
    answers = _convert(_values(records, "answers"), _Answers, "answers")
    sizes, values = np.array(answers.sizes, dtype=np.int64), _floats(answers.values, "<f8", "values")
    if values.size % sizes.size:
        raise InputError(f"{sizes.size} questions are answered with {values.size} numbers; send as many for each")
    table = values.reshape(sizes.size, -1).astype(np.float64)
    if np.isnan(table[sizes > 0]).any() or (table[sizes > 0] < 0).any():
        raise InputError("a loss or a share of right answers is NaN or below 0; look at the client's evaluate")
    return ProbeReply(sizes=sizes, values=np.where(table > LARGEST_LOSS, np.inf, table))


def _evaluate_reply(records: "RecordDict", expected: Expected) -> EvaluateReply:
    _check_names(records, {"metrics"}, {HOLDING})
    holding, given = _holding(records), _values(records, "metrics")
    own, own_served = _own_metrics(given, OWN_METRIC), _own_metrics(given, f"served-{OWN_METRIC}")
    metrics = _convert(given, _Tested, "metrics")

    def scores(correct: int, loss: float) -> ClientScores:
        if correct > metrics.n_test:
            raise InputError(f"a test has {correct} right of {metrics.n_test}; send at most as many as were tested")
        # A loss of a test need not be finite; one that is too large for a mean counts as infinite.
        return ClientScores(
            clients=np.zeros(1, dtype=np.int64),
            n_test=np.array([metrics.n_test]),
            correct=np.array([correct]),
            loss=np.array([math.inf if abs(loss) > LARGEST_LOSS else float(loss)]),
        )

    plain, also = scores(metrics.correct, metrics.loss), {}
    for name in TREATMENTS:
        correct, loss = getattr(metrics, f"{name}_correct"), getattr(metrics, f"{name}_loss")
        if (correct is UNSET) != (loss is UNSET):
            raise InputError(f"metrics have one of '{name}-correct' and '{name}-loss'; send both or none")
        if correct is not UNSET:
            also[name] = scores(correct, loss)
    if "served" in also:
        weights = _by_expert(metrics.expert_weights, expected.experts[:-1])  # of no mixture: it is taken apart
        losses = _by_expert(metrics.expert_losses, expected.experts)
        right = _by_expert(metrics.expert_correct, expected.experts)
        if most := [one for one in right.values() if one[0] > metrics.n_test]:
            raise InputError(
                f"an expert has {most[0][0]} right of {metrics.n_test}; send at most as many as were tested"
            )
        also["served"] = replace(
            also["served"], expert_weights=weights, expert_losses=losses, expert_correct=right, metrics=own_served
        )
    if not metrics.n_test:
        return EvaluateReply(scores=NO_SCORES, holding=holding)
    return EvaluateReply(scores=replace(plain, also=also, metrics=own), holding=holding)


def _own_metrics(given: dict[str, Any], prefix: str) -> dict[str, Vector]:
    """Take metrics of the user's own out of what came; NaN where a value is none."""
    own = {name.removeprefix(prefix): given.pop(name) for name in list(given) if name.startswith(prefix)}
    values = _convert(own, dict[str, float], "metrics")
    check_metric_names(values, "metrics of one's own")
    return {name: np.array([one if abs(one) <= LARGEST_LOSS else math.nan]) for name, one in values.items()}


def _by_expert(given: list[Any] | UnsetType, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return what a device says of each of its experts, by name; a loss is NaN where no samples came yet."""
    if given is UNSET:
        return {}
    numbers = np.array(given)
    if numbers.size != len(names) or not ((numbers >= 0.0) | np.isnan(numbers)).all():
        raise InputError(f"{numbers.size} numbers of experts came; send {len(names)}, none below 0")
    return {name: numbers[at : at + 1] for at, name in enumerate(names)}


def _report(records: "RecordDict", expected: Expected) -> Report | None:
    """Return the report that came along, or None; raise if it is one that the coordinator would refuse."""
    if "report" not in records:
        return None
    found = _convert(_values(records, "report"), _Report, "report")
    representation = np.empty(0, dtype=np.float32)
    if found.representation is not UNSET:
        representation = _floats(found.representation, "<f4", "representation").astype(np.float32)
        checked_rows(representation[np.newaxis], 1, kind=expected.kind, width=expected.n_features)
        if np.abs(representation).max() > LARGEST:
            raise InputError(f"a representation holds numbers beyond {LARGEST:g}; scale it down")
    if found.kind is not UNSET and found.kind not in DRIFT_KINDS:
        raise InputError(f"a report speaks of the drift {echo(found.kind)}; send one of {', '.join(DRIFT_KINDS)}")
    tally = None
    if found.tally is not UNSET:
        tally = _doubles(found.tally, "tally")
        if np.abs(tally).max() > LARGEST:
            raise InputError(f"'tally' of report holds sums beyond {LARGEST:g}; scale down what is summed up")
    return Report(
        number=found.number,
        representation=representation,
        n_samples=found.n_samples,
        kind=None if found.kind is UNSET else found.kind,
        tally=tally,
    )


def _holds(records: "RecordDict") -> str | None:
    """Return what a device confirms that it holds; None if it says nothing of it."""
    if SHARED not in records:
        return None
    holds = _values(records, SHARED)
    if holds.keys() != {"holds"}:
        raise InputError(f"the record {SHARED!r} holds something else than 'holds'")
    return _convert(holds["holds"], Key, "holds")


def _holding(records: "RecordDict") -> Holding | None:
    """Return what a device says of models that are delivered; None if it says nothing of them."""
    if HOLDING not in records:
        return None
    found = _convert(_values(records, HOLDING), _Holding, HOLDING)
    return Holding(key=found.key, trouble=one_line(found.trouble))


# ---- records -------------------------------------------------------------------------------------------------------


def _values(records: "RecordDict", name: str) -> dict[str, object]:
    """Return the values of a record of the kind that its name promises: ``metrics`` are, all else is config."""
    from flwr.app import ConfigRecord, MetricRecord

    wanted: type[ConfigRecord] | type[MetricRecord] = MetricRecord if name == "metrics" else ConfigRecord
    record = records.get(name)
    if not isinstance(record, wanted):
        got = "missing" if record is None else f"of type {type(record).__name__}"
        raise InputError(f"the record {name!r} is {got}; send a {wanted.__name__}")
    return dict(record)


def _parse(text: str, kind: type[Read]) -> Read:
    try:
        found, raw = msgspec.json.decode(text, type=kind), msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InputError(f"an order is not as it should be: {one_line(error)}") from None
    for one in (raw, raw.get("shared") or {}, raw.get("deliver") or {}):
        _check_words(one.get("work"), WorkRule)
    return found


def _check_words(given: object, rule: type) -> None:
    """Raise if a rule has a word that this release does not know: it would not be followed."""
    if not isinstance(given, dict):
        return
    known = {one.name: one.type for one in fields(rule)}
    if unknown := sorted(given.keys() - known.keys()):
        raise InputError(
            f"an order is not as it should be: its rule of work has an unknown {echo(unknown[0])}; this release knows "
            f"{', '.join(known)}"
        )
    for name, kind in known.items():
        if isinstance(kind, type) and is_dataclass(kind):
            _check_words(given.get(name), kind)


def _convert(values: object, kind: type[Read], name: str) -> Read:
    try:
        return msgspec.convert(values, kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"the record {name!r} is not as it should be: {one_line(error)}") from None


def _check_names(records: "RecordDict", wanted: set[str], optional: set[str] | None = None) -> None:
    """Raise if a message lacks a record, or has one that is not known."""
    names = set(records)
    if missing := sorted(wanted - names):
        raise InputError(f"the records of a message lack {missing[0]!r}; send {', '.join(sorted(wanted))}")
    if unknown := sorted(names - wanted - (optional or set())):
        raise InputError(
            f"the records of a message have an unknown {echo(unknown[0])}; send {', '.join(sorted(wanted))}"
        )


def _check_models(records: "RecordDict", names: set[str] | frozenset[str], beside: set[str]) -> None:
    """Raise unless exactly these models came along, and no other records than those beside them."""
    if model_names(records) != names:
        wanted = min(names, default="no model")
        raise InputError(f"the record 'arrays' is missing or holds something else; send an ArrayRecord with {wanted!r}")
    _check_names(records, beside - {"arrays"}, {"arrays"} if names else set())


def model_names(records: "RecordDict") -> frozenset[str]:
    """Return the names of the models that came along."""
    from flwr.app import ArrayRecord

    record = records.get("arrays")
    return frozenset(record) if isinstance(record, ArrayRecord) else frozenset()


def named_model(records: "RecordDict", name: str, n_numbers: int | None) -> Models:
    """Return one of the models that came along, looked at only if it has the right type and length; None: any."""
    record = cast("ArrayRecord", records["arrays"])
    array = record[name]
    if array.dtype != "float32" or array.stype != "numpy.ndarray" or len(array.shape) != 1:
        raise InputError(f"the model is {echo(array.dtype)} of shape {echo(array.shape)}; send one float32 vector")
    return npy_floats(array.data, n_numbers)


def models_record(models: Mapping[str, Models], sent: SentModels) -> "ArrayRecord":
    """Return models in a record, by their names; the same record for the same pieces of memory.

    Each is an array of its own: Flower sends one that goes to many devices in a push once, whatever goes beside it.
    """
    from flwr.app import Array, ArrayRecord

    places = tuple((name, *_place(model)) for name, model in models.items())
    if places not in sent:
        for model in models.values():
            if _place(model) not in sent:
                sent[_place(model)] = Array(np.ascontiguousarray(model, dtype="<f4"))
        sent[places] = ArrayRecord({name: sent[_place(model)] for name, model in models.items()})
    record: ArrayRecord = sent[places]
    return record


def _place(model: Models) -> tuple[int, ...]:
    """Return where a model lies: a row of a matrix is a new view each time it is asked for."""
    return (model.ctypes.data, model.size, *model.strides)


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


# ---- numbers -------------------------------------------------------------------------------------------------------


def _floats(content: object, dtype: str, name: str) -> npt.NDArray[np.floating]:
    """Return numbers that came as bytes, shape ``(n,)``; perhaps none."""
    size = np.dtype(dtype).itemsize
    if type(content) is not bytes or len(content) % size or len(content) > size * MOST_FEATURES:
        raise InputError(f"{name!r} must be the bytes of at most {MOST_FEATURES} numbers of {size} bytes")
    numbers: npt.NDArray[np.floating] = np.frombuffer(content, dtype=dtype)
    return numbers


def _doubles(content: object, name: str) -> Vector:
    """Return finite numbers that came as little-endian float64 bytes, shape ``(n,)``; at least one."""
    numbers = _floats(content, "<f8", name).astype(np.float64)
    if not numbers.size or not np.isfinite(numbers).all():
        raise InputError(f"{name!r} is empty or holds NaN or infinity; send finite sums")
    return numbers


def checked_layout(record: "_Layout | Mapping[str, Json]", n_numbers: int) -> Layout:
    """Return the layout that a record describes, or raise if it is none of a model of this length."""
    found = record if isinstance(record, _Layout) else _convert(dict(record), _Layout, "layout")
    if len(found.shapes) != len(found.names) or found.n_parameters > len(found.names):
        raise InputError(
            f"a layout has {len(found.names)} names and {len(found.shapes)} shapes; send one for each name"
        )
    layout = Layout(
        names=tuple(found.names), shapes=tuple(tuple(shape) for shape in found.shapes), n_parameters=found.n_parameters
    )
    if len(set(layout.names)) != len(layout.names):
        raise InputError(f"names of the layout are {echo(found.names)}; give each tensor a name of its own")
    if layout.size != n_numbers:
        raise InputError(f"the layout has {echo(layout.size)} numbers but the model {n_numbers}; send its own layout")
    return layout


def npy_floats(content: bytes, n_numbers: int | None = None) -> npt.NDArray[np.float32]:
    """Return the numbers of a little-endian float32 vector in NumPy's file format, without trusting its header.

    ``content`` is looked at only if it is as long as it has to be; not to be written to.
    """
    if n_numbers is not None and not 4 * n_numbers <= len(content) <= 4 * n_numbers + LONGEST_NPY_HEADER:
        raise InputError(f"a model came as {len(content)} bytes; {n_numbers} float32 numbers have {4 * n_numbers}")
    head = io.BytesIO(content[:LONGEST_NPY_HEADER])
    try:
        version = np.lib.format.read_magic(head)
        if version != (1, 0):
            raise ValueError(version)
        shape, _, dtype = np.lib.format.read_array_header_1_0(head, max_header_size=LONGEST_NPY_HEADER)
    except Exception:  # what NumPy raises on arbitrary bytes is not documented
        raise InputError(f"a model begins with {echo(content[:16])}; send an array in NumPy's file format") from None
    if dtype != np.dtype("<f4") or len(shape) != 1:
        raise InputError(f"a model is {dtype} of shape {shape}; send one float32 vector")
    if len(content) != head.tell() + 4 * shape[0] or (n_numbers is not None and shape[0] != n_numbers):
        raise InputError(f"a model claims {echo(shape[0])} numbers in {len(content)} bytes; send as many as it says")
    return np.frombuffer(content, dtype="<f4", offset=head.tell()).astype(np.float32, copy=False)
