"""Fielding on Flower's nodes, as its users run it, on a grid that is counted."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchmarks.shared_work import work_from
from benchmarks.traffic import CountedGrid
from fielding._extras import require
from fielding._typing import Json
from fielding.flower.device.client_app import client_app as client_app_around
from fielding.runtime.own_code import DeviceNode, Samples

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

OWN_KEYS = ("lean", "log", "tests")
"""Keys of the run config that are for the benchmark and the peer."""


def server_app() -> "ServerApp":
    """Return the server's side."""
    require("flower")
    from flwr.serverapp import ServerApp

    app = ServerApp()
    app.main()(served)
    return app


def client_app() -> "ClientApp":
    """Return the clients' side."""
    return client_app_around(load_data=load_data)


def served(grid: "Grid", context: "Context") -> None:
    """Run the deployment that the run config describes."""
    from fielding.flower.server.server_app import deployment_from, serve

    run_config = cast("Mapping[str, Json]", context.run_config)
    deployment, out = deployment_from({key: value for key, value in run_config.items() if key not in OWN_KEYS})
    counted = CountedGrid(grid, Path(str(run_config["log"])))
    serve(cast("Grid", counted), deployment, out)
    counted.end()


def load_data(node: DeviceNode, round_index: int) -> Samples | None:
    """Return the samples of this half of the run, once."""
    work = work_from(node.config)
    is_known = node.since is not None and node.since // work.gap == round_index // work.gap
    return None if is_known else work.arrived(node.partition or 0, round_index)
