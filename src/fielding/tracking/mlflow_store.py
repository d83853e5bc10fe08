"""MLflow kept quiet and quick, and its local databases made whole or not at all."""

import contextlib
import importlib.util
import logging
import os
import re
import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from fielding._extras import install_words, require
from fielding.errors import OptionError, echo

KINDS = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks", "databricks-uc", "uc")
"""Kinds of stores that MLflow has itself; plug-ins may add others."""
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""What counts while a run waits for MLflow, unless the user's environment says otherwise: a server that is away must
not hold it up for minutes, and standard output is for results."""


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Call MLflow without telemetry, long waits, lines about its database, and warnings that only it could mend.

    Raises
    ------
    OptionError
        If it is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it is looked at while MLflow is imported
    with warnings.catch_warnings(), _settings():
        warnings.simplefilter("ignore")
        require("mlflow")
        with _silenced("mlflow"), _silenced("alembic"):
            yield


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    added = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _silenced(name: str) -> Iterator[None]:
    """Let a logger speak of errors only."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


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


def made_whole(uri: str) -> None:
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
        _put(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _put(scratch: Path, path: Path) -> None:
    """Give a file its name, unless another file has it."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            scratch.replace(path)


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
