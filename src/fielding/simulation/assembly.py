"""All parts of a simulation, put together as a config says; what does not fit is found before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fielding._typing import Models
from fielding.config.keys import Config
from fielding.coordinator.policy import Policy
from fielding.engine.carried_mix import with_mix
from fielding.engine.describing import AUTO, Describing, describing_of, is_own_function
from fielding.engine.plugins import hears_of, kind_of, method_of, parts_of, policy_of
from fielding.engine.shared_models import POOL
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.methods import Method, MethodKind, MethodSetting, Parts
from fielding.methods.kinds import Hears
from fielding.records.model_file import read_model
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.equipment import hardware_of, local_rule, serving_of, trainer_of
from fielding.simulation.lying import Lie, LyingObserver
from fielding.simulation.observers import Observer
from fielding.simulation.observing import Watched, observer_of, without_held_out
from fielding.simulation.plugins import lie_of, spoiling_of
from fielding.simulation.serving import Serving
from fielding.simulation.sharing import Sharing
from fielding.simulation.trial import try_look, try_step
from fielding.simulation.vector_observer import Represent
from fielding.traces.catalog import Source
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt, OnImages, check_scenario, dealt_samples
from fielding.training.head import NO_HEAD, head_size
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
    hears: Hears
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
        hears=ground.hears,
        sharing=Sharing(observer, rounds=config.coordinator.shared_rounds),
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
    dealt = dealt_samples(
        config.trace, rounds=config.rounds, seed=config.seed, source=own.samples, on_images=own.on_images
    )
    parts = parts_of(config, dealt.schedule.n_clients, wishes.policy)
    hears = hears_of(config, wishes.kind, parts.selection, dealt.schedule.n_clients)
    is_seen = hears != "nobody" and wishes.kind.detector is None and wishes.describing.needs_model
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
        hears=hears,
        is_seen=is_seen,
        watched=Watched(windows=windows, trainer=plain, held=held),
        trainer=with_mix(config, plain, len(dealt.pool.classes)),
    )


def _observer(config: Config, own: Own, wishes: _Wishes, ground: _Ground) -> Observer | None:
    """Return who watches the clients; None if nobody listens."""
    if ground.hears == "nobody":
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
