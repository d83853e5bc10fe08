"""The app that runs on nodes: a few lines of the user's own, and Fielding does the rest."""

import logging
import time
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fielding._extras import require
from fielding._typing import Json
from fielding.errors import InputError, OptionError, echo
from fielding.flower.device.dataset import OpenDataset
from fielding.flower.device.delivered import OnModel
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import ModelFactory, OwnCode
from fielding.flower.device.rule import rule_from
from fielding.flower.device.samples import Clock, Describe, LoadData
from fielding.flower.device.state import forget_runs
from fielding.flower.wire.messages import (
    AGREEMENTS,
    agreement_of,
    foreign_agreement,
    model_names,
    order_from,
    reply_records,
    spoken_records,
)
from fielding.flower.wire.orders import CLOCK_S, Verb
from fielding.runtime.own_code import NO_EMBED, DeviceNode, Embed, Evaluate, Metric, Train, check_metric_names

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.clientapp.typing import ClientAppCallable, Mod

STATE_DIR = "state-dir"  # key of the node config, or of the run config: where state lies
FORGET, FORGET_DAYS = "forget-days", 90
"""Key of the node config, or of the run config: after how many days without a word of a run its state is removed."""
_LOG = logging.getLogger("fielding.flower")


def client_app(
    *,
    load_data: LoadData,
    dataset: OpenDataset | None = None,
    train: Train | None = None,
    evaluate: Evaluate | None = None,
    describe: Describe | None = None,
    model: ModelFactory | None = None,
    embed: Embed | None = None,
    metrics: Mapping[str, Metric] | None = None,
    on_model: OnModel | None = None,
    clock: Clock | None = None,
    mods: "Sequence[Mod] | None" = None,
) -> "ClientApp":
    """Return a Flower ClientApp around the user's own code.

    Parameters
    ----------
    load_data
        ``load_data(node, round_index)`` returns the samples that came after round ``node.since`` (None: all), or None.
        A device that stops at the wrong moment asks for the same ones again.
    dataset
        ``dataset(node)`` opens samples that stay in the app: anything with ``len(...)`` and ``[position]``, as a
        map-style dataset of torch. ``load_data`` then gives positions in place of features, and the device keeps these
        and the labels alone.
    train
        ``train(model, samples, job)`` returns ``Fitted``; without it Fielding trains, as
        in its simulator.
    evaluate
        ``evaluate(model, samples)`` returns ``Scored``; without it Fielding tests. Give
        both or none.
    describe
        ``describe(samples, n_classes)`` returns a vector that stands for a window, in place of its label shares.
    model
        ``model(input_shape=..., n_classes=...)`` returns the torch module that Fielding trains and tests, in place of
        the one that the server's config names.
    embed
        ``embed(model, samples)`` returns ``Embedded``: what a model of one's own
        ``train`` makes of samples, features before its last layer and scores of classes. It is needed where the run
        config names a representation or a drift test that looks at more than labels, ``serving.correction`` or
        ``training.rehearsal``; without ``train`` leave it out.
    metrics
        By name, functions that measure how scores of classes, shape ``(n_samples, n_classes)``, fit the labels of the
        test samples, such as those of :mod:`fielding.metrics`; their values go to the server with each test. With
        ``train`` they need ``embed``.
    on_model
        ``on_model(model, info)`` is called when the model that the device is to serve changes: another version of its
        cluster's, another cluster, or other weights of its experts. Arrays by name, and
        :class:`~fielding.flower.device.delivered.ModelInfo`. If it raises, the version before goes on serving. The
        model is on disk by then; :func:`fielding.flower.served` predicts with it.
    clock
        ``clock(node, round_index)`` returns the time, unix seconds, in place of the device's clock: for recorded
        samples, where ``trace.window`` is a length of time.
    mods
        Mods of Flower around training, such as ``LocalDpMod``: they see the model of the order and the one that goes
        back, each as one flat array ``model``, and nothing of tests and questions.

    Notes
    -----
    Classes, window and drift test come with every order: the server reads the config, a device does not. State
    lies in ``state-dir`` of the node config; else in a folder per partition or node of ``state-dir`` of the run config,
    ``~/.fielding/devices`` by default.
    """
    require("flower")
    if train is not None and model is not None:
        raise OptionError("client_app has model and train; leave model out, since train brings its own")
    own = OwnCode(
        load_data=load_data,
        dataset=dataset,
        train=train,
        evaluate=evaluate,
        describe=describe,
        model=model,
        embed=embed,
        metrics=metrics or {},
        on_model=on_model,
        clock=clock,
    )
    own.check("client_app")
    check_metric_names(own.metrics, "metrics of client_app")
    if own.metrics and train is not None and embed is None:
        raise OptionError(NO_EMBED)
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.train()(lambda message, context: _train(message, context, own, tuple(mods or ())))
    app.evaluate()(lambda message, context: _answer("evaluate", message, context, own))
    app.query("describe")(lambda message, context: _answer("describe", message, context, own))
    app.query("probe")(lambda message, context: _answer("probe", message, context, own))
    return app


class _NoModelError(Exception):
    """An answer to a train order that brings no model, which mods could not handle."""

    def __init__(self, reply: "Message") -> None:
        self.reply = reply
        super().__init__("the answer brings no model")


def _train(message: "Message", context: "Context", own: OwnCode, mods: "Sequence[Mod]") -> "Message":
    """Return the reply to an order to train; mods see its model alone, not what else came along."""
    if not mods:
        return _answer("train", message, context, own)
    from flwr.app import ArrayRecord, RecordDict

    names = model_names(message.content)
    if "model-1" in names:
        raise InputError(
            "the method sends several models to choose from, which mods cannot follow; choose another method, or leave "
            "mods out"
        )

    def answer(_shown: "Message", context: "Context") -> "Message":
        reply = _answer("train", message, context, own)
        if model_names(reply.content) != {"model"}:
            if model_names(reply.content):
                raise InputError("the selection asks for a part of a model, which mods cannot follow; leave mods out")
            raise _NoModelError(reply)
        return reply

    call: ClientAppCallable = answer
    for mod in reversed(mods):
        call = partial(_call_mod, mod, call)
    shown = copy(message)
    arrays = cast("ArrayRecord", message.content["arrays"])
    shown.content = RecordDict({**message.content, "arrays": ArrayRecord({"model": arrays["model"]})})
    try:
        return call(shown, context)
    except _NoModelError as error:
        return error.reply


def _call_mod(mod: "Mod", call_next: "ClientAppCallable", message: "Message", context: "Context") -> "Message":
    return mod(message, context, call_next)


def _answer(verb: Verb, message: "Message", context: "Context", own: OwnCode) -> "Message":
    """Return the reply to a message; an error becomes one of Flower's, with its text."""
    from flwr.app import Message

    _check_clock(message, time.time())
    if (agreement := foreign_agreement(message.content)) is not None:
        _LOG.warning("an order follows agreement %s; this device says that it speaks %s", agreement, AGREEMENTS)
        return Message(spoken_records(), reply_to=message)
    order = order_from(message.content, verb)
    node = device_node(context)
    device = Device(node, rule_from(order.observe), own)
    forget_runs(node.folder, order.run_id, _forget_days(node.config))
    return Message(reply_records(device.answer(order), agreement=agreement_of(message.content)), reply_to=message)


def _check_clock(message: "Message", now: float) -> None:
    """Tell of a clock that shows a time before the order was sent, or after it would have been forgotten."""
    sent_at = message.metadata.created_at
    behind_s, ahead_s = sent_at - now, now - sent_at - message.metadata.ttl
    if max(behind_s, ahead_s) > CLOCK_S:
        way = f"{behind_s:.0f} s behind" if behind_s > ahead_s else f"{ahead_s:.0f} s ahead of"
        _LOG.warning("the clock of this device is at least %s the server's; set it", way)


def _forget_days(config: Mapping[str, Json]) -> float:
    days = config.get(FORGET, FORGET_DAYS)
    if not isinstance(days, (int, float)) or isinstance(days, bool) or not days > 0:
        raise OptionError(f"{FORGET} is {echo(days)}; give a number of days above 0")
    return float(days)


def device_node(context: "Context") -> DeviceNode:
    """Return where this is, as Flower tells."""
    own = cast("Mapping[str, Json]", context.node_config)
    partition = own.get("partition-id")
    if partition is not None and (type(partition) is not int or partition < 0):
        raise OptionError(f"partition-id of the node config is {echo(partition)}; give a whole number from 0")
    config = {**cast("Mapping[str, Json]", context.run_config), **own}
    if own.get(STATE_DIR):
        folder = Path(str(own[STATE_DIR]))
    else:
        root = Path(str(config[STATE_DIR])) if config.get(STATE_DIR) else Path.home() / ".fielding" / "devices"
        folder = root / (f"node-{context.node_id}" if partition is None else f"partition-{partition}")
        if partition is None:
            _warn_of_number(folder)
    return DeviceNode(partition=partition, config=config, folder=folder.expanduser())


@cache
def _warn_of_number(folder: Path) -> None:
    """Tell, once per process, that state lies in a folder which the device may not find again."""
    _LOG.warning(
        "state lies in %s, after a number that changes if the SuperLink loses its database; name a state-dir in the "
        "node config to keep the state with the device",
        folder,
    )
