"""The peer on Flower's nodes: a plain app around Flower's own FedAvg, written as its tutorials do."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from benchmarks.shared_work import LEARNING_RATE, SEED, SharedWork, whole_of, work_from
from benchmarks.traffic import CountedGrid
from fielding._extras import require
from fielding._typing import Models
from fielding.federation.clients import TrainingPlan
from fielding.training.layout import Layout

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

POLL_S = 0.1
"""Seconds between two questions for replies, of Fielding and of the lean contender."""
DEADLINE_S = 600.0
"""Seconds that all contenders wait for replies: nobody is meant to be late."""
FLAT = "model"


def server_app() -> "ServerApp":
    """Return the server's side: `FedAvg.start` on a grid that is counted."""
    require("flower")
    from flwr.serverapp import ServerApp

    app = ServerApp()
    app.main()(served)
    return app


def client_app() -> "ClientApp":
    """Return the clients' side: it trains and tests what comes, and remembers nothing."""
    require("flower")
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.train()(trained)
    app.evaluate()(tested)
    return app


def served(grid: "Grid", context: "Context") -> None:
    """Run FedAvg for all rounds; federated tests take place after the rounds that Fielding tests, or after none."""
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.serverapp.strategy import FedAvg

    config = cast("dict[str, Any]", context.run_config)
    work, n_nodes, n_train = work_from(config), whole_of(config, "min-nodes"), whole_of(config, "training.participants")
    counted = CountedGrid(grid, Path(config["log"]), poll_s=POLL_S if config["lean"] else None)
    strategy = FedAvg(
        fraction_train=n_train / n_nodes,
        min_train_nodes=n_train,
        min_evaluate_nodes=n_nodes,
        min_available_nodes=n_nodes,
    )

    def before_next(server_round: int, _arrays: ArrayRecord) -> None:
        """Say whether the coming round ends with a test; called before the first round and after each."""
        strategy.fraction_evaluate = float(config["tests"] and work.is_tested(server_round))

    trainer = work.trainer()
    first = model_arrays(trainer.initial_model(SEED), trainer.layout, is_flat=bool(config["lean"]))
    strategy.start(
        grid=cast("Grid", counted),
        initial_arrays=first,
        num_rounds=work.n_rounds,
        timeout=DEADLINE_S,
        train_config=ConfigRecord({"lr": LEARNING_RATE}),
        evaluate_fn=before_next,
    )
    counted.end()


def trained(message: "Message", context: "Context") -> "Message":
    """Train the model that came, with Fielding's trainer."""
    from flwr.app import Message, MetricRecord, RecordDict

    here = _here(message, context)
    none = np.zeros(1, dtype=np.int64)
    plan = TrainingPlan(models=here.model[np.newaxis], clients=none, groups=none, start=none, wanted=none + 1)
    done = here.work.runtime(here.partition, here.round_index).train(plan)
    content = RecordDict(
        {
            "arrays": model_arrays(done.models[0], here.layout, is_flat=here.is_flat),
            "metrics": MetricRecord({"train_loss": float(done.loss[0]), "num-examples": int(done.n_samples[0])}),
        }
    )
    return Message(content, reply_to=message)


def tested(message: "Message", context: "Context") -> "Message":
    """Test the model that came."""
    from flwr.app import Message, MetricRecord, RecordDict

    here = _here(message, context)
    runtime = here.work.runtime(here.partition, here.round_index)
    found = runtime.test(here.model[np.newaxis], np.zeros(1, dtype=np.int64))["window"]
    n_test, correct, loss = int(found.n_test[0]), int(found.correct[0]), float(found.loss[0])
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": correct / n_test, "num-examples": n_test})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Here:
    """What a node is asked, and who it is."""

    work: SharedWork
    partition: int
    round_index: int
    model: Models
    layout: Layout
    is_flat: bool


def _here(message: "Message", context: "Context") -> _Here:
    """Return what a message and its context say."""
    config = cast("dict[str, Any]", context.run_config)
    work = work_from(config)
    layout = work.trainer().layout
    arrays = cast("ArrayRecord", message.content["arrays"])
    return _Here(
        work=work,
        partition=whole_of(cast("dict[str, Any]", context.node_config), "partition-id"),
        round_index=int(cast("dict[str, Any]", message.content["config"])["server-round"]) - 1,
        model=flat_model(arrays, layout),
        layout=layout,
        is_flat=bool(config["lean"]),
    )


def model_arrays(model: Models, layout: Layout, *, is_flat: bool) -> "ArrayRecord":
    """Return a model as Flower sends it: an array per tensor as everybody does it, or a single one."""
    from flwr.app import Array, ArrayRecord

    tensors = {FLAT: model} if is_flat else layout.tensors(model)
    return ArrayRecord({name: Array(np.ascontiguousarray(tensor)) for name, tensor in tensors.items()})


def flat_model(arrays: "ArrayRecord", layout: Layout) -> Models:
    """Return the model that came as one vector, whichever way it was sent."""
    tensors = {name: np.asarray(array.numpy(), dtype=np.float32) for name, array in arrays.items()}
    return tensors[FLAT] if set(tensors) == {FLAT} else layout.flat(tensors)
