"""Runs in MLflow: the params are the config, the metrics the figures of the rounds."""

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from fielding._extras import install_words, require
from fielding._typing import Json
from fielding._version import __version__
from fielding.errors import InputError, OptionError, echo
from fielding.tracking.tracker import (
    ALWAYS_THERE,
    SUMMARY_PREFIX,
    Ending,
    Figures,
    TrackedRun,
    plain_name,
    recall_place,
    remember_place,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

KINDS = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks", "databricks-uc", "uc")
"""Kinds of stores that MLflow has itself; plug-ins may add others."""
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""What counts while a run waits for MLflow, unless the user's environment says otherwise: a server that is away must
not hold it up for minutes, and standard output is for results."""
TARGET, EXPERIMENT = "sqlite:///mlflow.db", "fielding"
"""The store, in the current folder, which is also MLflow's own choice; the experiment."""
MOST_METRICS, MOST_PARAMS = 1000, 100
"""What MLflow takes at once."""
LONGEST_NAME, LONGEST_VALUE = 250, 500
"""Characters of a param that all versions of its servers take."""
SEND_EVERY_S = 2.0
STATUS: dict[Ending, str] = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class Mlflow:
    """Sends a run's figures to an MLflow store or server, with the round as step; every two seconds, and at the end.

    Parameters
    ----------
    uri
        A database (``sqlite:///mlflow.db``) or a server (``http://...``); None for what ``MLFLOW_TRACKING_URI`` says,
        else ``mlflow.db`` in the current folder, which is where ``mlflow ui`` looks.
    experiment
        What the runs are filed under; None for what ``MLFLOW_EXPERIMENT_NAME`` says, else ``fielding``.
    run_name
        None for the name of the run's folder.

    Raises
    ------
    OptionError
        If MLflow is not installed; if the target is a folder, which it does not take any more.
    """

    name = "mlflow"

    def __init__(self, uri: str | None = None, *, experiment: str | None = None, run_name: str | None = None) -> None:
        self._uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or TARGET
        self._experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        self._run_name = run_name
        if "://" not in self._uri and not self._uri.startswith("databricks"):
            raise OptionError(
                f"mlflow wants a database or a server, got {echo(self._uri)}; for example {TARGET} or http://localhost:5000"
            )
        with quiet_mlflow():
            check_store(self._uri)
        self._client: MlflowClient | None = None
        self._run_id = ""
        self._waiting: list[Metric] = []
        self._sent_at = -SEND_EVERY_S
        self._last, self._has_summary = -1, False

    def place(self, folder: Path) -> str:  # noqa: ARG002
        """Return where runs are shown, and how to look at them; a server shows them itself."""
        where = without_password(self._uri)
        if where.startswith(("http", "databricks")):
            return where
        return f"{where}; look at it with: mlflow ui --backend-store-uri {shlex.quote(where)} (pip install mlflow)"

    def begin(self, run: TrackedRun) -> int:
        """Go on with the run that the folder's ``tracking.json`` names if it is in this store, else make one."""
        with quiet_mlflow():
            from mlflow import MlflowClient

            make_database(self._uri)
            self._client, self._waiting, self._sent_at = MlflowClient(tracking_uri=self._uri), [], -SEND_EVERY_S
            target = without_password(self._uri)
            found = self._find_run(recall_place(run.folder, self.name, target))
            if found is None:
                self._last, self._has_summary, self._run_id = -1, False, self._create_run(run)
                remember_place(run.folder, self.name, target, place=self._run_id)
                return 0
            self._run_id = found.info.run_id
            self._has_summary = any(name.startswith(SUMMARY_PREFIX) for name in found.data.metrics)
            history = self._client.get_metric_history(self._run_id, ALWAYS_THERE)
            self._last = max((metric.step for metric in history), default=-1)
            self._client.update_run(self._run_id, status="RUNNING")
            return self._last + 1

    def add(self, round_index: int, figures: Figures) -> None:
        """Take the figures of a round, and send what waits if it is time to."""
        with quiet_mlflow():
            from mlflow.entities import Metric

            now_ms = int(time.time() * 1000)
            # The one that tells which rounds are there comes last, should only a part arrive.
            ordered = sorted(figures.items(), key=lambda figure: figure[0] == ALWAYS_THERE)
            metrics = [Metric(key=name, value=value, timestamp=now_ms, step=round_index) for name, value in ordered]
            if len(self._waiting) + len(metrics) > MOST_METRICS:
                self._send()
            self._waiting += metrics
            self._last, self._has_summary = round_index, False  # a summary of fewer rounds is out of date
            if time.monotonic() - self._sent_at >= SEND_EVERY_S:
                self._send()

    def end(self, ending: Ending, figures: Figures) -> None:
        """Send what waits, the summary at the last round if it is not there, and how the run ended."""
        if figures and not self._has_summary:
            self.add(max(self._last, 0), figures)
            self._has_summary = True
        with quiet_mlflow():
            self._send()
            self._opened().set_terminated(self._run_id, STATUS[ending])

    def _opened(self) -> "MlflowClient":
        if self._client is None:
            raise InputError("no run was begun; call begin first")
        return self._client

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), MOST_METRICS):
            self._opened().log_batch(self._run_id, metrics=waiting[first : first + MOST_METRICS])
        self._sent_at = time.monotonic()

    def _find_run(self, run_id: str | None) -> "Run | None":
        """Return a run that is in this store and not deleted, else None."""
        from mlflow.exceptions import MlflowException

        if run_id is None:
            return None
        try:
            found = self._opened().get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return found if found.info.lifecycle_stage == "active" else None

    def _create_run(self, run: TrackedRun) -> str:
        """Create a run and return its id."""
        from mlflow.entities import Param

        client = self._opened()
        tags = {
            "method": run.method,
            "seed": str(run.config.get("seed", "")),
            "fielding.folder": str(run.folder.resolve()),
            "fielding.version": __version__,
        }
        made = client.create_run(self._experiment_id(), run_name=self._run_name or run.name, tags=tags)
        run_id = str(made.info.run_id)
        params = [Param(name, value) for name, value in params_of(run.config).items()]
        for first in range(0, len(params), MOST_PARAMS):
            client.log_batch(run_id, params=params[first : first + MOST_PARAMS])
        return run_id

    def _experiment_id(self) -> str:
        """Return the experiment by its name; made if need be, perhaps by another process at the same moment."""
        from mlflow.exceptions import MlflowException

        client = self._opened()
        found = client.get_experiment_by_name(self._experiment)
        if found is None:
            try:
                return str(client.create_experiment(self._experiment))
            except MlflowException:
                found = client.get_experiment_by_name(self._experiment)
                if found is None:
                    raise
        return str(found.experiment_id)


def params_of(config: Mapping[str, Json], prefix: str = "") -> dict[str, str]:
    """Return a config as flat texts, none longer than MLflow takes.

    Examples
    --------
    >>> params_of({"seed": 1, "trace": {"name": "digits", "share": 0.5}})
    {'seed': '1', 'trace.name': 'digits', 'trace.share': '0.5'}
    """
    found: dict[str, str] = {}
    for key, value in config.items():
        name = f"{prefix}{plain_name(key)}"
        if isinstance(value, dict):
            found |= params_of(value, f"{name}.")
        else:
            text = str(value)
            cut = text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
            found[name[:LONGEST_NAME]] = cut
    return found


@contextlib.contextmanager
def quiet_mlflow() -> Iterator[None]:
    """Call MLflow without telemetry, long waits, lines about its database, and warnings that only it could mend.

    Raises
    ------
    OptionError
        If it is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it is looked at while MLflow is imported
    added = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ.update(added)
        levels = [logger.level for logger in loggers]
        try:
            require("mlflow")
            levels = [logger.level for logger in loggers]  # importing MLflow sets them
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            for name in added:
                os.environ.pop(name, None)


def check_store(uri: str) -> None:
    """Raise if MLflow knows no such kind of store, or it is a database and what MLflow needs to open one is missing."""
    kind = uri.partition(":")[0].partition("+")[0]  # mysql+pymysql is mysql by the driver pymysql
    if kind not in KINDS and kind not in {one.name for one in entry_points(group="mlflow.tracking_store")}:
        raise OptionError(
            f"mlflow knows no store {echo(without_password(uri))}; name a database or a server, for example "
            "sqlite:///mlflow.db or http://localhost:5000"
        )
    if uri.startswith(("http:", "https:", "databricks")):
        return
    for package in ("sqlalchemy", "alembic"):
        if importlib.util.find_spec(package) is None:
            raise OptionError(
                f"{package} is not installed, which stores of MLflow need; run: {install_words('mlflow')}"
            )


def make_database(uri: str) -> None:
    """Make the file of a new sqlite store, with all its tables.

    MLflow makes the tables one by one, and processes that begin together stumble over each other's. So each makes a
    file of its own, and the first one to be ready counts.
    """
    path = database_file(uri)
    if path is None or path.exists():
        return
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        MlflowClient(tracking_uri=f"sqlite:///{scratch}").search_experiments()
        try:
            os.link(scratch, path)  # unless another process was first
        except FileExistsError:
            return
        except OSError:  # a file system without links
            if not path.exists():
                scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def database_file(uri: str) -> Path | None:
    """Return the file of a sqlite store; None for all others.

    Examples
    --------
    >>> database_file("sqlite:///mlflow.db").name, database_file("http://localhost:5000")
    ('mlflow.db', None)
    """
    found = re.fullmatch(r"sqlite:///([^?]+)", uri)
    return None if found is None or found[1] == ":memory:" else Path(found[1]).absolute()


def without_password(text: str) -> str:
    """Return a text whose addresses name no user and no password.

    Examples
    --------
    >>> without_password("cannot reach http://me:secret@host:5000/api")
    'cannot reach http://host:5000/api'
    """
    return re.sub(r"://[^/@\s]+@", "://", text)
