"""The app that runs beside Flower's SuperLink: the engine of the simulator, with nodes for clients."""

import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fielding._extras import require
from fielding._typing import Json
from fielding.config.keys import Config
from fielding.config.reader import read_config
from fielding.errors import InputError, OptionError, echo
from fielding.flower.server.contacts import Presence
from fielding.flower.server.delivering import ServerEvaluate
from fielding.flower.server.deployment import Deployment, FirstModel, deployed_config, run_deployment
from fielding.flower.server.device_rule import MEMORY, device_record
from fielding.flower.server.exchange import Patience
from fielding.flower.server.grid_wire import GridWire
from fielding.flower.server.strategies import FlowerStrategy

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import Strategy

INIT_FROM, INIT_CLUSTERS = "init-from", "init-clusters"
KEEP_STATE = "keep-state"  # key of the run config: whether devices keep what they have when a run is complete
DELIVERIES = "deliveries"  # key of the run config: how many models travel in a round, to be served
KEYS = (
    *("config", "out", "classes", "shape", "min-nodes", "deadline", "start-wait", "state-dir", "own-vectors"),
    *(MEMORY, INIT_FROM, INIT_CLUSTERS, KEEP_STATE, DELIVERIES, "forget-days"),
)
"""Keys of the run config beside those of Fielding's configs, and those that are for clients."""
OWN = "own"  # table of the run config for the user's own code; the server only writes it down
_LOG = logging.getLogger(__name__)


def server_app(
    config: Path | Mapping[str, Any] | None = None,
    *,
    first_model: FirstModel | None = None,
    strategy: "Callable[[], Strategy] | None" = None,
    evaluate: ServerEvaluate | None = None,
) -> "ServerApp":
    """Return a Flower ServerApp that runs Fielding.

    Parameters
    ----------
    config
        A TOML file, or a table of the same shape; keys of the run config count more.
    first_model
        Returns the model that training starts from: arrays by name, or a torch module; for client apps with a
        ``train`` of their own. Without it the config names the model.
    strategy
        Makes a strategy of Flower that combines the models of each cluster in place of ``aggregation.name``, as
        ``lambda: Krum(num_malicious_nodes=1)``.
    evaluate
        ``evaluate(model, version)`` measures a cluster's model on data that the server has, whenever clients are
        tested: arrays by name, and which version it is (``version.cluster``, ``.round_index``, ``.n_members``); it
        returns numbers by name. They go to logs, page and trackers as ``server/NAME``, by cluster.

    Notes
    -----
    The run config (``[tool.flwr.app.config]``) holds keys of Fielding's configs (``rounds``, ``seed``, and tables as
    ``training``) and these:

    - ``classes``: how many; ``shape``: of one sample, as ``"8,8"``; not needed with ``first_model``
    - ``out``: the run folder. If it holds a run, that goes on after its last committed round, perhaps with other
      settings (``docs/changes.md``)
    - ``init-from``: a run's folder, a checkpoint or a safetensors file on the server's machine, whose model a new run
      begins with; of several clusters the mean of their models. ``init-clusters = true``: their clusters, each with
      its model and its clients
    - ``config``: a TOML file on the server's machine, below the other keys
    - ``min-nodes``: how many must be there at the start, 2 by default; ``start-wait``: seconds to wait for them, 600
    - ``deadline``: seconds that a round waits for answers, 60 by default
    - ``own-vectors``: whether the client app describes windows by code of its own
    - a table ``own``: for your own code, which finds ``own.epochs`` in ``node.config``
    - ``memory-rounds``: how long devices keep samples that left the window, for methods that ask for them
    - ``keep-state``: whether devices keep what they have when the run is complete, true by default
    - ``deliveries``: how many models a round sends to devices that are to serve them, beside those that they train or
      test; as many as clients are asked what is new by default

    Devices read none of these keys: what they need comes with every order.
    """
    require("flower")
    from flwr.serverapp import ServerApp

    made = ServerApp()

    @made.main()
    def main(grid: "Grid", context: "Context") -> None:
        run_config = cast("Mapping[str, Json]", context.run_config)
        deployment, out = deployment_from(run_config, config, first_model=first_model, strategy=strategy)
        deployment = replace(deployment, evaluate=evaluate)
        serve(grid, deployment, out)

    return made


def serve(grid: "Grid", deployment: Deployment, out: Path) -> None:
    """Run a deployment on a grid, and log how it goes where Flower logs: `flwr log` finds it."""
    log = logging.getLogger("fielding")
    log.setLevel(logging.INFO)
    for handler in logging.getLogger("flwr").handlers:
        if handler not in log.handlers:
            log.addHandler(handler)
    _LOG.info("fielding: %s into %s", deployment.config.method.name, out)
    summary = run_deployment(
        deployment, lambda expected, patience: GridWire(grid, expected, ttl_s=patience.owed_s), out, watch=_log_round
    )
    _LOG.info("fielding: complete; final accuracy %s", (summary or {}).get("final_accuracy"))


def _log_round(row: Mapping[str, Json]) -> bool:
    """Log the figures of a round; the run goes on."""
    names = ("n_clusters", "n_reports", "n_moved", "reclustered", "n_participants", "n_asked", "accuracy", "test_loss")
    values = {name: value for name in names if (value := row.get(name)) is not None}
    figures = [f"{name}={one:.4f}" if isinstance(one, float) else f"{name}={one}" for name, one in values.items()]
    missing = [f"{name}={row[name]}" for name in ("n_straggler", "n_offline", "n_refused", "n_failed") if row.get(name)]
    _LOG.info("fielding: round %s: %s", row["round"], " ".join([*figures, *missing]))
    return True


def deployment_from(
    run_config: Mapping[str, Json],
    config: Path | Mapping[str, Any] | None = None,
    *,
    first_model: FirstModel | None = None,
    strategy: "Callable[[], Strategy] | None" = None,
) -> tuple[Deployment, Path]:
    """Return what a run config asks for, and the folder to run it into, or raise."""
    settled = _config(run_config, config)
    own_vectors = run_config.get("own-vectors", False) is True
    classes = _whole(run_config, "classes", None)
    deployment = Deployment(
        config=settled,
        classes=classes,
        shape=(classes,) if first_model is not None else _shape(run_config.get("shape")),
        presence=Presence(
            min_nodes=_whole(run_config, "min-nodes", 2), within_s=_seconds(run_config, "start-wait", 600.0)
        ),
        patience=Patience(deadline_s=_seconds(run_config, "deadline", 60.0)),
        first_model=first_model,
        aggregator=None if strategy is None else FlowerStrategy(strategy),
        own_vectors=own_vectors,
        own_settings={key: value for key, value in run_config.items() if key.partition(".")[0] == OWN},
        memory_rounds=run_config.get(MEMORY),
        keep_state=_yes_or_no(run_config, KEEP_STATE, True),
        init_from=_init_from(run_config.get(INIT_FROM)),
        init_clusters=_yes_or_no(run_config, INIT_CLUSTERS, False),
        deliveries=_whole(run_config, DELIVERIES, None) if DELIVERIES in run_config else None,
    )
    device_record(settled, classes=classes, own_vectors=own_vectors, memory=deployment.memory_rounds)  # or raise now
    out = run_config.get("out")
    if not isinstance(out, str) or not out:
        raise OptionError(f"out of the run config is {echo(out)}; name a folder on the server's machine")
    return deployment, Path(out).expanduser()


def _config(run_config: Mapping[str, Json], config: Path | Mapping[str, Any] | None) -> Config:
    """Return the config: of a file or table, and of the run config above it."""
    if isinstance(named := run_config.get("config"), str) and named:
        config = Path(named).expanduser()
    base: Mapping[str, Any] = {"trace": {"gap": 1}}  # in life samples come at any time
    if isinstance(config, Path):
        read_config(config)  # tells what is wrong with it, and where
        base = tomllib.loads(config.read_text(encoding="utf-8"))
    elif config is not None:
        base = config
    table: dict[str, Any] = {name: dict(one) if isinstance(one, Mapping) else one for name, one in base.items()}
    for key, value in run_config.items():
        section, _, name = key.partition(".")
        if name and section == OWN:
            continue
        if name:
            table.setdefault(section, {})[name] = value
        elif key not in KEYS:
            table[key] = value
    try:
        return deployed_config(table)
    except InputError as error:
        raise OptionError(f"run config: {error}") from None


def _init_from(got: Json) -> Path | None:
    """Return the folder or file of a former run; an empty text stands for none, so that an app can declare the key."""
    if got is not None and not isinstance(got, str):
        raise OptionError(f"{INIT_FROM} of the run config is {echo(got)}; name a run's folder, or a model file")
    return Path(got).expanduser() if got else None


def _whole(run_config: Mapping[str, Json], key: str, default: int | None) -> int:
    got = run_config.get(key, default)
    if type(got) is not int or not 1 <= got < 2**31:
        raise OptionError(f"{key} of the run config is {echo(got)}; give a whole number of at least 1")
    return got


def _yes_or_no(run_config: Mapping[str, Json], key: str, default: bool) -> bool:
    got = run_config.get(key, default)
    if not isinstance(got, bool):
        raise OptionError(f"{key} of the run config is {echo(got)}; give true or false")
    return got


def _seconds(run_config: Mapping[str, Json], key: str, default: float) -> float:
    got = run_config.get(key, default)
    if not isinstance(got, (int, float)) or isinstance(got, bool) or not 0 < got < float("inf"):
        raise OptionError(f"{key} of the run config is {echo(got)}; give seconds above 0")
    return float(got)


def _shape(got: Json) -> tuple[int, ...]:
    """Return the shape of a sample: a whole number, or several in a text."""
    parts = str(got).split(",") if isinstance(got, (str, int)) and not isinstance(got, bool) else []
    try:
        shape = tuple(int(part) for part in parts)
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise OptionError(
            f'shape of the run config is {echo(got)}; give the shape of a sample, as "64" or "8,8", or a '
            "first_model to server_app"
        )
    return shape


app = server_app()
"""For a ``pyproject.toml`` whose run config says everything: ``serverapp = "fielding.flower.server_app:app"``."""
