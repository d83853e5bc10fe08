"""Orders as Flower's records, both ways: the server writes them, clients read them."""

from typing import TYPE_CHECKING, Any, get_args

from fielding._typing import Json, Models
from fielding.errors import InputError, echo
from fielding.flower.wire.fields import MOST, Fields, checked_layout
from fielding.flower.wire.orders import (
    NO_LAYOUT,
    NO_REPORT,
    Block,
    DescribeOrder,
    EvaluateOrder,
    Order,
    OrderedPull,
    ProbeOrder,
    TrainOrder,
    Verb,
    Wanted,
)
from fielding.flower.wire.records import (
    SHARED,
    VIEW,
    SentModels,
    check_names,
    fields_of,
    json_text,
    model_names,
    model_of,
    models_record,
    named_model,
    put_view,
    view_from,
)

if TYPE_CHECKING:
    from flwr.app import ConfigRecord, RecordDict

PROTOCOL = 1
"""Which of our own agreements a message follows; it goes up when a message of old would be misread."""
LONGEST_RUN_ID = 256
"""Characters."""

_COMMON = ("fielding", "round", "run", "seed")
_WITH_MODEL = ("layout", "settings")
_WISHES = ("rates", "block", "pull", "share")
_WAYS = ("aside", "corrected")
"""In which a question may be meant otherwise than usual; what is usual takes no room."""


# ---- writing -----------------------------------------------------------------------------------------------------


def order_records(order: Order, sent: SentModels | None = None) -> "RecordDict":
    """Return an order as Flower sends it.

    Parameters
    ----------
    order
        What a client is asked.
    sent
        Remembers models for the next order of the same push, so that a model for many clients is written once. Good
        only as long as all those orders live.
    """
    from flwr.app import ConfigRecord, RecordDict

    config = ConfigRecord(
        {"fielding": PROTOCOL, "round": order.round_index, "run": order.run_id, "seed": order.seed},
    )
    if not isinstance(order, EvaluateOrder):
        config["confirmed"] = order.confirmed
    if isinstance(order, TrainOrder):
        config["steps"], config["start-loss"] = order.n_steps, order.with_start_loss
        if wishes := order.wishes():
            config["wishes"] = json_text(wishes)
    elif isinstance(order, ProbeOrder):
        _put_question(config, order)
    models = _models_of(order)
    if models:
        _describe_models(config, order)
    if isinstance(order, (TrainOrder, DescribeOrder)):
        models |= put_view(config, order.shared)
    if not models:
        return RecordDict({"config": config})
    return RecordDict({"arrays": models_record(models, {} if sent is None else sent), "config": config})


def _put_question(config: "ConfigRecord", order: ProbeOrder) -> None:
    config["wanted"] = order.wanted
    config["blocks"] = json_text({"of": [None if one is None else list(one) for one in order.blocks]})
    for name in _WAYS:
        if getattr(order, name):
            config[name] = True


def _models_of(order: Order) -> dict[str, Models]:
    """Return the models that go with an order, by name."""
    if isinstance(order, DescribeOrder):
        return {}
    if isinstance(order, EvaluateOrder):
        return {"model": order.model}
    return order.models() if isinstance(order, TrainOrder) else _numbered(order.models)


def _numbered(models: tuple[Models, ...]) -> dict[str, Models]:
    return {_name(at): model for at, model in enumerate(models)}


def _name(at: int) -> str:
    return f"model-{at}" if at else "model"


def _describe_models(config: "ConfigRecord", order: Order) -> None:
    if not isinstance(order, DescribeOrder):
        config["layout"], config["settings"] = json_text(order.layout.record()), json_text(dict(order.settings))


# ---- reading -----------------------------------------------------------------------------------------------------


def order_from(records: "RecordDict", verb: Verb) -> Order:
    """Return the order that a client got.

    Raises
    ------
    InputError
        If it is none, or none that this release understands.
    """
    protocol = fields_of(records, "config").values.get("fielding")
    if protocol != PROTOCOL:
        raise InputError(
            f"an order follows agreement {echo(protocol)} but this release agreement {PROTOCOL}; "
            "install the same release of fielding on server and clients"
        )
    if verb == "describe":
        check_names(records, ("config",), ("arrays",))
        config = fields_of(records, "config").only((*_COMMON, "confirmed"), VIEW)
        view = view_from(records, config)
        return DescribeOrder(**_common(config), confirmed=_confirmed(config), shared=view)
    if verb == "probe":
        return _probe_order(records)
    check_names(records, ("arrays", "config"))
    if verb == "train":
        return _train_order(records)
    config = fields_of(records, "config").only((*_COMMON, *_WITH_MODEL))
    model = model_of(records, None)
    layout = checked_layout(config.json("layout"), model.size)
    return EvaluateOrder(**_common(config), model=model, layout=layout, settings=config.json("settings"))


def _train_order(records: "RecordDict") -> TrainOrder:
    own = ("confirmed", "start-loss", "steps")
    config = fields_of(records, "config").only((*_COMMON, *_WITH_MODEL, *own), ("wishes", *VIEW))
    wishes = Fields(name="wishes of an order", values=config.json("wishes") if "wishes" in config.values else {})
    wishes.only((), _WISHES)
    models = _read_models(records, anchor="anchor" if "pull" in wishes.values else None)
    layout = checked_layout(config.json("layout"), models[0].size)
    rates = tuple(_factor(one) for one in wishes.items("rates")) if "rates" in wishes.values else ()
    if rates and len(rates) != len(models):
        raise InputError(f"an order has {len(models)} models and {len(rates)} factors on rates; send as many")
    return TrainOrder(
        **_common(config),
        model=models[0],
        others=tuple(models[1:]),
        layout=layout,
        settings=config.json("settings"),
        n_steps=config.whole("steps", least=1),
        confirmed=_confirmed(config),
        with_start_loss=config.flag("start-loss"),
        rate_factors=rates,
        block=_block(wishes.items("block")) if "block" in wishes.values else None,
        pull=_pull(records, wishes, layout.size) if "pull" in wishes.values else None,
        share=wishes.number("share") if "share" in wishes.values else None,
        shared=view_from(records, config),
    )


def _probe_order(records: "RecordDict") -> ProbeOrder:
    check_names(records, ("config",), ("arrays",))
    has_models = "arrays" in records
    own = ("blocks", "confirmed", "wanted", *(_WITH_MODEL if has_models else ()))
    config = fields_of(records, "config").only((*_COMMON, *own), _WAYS)
    wanted = config.text("wanted", longest=16)
    if wanted not in get_args(Wanted) or (wanted == "sizes") == has_models:
        raise InputError(f"a question is about {echo(wanted)}; ask for losses or accuracies of models, or for sizes")
    models = _read_models(records) if has_models else []
    questions = Fields(name="blocks of a question", values=config.json("blocks")).only(("of",)).items("of")
    if not questions:
        raise InputError("an order asks no question; name at least one block")
    return ProbeOrder(
        **_common(config),
        confirmed=_confirmed(config),
        wanted=wanted,  # type: ignore[arg-type]
        models=tuple(models),
        layout=checked_layout(config.json("layout"), models[0].size) if models else NO_LAYOUT,
        settings=config.json("settings") if models else {},
        blocks=tuple(_block(one) for one in questions),
        corrected="corrected" in config.values and config.flag("corrected"),
        aside="aside" in config.values and config.flag("aside"),
    )


def _read_models(records: "RecordDict", *, anchor: str | None = None) -> list[Models]:
    """Return the models of an order, all of one length, in the order of their numbers."""
    names = model_names(records) - {anchor, SHARED}
    if not names or names != {_name(at) for at in range(len(names))}:
        raise InputError("the record 'arrays' is missing or holds something else; send an ArrayRecord with 'model'")
    first = named_model(records, "model", None)
    return [first, *(named_model(records, _name(at), first.size) for at in range(1, len(names)))]


def _pull(records: "RecordDict", wishes: Fields, n_numbers: int) -> OrderedPull:
    """Return the pull of an order, or raise if it does not fit its models."""
    runs, last = [], 0
    for pair in wishes.items("pull"):
        stop, value = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
        if type(stop) is not int or not last < stop <= n_numbers:
            raise InputError(f"a pull of an order has the part {echo(pair)}; send [stop, strength], stops rising")
        runs.append((stop, _factor(value)))
        last = stop
    if "anchor" not in model_names(records):
        raise InputError("an order pulls models toward none; send an 'anchor' along")
    return OrderedPull(anchor=named_model(records, "anchor", last), runs=tuple(runs))


def _factor(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise InputError(f"a factor of an order is {echo(value)}; send a number of at least 0")
    return float(value)


def _block(value: Json) -> Block:
    """Return the intervals of a question or a job."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= MOST for one in value):
        raise InputError(f"a block of an order is {echo(value)}; send a list of intervals")
    return tuple(value)  # type: ignore[arg-type]


def _confirmed(config: Fields) -> int:
    return config.whole("confirmed", least=NO_REPORT)


def _common(config: Fields) -> dict[str, Any]:
    """Return what every order says."""
    return {
        "run_id": config.text("run", longest=LONGEST_RUN_ID),
        "round_index": config.whole("round"),
        "seed": config.whole("seed", most=2**63 - 1),
    }
