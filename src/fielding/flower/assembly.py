"""Puts the parts of a deployment together once its first clients are known: method, door and runner."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from fielding._typing import ClientId
from fielding.config.keys import Config
from fielding.config.reader import config_text
from fielding.engine.describing import AUTO
from fielding.engine.plugins import hears_of, kind_of, method_of, parts_of, policy_of
from fielding.engine.round import Federation
from fielding.engine.runner import Rules, Runner, under
from fielding.errors import OptionError
from fielding.flower.clients import FlowerClients
from fielding.flower.exchange import Exchange
from fielding.flower.ground import Deployment, Ground, orders_of
from fielding.flower.sharing import sharing_of
from fielding.flower.wire import Wire
from fielding.methods import MethodSetting
from fielding.methods.kinds import Hears
from fielding.methods.method import Grows, Method
from fielding.records.run_checkpoint import DRIVER
from fielding.records.run_folder import RunFolder
from fielding.traces.histograms import WindowPlan
from fielding.training.head import NO_HEAD, head_size


def runner_of(
    ground: Ground, deployment: Deployment, folder: RunFolder, *, wire: Wire, clock: Callable[[], float]
) -> Runner:
    """Return a runner at the start of a run, or after the last round that was committed.

    A method is made for the clients that are there: at the start they are waited for, and let known who they are. If
    the method cannot take in others, whoever comes later is left out, and the log says so.
    """
    config = ground.config
    method_of(config, _setting(ground, deployment, range(deployment.presence.min_nodes)))  # mistakes are told at once
    orders = orders_of(ground, deployment)
    clients = FlowerClients(
        Exchange(wire, deployment.patience),
        orders,
        presence=deployment.presence,
        overcommit=config.clock.overcommit,
        plan=_plan(config),
        n_features=ground.expected.n_features,
        sharing=None if kind_of(config).hears == "nobody" else sharing_of(config, ground.describing, orders),
        clock=clock,
    )
    found = folder.resume() if folder.is_begun() else None
    if not folder.is_begun():
        folder.begin(config_text(config))
    client_ids = clients.meet() if found is None else clients.remember(under(DRIVER, found.arrays))
    setting = _setting(ground, deployment, client_ids)
    hears = _hears(config, setting)
    clients.listen(hears)
    method = method_of(config, setting)
    federation = _federation(config, clients, method, setting)
    runner = Runner(
        replace(federation, keeps_reports=hears != "flags"),
        folder,
        layout=ground.layout,
        method_name=config.method.name,
        rules=_rules(config),
    )
    if found is not None:
        runner.restore(found)
    if not isinstance(method, Grows):
        clients.close()
    return runner


def _plan(config: Config) -> WindowPlan:
    return WindowPlan(gap=config.trace.gap, window=config.trace.window)


def _setting(ground: Ground, deployment: Deployment, client_ids: Sequence[ClientId]) -> MethodSetting:
    """Return what the method is made of."""
    config = ground.config
    policy = policy_of(config, kind=ground.expected.kind, metric=ground.metric)
    parts = parts_of(config, len(client_ids), policy)
    if deployment.aggregator is not None:
        parts = replace(parts, aggregator=deployment.aggregator, weighted=True)
    n_head = head_size(ground.layout, deployment.classes)
    if config.aggregation.shared_body:
        if not n_head:
            raise OptionError(f"aggregation.shared_body is true, but {NO_HEAD}; set it to false")
        parts = replace(parts, n_shared=ground.layout.parameter_size - n_head)
    return MethodSetting(
        initial=ground.initial,
        client_ids=tuple(client_ids),
        policy=policy,
        parts=parts,
        seed=config.seed,
        n_parameters=ground.layout.parameter_size,
        n_head=n_head,
        draw_model=ground.draw_model,
        n_visible=_plan(config).n_visible,
        is_guarded=config.coordinator.representation == AUTO,
    )


def _hears(config: Config, setting: MethodSetting) -> Hears:
    """Return whose reports are heard; a method with a drift test of its own that never fires hears each client once."""
    kind = kind_of(config)
    hears = hears_of(config, kind, setting.parts.selection, len(setting.client_ids))
    return "first" if hears == "drifted" and kind.detector is not None else hears


def _federation(config: Config, clients: FlowerClients, method: Method, setting: MethodSetting) -> Federation:
    return Federation(
        clients=clients,
        method=method,
        evaluate_every=config.evaluation.every,
        n_rounds=config.rounds,
        stop_at_time_s=config.stop_at_time_s,
        selection=setting.parts.selection,
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
