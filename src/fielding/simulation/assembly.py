"""All parts of a simulation, put together as a config says; what does not fit is found before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, cast

from fielding._imported import imported_function
from fielding._typing import Json, Models
from fielding.client.drift import DRIFT_TESTS, DriftTest, drift_test_named
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy, trigger_named
from fielding.distance import metric_named
from fielding.engine.config import Config, CoordinatorSection
from fielding.engine.config_reader import config_keys, unknown_key
from fielding.engine.factors import parse_factor
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.federation.aggregation import Aggregator, aggregator_named
from fielding.federation.selection import selector_named
from fielding.methods import METHODS, Method, MethodSetting, Parts
from fielding.records.model_file import read_model
from fielding.simulation.availability import AlwaysAvailable, read_availability
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.devices import devices_of
from fielding.simulation.observers import LabelObserver, Observer
from fielding.simulation.settings import Hardware, LocalRule
from fielding.simulation.sources import Dealt, OnImages, check_scenario, dealt_samples
from fielding.simulation.trial import try_step
from fielding.simulation.vector_observer import Represent, VectorObserver
from fielding.traces.catalog import Source
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.rates import LearningRate
from fielding.training.trainer import Trainer, TrainingPath

PARTICIPANTS_PER_CLUSTER = 4
"""Fewer would make a cluster's model the work of one or two clients (METHODS.md A7)."""
LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Own:
    """What a caller brings along instead of naming it in the config.

    Parameters
    ----------
    samples
        A trace with features, or a pool for a scenario to deal.
    model
        Makes a torch module: ``model(input_shape=..., n_classes=...)``.
    represent
        Describes a window: features, labels, number of classes to a vector.
    on_images
        Told how many images of how many are decoded.
    """

    samples: Source | None = None
    model: Callable[..., Any] | None = None
    represent: Represent | None = None
    on_images: OnImages | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """A simulation that is ready to run."""

    config: Config
    dealt: Dealt
    trainer: Trainer
    clients: SimulatedClients
    policy: Policy
    parts: Parts

    def method(self, initial: Models) -> Method:
        """Return the method that the config names, with all models as given."""
        setting = MethodSetting(
            initial=initial, client_ids=self.dealt.schedule.client_ids, policy=self.policy, parts=self.parts
        )
        return METHODS[self.config.method.name].build(setting)


def assembled(config: Config, own: Own, *, n_workers: int, path: TrainingPath | None = None) -> Simulation:
    """Put all parts together; a resumed run gives the path that its trainer took before.

    Raises
    ------
    InputError
        If a name is unknown, data are missing or unfit, or options do not fit together.
    """
    try:
        return _assembled(config, own, n_workers, path)
    except OutputError:
        raise
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise FileFormatError(f"cannot read {echo(error.filename)}: {error.strerror or error}") from error


def _assembled(config: Config, own: Own, n_workers: int, path: TrainingPath | None) -> Simulation:
    drift_test = detector_of(config.coordinator)
    policy = policy_of(config, own)
    check_scenario(config.trace)
    dealt = dealt_samples(
        config.trace, rounds=config.rounds, seed=config.seed, source=own.samples, on_images=own.on_images
    )
    trainer = trainer_of(config, own, dealt, path)
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan)
    if not windows.training(0).sizes.any():
        raise InputError("no client has a sample to train on at the start; give more samples, or a longer window")
    rule = local_rule(config)
    try_step(trainer, windows, rule)
    clients = SimulatedClients(
        windows,
        observer_of(config, own, windows, drift_test),
        trainer,
        rule=rule,
        hardware=hardware_of(config, dealt),
        seed=config.seed,
        n_workers=n_workers,
    )
    parts = Parts(
        participants=config.training.participants,
        selector=selector_named(config.selection.name),
        aggregator=aggregator_of(config),
        weighted=config.training.weighted,
        strict_budget=config.training.strict_budget,
    )
    return Simulation(config=config, dealt=dealt, trainer=trainer, clients=clients, policy=policy, parts=parts)


def aggregator_of(config: Config) -> Aggregator:
    """Return how the models of participants become one."""
    try:
        return aggregator_named(config.aggregation.name, config.aggregation.options)
    except OptionError as error:
        raise OptionError(f"aggregation: {error}") from None


def detector_of(section: CoordinatorSection) -> DriftTest:
    """Return the drift test of a section; an option that it does not have is named with the nearest key."""
    known = {name for family in DRIFT_TESTS.values() for name in signature(family).parameters}
    for option in section.options:
        if option not in known:
            keys = [path for path, _, _ in config_keys() if path.startswith("coordinator.")]
            raise unknown_key(f"coordinator.{option}", [*keys, *(f"coordinator.{name}" for name in known)])
    try:
        return drift_test_named(section.detector, section.options)  # type: ignore[arg-type]
    except OptionError as error:
        raise OptionError(f"coordinator: {error}") from None


def policy_of(config: Config, own: Own) -> Policy:
    """Return the rules of the coordinator."""
    section = config.coordinator
    options: dict[str, dict[str, Json]] = {
        "center-shift": {"tau": _tau(section.tau), "reference": section.reference},
        "pairwise": {"step": section.delta_step},
    }
    k_max = max(1, min(section.k_max, config.training.participants // PARTICIPANTS_PER_CLUSTER))
    try:
        return Policy(
            kind="histogram" if section.representation == LABEL and own.represent is None else "vector",
            metric=section.metric,
            trigger=trigger_named(section.trigger, options.get(section.trigger)),
            clusterer=Clusterer(
                partitioner=section.partitioner,
                k_max=k_max,
                hysteresis=section.hysteresis,
                warm_start=section.warm_start,
            ),
            inherit=section.inherit,
            seed=config.seed,
        )
    except OptionError as error:
        raise OptionError(f"coordinator: {error}") from None


def _tau(value: float | str) -> float:
    try:
        return parse_factor(value) if isinstance(value, str) else float(value)
    except OptionError as error:
        raise OptionError(f"coordinator.tau: {error}") from None


def trainer_of(config: Config, own: Own, dealt: Dealt, path: TrainingPath | None = None) -> Trainer:
    """Return the trainer of the model, sized by the samples."""
    is_own = own.model is not None or config.model.factory is not None
    request = ModelRequest(
        name=config.model.factory or config.model.name,
        factory=own.model,
        path=path,
        hidden=config.model.hidden,
        input_shape=dealt.pool.shape,
        n_classes=len(dealt.pool.classes),
        trainer="torch" if is_own else config.training.trainer,
        device=config.training.device,
    )
    try:
        return trainer_for(request)
    except OptionError as error:
        raise OptionError(f"model: {error}") from None


def observer_of(config: Config, own: Own, windows: SlidingWindows, drift_test: DriftTest) -> Observer | None:
    """Return who watches the clients; nobody if the method does not listen."""
    if not METHODS[config.method.name].listens:
        return None
    name = config.coordinator.representation
    if own.represent is None and name == LABEL:
        return LabelObserver(windows, drift_test)
    represent = own.represent
    if represent is None:
        represent = cast(Represent, imported_function(name, key="coordinator.representation", known=(LABEL,)))
    metric = metric_named(config.coordinator.metric)
    try:
        observer = VectorObserver(windows, represent, drift_test=drift_test, metric=metric)
    except OptionError as error:
        raise OptionError(f"coordinator.detector: {error}") from None
    observer.try_out()
    return observer


def local_rule(config: Config) -> LocalRule:
    """Return how participants train."""
    section = config.training
    rate = LearningRate(
        initial=section.learning_rate, decay=section.lr_decay, every=section.lr_every, floor=section.lr_floor
    )
    return LocalRule(
        n_steps=section.local_steps,
        batch_size=section.batch_size,
        rate=rate,
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        prox=section.prox,
    )


def hardware_of(config: Config, dealt: Dealt) -> Hardware:
    """Return what clients run on."""
    ids, section = dealt.schedule.client_ids, config.clock
    try:
        devices = devices_of(section.profile, ids, seed=config.seed)
    except OptionError as error:
        raise OptionError(f"clock.profile: {error}") from None
    return Hardware(
        devices=devices,
        availability=AlwaysAvailable()
        if section.availability is None
        else read_availability(section.availability, ids),
        overcommit=section.overcommit,
    )


def initial_model(simulation: Simulation, init_from: Path | None) -> Models:
    """Return the model that training starts from: random, or that of a checkpoint."""
    if init_from is None:
        return simulation.trainer.initial_model(simulation.config.seed)
    return read_model(init_from, simulation.trainer.layout)
