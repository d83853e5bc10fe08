"""All parts of a simulation, put together as a config says; what does not fit is found before anything is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from fielding._typing import ClientId, Codes, Counts, Features, Json, Models
from fielding.client.drift import DriftTest
from fielding.client.privacy.counts import check_head
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.report_rule import ReportRule
from fielding.client.representation.combination import Combination
from fielding.client.representation.gradient import Gradient
from fielding.client.representation.representation import Representation
from fielding.config.keys import Config
from fielding.config.parts import imported_function, own_name
from fielding.coordinator.policy import Policy
from fielding.distance import metric_named
from fielding.engine.plugins import (
    GLOBAL,
    POOL,
    check_fleet,
    file_model,
    kind_of,
    local_rule,
    method_of,
    mistakes_in,
    parts_of,
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
from fielding.engine.report_rule import AUTO, LABEL, is_own_function, report_rule_of
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.federation.models import is_finite
from fielding.federation.noised_sums import NoisedSums
from fielding.methods import Method, MethodSetting, Parts
from fielding.records.model_file import read_model
from fielding.rng import client_key, stream
from fielding.runtime.observe import LabelObserver, Observer, Represent, SampleObserver, Sight, VectorObserver
from fielding.runtime.own_code import Embed, Evaluate, Metric, OwnCompute, OwnTraining, Train
from fielding.runtime.private_reports import PrivateObserver
from fielding.runtime.train import LocalRule, NoiseOf
from fielding.runtime.workers import Workers
from fielding.simulation.attacks import Lie, LyingObserver, Spoiling, draw_liars
from fielding.simulation.clients import CrewOf, SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Availability, Hardware, devices_of, read_availability
from fielding.simulation.own_code import (
    NO_EXPERTS,
    check_own_steps,
    check_sight,
    metrics_of,
    own_computes,
    own_training_of,
)
from fielding.simulation.reports import SharedModel, judging_rows
from fielding.traces.catalog import Source
from fielding.traces.pool import Pool
from fielding.traces.schedule import Schedule
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt, HeldOut, OnImages, check_scenario, deal_samples, hold_out, without_samples
from fielding.traces.trace import Trace
from fielding.training.head import NO_HEAD, head_size
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import (
    Contrast,
    LocalWork,
    Sgd,
    Trainer,
    TrainingPath,
    steps_on_trial,
    try_scores,
    try_work,
)

STEPS_AT_ONCE = 200  # steps whose batches are drawn in one go
MOST_TESTED = 20_000  # clients, unless the config says otherwise: experts and records of more would take long
HELD_OUT = 200
"""Samples of each class that are held out where a shared model is trained on them, unless the config says."""
MOMENTUM = 0.9  # of the steps of the shared model


def pool_model(
    trainer: Trainer, pool: Pool, held: HeldOut, *, sgd: Sgd, n_steps: int, batch_size: int, seed: int
) -> Models:
    """Train a model on held-out samples (the paper: 200 of each class, 300 passes over them).

    Parameters
    ----------
    pool, held
        The samples, as they look before a client's camera changes them.
    seed
        Of the first weights and of the batches.

    Returns
    -------
    float32, shape ``(n_numbers,)``.
    """

    def gather(entries: Counts) -> tuple[Features, Codes]:
        return pool.features(held.samples[entries]), held.labels[entries]

    rng, model = stream(seed, "shared model"), trainer.initial_model(seed)
    for first in range(0, n_steps, STEPS_AT_ONCE):
        n_now = min(STEPS_AT_ONCE, n_steps - first)
        work = LocalWork(
            models=model[np.newaxis],
            start=np.zeros(1, dtype=np.int64),
            draws=rng.integers(0, held.samples.size, (1, n_now, batch_size)),
            gather=gather,
            sgd=sgd,
        )
        model = trainer.train(work).models[0]
    return model


def without_held_out(config: Config, dealt: Dealt, *, needs_pool: bool) -> tuple[Dealt, HeldOut | None]:
    """Take the server's own samples away from the clients, as many as the config says or the shared model needs."""
    per_class = config.trace.held_out
    if per_class is None:
        per_class = HELD_OUT if needs_pool else 0
    if per_class:
        return hold_out(dealt, per_class, seed=config.seed)
    if needs_pool:
        raise OptionError(
            "trace.held_out is 0, but the shared model is trained on held-out samples; "
            'raise it, or set coordinator.shared_model = "global" or to a model file'
        )
    return dealt, None


def observer_of(
    config: Config,
    report_rule: ReportRule,
    windows: SlidingWindows,
    *,
    trainer: Trainer | OwnCompute,
    held: HeldOut | None = None,
    drift_test: DriftTest | None = None,
    ledger: Path | None = None,
) -> Observer:
    """Return the observer of the clients: what they report of their windows, and when.

    Parameters
    ----------
    trainer
        Of models without a label mix.
    held
        The server's own samples; None if there are none.
    drift_test
        The method's own test on label counts; None: that of the config.
    ledger
        The file for the budget that private reports spend; None for none.
    """
    section, privacy = config.coordinator, privacy_of(config, report_rule)
    if drift_test is not None:
        return LabelObserver(windows, drift_test)
    if report_rule.representation is None:
        own = imported_function(section.representation, key="coordinator.representation", known=(LABEL,))
        represent = cast(Represent, own)
        with mistakes_in("coordinator.detector"):
            test, metric = report_rule.drift_test(), metric_named(report_rule.metric)
            by_vector = VectorObserver(windows, represent, drift_test=test, metric=metric)
        by_vector.try_out()
        return by_vector
    if report_rule.is_label and privacy is None:
        is_plain = section.representation == LABEL
        return LabelObserver(windows, report_rule.drift_test(), None if is_plain else report_rule.representation)
    compute = trainer if isinstance(trainer, OwnCompute) else Workers(trainer)
    sight = Sight(windows, compute if report_rule.needs_model else None)
    if privacy is None:
        detector = report_rule.drift_detector()
        observer = SampleObserver(windows, report_rule.representation, detector=detector, sight=sight)
    else:
        with mistakes_in("coordinator.representation"):
            n_head = head_size(trainer.layout, windows.n_classes)
            check_head(report_rule.representation, n_head, windows.n_classes)
        observer = PrivateObserver(
            windows,
            report_rule.representation,
            rule=privacy,
            sight=sight,
            ledger=PrivacyLedger(ledger, privacy, is_repeatable=True),
            client_ids=windows.schedule.client_ids,
            noise_of=simulated_noise(config.seed, windows.schedule.client_ids),
        )
    if report_rule.needs_model and section.shared_model != GLOBAL:
        observer.share(shared_model_of(config, trainer, windows.pool, held))
    return observer


def simulated_noise(seed: int, client_ids: Sequence[ClientId], purpose: str = "privacy") -> NoiseOf:
    """Return noise that is the same in every run of a seed, as all of a simulation; on devices it is a secret."""
    keys = [client_key(client) for client in client_ids]
    return lambda client, round_index: repeatable_words(stream(seed, purpose, keys[client], round_index))


def unused_samples(dealt: Dealt) -> Counts:
    """Return samples of the pool that no model is trained on: those for testing; of a natural trace, of the start."""
    is_test = dealt.pool.is_test()
    early = np.unique(dealt.schedule.sample[dealt.schedule.interval < dealt.plan.n_first])
    return early[is_test[early]].astype(np.int64) if dealt.is_natural else np.flatnonzero(is_test)


def shared_model_of(config: Config, trainer: Trainer | OwnCompute, pool: Pool, held: HeldOut | None) -> Models:
    """Return the model that all clients see their samples with from the start: of a file, or trained on a pool."""
    section, training = config.coordinator, config.training
    if section.shared_model != POOL or held is None or isinstance(trainer, OwnCompute):
        return file_model(section, trainer.layout)
    model = pool_model(
        trainer,
        pool,
        held,
        sgd=Sgd(learning_rate=training.learning_rate, momentum=MOMENTUM),
        n_steps=-(-section.shared_epochs * held.samples.size // training.batch_size),
        batch_size=training.batch_size,
        seed=config.seed,
    )
    if not is_finite(model):
        raise OptionError(
            f"coordinator.shared_model: training it at training.learning_rate = {training.learning_rate:g} with "
            f"momentum {MOMENTUM:g} does not converge; lower the rate, or give a model file"
        )
    return model


def try_step(trainer: Trainer, windows: SlidingWindows, rule: LocalRule) -> None:
    """Take one step with the samples of one client.

    Only modules that are trained one by one are tried, and models that MOON may not fit: a step of others cannot fail.
    Models that carry a label mix also have to give the scores of a sample.

    Raises
    ------
    OptionError
        If the module fails, in one line.
    """
    rows = _rows(windows)
    if LABEL_MIX in trainer.layout.names:
        try_scores(trainer, windows.gather(rows[:1])[0], key="serving.correction")
    if trainer.path.name != "sequential" and not rule.moon:
        return
    work = LocalWork(
        models=trainer.initial_model(0)[np.newaxis],
        start=np.zeros(1, dtype=np.int64),
        draws=np.resize(rows, (1, 1, rule.batch_size)),
        gather=windows.gather,
        sgd=rule.sgd(0),
        private=None if rule.private is None else steps_on_trial(rule.batch_size),
    )
    if rule.moon:  # a client that has not trained before
        contrast = Contrast(
            mu=rule.moon,
            temperature=rule.moon_temperature,
            previous=np.zeros((1, trainer.layout.size), dtype=np.float32),
            has_previous=np.zeros(1, dtype=np.bool_),
        )
        work = replace(work, contrast=contrast)
    try_work(trainer, work)


def try_look(trainer: Trainer | OwnCompute, windows: SlidingWindows, representation: Representation | None) -> None:
    """Look at a sample with a model without a label mix, as clients will that describe their windows with a shared one.

    Raises
    ------
    OptionError
        If the model shows no features, or a last layer is wanted that it does not have.
    """
    if not isinstance(trainer, OwnCompute):
        try_scores(trainer, windows.gather(_rows(windows)[:1])[0], key="coordinator.representation")
    parts = [part.representation for part in representation.parts] if isinstance(representation, Combination) else []
    is_by_head = any(isinstance(one, Gradient) and one.layer == "last" for one in (representation, *parts))
    if is_by_head and not head_size(trainer.layout, len(windows.pool.classes)):
        raise OptionError(
            f'coordinator.layer is "last", but {NO_HEAD}; let the module declare it last, or set layer = "full"'
        )


def _rows(windows: SlidingWindows) -> Counts:
    """Return the training samples of one client."""
    ranges = windows.training(0)
    return ranges.of(np.flatnonzero(ranges.sizes)[:1])[0]


def lie_of(config: Config, *, is_histogram: bool) -> Lie | None:
    """Return how some clients lie in their reports; None if all are honest."""
    section = config.trace
    with mistakes_in("trace"):
        lie = Lie(kind=section.lie, share=section.liars, is_histogram=is_histogram)
    return lie if section.liars else None


def spoiling_of(config: Config, schedule: Schedule) -> Spoiling | None:
    """Return what liars do to the models that they send; None if nothing."""
    section = config.trace
    with mistakes_in("trace"):
        spoiling = Spoiling(
            attackers=draw_liars(schedule.client_ids, section.liars, seed=config.seed), kind=section.spoil
        )
    return spoiling if section.liars and section.spoil != "none" else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Own:
    """What a caller brings along instead of naming it in the config.

    Parameters
    ----------
    samples
        A trace with features, or a pool for a scenario to deal.
    model
        A torch module, whose weights are those to begin with, or a class or function that makes one; it is given
        ``input_shape`` and ``n_classes`` if it takes arguments of these names. With ``train`` also arrays by name. In a
        config: ``model.factory``.
    represent
        Describes a window: features, labels, number of classes to a vector. In a config:
        ``coordinator.representation``.
    method
        A method: a class with the verbs of :class:`fielding.methods.Method`. In a config: ``method.name``.
    train, evaluate, embed
        Train a model, test it and look at samples with it, in place of Fielding, exactly as on Flower
        (:func:`fielding.flower.device.client_app.client_app`): ``train(model, samples, job)`` returns
        :class:`~fielding.runtime.own_code.Fitted`, ``evaluate(model, samples)``
        :class:`~fielding.runtime.own_code.Scored`, ``embed(model, samples)``
        :class:`~fielding.runtime.own_code.Embedded`. In a config: ``own.train``, ``own.evaluate``, ``own.embed``.
    loss, optimizer
        For torch modules, in place of cross-entropy and SGD: ``loss(scores, labels)`` returns the mean loss of some
        samples, a scalar tensor; ``optimizer(parameters, learning_rate)`` a ``torch.optim.Optimizer`` for the steps of
        a participant in a round. In a config: ``training.loss``, ``training.optimizer``.
    metrics
        By name, functions that measure how scores of classes, shape ``(n_samples, n_classes)``, fit the labels of a
        client's test samples, such as those of :mod:`fielding.metrics`. In a config: ``evaluation.metrics``.
    on_images
        Called with how many images of how many are decoded.
    """

    samples: Source | None = None
    model: Callable[..., Any] | Mapping[str, Any] | None = None
    represent: Represent | None = None
    method: Callable[..., Any] | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    embed: Embed | None = None
    loss: Callable[..., Any] | None = None
    optimizer: Callable[..., Any] | None = None
    metrics: Mapping[str, Metric] | None = None
    on_images: OnImages | None = None

    @property
    def settings(self) -> dict[str, Json]:
        """The keys of a config that name what is brought along, beside the samples."""
        found: dict[str, Json] = {}
        if isinstance(self.model, Mapping):
            arrays = dict(self.model)
            found["model.factory"] = own_name(lambda: arrays, "model")
        elif self.model is not None:
            found["model.factory"] = own_name(self.model)
        for key, part in (("coordinator.representation", self.represent), ("method.name", self.method)):
            if part is not None:
                found[key] = own_name(part)
        hooks = {"own": ("train", "evaluate", "embed"), "training": ("loss", "optimizer")}
        for section, names in hooks.items():
            for name in names:
                if (function := getattr(self, name)) is not None:
                    found[f"{section}.{name}"] = own_name(function, name)
        if self.metrics is not None:
            found["evaluation.metrics"] = {
                name: own_name(metric, f"metric-{name}") for name, metric in self.metrics.items()
            }
        return found


def own_from(given: "Own | Source | None") -> Own:
    """Return what a caller brings along; a trace or a pool alone stands for samples.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if given is None or isinstance(given, Own):
        return given or Own()
    if isinstance(given, (Trace, Pool)):
        return Own(samples=given)
    raise InputError(f"own is {echo(given)}; give a Trace, a Pool, or Own(samples=..., model=..., ...)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """A simulation that is ready to run.

    ``model`` knows its first model and what the numbers of models mean; ``held`` are the server's own samples.
    """

    config: Config
    dealt: Dealt
    held: HeldOut | None
    model: Trainer | OwnCompute
    clients: SimulatedClients
    policy: Policy
    parts: Parts

    @property
    def trainer(self) -> Trainer:
        """Fielding's trainer; there is none where code of the user's own trains."""
        return self.clients.trainer

    def dealt_for(self, rounds: int) -> Dealt:
        """Return what a scenario deals to the same clients if there are so many rounds."""
        section = replace(self.config.trace, standardize=False)  # the pool is so already
        dealt = deal_samples(section, rounds=rounds, seed=self.config.seed, source=self.dealt.pool)
        return dealt if self.held is None else without_samples(dealt, self.held.samples)

    def method(self, initial: Models) -> Method:
        """Return the method that the config names, with all models as given."""
        layout = self.model.layout
        setting = MethodSetting(
            initial=initial,
            client_ids=self.dealt.schedule.client_ids,
            policy=self.policy,
            parts=self.parts,
            seed=self.config.seed,
            n_parameters=layout.parameter_size,
            n_head=head_size(layout, len(self.dealt.pool.classes)),
            draw_model=None if isinstance(self.model, OwnCompute) else self.model.initial_model,
            truth=self.clients.windows.concepts,
            n_visible=self.dealt.plan.n_visible,
            is_guarded=self.config.coordinator.representation == AUTO,
        )
        return method_of(self.config, setting)


def assemble(
    config: Config,
    own: Own,
    *,
    n_workers: int,
    path: TrainingPath | None = None,
    folder: Path | None = None,
    ledger: Path | None = None,
    crew_of: CrewOf | None = None,
) -> Simulation:
    """Put all parts together; a resumed run gives the path that its trainer took before.

    ``folder``: for files that training code of the user's own keeps; None for one that is gone with the simulation.
    ``ledger``: for the budget that private reports spend; None if it is not kept. ``crew_of``: makes what trains
    participants elsewhere; None: this process trains them.

    Raises
    ------
    InputError
        If a name is unknown, data are missing or unfit, or options do not fit together.
    """
    try:
        return _assemble(config, own, n_workers, path, folder, ledger, crew_of)
    except OutputError:
        raise
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise FileFormatError(f"cannot read {echo(error.filename)}: {error.strerror or error}") from error


def _assemble(
    config: Config,
    own: Own,
    n_workers: int,
    path: TrainingPath | None,
    folder: Path | None,
    ledger: Path | None,
    crew_of: CrewOf | None,
) -> Simulation:
    # What the config alone says, before any data are read; a mistake is raised even if the method never looks at it.
    kind, section = kind_of(config), config.coordinator
    report_rule = report_rule_of(section, is_own=is_own_function(section), seed=config.seed)
    private = sums_of(config)
    policy = report_policy(config, report_rule)
    lie = lie_of(config, is_histogram=policy.kind == "histogram")
    serving, rule, own_training = serving_of(config), local_rule(config), own_training_of(config)
    metrics = metrics_of(config)
    check_own_steps(config)
    check_scenario(config.trace)

    # The samples, and what is trained on them.
    dealt = deal_samples(
        config.trace, rounds=config.rounds, seed=config.seed, source=own.samples, on_images=own.on_images
    )
    sums: NoisedSums | None = None
    if private is not None:
        check_fleet(config, dealt.schedule.n_clients)
        sums = NoisedSums(
            private[0],
            PrivacyLedger(ledger, private[0], is_repeatable=True),
            lambda round_index: repeatable_words(stream(config.seed, "privacy sums", round_index)),
        )
    parts = parts_of(config, dealt.schedule.n_clients, policy)
    reports_from = run_reports_from(config, kind, parts.selection, dealt.schedule.n_clients)
    hears = reports_from != "nobody" and kind.detector is None
    is_seen = hears and report_rule.needs_model
    if is_seen and section.shared_model is None:  # labels of a natural trace may contradict each other (decision 38)
        section = replace(section, shared_model=GLOBAL if dealt.is_natural or own_training is not None else POOL)
        config = replace(config, coordinator=section)
    if own_training is not None:
        check_sight(own_training, report_rule if hears else None, section.shared_model)
        dealt = replace(dealt, notes=(*dealt.notes, *([NO_EXPERTS] if serving.experts else [])))
        serving = replace(serving, experts=())
    dealt, held = without_held_out(config, dealt, needs_pool=is_seen and section.shared_model == POOL)
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan)
    if not windows.training(0).sizes.any():
        raise InputError("no client has a sample to train on at the start; give more samples, or a longer window")
    plain, trainer = _trainers(config, own_training, windows, rule, path, folder)
    parts = replace(
        parts,
        n_classes=windows.n_classes,
        private=private_sums_of(
            config,
            trainer.layout.parameter_size,
            ledger,
            words=lambda *moment: repeatable_words(stream(config.seed, "private models", *moment)),
            is_repeatable=True,
        ),
    )
    if config.aggregation.shared_body:
        n_head = head_size(trainer.layout, windows.n_classes)
        if not n_head:
            raise OptionError(
                f"aggregation.shared_body is true, but {NO_HEAD}; let the module declare it last, or set it to false"
            )
        parts = replace(parts, n_shared=trainer.layout.parameter_size - n_head)

    # What clients report.
    observer: Observer | None = None
    if reports_from != "nobody":
        own_test = None if kind.detector is None else kind.detector(config.method.options)
        if is_seen:
            try_look(plain, windows, report_rule.representation)
        observer = observer_of(
            config, report_rule, windows, trainer=plain, held=held, drift_test=own_test, ledger=ledger
        )
    sharing = SharedModel(
        observer, rounds=section.shared_rounds, kind=section.shared_model, is_natural=dealt.is_natural
    )
    if held is not None and section.shared_model == POOL:  # by what the labels of the pool mean
        sharing.measure_skill(unused_samples(dealt), lambda rows: (dealt.pool.features(rows), dealt.pool.y[rows]))
    else:
        sharing.measure_skill(judging_rows(windows, 0), windows.gather)
    reporting = observer
    if lie is not None and observer is not None:
        reporting = LyingObserver(observer, windows, lie=lie, seed=config.seed)

    # What they run on.
    clock, client_ids = config.clock, dealt.schedule.client_ids
    with mistakes_in("clock.profile"):
        devices = devices_of(clock.profile, client_ids, seed=config.seed)
    availability: Availability = AlwaysAvailable()
    if clock.availability is not None:
        availability = read_availability(clock.availability, client_ids)
    clients = SimulatedClients(
        windows,
        reporting,
        trainer,
        rule=rule,
        hardware=Hardware(devices=devices, availability=availability, overcommit=clock.overcommit),
        reports_from=reports_from,
        sharing=sharing,
        spoiling=spoiling_of(config, dealt.schedule),
        serving=serving,
        barrier=clock.barrier,
        has_heads=parts.n_shared > 0,
        metrics=metrics,
        budget=report_budget_of(config),
        n_tested=config.evaluation.clients or (MOST_TESTED if len(client_ids) > MOST_TESTED else None),
        sums=sums,
        seed=config.seed,
        n_workers=n_workers,
        crew=None if crew_of is None or isinstance(trainer, OwnCompute) else crew_of(trainer, windows),
        training_ledger=(
            None if rule.private is None else PrivacyLedger(ledger, rule.private.rule(), is_repeatable=True)
        ),
        noise_of=simulated_noise(config.seed, client_ids, "private training"),
    )
    return Simulation(config=config, dealt=dealt, held=held, model=trainer, clients=clients, policy=policy, parts=parts)


def _trainers(
    config: Config,
    own: OwnTraining | None,
    windows: SlidingWindows,
    rule: LocalRule,
    path: TrainingPath | None,
    folder: Path | None,
) -> tuple[Trainer | OwnCompute, Trainer | OwnCompute]:
    """Return the trainer of plain models, and that of models which carry their label mix if clients correct for it."""
    if own is not None:
        return own_computes(own, config, windows, folder)
    plain = trainer_of(config, windows.pool.shape, windows.n_classes, path=path)
    trainer = with_mix(config, plain, windows.n_classes)
    try_step(trainer, windows, rule)
    if config.evaluation.metrics:
        try_scores(plain, windows.gather(_rows(windows)[:1])[0], key="evaluation.metrics")
    return plain, trainer


def initial_model(simulation: Simulation, init_from: Path | None) -> Models:
    """Return the model that training starts from: random, or that of a checkpoint."""
    if init_from is None:
        return simulation.model.initial_model(simulation.config.seed)
    return read_model(init_from, simulation.model.layout)
