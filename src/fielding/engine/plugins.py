"""The plug-ins that a config names, made with their options; a mistake is told with its section."""

from pathlib import Path

from fielding._typing import Json, Models
from fielding.config.keys import Config, CoordinatorSection
from fielding.config.rules import parse_factor
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy, trigger_named
from fielding.distance import Kind
from fielding.errors import CheckpointError, InputError, OptionError
from fielding.federation.aggregation import Aggregator, aggregator_named
from fielding.federation.pace import Pace, pace_named
from fielding.federation.selection import Selection, selector_named
from fielding.methods import Method, MethodKind, MethodSetting, Parts, kind_named, method_named
from fielding.methods.kinds import ReportsFrom, check_method_options, resolve_reports_from
from fielding.records.model_file import read_model
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule
from fielding.training.label_mix import LabelMixTrainer
from fielding.training.layout import Layout
from fielding.training.trainer import LearningRate, Trainer


def with_mix(config: Config, trainer: Trainer, n_classes: int) -> Trainer:
    """Return the trainer of models that carry their label mix, if clients correct for it; else the trainer itself.

    Parameters
    ----------
    config
        Says whether, and how fast the mix follows training.
    trainer
        Of models without a mix.
    n_classes
        Classes.
    """
    if config.serving.correction == "none":
        return trainer
    return LabelMixTrainer(trainer, n_classes, rate=config.serving.mix_rate, is_balanced=config.training.balanced)


POOL, GLOBAL = "pool", "global"
"""Trained on samples that the server holds out; the mean of all models after some rounds. Else it is a file."""


def file_model(section: CoordinatorSection, layout: Layout) -> Models:
    """Return the shared model of the file that a config names, or raise :class:`OptionError`.

    Parameters
    ----------
    section
        Of a config.
    layout
        What its numbers have to mean.

    Returns
    -------
    float32, shape ``(n_numbers,)``.
    """
    try:
        return read_model(Path(section.shared_model).expanduser(), layout)
    except (InputError, CheckpointError) as error:
        raise OptionError(f"coordinator.shared_model: {error}") from None


LEARNED = "learned"
"""In place of a number for tau: it is found out."""


def parts_of(config: Config, n_clients: int, policy: Policy) -> Parts:
    """Return the plug-ins that work with any method."""
    return Parts(
        participants=config.training.participants,
        selection=selection_of(config, n_clients, policy),
        aggregator=aggregator_of(config),
        pace=pace_of(config),
        weighted=config.training.weighted,
        strict_budget=config.training.strict_budget,
        n_steps=config.training.local_steps,
    )


def kind_of(config: Config) -> MethodKind:
    """Return what is known of the method of a config; an option that it does not have is named."""
    section = config.method
    kind = kind_named(section.name)
    try:
        check_method_options(kind, section.options)
    except OptionError as error:
        raise OptionError(f"method: {error}") from None
    return kind


def method_of(config: Config, setting: MethodSetting) -> Method:
    """Return the method that a config names, made of what a run gives it."""
    section = config.method
    try:
        return method_named(kind_named(section.name), setting, section.options)
    except OptionError as error:
        raise OptionError(f"method: {error}") from None


def rate_of(config: Config) -> LearningRate:
    """Return the learning rate of local steps, by round."""
    section = config.training
    return LearningRate(
        initial=section.learning_rate, decay=section.lr_decay, every=section.lr_every, floor=section.lr_floor
    )


def run_reports_from(config: Config, kind: MethodKind, selection: Selection, n_clients: int) -> ReportsFrom:
    """Return whose reports are heard: as the method says, unless the selection needs more."""
    reports_from = resolve_reports_from(kind, config.method.options, n_clients)
    return "drifted" if selection.needs_reports and reports_from in ("nobody", "flags", "first") else reports_from


def selection_of(config: Config, n_clients: int, policy: Policy) -> Selection:
    """Return who chooses participants."""
    try:
        selector = selector_named(config.selection.name, config.selection.options)
    except OptionError as error:
        raise OptionError(f"selection: {error}") from None
    return Selection(selector, n_clients, metric=policy.metric, kind=policy.kind)


def pace_of(config: Config) -> Pace:
    """Return how fast participants train."""
    try:
        return pace_named(config.pace.name, config.pace.options, seed=config.seed)
    except OptionError as error:
        raise OptionError(f"pace: {error}") from None


def aggregator_of(config: Config) -> Aggregator:
    """Return how the models of participants become one."""
    try:
        return aggregator_named(config.aggregation.name, config.aggregation.options)
    except OptionError as error:
        raise OptionError(f"aggregation: {error}") from None


def policy_of(config: Config, *, kind: Kind, metric: str) -> Policy:
    """Return the rules of the coordinator, for reports of a kind."""
    section = config.coordinator
    is_learned = section.tau == LEARNED and section.trigger == "center-shift"
    shift: dict[str, Json] = {"reference": section.reference, "noise_floor": section.noise_floor}
    if not is_learned:
        try:
            shift["tau"] = parse_factor(section.tau)
        except OptionError as error:
            raise OptionError(f"coordinator.tau: {error}") from None
    options: dict[str, dict[str, Json]] = {"center-shift": shift, "pairwise": {"step": section.delta_step}}
    # Fewer participants each would make a cluster's model the work of one or two clients (METHODS.md A7).
    k_max = max(1, min(section.k_max, config.training.participants // section.participants_per_cluster))
    try:
        return Policy(
            kind=kind,
            metric=metric,
            trigger=trigger_named("learned-tau" if is_learned else section.trigger, options.get(section.trigger)),
            clusterer=Clusterer(
                partitioner=section.partitioner,
                k_min=max(2, k_max) if section.k_choice == "finest" else 2,
                k_max=k_max,
                hysteresis=section.hysteresis,
                warm_start=section.warm_start,
            ),
            inherit=section.inherit,
            seed=config.seed,
        )
    except OptionError as error:
        raise OptionError(f"coordinator: {error}") from None


def serving_of(config: Config) -> Serving:
    """Return what clients do to the model that serves them."""
    section = config.serving
    try:
        return Serving(correction=section.correction, smoothing=section.smoothing, fine_tune=section.fine_tune)
    except OptionError as error:
        raise OptionError(f"serving: {error}") from None


def local_rule(config: Config) -> LocalRule:
    """Return how participants train."""
    section = config.training
    return LocalRule(
        n_steps=section.local_steps,
        batch_size=section.batch_size,
        rate=rate_of(config),
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        prox=section.prox,
        moon=section.moon,
        moon_temperature=section.moon_temperature,
        rehearsal=section.rehearsal,
        balanced=section.balanced,
    )
