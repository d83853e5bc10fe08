"""Orders and replies as Flower's records, both ways: what is written where.

============  =============================================================================================
an order      ``config`` (ConfigRecord), and to train or evaluate ``arrays`` with ``model`` (ArrayRecord)
a train reply ``arrays`` with ``model``, ``metrics`` (MetricRecord), and ``report`` (ConfigRecord) if there is one
a description ``about`` (ConfigRecord), and ``report`` if there is one
a test        ``metrics`` (MetricRecord)
============  =============================================================================================

A model is one flat vector in NumPy's file format, so that Flower's own mods can work on it; a representation is a few
bytes in the report, since every further array costs a call. A server reads replies of clients that it cannot trust:
whatever is not as it should be becomes a :class:`~fielding.flower.replies.Refusal`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from fielding.client.report import DRIFT_KINDS, checked_rows
from fielding.errors import InputError, echo
from fielding.federation.admission import finite_rows
from fielding.flower.fields import Fields, checked_layout
from fielding.flower.orders import NO_REPORT, DescribeOrder, EvaluateOrder, Order, TrainOrder, Verb
from fielding.flower.records import SentModels, check_names, fields_of, json_text, model_of, model_record
from fielding.flower.replies import (
    ALSO,
    Answer,
    DescribeReply,
    EvaluateReply,
    Expected,
    Refusal,
    Reply,
    Report,
    Score,
    TrainReply,
    one_line,
)

if TYPE_CHECKING:
    from flwr.app import ConfigRecord, RecordDict

PROTOCOL = 1
"""Which of our own agreements a message follows; it goes up when a message of old would be misread."""
MESSAGE_TYPES: dict[Verb, str] = {"train": "train", "describe": "query.describe", "evaluate": "evaluate"}
"""What Flower calls each verb."""
LONGEST_RUN_ID = 256
"""Characters."""

_COMMON = ("fielding", "round", "run", "seed")
_WITH_MODEL = ("layout", "settings")


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
    if isinstance(order, DescribeOrder):
        return RecordDict({"config": config})
    config["layout"], config["settings"] = json_text(order.layout.record()), json_text(dict(order.settings))
    return RecordDict({"arrays": model_record(order.model, {} if sent is None else sent), "config": config})


def reply_records(reply: Reply) -> "RecordDict":
    """Return a reply as Flower sends it."""
    from flwr.app import ConfigRecord, MetricRecord, RecordDict

    if isinstance(reply, EvaluateReply):
        metrics: dict[str, int | float] = {"num-examples": reply.n_test, "correct": reply.correct, "loss": reply.loss}
        for name, score in reply.also.items():
            metrics |= {f"{name}-correct": score.correct, f"{name}-loss": score.loss}
        return RecordDict({"metrics": MetricRecord(dict(metrics))})
    if isinstance(reply, DescribeReply):
        about = ConfigRecord({"num-examples": reply.n_samples})
        if reply.partition is not None:
            about["partition"] = reply.partition
        records = RecordDict({"about": about})
    else:
        metrics = {"num-examples": reply.n_samples, "loss": reply.loss, "square-loss": reply.square_loss}
        if reply.start_loss is not None:
            metrics["start-loss"] = reply.start_loss
        records = RecordDict({"arrays": model_record(reply.model, {}), "metrics": MetricRecord(dict(metrics))})
    if reply.report is not None:
        records["report"] = _report_record(reply.report)
    return records


def _report_record(report: Report) -> "ConfigRecord":
    """Return a report; what it does not say takes no room."""
    from flwr.app import ConfigRecord

    record = ConfigRecord({"number": report.number, "num-examples": report.n_samples})
    if not report.is_silent:
        record["representation"] = report.representation.astype("<f4").tobytes()
    if report.kind is not None:
        record["kind"] = report.kind
    return record


# ---- reading, on a client ----------------------------------------------------------------------------------------


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
        check_names(records, ("config",))
        config = fields_of(records, "config").only((*_COMMON, "confirmed"))
        return DescribeOrder(**_common(config), confirmed=config.whole("confirmed", least=NO_REPORT))
    check_names(records, ("arrays", "config"))
    own = ("confirmed", "start-loss", "steps") if verb == "train" else ()
    config = fields_of(records, "config").only((*_COMMON, *_WITH_MODEL, *own))
    model = model_of(records, None)
    layout, settings = checked_layout(config.json("layout"), model.size), config.json("settings")
    if verb == "evaluate":
        return EvaluateOrder(**_common(config), model=model, layout=layout, settings=settings)
    return TrainOrder(
        **_common(config),
        model=model,
        layout=layout,
        settings=settings,
        n_steps=config.whole("steps", least=1),
        confirmed=config.whole("confirmed", least=NO_REPORT),
        with_start_loss=config.flag("start-loss"),
    )


def _common(config: Fields) -> dict[str, Any]:
    """Return what every order says."""
    return {
        "run_id": config.text("run", longest=LONGEST_RUN_ID),
        "round_index": config.whole("round"),
        "seed": config.whole("seed", most=2**63 - 1),
    }


# ---- reading, on the server --------------------------------------------------------------------------------------


def reply_from(records: "RecordDict", verb: Verb, expected: Expected) -> Answer:
    """Return what a client answered, or why it counts for nothing; never raises, whatever came.

    Parameters
    ----------
    records
        What came.
    verb
        What the client was asked to do. To train, it may also answer with a description: it has no data.
    expected
        What its answer has to look like.
    """
    try:
        if verb == "evaluate":
            return _evaluate_reply(records)
        report = _report(records, expected)
        if verb == "describe" or "about" in records:
            return _describe_reply(records, report)
    except Exception as error:  # no client can stop the server, whatever it sends
        return Refusal(reason="failed", text=one_line(error))
    try:
        return _train_reply(records, report, expected)
    except Exception as error:
        return Refusal(reason="failed", text=one_line(error), report=report)


def _train_reply(records: "RecordDict", report: Report | None, expected: Expected) -> TrainReply:
    check_names(records, ("arrays", "metrics"), ("report",))
    metrics = fields_of(records, "metrics").only(("loss", "num-examples", "square-loss"), ("start-loss",))
    model = model_of(records, expected.n_numbers)
    if not finite_rows(model[np.newaxis]).all():
        raise InputError("a model holds numbers that are not finite; look at the client's learning rate and data")
    return TrainReply(
        model=model,
        n_samples=metrics.whole("num-examples", least=1),
        loss=metrics.number("loss"),
        square_loss=metrics.number("square-loss"),
        start_loss=metrics.number("start-loss") if "start-loss" in metrics.values else None,
        report=report,
    )


def _describe_reply(records: "RecordDict", report: Report | None) -> DescribeReply:
    check_names(records, ("about",), ("report",))
    about = fields_of(records, "about").only(("num-examples",), ("partition",))
    partition = about.whole("partition") if "partition" in about.values else None
    return DescribeReply(n_samples=about.whole("num-examples"), report=report, partition=partition)


def _evaluate_reply(records: "RecordDict") -> EvaluateReply:
    check_names(records, ("metrics",))
    also = [name for name in ALSO if f"{name}-correct" in fields_of(records, "metrics").values]
    pairs = [f"{name}-{what}" for name in also for what in ("correct", "loss")]
    metrics = fields_of(records, "metrics").only(("correct", "loss", "num-examples", *pairs))
    n_test = metrics.whole("num-examples")

    def score(prefix: str) -> Score:
        correct = metrics.whole(f"{prefix}correct", most=n_test)
        return Score(correct=correct, loss=metrics.number(f"{prefix}loss", finite=False))

    plain = score("")
    return EvaluateReply(
        n_test=n_test, correct=plain.correct, loss=plain.loss, also={name: score(f"{name}-") for name in also}
    )


def _report(records: "RecordDict", expected: Expected) -> Report | None:
    """Return the report that came along, or None; raise if it is one that the coordinator would refuse."""
    if "report" not in records:
        return None
    fields = fields_of(records, "report").only(("num-examples", "number"), ("kind", "representation"))
    representation = np.empty(0, dtype=np.float32)
    if "representation" in fields.values:
        representation = fields.floats("representation")
        checked_rows(representation[np.newaxis], 1, kind=expected.kind, width=expected.n_features)
    kind = fields.text("kind", longest=32) if "kind" in fields.values else None
    if kind is not None and kind not in DRIFT_KINDS:
        raise InputError(f"a report speaks of the drift {echo(kind)}; send one of {', '.join(DRIFT_KINDS)}")
    return Report(
        number=fields.whole("number", least=NO_REPORT + 1),
        representation=representation,
        n_samples=fields.whole("num-examples"),
        kind=kind,
    )
