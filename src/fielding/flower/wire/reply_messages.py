"""Replies as Flower's records, both ways: clients write them, the server reads them and trusts none."""

from typing import TYPE_CHECKING

import numpy as np

from fielding._typing import Models
from fielding.client.report import DRIFT_KINDS, checked_rows
from fielding.errors import InputError, echo
from fielding.federation.models import finite_rows
from fielding.flower.wire.fields import Fields
from fielding.flower.wire.orders import NO_REPORT, Verb
from fielding.flower.wire.records import (
    LARGEST,
    SHARED,
    check_names,
    fields_of,
    holds_from,
    model_names,
    model_of,
    models_record,
    put_holds,
    tally_from,
)
from fielding.flower.wire.replies import (
    ALSO,
    Answer,
    DescribeReply,
    EvaluateReply,
    Expected,
    ProbeReply,
    Refusal,
    Reply,
    Report,
    Score,
    TrainReply,
    one_line,
)

if TYPE_CHECKING:
    from flwr.app import ConfigRecord, RecordDict

PART = "part"
"""What a model is called of which only some numbers came."""
LARGEST_LOSS = 1e30
"""Means over the losses of clients have to be finite: a larger loss says nothing, and could make them infinite."""


# ---- writing -----------------------------------------------------------------------------------------------------


def reply_records(reply: Reply) -> "RecordDict":
    """Return a reply as Flower sends it."""
    from flwr.app import ConfigRecord, RecordDict

    if isinstance(reply, EvaluateReply):
        return _evaluate_records(reply)
    if isinstance(reply, ProbeReply):
        return _probe_records(reply)
    if isinstance(reply, DescribeReply):
        about = ConfigRecord({"num-examples": reply.n_samples})
        if reply.partition is not None:
            about["partition"] = reply.partition
        records = RecordDict({"about": about})
    else:
        records = _train_records(reply)
    if reply.report is not None:
        records["report"] = _report_record(reply.report)
    put_holds(records, reply.holds)
    return records


def _evaluate_records(reply: EvaluateReply) -> "RecordDict":
    from flwr.app import MetricRecord, RecordDict

    metrics: dict[str, int | float] = {"num-examples": reply.n_test, "correct": reply.correct, "loss": reply.loss}
    for name, score in reply.also.items():
        metrics |= {f"{name}-correct": score.correct, f"{name}-loss": score.loss}
    return RecordDict({"metrics": MetricRecord(dict(metrics))})


def _probe_records(reply: ProbeReply) -> "RecordDict":
    from flwr.app import ConfigRecord, RecordDict

    values = reply.values.astype("<f8").tobytes()
    return RecordDict({"answers": ConfigRecord({"sizes": reply.sizes.tolist(), "values": values})})


def _train_records(reply: TrainReply) -> "RecordDict":
    from flwr.app import MetricRecord, RecordDict

    metrics: dict[str, int | float] = {
        "num-examples": reply.n_samples,
        "loss": reply.loss,
        "square-loss": reply.square_loss,
    }
    if reply.start_loss is not None:
        metrics["start-loss"] = reply.start_loss
    if reply.start is not None:
        metrics["start"] = reply.start
    arrays = models_record({PART if reply.is_part else "model": reply.model}, {})
    return RecordDict({"arrays": arrays, "metrics": MetricRecord(dict(metrics))})


def _report_record(report: Report) -> "ConfigRecord":
    """Return a report; what it does not say takes no room."""
    from flwr.app import ConfigRecord

    record = ConfigRecord({"number": report.number, "num-examples": report.n_samples})
    if report.tally is not None:
        record["tally"] = report.tally.astype("<f8").tobytes()
    elif not report.is_silent:
        record["representation"] = report.representation.astype("<f4").tobytes()
    if report.kind is not None:
        record["kind"] = report.kind
    return record


# ---- reading -----------------------------------------------------------------------------------------------------


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
        if verb == "probe":
            return _probe_reply(records)
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
    check_names(records, ("arrays", "metrics"), ("report", SHARED))
    metrics = fields_of(records, "metrics").only(("loss", "num-examples", "square-loss"), ("start", "start-loss"))
    is_part = model_names(records) == {PART}
    model = _part_of(records, expected) if is_part else model_of(records, expected.n_numbers)
    if not finite_rows(model[np.newaxis]).all():
        raise InputError("a model holds numbers that are not finite; look at the client's learning rate and data")
    return TrainReply(
        model=model,
        n_samples=metrics.whole("num-examples", least=1),
        loss=_loss(metrics, "loss"),
        square_loss=_loss(metrics, "square-loss"),
        start_loss=_loss(metrics, "start-loss") if "start-loss" in metrics.values else None,
        start=metrics.whole("start") if "start" in metrics.values else None,
        is_part=is_part,
        report=report,
        holds=holds_from(records),
    )


def _loss(metrics: Fields, key: str) -> float:
    """Return a loss of training, or raise if it is so large that a mean over clients would lose its meaning."""
    loss = metrics.number(key)
    if abs(loss) > LARGEST_LOSS:
        raise InputError(f"{key!r} of {metrics.name} is {loss:g}; it must be within {LARGEST_LOSS:g}")
    return loss


def _test_loss(metrics: Fields, key: str) -> float:
    """Return a loss of a test, which need not be finite; one that is too large for a mean counts as infinite."""
    loss = metrics.number(key, finite=False)
    return float("inf") if abs(loss) > LARGEST_LOSS else loss


def _part_of(records: "RecordDict", expected: Expected) -> Models:
    """Return the part of a model that came, of at most as many numbers as a whole one has."""
    part = model_of(records, None, name=PART)
    if part.size > expected.n_numbers:
        raise InputError(f"a part of a model has {part.size} numbers; the whole has {expected.n_numbers}")
    return part


def _describe_reply(records: "RecordDict", report: Report | None) -> DescribeReply:
    check_names(records, ("about",), ("report", SHARED))
    about = fields_of(records, "about").only(("num-examples",), ("partition",))
    partition = about.whole("partition") if "partition" in about.values else None
    return DescribeReply(
        n_samples=about.whole("num-examples"), report=report, partition=partition, holds=holds_from(records)
    )


def _probe_reply(records: "RecordDict") -> ProbeReply:
    check_names(records, ("answers",))
    answers = fields_of(records, "answers").only(("sizes", "values"))
    sizes, values = answers.wholes("sizes"), answers.doubles("values")
    if not sizes.size or values.size % sizes.size:
        raise InputError(f"{sizes.size} questions are answered with {values.size} numbers; send as many for each")
    table = values.reshape(sizes.size, -1)
    if np.isnan(table[sizes > 0]).any() or (table[sizes > 0] < 0).any():
        raise InputError("a loss or a share of right answers is NaN or below 0; look at the client's evaluate")
    return ProbeReply(sizes=sizes, values=np.where(table > LARGEST_LOSS, np.inf, table))


def _evaluate_reply(records: "RecordDict") -> EvaluateReply:
    check_names(records, ("metrics",))
    also = [name for name in ALSO if f"{name}-correct" in fields_of(records, "metrics").values]
    pairs = [f"{name}-{what}" for name in also for what in ("correct", "loss")]
    metrics = fields_of(records, "metrics").only(("correct", "loss", "num-examples", *pairs))
    n_test = metrics.whole("num-examples")

    def score(prefix: str) -> Score:
        correct = metrics.whole(f"{prefix}correct", most=n_test)
        return Score(correct=correct, loss=_test_loss(metrics, f"{prefix}loss"))

    plain = score("")
    return EvaluateReply(
        n_test=n_test, correct=plain.correct, loss=plain.loss, also={name: score(f"{name}-") for name in also}
    )


def _report(records: "RecordDict", expected: Expected) -> Report | None:
    """Return the report that came along, or None; raise if it is one that the coordinator would refuse."""
    if "report" not in records:
        return None
    fields = fields_of(records, "report").only(("num-examples", "number"), ("kind", "representation", "tally"))
    representation = np.empty(0, dtype=np.float32)
    if "representation" in fields.values:
        representation = fields.floats("representation")
        checked_rows(representation[np.newaxis], 1, kind=expected.kind, width=expected.n_features)
        if np.abs(representation).max() > LARGEST:
            raise InputError(f"a representation holds numbers beyond {LARGEST:g}; scale it down")
    kind = fields.text("kind", longest=32) if "kind" in fields.values else None
    if kind is not None and kind not in DRIFT_KINDS:
        raise InputError(f"a report speaks of the drift {echo(kind)}; send one of {', '.join(DRIFT_KINDS)}")
    return Report(
        number=fields.whole("number", least=NO_REPORT + 1),
        representation=representation,
        n_samples=fields.whole("num-examples"),
        kind=kind,
        tally=tally_from(fields) if "tally" in fields.values else None,
    )
