"""The plug-ins that a config names, made with their options; the message of a mistake names its section."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from fielding._typing import Json, Models
from fielding.client.privacy.accountant import noise_for
from fielding.client.privacy.counts import is_summed, unit_of
from fielding.client.privacy.geometric import RandomWords
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.rule import PrivacyRule, gaussian_rule
from fielding.client.privacy.sums import LEAST_CLIENTS, SumRule, SumSchedule
from fielding.client.privacy.training import FOREVER, MODELS, PrivateTraining
from fielding.client.report_rule import ReportRule
from fielding.config.keys import Config, CoordinatorSection
from fielding.config.parts import imported_function
from fielding.config.rules import parse_factor
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy, trigger_named
from fielding.distance import Kind
from fielding.errors import CheckpointError, InputError, OptionError, echo
from fielding.federation.aggregation import aggregator_named
from fielding.federation.dp_fedavg import DpFedAvg
from fielding.federation.pace import pace_named
from fielding.federation.report_budget import ReportBudget
from fielding.federation.selection import Selection, selector_named
from fielding.methods import Method, MethodKind, MethodSetting, Parts, kind_named, method_named
from fielding.methods.kinds import ReportsFrom, check_method_options, resolve_reports_from
from fielding.records.model_file import read_model
from fielding.runtime.experts import expert_names
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import LabelMixTrainer
from fielding.training.layout import Layout
from fielding.training.trainer import LearningRate, Trainer, TrainingPath


@contextmanager
def mistakes_in(key: str) -> Iterator[None]:
    """Name a key or section of the config in the messages of an :class:`OptionError`."""
    try:
        yield
    except OptionError as error:
        raise OptionError(f"{key}: {error}") from None


def trainer_of(
    config: Config,
    input_shape: tuple[int, ...],
    n_classes: int,
    *,
    path: TrainingPath | None = None,
) -> Trainer:
    """Return the trainer of the model that a config names, for samples of a shape.

    A run that goes on gives the ``path`` that its trainer took before.
    """
    own, section = config.model.factory, config.training
    request = ModelRequest(
        name=config.model.name if own is None else own,
        path=path,
        hidden=config.model.hidden,
        input_shape=input_shape,
        n_classes=n_classes,
        trainer=section.trainer if own is None else "torch",
        device=section.device,
        loss=None if section.loss is None else imported_function(section.loss, key="training.loss"),
        optimizer=None if section.optimizer is None else imported_function(section.optimizer, key="training.optimizer"),
    )
    with mistakes_in("model"):
        return trainer_for(request)


def with_mix(config: Config, trainer: Trainer, n_classes: int) -> Trainer:
    """Return the trainer of models that carry their label mix, if clients correct for it; else the trainer itself."""
    if config.serving.correction == "none":
        return trainer
    return LabelMixTrainer(trainer, n_classes, rate=config.serving.mix_rate, is_balanced=config.training.balanced)


POOL, GLOBAL = "pool", "global"
"""Trained on samples that the server holds out; the mean of all models after some rounds. Else it is a file."""


def file_model(section: CoordinatorSection, layout: Layout) -> Models:
    """Return the shared model of the file that a config names, float32, shape ``(n_numbers,)``, or raise."""
    try:
        return read_model(Path(str(section.shared_model)).expanduser(), layout)
    except (InputError, CheckpointError) as error:
        raise OptionError(f"coordinator.shared_model: {error}") from None


RECORD, SAMPLE, CLIENT = "record", "sample", "client"
"""The modes of privacy: reports of clients carry noise, or only noised sums over clients are heard."""
DELTA = 1e-5  # of Gaussian noise, unless the config says
LEARNED = "learned"  # in place of a number for tau: it is found out


def parts_of(config: Config, n_clients: int, policy: Policy) -> Parts:
    """Return the plug-ins that work with any method."""
    with mistakes_in("selection"):
        selector = selector_named(config.selection.name, config.selection.options)
    with mistakes_in("aggregation"):
        aggregator = aggregator_named(config.aggregation.name, config.aggregation.options)
    with mistakes_in("pace"):
        pace = pace_named(config.pace.name, config.pace.options, seed=config.seed)
    return Parts(
        participants=config.training.participants,
        selection=Selection(selector, n_clients, metric=policy.metric, kind=policy.kind),
        aggregator=aggregator,
        pace=pace,
        weighted=config.training.weighted,
        strict_budget=config.training.strict_budget,
        n_steps=config.training.local_steps,
        clip=config.aggregation.clip or None,
    )


def kind_of(config: Config) -> MethodKind:
    """Return what is known of the method of a config; an option that it does not have is named."""
    section = config.method
    kind = kind_named(section.name)
    with mistakes_in("method"):
        check_method_options(kind, section.options)
    return kind


def method_of(config: Config, setting: MethodSetting) -> Method:
    """Return the method that a config names, made of what a run gives it."""
    if (private := sums_of(config)) is not None:
        from fielding.methods.private_fielding import PrivateFielding  # other runs need none of it

        rule, schedule = private
        return PrivateFielding(setting, rule=rule, schedule=schedule)
    with mistakes_in("method"):
        return method_named(kind_named(config.method.name), setting, config.method.options)


def run_reports_from(config: Config, kind: MethodKind, selection: Selection, n_clients: int) -> ReportsFrom:
    """Return which clients' reports are heard: as the method says, unless the selection needs more."""
    if sums_of(config) is not None:
        return "nobody"
    reports_from = resolve_reports_from(kind, config.method.options, n_clients)
    return "drifted" if selection.needs_reports and reports_from in ("nobody", "flags", "first") else reports_from


def report_budget_of(config: Config, usual: int | None = None) -> ReportBudget | None:
    """Return which clients are asked what is new; None if all are. ``usual``: the budget of one that names none."""
    budget = usual if config.reports.budget is None else config.reports.budget
    return ReportBudget(budget, by_silence=is_private(config)) if isinstance(budget, int) else None


def is_private(config: Config) -> bool:
    """Return whether something of what clients tell is private."""
    return any(one not in (None, "none") for one in (config.privacy.mode, config.privacy.training))


def refuse_label_mixes(config: Config) -> None:
    """Raise if models would bring along the label mixes that they were trained on, which are exact."""
    if config.serving.correction != "none":
        raise OptionError(
            f'privacy.mode is "{config.privacy.mode}", but serving.correction is {echo(config.serving.correction)}: '
            "with it, models tell the exact label mix of every client that trains them; set it to none"
        )


def window_rounds(config: Config) -> int:
    """Return the length of windows where budgets are counted by rounds; OptionError if windows go by time."""
    window = config.trace.window
    if isinstance(window, str):
        raise OptionError(
            f"trace.window is {echo(window)}, but what is private is counted by rounds; give trace.window in rounds"
        )
    return window


def span_of(config: Config) -> int:
    """Return how many rounds a sample stays visible: as many as the intervals that a window shows."""
    return -(-window_rounds(config) // config.trace.gap) * config.trace.gap


def privacy_of(config: Config, report_rule: ReportRule) -> PrivacyRule | None:
    """Return what reports tell of a sample at most; None if they are exact.

    Raises
    ------
    OptionError
        If there is no proof for what clients would report, or for when the method has them report.
    """
    section = config.privacy
    if section.mode != RECORD:
        return None
    refuse_label_mixes(config)
    if section.epsilon is None:
        raise OptionError('privacy.mode is "record", but privacy.epsilon is not given; set it, for example to 2')
    window = span_of(config)
    with mistakes_in("privacy.mode"):
        unit_of(report_rule.representation, report_rule.name)
        if config.coordinator.trigger == "pairwise":
            raise OptionError("trigger 'pairwise' compares single reports, whose noise would decide; take another one")
    kind = kind_of(config)
    if kind.detector is not None or kind.reports_from not in ("nobody", "drifted"):
        raise OptionError(
            f"privacy.mode: clients of method {config.method.name!r} report when their data or their turn to train "
            "say so, which would tell; take fielding, moves or always, or leave privacy out"
        )
    with mistakes_in("privacy"):
        epsilon, reports = Fraction(repr(section.epsilon)), section.reports_per_window or 1
        if not is_summed(report_rule.representation):
            return PrivacyRule(epsilon=epsilon, reports=reports, window=window)
        return gaussian_rule(
            epsilon=epsilon,
            delta=Fraction(repr(section.delta or DELTA)),
            reports=reports,
            window=window,
            max_norm=section.report_norm or 1.0,
        )


SAMPLING_RATE = 0.1  # unless the config says otherwise
PRIVATE_METHODS = ("fielding", "global", "moves", "always")
"""Methods whose clients train once a round and tell nothing else of their samples than reports."""
OF_MEANS = ("mean", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "flash")
"""Aggregations that see nothing of the updates but their mean."""


def private_training_of(config: Config) -> PrivateTraining | None:
    """Return the noise that training carries; None if it carries none.

    Raises
    ------
    OptionError
        If something else that clients send would tell what the noise hides.
    """
    section, training = config.privacy, config.training
    if section.training in (None, "none"):
        return None
    what = f'privacy.training is "{section.training}"'
    if section.training_epsilon is None:
        raise OptionError(f"{what}, but privacy.training_epsilon is not given; set it, for example to 8")
    if config.method.name not in PRIVATE_METHODS or config.method.options.get("guard"):
        raise OptionError(
            f"{what}, but clients of method {config.method.name!r} tell more of their samples than that hides; take "
            f"one of {', '.join(PRIVATE_METHODS)}, without a guard"
        )
    if kind_of(config).reports_from != "nobody" and section.mode in (None, "none"):
        raise OptionError(f'{what}, but reports are exact; set privacy.mode, or method.name = "global"')
    for key, value, plain in (
        ("selection.name", config.selection.name, "uniform"),
        ("pace.name", config.pace.name, "steady"),
        ("serving.experts", config.serving.experts, "none"),
        ("serving.correction", config.serving.correction, "none"),
        ("training.rehearsal", training.rehearsal, False),
        ("training.balanced", training.balanced, False),
        ("training.moon", training.moon, 0.0),
        ("coordinator.tau", LEARNED if config.coordinator.tau == LEARNED else None, None),
        ("own.train", config.own.train, None),
        ("aggregation.shared_body", config.aggregation.shared_body, False),
        *((("training.weighted", training.weighted, False),) if section.training == CLIENT else ()),
    ):
        if value != plain:
            raise OptionError(f"{what}, but {key} is {echo(value)}, which uses what noise should hide; leave it out")
    is_robust = section.training == CLIENT and config.aggregation.name not in OF_MEANS
    if is_robust or config.aggregation.name in ("q-fedavg", "wiener"):
        raise OptionError(
            f"{what}, but aggregation {config.aggregation.name!r} looks at single updates or losses; take one of "
            f"{', '.join(OF_MEANS)}"
        )
    window = span_of(config)
    n_steps, n_times = training.local_steps, min(section.trainings_per_window or window, window)
    if section.training == CLIENT:
        n_steps, n_times, window = 1, config.rounds, FOREVER
    delta, rate = section.delta or DELTA, section.sampling_rate or SAMPLING_RATE
    with mistakes_in("privacy"):
        noise = noise_for(section.training_epsilon, delta, rate=rate, n_steps=n_steps * n_times)
    return PrivateTraining(
        epsilon=section.training_epsilon,
        delta=delta,
        clip=section.max_norm or 1.0,
        noise=noise,
        rate=rate,
        n_times=n_times,
        window=window,
        n_steps=n_steps,
    )


def private_sums_of(
    config: Config,
    n_parameters: int,
    ledger: Path | None,
    *,
    words: Callable[[int, int], RandomWords],
    is_repeatable: bool,
) -> DpFedAvg | None:
    """Return the noise that the server adds to what models learn of clients; None if it adds none.

    ``ledger``: the file of the budget; ``words``, ``is_repeatable``: as in :class:`DpFedAvg` and
    :class:`PrivacyLedger`.
    """
    rule = private_training_of(config)
    if rule is None or config.privacy.training != CLIENT:
        return None
    budget = PrivacyLedger(ledger, rule.rule(MODELS), is_repeatable=is_repeatable)
    return DpFedAvg(rule=rule, ledger=budget, words=words, n_parameters=n_parameters)


def sums_of(config: Config) -> tuple[SumRule, SumSchedule] | None:
    """Return what noised sums tell of a client at most and when they are asked for; None if there are none.

    Raises
    ------
    OptionError
        If the method or the selection needs more of clients than that, or there is no proof for what they describe.
    """
    section, trace, coordinator = config.privacy, config.trace, config.coordinator
    if section.mode != CLIENT:
        return None
    refuse_label_mixes(config)
    with mistakes_in("privacy.mode"):
        if selector_named(config.selection.name, config.selection.options).needs_reports:
            raise OptionError(f"selection {config.selection.name!r} needs reports of single clients; take another one")
    if config.method.name == "global":
        return None
    if section.epsilon is None:
        raise OptionError('privacy.mode is "client", but privacy.epsilon is not given; set it, for example to 4')
    with mistakes_in("privacy.mode"):
        if config.method.name != "fielding" or config.method.options:
            raise OptionError(
                "only noised sums are heard of clients, which method fielding alone can do with, and without options; "
                "take that, or another mode"
            )
        if coordinator.representation != "label":
            raise OptionError(
                f"what one client changes is proven for sums of label shares alone, not of "
                f"{echo(coordinator.representation)}; take representation label, or another mode"
            )
    schedule = SumSchedule(
        rounds=config.rounds, gap=trace.gap, window=window_rounds(config), chooses_k=coordinator.k_choice != "finest"
    )
    with mistakes_in("privacy"):
        rule = SumRule(
            epsilon=section.epsilon,
            delta=section.delta or DELTA,
            releases=schedule.n_releases,
            id_epsilon=section.id_epsilon,
            choices=schedule.n_choices,
        )
    return rule, schedule


def check_fleet(config: Config, n_clients: int) -> None:
    """Raise if a config wants noised sums, and there are too few clients for them."""
    if sums_of(config) is not None and n_clients < LEAST_CLIENTS:
        raise OptionError(
            f'privacy.mode is "client", but there are {n_clients} clients: what is added to their sums would drown '
            f'them below about {LEAST_CLIENTS}; take mode "record"'
        )


def noise_variance_of(config: Config, report_rule: ReportRule) -> float:
    """Return the variance of the noise that clients add to each count of samples; 0 if reports are exact."""
    rule = privacy_of(config, report_rule)
    return 0.0 if rule is None else rule.noise_variance(unit_of(report_rule.representation))


def report_policy(config: Config, report_rule: ReportRule) -> Policy:
    """Return the rules of the coordinator for what clients report by a rule."""
    return policy_of(
        config,
        kind=report_rule.kind,
        metric=report_rule.metric,
        noise_variance=noise_variance_of(config, report_rule),
        has_shares=not is_summed(report_rule.representation),
    )


def policy_of(
    config: Config, *, kind: Kind, metric: str, noise_variance: float = 0.0, has_shares: bool = True
) -> Policy:
    """Return the rules of the coordinator, for reports of a kind; those with noise are vectors under L2."""
    section = config.coordinator
    if noise_variance:
        kind, metric = "vector", "l2"
    is_learned = section.tau == LEARNED and section.trigger == "center-shift"
    has_floor = section.noise_floor or noise_variance > 0.0
    shift: dict[str, Json] = {"reference": section.reference, "noise_floor": has_floor}
    if not is_learned:
        with mistakes_in("coordinator.tau"):
            shift["tau"] = parse_factor(section.tau)
    pairwise: dict[str, Json] = {"step": section.delta_step, "rule": section.delta_rule}
    options: dict[str, dict[str, Json]] = {"center-shift": shift, "pairwise": pairwise}
    # Fewer participants each would make a cluster's model the work of one or two clients (METHODS.md A7).
    k_max = max(1, min(section.k_max, config.training.participants // section.participants_per_cluster))
    with mistakes_in("coordinator"):
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
            # Noised reports lie far out without a lie.
            robust=section.robust and not noise_variance,
            seed=config.seed,
            noise_variance=noise_variance,
            has_shares=has_shares,
        )


def serving_of(config: Config) -> Serving:
    """Return what clients do to the model that serves them."""
    section = config.serving
    if section.correction == "predicted" and section.experts != "none":
        raise OptionError(
            'serving.experts need labels, which serving.correction = "predicted" does without; leave one of them out'
        )
    experts = expert_names(
        section.experts, is_corrected=section.correction != "none", has_heads=config.aggregation.shared_body
    )
    with mistakes_in("serving"):
        return Serving(
            correction=section.correction, smoothing=section.smoothing, fine_tune=section.fine_tune, experts=experts
        )


def local_rule(config: Config) -> LocalRule:
    """Return how participants train."""
    section = config.training
    return LocalRule(
        n_steps=section.local_steps,
        batch_size=section.batch_size,
        rate=LearningRate(
            initial=section.learning_rate, decay=section.lr_decay, every=section.lr_every, floor=section.lr_floor
        ),
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        prox=-section.prox if section.prox_sign == "fedscale" else section.prox,
        moon=section.moon,
        moon_temperature=section.moon_temperature,
        rehearsal=section.rehearsal,
        balanced=section.balanced,
        private=private_training_of(config) if config.privacy.training == SAMPLE else None,
    )
