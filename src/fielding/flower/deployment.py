"""A whole run over nodes: from a config to a run folder, begun or gone on with, whatever stopped it before."""

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

from fielding._typing import Json
from fielding.config.reader import config_table, config_text
from fielding.engine.runner import Watch
from fielding.errors import InputError
from fielding.flower.assembly import runner_of
from fielding.flower.exchange import Patience
from fielding.flower.first_models import kept_first_model
from fielding.flower.ground import Deployment, ground_of
from fielding.flower.replies import Expected
from fielding.flower.wire import Wire
from fielding.records.run_folder import RunFolder, check_free, check_same_config, claimed_folder, stored_manifest
from fielding.reporting.report_page import report_page

FREE = ("workers", "stop_at_accuracy", "stop_at_time_s", "checkpoint")
"""Keys that may change when a run goes on."""
LOCK_POLL_S, LOCK_NEWS_S = 0.2, 60.0
"""Seconds between two looks whether another server has let go of the folder, and between two words about it."""

WireOf = Callable[[Expected, Patience], Wire]
"""Makes the wire to nodes, given what replies have to look like and how long they are waited for."""
_LOG = logging.getLogger(__name__)


def run_deployment(
    deployment: Deployment,
    wire_of: WireOf,
    out: Path,
    *,
    watch: Watch = lambda _row: True,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Json] | None:
    """Run a deployment into a folder; if it holds a run of the same config, go on with that.

    Parameters
    ----------
    deployment
        What to run.
    wire_of
        The way to nodes.
    out
        The folder.
    watch
        Called after each round with its record; a False stops the run.
    clock
        What the time is, in seconds from anywhere.

    Returns
    -------
    The summary; None if it was stopped before its end. Every round is committed: whatever ends the process, the same
    call goes on after the last round that was.

    Notes
    -----
    While another process writes into the folder, this one waits, however long that takes, and then goes on with what
    it finds: a SuperLink that comes back may begin a run once more of which it lost sight.
    """
    config = deployment.settled()
    table = {name: value for name, value in config_table(config).items() if name not in FREE}
    _check_same(out, table)  # whoever came to the wrong folder need not wait for it
    with _folder_of_one(out) as lock:
        _check_same(out, table)
        if not stored_manifest(out):
            check_free(out, config_text(config))
        ground = ground_of(_with_kept_model(deployment, out), config, run_id=_run_id(out))
        folder = RunFolder(out, ground.manifest(table, deployment), kind=ground.expected.kind, lock=lock)
        try:
            wire = wire_of(ground.expected, deployment.patience)
            runner = runner_of(ground, deployment, folder, wire=wire, clock=clock)
            summary = runner.run(watch)
            if summary is not None:
                folder.write_page(report_page([out]))
                folder.write_summary(summary)
            return summary
        finally:
            folder.close()


def _with_kept_model(deployment: Deployment, out: Path) -> Deployment:
    """Return a deployment that begins, or began, with the model in its folder, if the model is the user's own."""
    if deployment.first_model is None:
        return deployment
    kept = kept_first_model(deployment.first_model, out, is_begun=bool(stored_manifest(out)))
    return replace(deployment, first_model=kept)


def _run_id(out: Path) -> str:
    """Return the id of the run in a folder; a new one for a new run: clients keep their state by it."""
    stored = stored_manifest(out).get("run_id")
    return stored if isinstance(stored, str) and stored else uuid.uuid4().hex


def _check_same(out: Path, table: Mapping[str, Json]) -> None:
    check_same_config(out, table, resume=bool(stored_manifest(out)))


@contextlib.contextmanager
def _folder_of_one(out: Path) -> Iterator[IO[bytes]]:
    """Hold the lock of a folder, having waited until nobody else does."""
    news_at = time.monotonic()
    with contextlib.ExitStack() as held:
        lock = _lock(out, held)
        while lock is None:
            if time.monotonic() >= news_at:
                _LOG.info("another server writes into %s; this one waits until that has ended, then goes on", out)
                news_at = time.monotonic() + LOCK_NEWS_S
            time.sleep(LOCK_POLL_S)
            lock = _lock(out, held)
        yield lock


def _lock(out: Path, held: contextlib.ExitStack) -> IO[bytes] | None:
    """Return the lock of a folder; None if somebody else has it, since all other trouble is an OutputError."""
    try:
        return held.enter_context(claimed_folder(out))
    except InputError:
        return None
