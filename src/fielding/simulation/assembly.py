"""All parts of a simulation, put together as a config says; what does not fit is found before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fielding._imported import imported_function
from fielding._typing import Models
from fielding.client.drift import DriftTest
from fielding.coordinator.policy import Policy
from fielding.distance import metric_named
from fielding.engine.config import Config
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.methods import METHODS, Method, MethodSetting, Parts, kind_named, method_named
from fielding.methods.kinds import heard
from fielding.records.model_file import read_model
from fielding.simulation.availability import AlwaysAvailable, read_availability
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.devices import devices_of
from fielding.simulation.lying import LyingObserver
from fielding.simulation.observers import LabelObserver, Observer
from fielding.simulation.plugins import detector_of, kind_of, lie_of, parts_of, policy_of, spoiling_of
from fielding.simulation.settings import Hardware, LocalRule
from fielding.simulation.sources import Dealt, OnImages, check_scenario, dealt_samples
from fielding.simulation.trial import try_step
from fielding.simulation.vector_observer import Represent, VectorObserver
from fielding.traces.catalog import Source
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.rates import LearningRate
from fielding.training.trainer import Trainer, TrainingPath

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

    def is_histogram(self, config: Config) -> bool:
        """Return whether clients report label histograms."""
        return config.coordinator.representation == LABEL and self.represent is None


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
        layout = self.trainer.layout
        setting = MethodSetting(
            initial=initial,
            client_ids=self.dealt.schedule.client_ids,
            policy=self.policy,
            parts=self.parts,
            seed=self.config.seed,
            n_parameters=layout.parameter_size,
            n_head=sum(layout.sizes[max(0, layout.n_parameters - 2) : layout.n_parameters]),
            draw_model=self.trainer.initial_model,
            truth=self.clients.windows.concepts,
            n_visible=self.dealt.plan.n_visible,
        )
        section = self.config.method
        try:
            return method_named(kind_named(section.name, METHODS), setting, section.options)
        except OptionError as error:
            raise OptionError(f"method: {error}") from None


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
    kind = kind_of(config)
    drift_test = detector_of(config.coordinator)  # a mistake is told even if the method has a test of its own
    drift_test = drift_test if kind.detector is None else kind.detector(config.method.options)
    lie = lie_of(config, is_histogram=own.is_histogram(config))  # likewise, if nobody hears it
    policy = policy_of(config, is_histogram=own.is_histogram(config))
    check_scenario(config.trace)
    dealt = dealt_samples(
        config.trace, rounds=config.rounds, seed=config.seed, source=own.samples, on_images=own.on_images
    )
    trainer = trainer_of(config, own, dealt, path)
    # What all clients share comes again and again: they would be tested on what they trained on.
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan, looks_ahead=not config.trace.shared)
    if not windows.training(0).sizes.any():
        raise InputError("no client has a sample to train on at the start; give more samples, or a longer window")
    rule = local_rule(config)
    try_step(trainer, windows, rule)
    parts = parts_of(config, windows.n_clients, policy)
    # Whoever chooses by representations needs them, also where the method itself would do without.
    hears = heard(kind, config.method.options, windows.n_clients)
    hears = "drifted" if parts.selection.needs_reports and hears in ("nobody", "flags", "first") else hears
    observer = None if hears == "nobody" else observer_of(config, own, windows, drift_test)
    if observer is not None and lie is not None:
        observer = LyingObserver(observer, windows, lie=lie, seed=config.seed)
    clients = SimulatedClients(
        windows,
        observer,
        trainer,
        rule=rule,
        hardware=hardware_of(config, dealt),
        hears=hears,
        spoiling=spoiling_of(config, dealt.schedule),
        seed=config.seed,
        n_workers=n_workers,
    )
    return Simulation(config=config, dealt=dealt, trainer=trainer, clients=clients, policy=policy, parts=parts)


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


def observer_of(config: Config, own: Own, windows: SlidingWindows, drift_test: DriftTest) -> Observer:
    """Return who watches the clients."""
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
        moon=section.moon,
        moon_temperature=section.moon_temperature,
        rehearsal=section.rehearsal,
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
