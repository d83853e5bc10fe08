"""A whole run over nodes: from a config to a run folder, begun or gone on with, whatever stopped it before."""

import contextlib
import hashlib
import logging
import platform
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from fielding._typing import ClientId, Json, Models
from fielding._version import __version__
from fielding.atomic import replaced_file
from fielding.client.privacy.counts import check_head
from fielding.client.privacy.geometric import secret_words
from fielding.client.privacy.ledger import LEDGER, PrivacyLedger
from fielding.client.report_rule import ReportRule
from fielding.config.keys import Config
from fielding.config.reader import config_from, config_table, config_text
from fielding.distance import Kind
from fielding.engine.plugins import (
    GLOBAL,
    POOL,
    check_fleet,
    kind_of,
    local_rule,
    method_of,
    mistakes_in,
    parts_of,
    policy_of,
    privacy_of,
    private_sums_of,
    report_budget_of,
    report_policy,
    run_reports_from,
    serving_of,
    sums_of,
    trainer_of,
    with_mix,
)
from fielding.engine.report_rule import AUTO, is_own_function, report_rule_of
from fielding.engine.round import Federation
from fielding.engine.runner import Rules, Runner, Watch, under
from fielding.errors import CheckpointError, InputError, OptionError, echo
from fielding.federation.aggregation import Aggregator
from fielding.federation.noised_sums import NoisedSums
from fielding.federation.report_budget import usual_budget
from fielding.flower.server.class_growth import check_growth, grow_classes, grow_labels
from fielding.flower.server.clients import FlowerClients, OrderBook, UnansweredRoundError
from fielding.flower.server.contacts import Presence
from fielding.flower.server.delivering import Deliveries, ServerEvaluate
from fielding.flower.server.device_rule import device_record, plan_of, roll_call_of
from fielding.flower.server.exchange import Exchange, Patience, Task, Wire
from fielding.flower.server.sharing import sharing_of
from fielding.flower.wire.orders import NO_REPORT, DescribeOrder, Expected, WorkRule
from fielding.methods import MethodSetting
from fielding.methods.method import Grows, cluster_ids
from fielding.records.changes import CLASSES, FLOWER, FREE, RUN_CONFIG, settings_of
from fielding.records.container import Contents, read_contents, write_contents
from fielding.records.model_file import SUFFIX, read_model
from fielding.records.run_checkpoint import DRIVER, METHOD, RunCheckpoint, load_run
from fielding.records.run_folder import (
    CHECKPOINTS,
    RunFolder,
    check_changes,
    check_free,
    claim_folder,
    n_committed,
    newest_checkpoint,
    read_manifest,
)
from fielding.records.versions import ModelVersions
from fielding.reporting.report_page import report_page
from fielding.runtime.experts import told_names
from fielding.runtime.own_code import AnyModel, Tensors, first_model_of
from fielding.runtime.serve import Serving
from fielding.traces.histograms import WindowPlan
from fielding.training.head import NO_HEAD, head_size
from fielding.training.label_mix import LABEL_MIX, append_even_mix, extend_layout
from fielding.training.layout import Layout, layout_from
from fielding.training.trainer import Contrast, LocalWork, Sgd, Trainer, try_scores, try_work

FirstModel: TypeAlias = Callable[[], AnyModel]
"""Returns the model that training starts from: arrays by name, or a torch module."""
FILE, KIND = "first_model.ckpt", "first model"
INIT_CLUSTERS_FILE = "init_clusters.ckpt"  # the last checkpoint of a former run whose clusters a run begins with
INIT_FILE = "init_model.ckpt"  # the model of a former run that training starts from


def keep_first_model(first_model: FirstModel, folder: Path, *, is_begun: bool) -> FirstModel:
    """Return a function that gives the model that the run in a folder began with, or begins with.

    ``first_model`` may draw another one at every call; of a run that is begun the model in its folder counts.
    """

    def keep() -> AnyModel:
        path = folder / FILE
        if not (is_begun and path.exists()):
            model, layout = first_model_of(first_model(), "first_model")
            values = {"layout": layout.record()}
            write_contents(Contents(values=values, arrays={"model": model}, progress={}, kind=KIND), path)
            return _KeptModel(model=model, layout=layout)
        contents = read_contents(path)
        stored = contents.arrays.get("model")
        if contents.kind != KIND or stored is None:
            raise CheckpointError(f"{path} holds no first model of a run; begin anew in another folder")
        return _KeptModel(model=stored.astype(np.float32), layout=layout_from(contents.values.get("layout")))

    return keep


def keep_init_model(init_from: Path | None, folder: Path, layout: Layout, *, is_begun: bool) -> Models | None:
    """Return the model of a former run that the run in a folder began with, or begins with; None if there is none.

    Of a run that is begun the model in its folder counts, whatever became of the former run.
    """
    path = folder / INIT_FILE
    if is_begun:
        return read_contents(path).arrays["model"].astype(np.float32) if path.exists() else None
    if init_from is None:
        path.unlink(missing_ok=True)  # of a server that was killed before its run was begun
        return None
    try:
        model = read_model(init_from, layout)
    except (InputError, CheckpointError) as error:
        raise OptionError(f"init-from of the run config: {error}") from None
    write_contents(Contents(values={"from": str(init_from)}, arrays={"model": model}, progress={}, kind=KIND), path)
    return model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _KeptModel:
    """A model with the methods of a torch module that :func:`fielding.runtime.own_code.first_model_of` calls."""

    model: Models
    layout: Layout

    def state_dict(self) -> Tensors:
        return self.layout.tensors(self.model)

    def named_parameters(self) -> Iterator[tuple[str, object]]:
        return iter(list(self.state_dict().items())[: self.layout.n_parameters])


def try_model(trainer: Trainer, shape: tuple[int, ...], config: Config) -> None:
    """Do with a model, on samples of zeros of a shape, what a config asks of it beyond plain training.

    Raises
    ------
    OptionError
        If the model shows no scores, which ``serving.correction`` needs, or no features, which ``training.moon`` needs.
    """
    if LABEL_MIX in trainer.layout.names:
        try_scores(trainer, np.zeros((1, *shape), dtype=np.float32), key="serving.correction")
    section = config.training
    if not section.moon:
        return
    models = trainer.initial_model(config.seed)[np.newaxis]
    work = LocalWork(  # one step of a device that has trained before
        models=models,
        start=np.zeros(1, dtype=np.int64),
        draws=np.zeros((1, 1, section.batch_size), dtype=np.int64),
        gather=lambda rows: (np.zeros((rows.size, *shape), dtype=np.float32), np.zeros(rows.size, dtype=np.int32)),
        sgd=Sgd(learning_rate=section.learning_rate),
        contrast=Contrast(
            mu=section.moon,
            temperature=section.moon_temperature,
            previous=models,
            has_previous=np.ones(1, dtype=np.bool_),
        ),
    )
    try_work(trainer, work)


ALL_KNOWING = ("oracle",)  # methods that know the true concepts, as only a simulator does


def deployed_config(table: Mapping[str, Any]) -> Config:
    """Return the config of a table, with what a deployment, which holds no samples, does where the table says nothing.

    If windows are seen with a shared model, it is then the mean of all models after a few rounds.

    Examples
    --------
    >>> deployed_config({"coordinator": {"representation": "auto"}}).coordinator.shared_model
    'global'
    >>> deployed_config({"coordinator": {"representation": "auto", "shared_model": "a.npz"}}).coordinator.shared_model
    'a.npz'
    """
    config = config_from(table)
    section = config.coordinator
    if "shared_model" in table.get("coordinator", {}) or is_own_function(section):
        return config
    try:
        needs_model = report_rule_of(section, is_own=False, seed=config.seed).needs_model
    except OptionError:  # it is raised again where windows are described, if they are
        return config
    return replace(config, coordinator=replace(section, shared_model=GLOBAL)) if needs_model else config


def check_deployable(config: Config) -> None:
    """Raise if a config asks for something that no device can be asked for.

    Raises
    ------
    OptionError
        The message names the key, and what to do.

    Examples
    --------
    >>> check_deployable(config_from({"method": {"name": "oracle"}}))
    Traceback (most recent call last):
    fielding.errors.OptionError: method.name is 'oracle', which knows the true concepts, as only ... simulator does: ...
    """
    if config.method.name in ALL_KNOWING:
        raise OptionError(
            f"method.name is {echo(config.method.name)}, which knows the true concepts, as only the simulator does: "
            "choose another method"
        )
    for key, value, usual in (
        ("trace.liars", config.trace.liars, 0.0),
        ("clock.availability", config.clock.availability, None),
        ("evaluation.metrics", config.evaluation.metrics, None),
        ("training.loss", config.training.loss, None),
        ("training.optimizer", config.training.optimizer, None),
    ):
        if value != usual:
            raise OptionError(f"{key} is {echo(value)}, which works in the simulator alone; leave it out")
    if (config.checkpoint.every or 1) > 1:
        raise OptionError(
            f"checkpoint.every is {echo(config.checkpoint.every)}, but a deployment commits each round, since devices "
            "do not go back by several; leave it out"
        )


def describing_on_devices(config: Config) -> ReportRule:
    """Return how devices without code of their own describe their windows and judge drift, or raise if they cannot."""
    section, kind = config.coordinator, kind_of(config)
    if is_own_function(section):
        raise OptionError(
            f"coordinator.representation is {echo(section.representation)}, which works in the simulator alone; give "
            "your function to client_app(describe=...) and set own-vectors = true"
        )
    report_rule = report_rule_of(section, is_own=False, seed=config.seed)
    if report_rule.is_label or kind.reports_from == "nobody":
        return report_rule
    if kind.detector is not None:
        raise OptionError(
            f"method.name is {echo(config.method.name)}, which has a drift test of its own, on labels; set "
            'coordinator.representation = "label" and leave coordinator.detector out'
        )
    if report_rule.needs_model and section.shared_model == POOL:
        raise OptionError(
            'coordinator.shared_model is "pool", but a deployment holds no samples to train it on; set it to "global" '
            "(the mean model after coordinator.shared_rounds rounds), or to a model file on the server's machine"
        )
    return report_rule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deployment:
    """What a deployment runs.

    Parameters
    ----------
    config
        As for the simulator; of the trace, ``window`` and ``gap`` count, with windows by time also ``interval``.
        Reports always travel with training.
    classes
        Number of classes.
    shape
        Of one sample, as ``load_data`` of the client app gives it; not used if ``first_model`` is given.
    first_model
        The model that training starts from, if Fielding knows neither it nor how to train it.
    aggregator
        In place of the config's; participants then count by their samples.
    own_vectors
        Whether devices describe their windows by code of the user's own.
    own_settings
        What the run config says to the user's own code alone.
    memory_rounds
        How many rounds devices keep samples that have left the window; None: as long as the method needs them.
    keep_state
        Whether devices keep what they kept for the run when it is complete.
    init_from
        A checkpoint, a run's folder or a safetensors file: a run begins with its model instead of another; of several
        clusters with the mean of their models, by their numbers of clients.
    init_clusters
        Whether a run begins with the clusters of that former run, and the model of each, instead of with the mean.
    deliveries
        How many models travel to devices in a round at most, beside those that they train or test; None: as many as
        clients are asked what is new by default.
    evaluate
        Measures the clusters' models on data of the server's whenever clients are tested.
    """

    config: Config
    classes: int
    shape: tuple[int, ...]
    presence: Presence
    patience: Patience
    first_model: FirstModel | None = None
    aggregator: Aggregator | None = None
    own_vectors: bool = False
    own_settings: Mapping[str, Json] = field(default_factory=dict)
    memory_rounds: Json = None
    keep_state: bool = True
    init_from: Path | None = None
    init_clusters: bool = False
    deliveries: int | None = None
    evaluate: ServerEvaluate | None = None

    def settings(self, table: Mapping[str, Json]) -> dict[str, Json]:
        """Return the part of a manifest that tells what was set, in the config and beside it."""
        return {
            "config": dict(table),
            CLASSES: [str(at) for at in range(self.classes)],
            RUN_CONFIG: {
                "deadline": self.patience.deadline_s,
                "min-nodes": self.presence.min_nodes,
                "start-wait": self.presence.within_s,
                "memory-rounds": self.memory_rounds,
                "deliveries": self.deliveries,
            },
            "own": {
                "model": self.first_model is not None,
                "aggregation": repr(self.aggregator) if self.aggregator is not None else None,
                "represent": self.own_vectors,
                "settings": dict(self.own_settings) or None,
            },
        }

    def checked_config(self) -> Config:
        """Return the config as it counts here, or raise if a deployment cannot do what it says."""
        check_deployable(self.config)
        return replace(self.config, coordinator=replace(self.config.coordinator, reports="with-training"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSetup:
    """What a config and the first model make of a run.

    ``draw_model`` gives other models, None if the model is the user's own; ``report_rule`` is what devices report and
    when, None if by code of the user's own.
    """

    config: Config
    initial: Models
    layout: Layout
    expected: Expected
    metric: str
    run_id: str
    draw_model: Callable[[int], Models] | None = None
    report_rule: ReportRule | None = None

    @property
    def plan(self) -> WindowPlan:
        """Rounds between arrivals of data, and length of windows."""
        return plan_of(self.config)

    def manifest(self, table: Mapping[str, Json], deployment: Deployment) -> dict[str, Json]:
        """Return what the results depend on; the machines of clients are not known."""
        return {
            "fielding": __version__,
            "machine": {
                "python": platform.python_version(),
                "system": platform.system(),
                "numpy": metadata.version("numpy"),
            },
            "seed": self.config.seed,
            **deployment.settings(table),
            "engine": FLOWER,
            "run_id": self.run_id,
            "initial_blake2b": hashlib.blake2b(self.initial.tobytes(), digest_size=16).hexdigest(),
            "n_numbers": self.layout.size,
        }


TIMED_TESTS = ("periodic", "always")  # drift tests that do not look at labels


def check_one_class(deployment: Deployment, config: Config) -> None:
    """Raise if a run with one class, in which labels are numbers, asks for something that needs classes."""
    kind, section = kind_of(config), config.coordinator
    if deployment.first_model is None:
        raise OptionError(
            "classes is 1: labels are numbers, which Fielding does not train on; give server_app a first_model, and "
            "client_app train and evaluate"
        )
    if config.serving.correction != "none":
        raise OptionError("serving.correction needs classes, but classes is 1: labels are numbers; leave it out")
    if kind.reports_from == "nobody":
        return
    if not deployment.own_vectors:
        raise OptionError(
            "classes is 1: labels are numbers, whose shares tell nothing of a client; set own-vectors = true and give "
            "client_app describe, or choose a method that hears no reports, as global or cfl"
        )
    if section.detector not in TIMED_TESTS:
        raise OptionError(
            f"coordinator.detector is {echo(section.detector or 'chi2')}, which looks at classes, but classes is 1: "
            f"labels are numbers; take one of {', '.join(TIMED_TESTS)}"
        )


def set_up_run(deployment: Deployment, config: Config, *, run_id: str) -> RunSetup:
    """Return what a run stands on, or raise if the model or the representation cannot be."""
    if deployment.classes == 1:
        check_one_class(deployment, config)
    report_rule = None if deployment.own_vectors else describing_on_devices(config)
    if deployment.own_vectors and sums_of(config) is not None:
        raise OptionError(
            'own-vectors is true, but privacy.mode is "client": sums are of label shares; set it to false'
        )
    is_exact = report_rule is None or privacy_of(config, report_rule) is None
    kind: Kind = "vector" if report_rule is None or not is_exact else report_rule.kind
    metric = config.coordinator.metric or "l1" if report_rule is None else report_rule.metric
    initial, layout, draw_model = _first_model(deployment, config)
    if report_rule is not None and not is_exact:
        with mistakes_in("coordinator.representation"):
            check_head(report_rule.representation, head_size(layout, deployment.classes), deployment.classes)
    has_shares = report_rule is not None and report_rule.is_label and report_rule.kind == "histogram"
    n_features = deployment.classes if has_shares else None
    return RunSetup(
        config=config,
        initial=initial,
        layout=layout,
        expected=Expected(
            n_numbers=layout.size,
            kind=kind,
            n_features=n_features,
            experts=told_names(_device_serving(deployment, config)),
        ),
        metric=metric,
        run_id=run_id,
        draw_model=draw_model,
        report_rule=report_rule,
    )


def _first_model(deployment: Deployment, config: Config) -> tuple[Models, Layout, Callable[[int], Models] | None]:
    """Return the model that training starts from, what its numbers mean, and how another is drawn, if it can be."""
    if deployment.first_model is not None:
        model, layout = first_model_of(deployment.first_model(), "first_model")
        if config.serving.correction != "none":
            layout, model = extend_layout(layout, deployment.classes), append_even_mix(model, deployment.classes)
        return model, layout, None
    plain = trainer_of(config, deployment.shape, deployment.classes)
    with mistakes_in("model"):
        trainer = with_mix(config, plain, deployment.classes)
    try_model(trainer, deployment.shape, config)
    return trainer.initial_model(config.seed), trainer.layout, trainer.initial_model


def _device_serving(deployment: Deployment, config: Config) -> Serving:
    """Return what devices do to the model that serves them; experts cannot look into training code of one's own."""
    serving = serving_of(config)
    if deployment.first_model is None or not serving.experts:
        return serving
    _LOG.warning("experts cannot look into the app's own training code: devices are served by the model as it is")
    return replace(serving, experts=())


def orders_of(setup: RunSetup, deployment: Deployment) -> OrderBook:
    """Return how the orders of a run are worded."""
    config = setup.config
    work = WorkRule(
        client="",
        classes=deployment.classes,
        local=local_rule(config),
        serving=_device_serving(deployment, config),
        model=config.model.factory or config.model.name,
        hidden=config.model.hidden,
        trainer="torch" if config.model.factory else config.training.trainer,
        device=config.training.device,
        mix_rate=config.serving.mix_rate,
    )
    return OrderBook(
        run_id=setup.run_id,
        layout=setup.layout,
        seed=config.seed,
        work=work,
        n_shared=_n_shared(setup, deployment),
        observe=device_record(
            config, classes=deployment.classes, own_vectors=deployment.own_vectors, memory=deployment.memory_rounds
        ),
    )


def runner_of(
    setup: RunSetup, deployment: Deployment, folder: RunFolder, *, exchange: Exchange, clock: Callable[[], float]
) -> Runner:
    """Return a runner at the start of a run, or after the last round that was committed.

    A method is made for the clients that are there: at the start they are waited for, and their ids are asked for. If
    the method cannot take in others, clients that come later are left out, and the log says so.
    """
    config, kind = setup.config, kind_of(setup.config)
    method_of(config, _setting(setup, deployment, range(deployment.presence.min_nodes)))  # raises mistakes at once
    orders = orders_of(setup, deployment)
    sharing = None
    if kind.reports_from != "nobody":
        sharing = sharing_of(config, setup.report_rule, layout=orders.layout, work=orders.work)
    deliveries = Deliveries(
        ModelVersions(folder.path),
        layout=orders.layout,
        work=orders.work,
        n_shared=orders.n_shared,
        has_experts=bool(orders.work.serving.experts),
        budget=deployment.deliveries or usual_budget(config.training.participants),
        manifest={"classes": [str(at) for at in range(deployment.classes)]},
        evaluate=deployment.evaluate,
    )
    clients = FlowerClients(
        exchange,
        orders,
        presence=deployment.presence,
        overcommit=config.clock.overcommit,
        plan=setup.plan,
        n_features=setup.expected.n_features,
        sharing=sharing,
        roll_call=roll_call_of(config, own_vectors=deployment.own_vectors),
        budget=report_budget_of(config, usual_budget(config.training.participants)),
        n_tested=config.evaluation.clients,
        deliveries=deliveries,
        sums=_noised_sums(config, folder),
        clock=clock,
    )
    found = _resume(folder, setup, deployment) if folder.is_begun() else None
    if not folder.is_begun():
        folder.begin(config_text(config))
    for change in folder.changes:
        _LOG.info("fielding: %s", change)
    for note in folder.notes:
        _LOG.warning("fielding: %s", note)
    former = None
    if found is None and (folder.path / INIT_CLUSTERS_FILE).exists():
        former = load_run(folder.path / INIT_CLUSTERS_FILE)
        clients.expect(under(DRIVER, former.arrays))
    client_ids = clients.meet() if found is None else clients.remember(under(DRIVER, found.arrays))
    if found is None:
        check_fleet(config, len(client_ids))
    setting = _setting(setup, deployment, client_ids, folder.path / LEDGER)
    reports_from = run_reports_from(config, kind, setting.parts.selection, len(setting.client_ids))
    if reports_from == "drifted" and kind.detector is not None:  # one that never fires: it hears each client once
        reports_from = "first"
    clients.listen(reports_from)
    method = method_of(config, setting)
    deliveries.clusters = lambda: cluster_ids(method)
    federation = Federation(
        clients=clients,
        method=method,
        evaluate_every=config.evaluation.every,
        n_rounds=config.rounds,
        stop_at_time_s=config.stop_at_time_s,
        selection=setting.parts.selection,
        n_train_samples=config.training.local_steps * config.training.batch_size,
        keeps_reports=reports_from != "flags",
        has_heads=setting.parts.n_shared > 0,
    )
    rules = Rules(
        gap=config.trace.gap, stop_at_accuracy=config.stop_at_accuracy, checkpoint_every=config.checkpoint.every or 1
    )
    runner = Runner(federation, folder, layout=setup.layout, method_name=config.method.name, rules=rules)
    if former is not None:  # clients that come back are in the clusters in which they were
        method.restore(former.values, under(METHOD, former.arrays) | {"models": former.models})
    if found is not None:
        runner.restore(found)
        if setup.expected.n_features == deployment.classes:
            grow_labels(method, deployment.classes)
    if not isinstance(method, Grows):
        clients.close()
    return runner


def _noised_sums(config: Config, folder: RunFolder) -> NoisedSums | None:
    """Return what adds noise to sums over clients, from the system's cryptographic source; None without sums."""
    if (private := sums_of(config)) is None:
        return None
    return NoisedSums(private[0], PrivacyLedger(folder.path / LEDGER, private[0]))


def _resume(folder: RunFolder, setup: RunSetup, deployment: Deployment) -> RunCheckpoint | None:
    """Return the last committed round of a run, its models with as many classes as there are now; None without one."""
    stored = read_manifest(folder.path).get(CLASSES)
    has_grown = isinstance(stored, list) and len(stored) != deployment.classes
    if has_grown and sums_of(setup.config) is not None:
        raise OptionError('there are more classes, but privacy.mode is "client": its centers cannot grow; start anew')
    if has_grown:
        is_label = setup.expected.n_features == deployment.classes or kind_of(setup.config).reports_from == "nobody"
        check_growth(setup.config.method.name, has_own_model=deployment.first_model is not None, is_label=is_label)
    config = config_text(setup.config)
    found = folder.resume(config, compared=("n_numbers", "initial_blake2b") if has_grown else ())
    if found is None or found.layout == setup.layout:
        return found
    return grow_classes(found, setup.layout, deployment.classes)


def _n_shared(setup: RunSetup, deployment: Deployment) -> int:
    """Return how many numbers of a model all clusters share, or raise if it has no last layer."""
    if not setup.config.aggregation.shared_body:
        return 0
    n_head = head_size(setup.layout, deployment.classes)
    if not n_head:
        raise OptionError(f"aggregation.shared_body is true, but {NO_HEAD}; set it to false")
    return setup.layout.parameter_size - n_head


def _setting(
    setup: RunSetup, deployment: Deployment, client_ids: Sequence[ClientId], ledger: Path | None = None
) -> MethodSetting:
    """Return what the method is made of; ``ledger``: the file of the budget of private models."""
    config = setup.config
    report_rule = setup.report_rule
    policy = (
        policy_of(config, kind=setup.expected.kind, metric=setup.metric)
        if report_rule is None
        else report_policy(config, report_rule)
    )
    parts = parts_of(config, len(client_ids), policy)
    if deployment.aggregator is not None:
        parts = replace(parts, aggregator=deployment.aggregator, weighted=True)
    parts = replace(
        parts,
        n_shared=_n_shared(setup, deployment),
        n_classes=deployment.classes,
        private=private_sums_of(
            config,
            setup.layout.parameter_size,
            ledger,
            words=lambda _round_index, _purpose: secret_words,
            is_repeatable=False,
        ),
    )
    return MethodSetting(
        initial=setup.initial,
        client_ids=tuple(client_ids),
        policy=policy,
        parts=parts,
        seed=config.seed,
        n_parameters=setup.layout.parameter_size,
        n_head=head_size(setup.layout, deployment.classes),
        draw_model=setup.draw_model,
        n_visible=setup.plan.n_visible,
        is_guarded=config.coordinator.representation == AUTO,
    )


FIRST_PAUSE_S = 1.0  # seconds after which a round that no device answered is tried again
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
    """Run a deployment into a folder; if it holds a run already, go on with that, perhaps with other settings.

    Parameters
    ----------
    watch
        Called after each round with its record; a False stops the run.
    clock
        Tells the time, in seconds from anywhere.

    Returns
    -------
    The summary; None if it was stopped before its end. Every round is committed: whatever ends the process, the same
    call goes on after the last round that was.

    Notes
    -----
    While another process writes into the folder, this one waits, however long that takes, and then goes on with what
    it finds: a SuperLink that comes back may begin a run once more of which it lost sight.
    """
    config = deployment.checked_config()
    table = {name: value for name, value in config_table(config).items() if name not in FREE}
    check_changes(out, deployment.settings(table))  # a wrong folder need not be waited for
    with _lock_folder(out) as lock:
        stored = read_manifest(out)
        check_changes(out, deployment.settings(table))
        if not stored:
            check_free(out, config_text(config))
        started = deployment
        if deployment.first_model is not None:
            first_model = keep_first_model(deployment.first_model, out, is_begun=bool(stored))
            started = replace(deployment, first_model=first_model)
        run_id = stored.get("run_id")  # devices keep their state by it
        setup = set_up_run(started, config, run_id=run_id if isinstance(run_id, str) and run_id else uuid.uuid4().hex)
        init_model = keep_init_model(deployment.init_from, out, setup.layout, is_begun=bool(stored))
        if init_model is not None and init_model.size == setup.layout.size:  # else its classes have grown
            setup = replace(setup, initial=init_model)
        keep_init_clusters(deployment, setup, out, is_begun=bool(stored))
        folder = RunFolder(out, setup.manifest(table, deployment), kind=setup.expected.kind, lock=lock)
        try:
            wire = wire_of(setup.expected, deployment.patience)
            exchange = Exchange(wire, deployment.patience)
            summary = _run_answered(setup, deployment, folder, exchange=exchange, clock=clock, watch=watch)
            if summary is not None:
                folder.write_summary(summary)  # first: the page tells of a finished run
                folder.write_page(report_page([out]))
                if not deployment.keep_state:
                    _end_on_devices(exchange, orders_of(setup, deployment).describe(config.rounds, confirmed=NO_REPORT))
            return summary
        finally:
            folder.close()


def keep_init_clusters(deployment: Deployment, setup: RunSetup, folder: Path, *, is_begun: bool) -> None:
    """Keep in the folder of a new run the checkpoint of the former one whose clusters it begins with, if it does.

    Raises
    ------
    OptionError
        If this run cannot go on with those clusters: another method, other models, another representation.
    """
    path, config = folder / INIT_CLUSTERS_FILE, setup.config
    if is_begun:
        return
    path.unlink(missing_ok=True)  # of a server that was killed before its run was begun
    if not deployment.init_clusters:
        return
    but, source = "init-clusters of the run config is true, but", deployment.init_from
    if sums_of(config) is not None:
        raise OptionError(f'{but} privacy.mode is "client": clusters are found anew, by sums')
    if source is None or source.suffix == SUFFIX:
        raise OptionError(f"{but} init-from names no former run; name its folder, or a checkpoint")
    try:
        file = newest_checkpoint(source) if source.is_dir() else source
        former = load_run(file)
    except (InputError, CheckpointError) as error:
        raise OptionError(f"{but} {error}") from None
    if former.method != config.method.name or former.method != "fielding":
        raise OptionError(
            f"{but} the method there is {former.method}, here {config.method.name}; both must be fielding"
        )
    if former.layout != setup.layout:
        raise OptionError(f"{but} models there have {former.layout.size} numbers, here {setup.layout.size}")
    home = file.parent.parent if file.parent.name == CHECKPOINTS else file.parent
    before = settings_of(read_manifest(home))
    described = ["coordinator.representation", "coordinator.metric"]
    now = settings_of(deployment.settings(config_table(config)))
    if [before.get(key) for key in described] != [now.get(key) for key in described] or not (
        setup.report_rule is not None and setup.report_rule.is_label
    ):
        raise OptionError(f'{but} windows are not described there and here alike, by representation = "label"')
    with replaced_file(path) as target:
        target.write(file.read_bytes())


def _run_answered(
    setup: RunSetup,
    deployment: Deployment,
    folder: RunFolder,
    *,
    exchange: Exchange,
    clock: Callable[[], float],
    watch: Watch,
) -> dict[str, Json] | None:
    """Run the rounds that are left; one that no device answered is tried again, as after a crash in its middle.

    Between two tries the server pauses, twice as long each time, a deadline at most; without end, since an outage must
    not end a run.
    """
    n_tries, n_before = 0, -1
    while True:
        n_done = n_committed(folder.path)
        n_tries, n_before = (n_tries + 1 if n_done == n_before else 0), n_done
        # What a run needs that has begun: one node.
        here = replace(deployment, presence=replace(deployment.presence, min_nodes=1)) if n_tries and n_done else None
        try:
            return runner_of(setup, here or deployment, folder, exchange=exchange, clock=clock).run(watch)
        except UnansweredRoundError as error:
            pause_s = min(FIRST_PAUSE_S * 2.0 ** min(n_tries, 60), deployment.patience.deadline_s)
            _LOG.warning(
                "%s: it does not count, and is tried again in %g s (try %d); are devices on-line, and is the deadline "
                "long enough?",
                *(error, pause_s, n_tries + 2),
            )
            exchange.pause(pause_s)


def _end_on_devices(exchange: Exchange, order: DescribeOrder) -> None:
    """Let all devices that can be reached remove what they kept for a run, and log how many did."""
    tasks = [Task(address=node.address, order=replace(order, asks="end")) for node in exchange.look()]
    settled, _ = exchange.send(tasks)
    n_done = sum(one.reason is None for one in settled)
    _LOG.info("fielding: %d of %d devices removed what they kept for the run", n_done, len(tasks))


@contextlib.contextmanager
def _lock_folder(out: Path) -> Iterator[IO[bytes]]:
    """Hold the lock of a folder, having waited until no other process does."""
    news_at, lock = time.monotonic(), None
    with contextlib.ExitStack() as held:
        while lock is None:
            try:
                lock = held.enter_context(claim_folder(out))
            except InputError:  # another process has it; all other trouble is an OutputError
                if time.monotonic() >= news_at:
                    _LOG.info("another server writes into %s; this one waits until that has ended, then goes on", out)
                    news_at = time.monotonic() + LOCK_NEWS_S
                time.sleep(LOCK_POLL_S)
        yield lock
