"""All parts of a simulation, put together as a config says; what does not fit is found before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Models
from fielding.coordinator.policy import Policy
from fielding.engine.config import Config
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.federation.selection import Selection
from fielding.methods import METHODS, Method, MethodKind, MethodSetting, Parts, kind_named, method_named
from fielding.methods.kinds import Hears, heard
from fielding.records.model_file import read_model
from fielding.simulation.availability import AlwaysAvailable, read_availability
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.describing import AUTO, describing_of, is_own_function
from fielding.simulation.devices import devices_of
from fielding.simulation.lying import LyingObserver
from fielding.simulation.observing import POOL, Watched, observer_of, without_held_out
from fielding.simulation.plugins import kind_of, lie_of, parts_of, policy_of, spoiling_of
from fielding.simulation.serving import Serving
from fielding.simulation.settings import Hardware, LocalRule
from fielding.simulation.sharing import Sharing
from fielding.simulation.sources import Dealt, OnImages, check_scenario, dealt_samples
from fielding.simulation.trial import try_step
from fielding.simulation.vector_observer import Represent
from fielding.traces.catalog import Source
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import MixKeepingTrainer
from fielding.training.layout import Layout
from fielding.training.rates import LearningRate
from fielding.training.trainer import Trainer, TrainingPath


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
        layout = self.trainer.layout
        setting = MethodSetting(
            initial=initial,
            client_ids=self.dealt.schedule.client_ids,
            policy=self.policy,
            parts=self.parts,
            seed=self.config.seed,
            n_parameters=layout.parameter_size,
            n_head=n_head(layout),
            draw_model=self.trainer.initial_model,
            truth=self.clients.windows.concepts,
            n_visible=self.dealt.plan.n_visible,
            is_guarded=self.config.coordinator.representation == AUTO,
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
    is_own = own.represent is not None or is_own_function(config.coordinator)
    # A mistake is told even if the method has a test of its own, or nobody hears it.
    describing = describing_of(config.coordinator, is_own=is_own, seed=config.seed)
    lie = lie_of(config, is_histogram=describing.kind == "histogram")
    policy = policy_of(config, kind=describing.kind, metric=describing.metric)
    serving = serving_of(config)
    check_scenario(config.trace)
    dealt = dealt_samples(
        config.trace, rounds=config.rounds, seed=config.seed, source=own.samples, on_images=own.on_images
    )
    parts = parts_of(config, dealt.schedule.n_clients, policy)
    hears = hears_of(config, kind, parts.selection, dealt.schedule.n_clients)
    is_seen = hears != "nobody" and kind.detector is None and describing.needs_model
    needs_pool = is_seen and config.coordinator.shared_model == POOL
    dealt, held = without_held_out(config, dealt, needs_pool=needs_pool)
    plain = trainer_of(config, own, dealt, path)
    trainer = with_mix(config, plain, len(dealt.pool.classes))
    # What all clients share comes again and again: they would be tested on what they trained on.
    windows = SlidingWindows(
        dealt.pool, dealt.schedule, dealt.plan, looks_ahead=not config.trace.shared, kept_aside=config.trace.kept_aside
    )
    if not windows.training(0).sizes.any():
        raise InputError("no client has a sample to train on at the start; give more samples, or a longer window")
    rule = local_rule(config)
    try_step(trainer, windows, rule)
    observer = None
    if hears != "nobody":
        own_test = None if kind.detector is None else kind.detector(config.method.options)
        watched = Watched(windows=windows, trainer=plain, held=held)
        observer = observer_of(config, describing, watched, own.represent, own_test)
    clients = SimulatedClients(
        windows,
        observer if lie is None or observer is None else LyingObserver(observer, windows, lie=lie, seed=config.seed),
        trainer,
        rule=rule,
        hardware=hardware_of(config, dealt),
        hears=hears,
        sharing=Sharing(observer, rounds=config.coordinator.shared_rounds),
        spoiling=spoiling_of(config, dealt.schedule),
        serving=serving,
        seed=config.seed,
        n_workers=n_workers,
    )
    parts = replace(parts, n_shared=n_body(trainer.layout) if config.aggregation.shared_body else 0)
    return Simulation(config=config, dealt=dealt, trainer=trainer, clients=clients, policy=policy, parts=parts)


def hears_of(config: Config, kind: MethodKind, selection: Selection, n_clients: int) -> Hears:
    """Return whose reports are heard: as the method says, unless the selection needs more."""
    hears = heard(kind, config.method.options, n_clients)
    return "drifted" if selection.needs_reports and hears in ("nobody", "flags", "first") else hears


def with_mix(config: Config, trainer: Trainer, n_classes: int) -> Trainer:
    """Return the trainer of models that carry the label mix that they were trained on, if clients correct for it."""
    if config.serving.correction == "none":
        return trainer
    return MixKeepingTrainer(trainer, n_classes, rate=config.serving.mix_rate, is_balanced=config.training.balanced)


def serving_of(config: Config) -> Serving:
    """Return what clients do to the model that serves them."""
    section = config.serving
    try:
        return Serving(correction=section.correction, smoothing=section.smoothing, fine_tune=section.fine_tune)
    except OptionError as error:
        raise OptionError(f"serving: {error}") from None


def n_head(layout: Layout) -> int:
    """Return how many parameters, at their end, are the last layer."""
    return sum(layout.sizes[max(0, layout.n_parameters - 2) : layout.n_parameters])


def n_body(layout: Layout) -> int:
    """Return how many parameters come before the last layer."""
    return layout.parameter_size - n_head(layout)


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
        balanced=section.balanced,
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
