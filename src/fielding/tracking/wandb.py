"""Runs in Weights & Biases: every round is a step; without an account, files for ``wandb sync``."""

import netrc
import os
import shlex
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from fielding._extras import require
from fielding.errors import InputError
from fielding.tracking.tracker import ALWAYS_THERE, Ending, Figures, TrackedRun, recall_place, remember_place

PROJECT = "fielding"  # if none is named
FOLDER = "wandb"  # the folder that Weights & Biases makes within that of a run
HOST = "api.wandb.ai"
PATIENCE = 10.0  # seconds for the process of Weights & Biases to write out a file


class Wandb:
    """Writes a run's figures to a project, with the round as step.

    Off-line (``WANDB_MODE=offline``, or no account is known here) they go to files in the run's folder, which
    ``wandb sync`` sends later. Nothing is sent of the machine, of the code or of what is printed.

    Parameters
    ----------
    project
        The project, also as ``ENTITY/PROJECT``; None for ``fielding``.

    Raises
    ------
    OptionError
        If the package is not installed; the message says how to install it.
    """

    name = "wandb"

    def __init__(self, project: str | None = None) -> None:
        require(self.name)
        entity, _, name = (project or PROJECT).rpartition("/")
        self._entity, self._project = entity or None, name
        self._run: Any = None

    def place(self, folder: Path) -> str:
        """Return where the runs in a folder, or the one in it, are shown, and how to look at them."""
        if mode() == "offline":
            return f"files in {folder}; send them with: wandb sync {shlex.quote(str(folder))}/**/{FOLDER}/offline-run-*"
        return f"project {self._project}"

    def begin(self, run: TrackedRun) -> int:
        """Open a run of Weights & Biases: the one that it had, or a new one."""
        wandb = require(self.name)
        target = f"{self._entity or ''}/{self._project}"
        known = recall_place(run.folder, self.name, target)
        identity, now = known or uuid.uuid4().hex[:8], mode()
        # Before there is a new file, which is not whole yet.
        last = -1 if known is None or now != "offline" else _last_step(run.folder / FOLDER, identity)
        settings = {"mode": now, "silent": True, "console": "off", "disable_git": True}
        self._run = wandb.init(
            entity=self._entity,
            project=self._project,
            name=run.name,
            id=identity,
            dir=run.folder,
            config=dict(run.config),
            reinit="create_new",
            **({} if now == "offline" else {"resume": "allow"}),
            settings=wandb.Settings(**settings, x_disable_meta=True, x_disable_stats=True),
        )
        if known is None:
            remember_place(run.folder, self.name, target, place=identity)
            return 0
        return last + 1 if now == "offline" else int(self._run.step)

    def add(self, round_index: int, figures: Figures) -> None:
        """Write the figures of a round."""
        if self._run is None:
            raise InputError("no run was begun; call begin first")
        self._run.log(dict(figures), step=round_index)

    def end(self, ending: Ending, figures: Figures) -> None:
        """Write the summary and close the run."""
        run, self._run = self._run, None
        if run is not None:
            run.summary.update(dict(figures))
            path = Path(run.settings.sync_file)
            run.finish(exit_code=int(ending == "failed"))
            if mode() == "offline":
                _wait_until_whole(path)


def mode() -> str:
    """Return whether figures are sent at once or kept in files: as ``WANDB_MODE`` says, else if an account is known."""
    if asked := os.environ.get("WANDB_MODE"):
        return asked
    is_known = bool(os.environ.get("WANDB_API_KEY"))
    with suppress(OSError, netrc.NetrcParseError):
        is_known = is_known or netrc.netrc().authenticators(HOST) is not None
    return "online" if is_known else "offline"


def _last_step(folder: Path, identity: str) -> int:
    """Return the last round in the files of a run; -1 if there is none that can be read."""
    last = -1
    for path in sorted(folder.glob(f"offline-run-*/run-{identity}.wandb")):
        for record in read_records(path):
            items = {(one.key or ".".join(one.nested_key)): one.value_json for one in record.history.item}
            if ALWAYS_THERE in items:
                last = max(last, int(items["_step"]))
    return last


def _wait_until_whole(path: Path) -> None:
    """Wait until a file ends as it should: its own process writes it, at times after it said that it had finished."""
    end = time.monotonic() + PATIENCE
    while not any(record.HasField("exit") for record in read_records(path)) and time.monotonic() < end:
        time.sleep(0.05)


def read_records(path: Path) -> Iterator[Any]:
    """Yield the records in a file of Weights & Biases, as far as it is whole."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    make_record: Any = wandb_internal_pb2
    store: Any = DataStore()
    with closing(store), suppress(Exception):  # of a file that a killed process left behind, it raises whatever
        store.open_for_scan(str(path))
        while (data := store.scan_data()) is not None:
            record = make_record.Record()
            record.ParseFromString(data)
            yield record
