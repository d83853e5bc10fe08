"""All parts of a simulation, put together as a config says; what does not fit is found before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fielding._typing import Counts, Models
from fielding.client.describing import Describing
from fielding.client.representation.combination import Combination
from fielding.client.representation.gradient import Gradient
from fielding.client.representation.representation import Representation
from fielding.config.keys import Config
from fielding.coordinator.policy import Policy
from fielding.engine.carried_mix import with_mix
from fielding.engine.describing import AUTO, describing_of, is_own_function
from fielding.engine.plugins import kind_of, local_rule, method_of, parts_of, policy_of, run_reports_from, serving_of
from fielding.engine.shared_models import POOL
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.methods import Method, MethodKind, MethodSetting, Parts
from fielding.methods.kinds import ReportsFrom
from fielding.records.model_file import read_model
from fielding.runtime.observe import Observer, Represent
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule
from fielding.simulation.attacks import Lie, LyingObserver, Spoiling, drawn_liars
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import AlwaysAvailable, Hardware, devices_of, read_availability
from fielding.simulation.observing import Watched, observer_of, without_held_out
from fielding.simulation.reports import SharedModel
from fielding.traces.catalog import Source
from fielding.traces.pool import Pool
from fielding.traces.schedule import Schedule
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt, OnImages, check_scenario, deal_samples
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.head import NO_HEAD, head_size
from fielding.training.label_mix import LABEL_MIX
from fielding.training.trainer import Contrast, LocalWork, Trainer, TrainingPath, try_scores, try_work


def trainer_of(
    config: Config, pool: Pool, *, model: Callable[..., Any] | None = None, path: TrainingPath | None = None
) -> Trainer:
    """Return the trainer of the model, sized by the samples.

    Parameters
    ----------
    config
        Names the model.
    pool
        The samples.
    model
        Makes a torch module instead: ``model(input_shape=..., n_classes=...)``.
    path
        How the trainer worked before, for a run that goes on.
    """
    is_own = model is not None or config.model.factory is not None
    request = ModelRequest(
        name=config.model.factory or config.model.name,
        factory=model,
        path=path,
        hidden=config.model.hidden,
        input_shape=pool.shape,
        n_classes=len(pool.classes),
        trainer="torch" if is_own else config.training.trainer,
        device=config.training.device,
    )
    try:
        return trainer_for(request)
    except OptionError as error:
        raise OptionError(f"model: {error}") from None


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
        contrast=_contrast(trainer, rule) if rule.moon else None,
    )
    try_work(trainer, work)


def try_look(trainer: Trainer, windows: SlidingWindows, representation: Representation | None) -> None:
    """Look at a sample with a model, as clients will that describe their windows with a shared one.

    Parameters
    ----------
    trainer
        Of models without a label mix.
    windows
        The samples.
    representation
        What stands for a window; None for a function of the user's own.

    Raises
    ------
    OptionError
        If the model shows no features, or a last layer is wanted that it does not have.
    """
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


def _contrast(trainer: Trainer, rule: LocalRule) -> Contrast:
    """Return the contrast of a client that has not trained before."""
    return Contrast(
        mu=rule.moon,
        temperature=rule.moon_temperature,
        previous=np.zeros((1, trainer.layout.size), dtype=np.float32),
        has_previous=np.zeros(1, dtype=np.bool_),
    )


def lie_of(config: Config, *, is_histogram: bool) -> Lie | None:
    """Return how some clients lie in their reports; None if all are honest."""
    section = config.trace
    try:
        lie = Lie(kind=section.lie, share=section.liars, is_histogram=is_histogram)
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None
    return lie if section.liars else None


def spoiling_of(config: Config, schedule: Schedule) -> Spoiling | None:
    """Return what liars do to the models that they send; None if nothing."""
    section = config.trace
    try:
        spoiling = Spoiling(
            attackers=drawn_liars(schedule.client_ids, section.liars, seed=config.seed), kind=section.spoil
        )
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None
    return spoiling if section.liars and section.spoil != "none" else None


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
            n_head=head_size(layout, len(self.dealt.pool.classes)),
            draw_model=self.trainer.initial_model,
            truth=self.clients.windows.concepts,
            n_visible=self.dealt.plan.n_visible,
            is_guarded=self.config.coordinator.representation == AUTO,
        )
        return method_of(self.config, setting)


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Wishes:
    """What a config alone tells, before any data are read."""

    kind: MethodKind
    describing: Describing
    lie: Lie | None
    policy: Policy
    serving: Serving


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ground:
    """What clients stand on: their samples, what they train, who listens to them and by a shared model or not."""

    dealt: Dealt
    parts: Parts
    reports_from: ReportsFrom
    is_seen: bool
    watched: Watched
    trainer: Trainer


def _assembled(config: Config, own: Own, n_workers: int, path: TrainingPath | None) -> Simulation:
    wishes = _wishes(config, own)
    ground = _ground(config, own, wishes, path)
    windows, trainer, rule = ground.watched.windows, ground.trainer, local_rule(config)
    try_step(trainer, windows, rule)
    parts = replace(ground.parts, n_shared=_n_shared(config, ground))
    observer = _observer(config, own, wishes, ground)
    heard_of = observer
    if wishes.lie is not None and observer is not None:
        heard_of = LyingObserver(observer, windows, lie=wishes.lie, seed=config.seed)
    clients = SimulatedClients(
        windows,
        heard_of,
        trainer,
        rule=rule,
        hardware=hardware_of(config, ground.dealt),
        reports_from=ground.reports_from,
        sharing=SharedModel(observer, rounds=config.coordinator.shared_rounds),
        spoiling=spoiling_of(config, ground.dealt.schedule),
        serving=wishes.serving,
        seed=config.seed,
        n_workers=n_workers,
    )
    return Simulation(
        config=config, dealt=ground.dealt, trainer=trainer, clients=clients, policy=wishes.policy, parts=parts
    )


def _wishes(config: Config, own: Own) -> _Wishes:
    """Return what the config says; a mistake is told even if the method never looks at that part."""
    kind = kind_of(config)
    is_own = own.represent is not None or is_own_function(config.coordinator)
    describing = describing_of(config.coordinator, is_own=is_own, seed=config.seed)
    lie = lie_of(config, is_histogram=describing.kind == "histogram")
    policy = policy_of(config, kind=describing.kind, metric=describing.metric)
    wishes = _Wishes(kind=kind, describing=describing, lie=lie, policy=policy, serving=serving_of(config))
    check_scenario(config.trace)
    return wishes


def _ground(config: Config, own: Own, wishes: _Wishes, path: TrainingPath | None) -> _Ground:
    """Read and deal the samples, and find out what is trained on them."""
    dealt = deal_samples(
        config.trace, rounds=config.rounds, seed=config.seed, source=own.samples, on_images=own.on_images
    )
    parts = parts_of(config, dealt.schedule.n_clients, wishes.policy)
    reports_from = run_reports_from(config, wishes.kind, parts.selection, dealt.schedule.n_clients)
    is_seen = reports_from != "nobody" and wishes.kind.detector is None and wishes.describing.needs_model
    needs_pool = is_seen and config.coordinator.shared_model == POOL
    dealt, held = without_held_out(config, dealt, needs_pool=needs_pool)
    plain = trainer_of(config, dealt.pool, model=own.model, path=path)
    # What all clients share comes again and again: they would be tested on what they trained on.
    windows = SlidingWindows(
        dealt.pool, dealt.schedule, dealt.plan, looks_ahead=not config.trace.shared, kept_aside=config.trace.kept_aside
    )
    if not windows.training(0).sizes.any():
        raise InputError("no client has a sample to train on at the start; give more samples, or a longer window")
    return _Ground(
        dealt=dealt,
        parts=parts,
        reports_from=reports_from,
        is_seen=is_seen,
        watched=Watched(windows=windows, trainer=plain, held=held),
        trainer=with_mix(config, plain, len(dealt.pool.classes)),
    )


def _observer(config: Config, own: Own, wishes: _Wishes, ground: _Ground) -> Observer | None:
    """Return who watches the clients; None if nobody listens."""
    if ground.reports_from == "nobody":
        return None
    detector = wishes.kind.detector
    own_test = None if detector is None else detector(config.method.options)
    if ground.is_seen:
        try_look(ground.watched.trainer, ground.watched.windows, wishes.describing.representation)
    return observer_of(config, wishes.describing, ground.watched, own.represent, own_test)


def _n_shared(config: Config, ground: _Ground) -> int:
    """Return how many numbers at the beginning of a model all clusters share: those before the last layer."""
    if not config.aggregation.shared_body:
        return 0
    layout = ground.trainer.layout
    n_head = head_size(layout, len(ground.dealt.pool.classes))
    if not n_head:
        raise OptionError(
            f"aggregation.shared_body is true, but {NO_HEAD}; let the module declare it last, or set it to false"
        )
    return layout.parameter_size - n_head


def initial_model(simulation: Simulation, init_from: Path | None) -> Models:
    """Return the model that training starts from: random, or that of a checkpoint."""
    if init_from is None:
        return simulation.trainer.initial_model(simulation.config.seed)
    return read_model(init_from, simulation.trainer.layout)
