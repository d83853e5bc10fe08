"""A whole run over nodes: from a config to a run folder, begun or gone on with, whatever stopped it before."""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fielding._typing import Json
from fielding.engine.config import Config
from fielding.engine.config_reader import config_table, config_text
from fielding.engine.plugins import hears_of, kind_of, parts_of, policy_of
from fielding.engine.round import Federation
from fielding.engine.runner import Rules, Runner, Watch
from fielding.errors import OptionError
from fielding.federation.selection import Selection
from fielding.flower.clients import FlowerClients
from fielding.flower.exchange import Exchange, Patience
from fielding.flower.ground import Deployment, Ground, ground_of, orders_of
from fielding.flower.replies import Expected
from fielding.flower.wire import Wire
from fielding.methods import METHODS, MethodSetting, Parts, kind_named, method_named
from fielding.methods.kinds import Hears
from fielding.records.lock import is_locked
from fielding.records.run_folder import RunFolder, check_free, check_same_config, claimed_folder, stored_manifest
from fielding.reporting.report_page import report_page

FREE = ("workers", "stop_at_accuracy", "stop_at_time_s", "checkpoint")
"""Keys that may change when a run goes on."""
LOCK_WAIT_S = 30.0
"""How long a server that was killed may take to let go of its folder."""

WireOf = Callable[[Expected, Patience], Wire]
"""Makes the wire to nodes, given what replies have to look like and how long they are waited for."""


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
    """
    config = deployment.settled()
    _wait_for_lock(out)
    with claimed_folder(out) as lock:
        resume = bool(stored_manifest(out))
        table = {name: value for name, value in config_table(config).items() if name not in FREE}
        check_same_config(out, table, resume=resume)
        if not resume:
            check_free(out, config_text(config))
        ground = ground_of(deployment, config, run_id=_run_id(out))
        folder = RunFolder(out, ground.manifest(table, deployment), kind=ground.expected.kind, lock=lock)
        try:
            runner = _runner(ground, deployment, folder, wire_of=wire_of, clock=clock)
            summary = runner.run(watch)
            if summary is not None:
                folder.write_page(report_page([out]))
                folder.write_summary(summary)
            return summary
        finally:
            folder.close()


def _run_id(out: Path) -> str:
    """Return the id of the run in a folder; a new one for a new run: clients keep their state by it."""
    stored = stored_manifest(out).get("run_id")
    return stored if isinstance(stored, str) and stored else uuid.uuid4().hex


def _wait_for_lock(out: Path) -> None:
    """Wait until a server that just died lets go of its folder, for a while."""
    end = time.monotonic() + LOCK_WAIT_S
    while is_locked(out) and time.monotonic() < end:
        time.sleep(0.2)


def _runner(
    ground: Ground, deployment: Deployment, folder: RunFolder, *, wire_of: WireOf, clock: Callable[[], float]
) -> Runner:
    """Return a runner at the start of a run, or after the last round that was committed."""
    config = ground.config
    policy = policy_of(config, kind=ground.expected.kind, metric=ground.metric)
    parts = parts_of(config, 0, policy)  # clients join when the first round begins
    if deployment.aggregator is not None:
        parts = replace(parts, aggregator=deployment.aggregator, weighted=True)
    clients = FlowerClients(
        Exchange(wire_of(ground.expected, deployment.patience), deployment.patience),
        orders_of(ground, deployment),
        presence=deployment.presence,
        hears=_hears(config, parts.selection),
        overcommit=config.clock.overcommit,
        gap=config.trace.gap,
        n_features=ground.expected.n_features,
        clock=clock,
    )
    setting = MethodSetting(
        initial=ground.initial,
        client_ids=(),
        policy=policy,
        parts=parts,
        seed=config.seed,
        n_parameters=ground.layout.parameter_size,
    )
    runner = Runner(
        _federation(config, clients, setting),
        folder,
        layout=ground.layout,
        method_name=config.method.name,
        rules=_rules(config),
    )
    if not folder.is_begun():
        folder.begin(config_text(config))
    elif (found := folder.resume()) is not None:
        runner.restore(found)
    return runner


def _hears(config: Config, selection: Selection) -> Hears:
    """Return whose reports are heard; a method with a drift test of its own that never fires hears each client once."""
    kind = kind_of(config)
    hears = hears_of(config, kind, selection, 0)
    return "first" if hears == "drifted" and kind.detector is not None else hears


def _federation(config: Config, clients: FlowerClients, setting: MethodSetting) -> Federation:
    try:
        method = method_named(kind_named(config.method.name, METHODS), setting, config.method.options)
    except OptionError as error:
        raise OptionError(f"method: {error}") from None
    parts: Parts = setting.parts
    return Federation(
        clients=clients,
        method=method,
        evaluate_every=config.evaluation.every,
        n_rounds=config.rounds,
        stop_at_time_s=config.stop_at_time_s,
        selection=parts.selection,
        n_train_samples=config.training.local_steps * config.training.batch_size,
    )


def _rules(config: Config) -> Rules:
    return Rules(
        n_rounds=config.rounds,
        gap=config.trace.gap,
        stop_at_accuracy=config.stop_at_accuracy,
        stop_at_time_s=config.stop_at_time_s,
        checkpoint_every=config.checkpoint.every or 1,
    )
