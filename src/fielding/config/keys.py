"""Every key of a run's config, with its default. Sections are plain data; nothing here does anything."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from fielding._typing import Json
from fielding.config.parts import BY_KIND, CORRECTIONS, LAYOUTS, METHOD_ALIASES, PLACES, TRAINERS
from fielding.config.presets import PRESETS
from fielding.config.rules import Key, declared_keys, key
from fielding.distance import METRICS

PROX_SIGNS = ("toward", "fedscale")
K_CHOICES = ("silhouette", "finest")
PRIVACY_MODES = ("none", "record", "client")
PRIVATE_TRAININGS = ("none", "sample", "client")
DETECTORS = (*PLACES["drift test"], *PLACES["sample test"], BY_KIND)
"""Drift tests on reports, and those on samples as the shared model sees them."""

OPTION_SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "trace": ("scenario", ("scenario",)),
    "method": ("name", ("method",)),
    "coordinator": ("detector", ("drift test", "sample test", "test by kind", "representation")),
    "selection": ("name", ("selection",)),
    "aggregation": ("name", ("aggregation",)),
    "pace": ("name", ("pace",)),
    "own": ("train", ()),
}
"""Sections in which the options of a part stand beside the keys: the key that names the part, and its families.

Without families the part is the user's own, and may have any option.
"""

_TRIGGERED = ("fielding", "selected")
_GROUPED = (*_TRIGGERED, "moves", "always", "static")
"""Methods that decide by a trigger, and methods that group clients as ``[coordinator]`` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSection:
    """Where the data come from and how they drift."""

    name: str = key("digits", "a known data set (`fielding data list`)")
    file: str | None = key(
        None, "a trace or pool of one's own instead: .npz, .csv[.gz], .parquet, or a folder of images"
    )
    data: str | None = key(None, "folder of the known data sets; FIELDING_DATA by default")
    clients: int | None = key(
        None, "a pool is dealt to so many clients (100 by default); of a natural trace the most active", low=1
    )
    scenario: str | None = key(None, "how a pool drifts, or natural; places for a pool by default")
    samples: int = key(
        20, "samples that reach a client in an interval, where a scenario deals them", low=1, used_with=("scenario",)
    )
    gap: int = key(20, "rounds between arrivals of data", low=1, high=1_000_000)
    window: int | str = key(
        100,
        "rounds that a sample stays visible, and rounds' worth of data at the start; or a length of time, e.g. 14d",
        low=1,
        high=1_000_000,
    )
    interval: str | None = key(
        None, "natural traces: real time between arrivals, e.g. 6h, 1d, month", used_with=("times", "intervals")
    )
    align: str | None = key(
        None, "natural traces: calendar (real dates) or client (each one's own start)", used_with=("times", "intervals")
    )
    block: str | None = key(
        None,
        "natural traces: a block of time is all train or all test, e.g. 1h; none: each sample by itself; "
        "by default as the data set has it, or as measured",
        used_with=("times", "intervals"),
    )
    fold: int | str = key(
        0,
        "natural traces: which of five blocks in a row is tested, 0 to 4; seed: another one for every seed",
        used_with=("times", "intervals"),
    )
    last: str | None = key(None, "natural traces: keep only the last so much time, e.g. 1050d", used_with=("times",))
    client: str = key("client", "CSV traces: the column that says who", used_with=("file",))
    time: str = key("time", "CSV traces: the column that says when", used_with=("file",))
    label: str = key("label", "CSV traces: the column that says what", used_with=("file",))
    text: str | None = key(None, "CSV traces: a column of text, hashed to features", used_with=("file",))
    features: str | None = key(None, "CSV, Parquet: columns of numbers or categories, with commas", used_with=("file",))
    standardize: bool = key(False, "features minus mean over spread, as the training samples at the start have them")
    image_size: int = key(
        32,
        "folders of images: height and width that all are brought to",
        low=1,
        high=4096,
        used_with=("file", "images"),
    )
    layout: str | None = key(
        None, "folders of images: what the folders are; seen by default", choices=LAYOUTS, used_with=("file", "images")
    )
    shared: int = key(0, "samples that all clients have, beside their own, at any time", low=0)
    held_out: int | None = key(
        None,
        "samples of each class that no client gets, for a shared model; 200 by default where one is trained on them",
        low=0,
    )
    liars: float = key(0.0, "share of clients that lie in their reports", low=0.0, high=1.0)
    lie: str = key("permute", "how they lie (docs/attacks.md)", used_with=("liars",))
    spoil: str = key(
        "none", "what liars do to the models that they send: none, sign-flip, scale, nan", used_with=("liars",)
    )
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSection:
    """What is trained."""

    name: str = key("mlp", 'softmax or mlp; with trainer = "torch" also cnn, resnet18, shufflenet-v2, vit-b16')
    factory: str | None = key(None, "a function of one's own that makes a torch module: my_module:build")
    hidden: int = key(64, "mlp: width of the hidden layer", low=1, high=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSection:
    """How clients train."""

    trainer: str = key("numpy", "who computes", choices=TRAINERS)
    device: str = key("cpu", "torch: cpu, cuda, cuda:1, mps")
    participants: int = key(20, "per round, over all clusters", low=1)
    local_steps: int = key(20, "steps of a participant in a round", low=1, high=1_000_000)
    batch_size: int = key(20, "samples of a step", low=1, high=1_000_000)
    learning_rate: float = key(0.05, "of the first round", above=0.0)
    lr_decay: float = key(1.0, "factor on the learning rate every lr_every rounds", above=0.0, high=1.0)
    lr_every: int = key(10, "rounds between two decays", low=1)
    lr_floor: float = key(0.0, "the learning rate never falls below", low=0.0)
    momentum: float = key(0.0, "of a participant's steps, forgotten after the round", low=0, high=0.9999)
    weight_decay: float = key(0.0, "pull of all weights towards zero", low=0.0)
    prox: float = key(0.1, "FedProx: pull towards the model that the round started from", low=0.0)
    prox_sign: str = key(
        "toward", "FedProx: pull toward that model, or away from it as FedScale's code does", choices=PROX_SIGNS
    )
    moon: float = key(0.0, "MOON: weight of the contrastive part of the loss; 0 for none", low=0.0)
    moon_temperature: float = key(0.5, "MOON: how sharply likeness is judged", above=0.0, used_with=("moon",))
    rehearsal: bool = key(False, "CDA-FedAvg: clients that noticed drift also train on samples they kept from before")
    balanced: bool = key(
        False,
        "add the logarithm of a client's label mix to its scores inside the loss, so that models do not learn mixes",
    )
    loss: str | None = key(
        None, "torch modules: a function of one's own in place of cross-entropy, loss(scores, labels): my_module:loss"
    )
    optimizer: str | None = key(
        None, "torch modules: a function that makes the optimizer, in place of SGD, of parameters and learning rate"
    )
    weighted: bool = key(False, "whether a participant counts by its number of samples")
    strict_budget: bool = key(False, "leave a small cluster's unused slots empty instead of giving them to others")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSection:
    """Which method groups the clients."""

    name: str = key(
        "fielding",
        "the method (`fielding methods`), or one of one's own: my_module:MyMethod",
        choices=PLACES["method"],
        aliases=METHOD_ALIASES,
        elsewhere={name: f'{name} is a preset; write preset = "{name}" above all sections' for name in PRESETS},
        is_open=True,
    )
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSection:
    """What clients report, and what the coordinator makes of it."""

    representation: str = key(
        "label", "what stands for a window (docs/representations.md), or a function of one's own: my_module:describe"
    )
    shared_model: str | None = key(
        None,
        "the frozen model behind representations: pool (trained on trace.held_out), global, or a model file; by "
        "default pool where a scenario deals the samples, and global on natural traces",
        used_with=("shared model",),
    )
    shared_epochs: int = key(
        30, "pool: passes over them", low=1, high=100_000, used_with=("shared model", "pool model")
    )
    shared_rounds: int = key(
        5,
        "global: rounds after which the mean of all models is frozen and sent out",
        low=1,
        used_with=("shared model", "global model"),
    )
    metric: str | None = key(
        None,
        "distance between representations; by default the one that suits them",
        choices=METRICS,
        used_with=("exact reports",),
    )
    detector: str | None = key(
        None,
        "when a client reports; by default by the test that suits the representation",
        choices=DETECTORS,
        used_with=("exact reports",),
    )
    trigger: str = key("center-shift", "when to group everyone anew", choices=PLACES["trigger"], used_by=_TRIGGERED)
    tau: float | str = key(
        1 / 3,
        "center-shift: factor of the mean distance between centers; a number, 1/3, inf or learned",
        used_by=_TRIGGERED,
    )
    reference: str = key(
        "previous", "center-shift: measured since", choices=("previous", "last-global"), used_by=_TRIGGERED
    )
    noise_floor: bool = key(
        False,
        "center-shift: a shift that sampling alone can explain never counts; needs the number of samples",
        used_by=_TRIGGERED,
    )
    delta_step: float = key(
        0.1, "pairwise: where the bound on distances within a cluster starts", above=0.0, used_by=_TRIGGERED
    )
    delta_rule: str = key(
        "max",
        "pairwise: how the bound falls by c = delta_step: max(c, Delta - c), or the paper's letter min(c, Delta - c)",
        choices=("max", "min"),
        used_by=_TRIGGERED,
    )
    partitioner: str = key("kmeans", "how to group", choices=PLACES["partitioner"], used_by=_GROUPED)
    k_max: int = key(10, "most clusters", low=1, used_by=(*_GROUPED, "fedac"))
    k_choice: str = key(
        "silhouette", "how many clusters: by silhouette, or finest: k_max", choices=K_CHOICES, used_by=_GROUPED
    )
    participants_per_cluster: int = key(
        4, "there are no more clusters than so many participants each allow", low=1, used_by=(*_GROUPED, "fedac")
    )
    hysteresis: float = key(
        0.0, "keep the number of clusters unless the silhouette gains more", low=0.0, used_by=_GROUPED
    )
    warm_start: bool = key(False, "start k-means from the current centers, too", used_by=_GROUPED)
    robust: bool = key(
        True,
        "few clients with far reports neither hide groups from the choice of K nor move centers",
        used_by=_GROUPED,
    )
    inherit: str = key(
        "average", "what a new cluster's model is made of", choices=PLACES["inheritance"], used_by=_GROUPED
    )
    reports: str = key("before-round", "when reports act", choices=("before-round", "with-training"))
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsSection:
    """Which clients are asked what is new."""

    budget: int | str | None = key(
        None,
        "clients that are asked in a round beside its participants, without waiting for them; by default all in the "
        "simulator, and 4 for each participant, at least 20, on Flower",
        low=1,
        choices=("all",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySection:
    """What reports, groups and training tell of a sample or a client at most (docs/privacy.md)."""

    mode: str | None = key(
        None,
        "none; record: clients report noised counts by a schedule that does not depend on their data; "
        "client: only noised sums over 1,000 clients or more are heard",
        choices=PRIVACY_MODES,
    )
    epsilon: float | None = key(
        None,
        "record: what all reports together tell of a sample at most; client: what the run tells of a client; "
        "smaller is more private",
        above=0.0,
        high=1000.0,
        used_with=("privacy",),
    )
    reports_per_window: int | None = key(
        None,
        "record: how often a client reports while a sample is visible; 1 by default, more have more noise each",
        low=1,
        used_with=("privacy", "private reports"),
    )
    id_epsilon: float | None = key(
        None,
        "client: what the cluster that a client asks for tells each time (randomised response); in clear by default",
        above=0.0,
        high=30.0,
        used_with=("privacy", "noised sums"),
    )
    report_norm: float | None = key(
        None,
        "record: length that embeddings or gradients of samples are cut down to before they are summed; 1 by default",
        above=0.0,
        used_with=("privacy", "private reports"),
    )
    training: str | None = key(
        None,
        "none; sample: noise on clipped gradients of samples (DP-SGD); client: noise on clipped updates of clients, "
        "added once by the server (DP-FedAvg)",
        choices=PRIVATE_TRAININGS,
    )
    training_epsilon: float | None = key(
        None,
        "what all training tells at most: of a sample while it is visible, or of a client in the whole run",
        above=0.0,
        high=1000.0,
        used_with=("private training",),
    )
    delta: float | None = key(
        None,
        "the probability with which Gaussian noise may tell more; 1e-5 by default",
        above=0.0,
        high=0.1,
        used_with=("Gaussian noise",),
    )
    max_norm: float | None = key(
        None,
        "length that the gradient of a sample, or the update of a client, is cut down to; 1 by default",
        above=0.0,
        used_with=("private training",),
    )
    sampling_rate: float | None = key(
        None,
        "probability with which a sample is drawn for a step, or a client for a round, in place of training.batch_size "
        "or training.participants; 0.1 by default",
        above=0.0,
        high=1.0,
        used_with=("private training",),
    )
    trainings_per_window: int | None = key(
        None,
        "sample: in how many rounds a client may train while a sample is visible; in all by default, fewer have less "
        "noise",
        low=1,
        used_with=("private training",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSection:
    """Who trains."""

    name: str = key("uniform", "how participants are chosen", choices=PLACES["selection"], is_open=True)
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationSection:
    """How models become one."""

    name: str = key("mean", "how the models of participants become one", choices=PLACES["aggregation"], is_open=True)
    shared_body: bool = key(False, "all clusters share all but the last layer of their models", used_with=("body",))
    clip: float = key(
        3.0,
        "changes longer than so many times the usual one of their cluster are shortened to that; 0: none",
        low=0.0,
    )
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceSection:
    """How fast clusters train."""

    name: str = key("steady", "what decides on a factor on the learning rate of each cluster", choices=PLACES["pace"])
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSection:
    """What clients do to the model that serves them."""

    correction: str = key(
        "none",
        "shift scores from the label mix that a model was trained on to the client's: by its labels, or by predictions",
        choices=CORRECTIONS,
    )
    smoothing: float | str = key(
        "calibrated",
        "samples that the model's mix counts for beside the client's own; a number, or calibrated",
        used_with=("correction",),
    )
    mix_rate: float = key(
        0.2,
        "how fast the mix that a model was trained on follows its rounds",
        above=0.0,
        high=1.0,
        used_with=("correction",),
    )
    experts: str | tuple[str, ...] = key(
        "none", "what reads a client's samples beside the model that serves it: auto, none, or a list of experts"
    )
    fine_tune: int = key(0, "local steps of a client on the model that serves it, for a second score", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSection:
    """How fast devices are."""

    profile: str = key("synthetic", "synthetic, synthetic-slow, uniform, or a CSV file with ms_per_sample, kbps")
    availability: str | None = key(None, "CSV file with client, start_s, stop_s; everyone is always there by default")
    overcommit: float = key(1.3, "how many are asked for each answer that is wanted", low=1, high=100)
    barrier: str = key(
        "event",
        "when clusters wait for each other: when data arrive or reports act, or in every round",
        choices=("event", "round"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSection:
    """When clients are tested."""

    every: int = key(5, "rounds between two evaluations; the last round is always evaluated", low=1)
    clients: int | None = key(
        None, "clients tested, drawn anew for each evaluation; all by default, in a simulation 20,000 at most", low=1
    )
    metrics: dict[str, str] | None = key(  # noqa: RUF009
        None, 'what else is measured, by name: {f1 = "fielding.metrics:f1"}, or a function of one\'s own'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSection:
    """Code of one's own for training and tests."""

    train: str | None = key(None, "a function that trains a model, in place of Fielding: my_module:train", is_open=True)
    evaluate: str | None = key(None, "a function that tests a model; needed with train")
    embed: str | None = key(None, "a function that gives features and scores of samples, where more than labels counts")
    options: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSection:
    """When a run can go on from."""

    every: int | None = key(
        None, "rounds between two checkpoints; by default as often as takes a fiftieth of the time", low=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A whole run as data."""

    preset: str | None = key(None, "a set of other defaults", choices=PRESETS)
    seed: int = key(1, "of all random choices", low=0, high=2**63 - 1)
    rounds: int = key(200, "how many", low=1, high=100_000_000)
    stop_at_accuracy: float | None = key(None, "stop after the first evaluation that reaches it", above=0.0, high=1.0)
    stop_at_time_s: float | None = key(None, "stop when so much simulated time has passed", above=0.0)
    workers: int | None = key(
        None,
        "threads that train, or actors on Ray; all cores by default; changes nothing but the time",
        low=1,
        high=1024,
    )
    trace: TraceSection = field(default_factory=TraceSection)
    model: ModelSection = field(default_factory=ModelSection)
    training: TrainingSection = field(default_factory=TrainingSection)
    method: MethodSection = field(default_factory=MethodSection)
    coordinator: CoordinatorSection = field(default_factory=CoordinatorSection)
    reports: ReportsSection = field(default_factory=ReportsSection)
    privacy: PrivacySection = field(default_factory=PrivacySection)
    selection: SelectionSection = field(default_factory=SelectionSection)
    aggregation: AggregationSection = field(default_factory=AggregationSection)
    pace: PaceSection = field(default_factory=PaceSection)
    serving: ServingSection = field(default_factory=ServingSection)
    clock: ClockSection = field(default_factory=ClockSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    checkpoint: CheckpointSection = field(default_factory=CheckpointSection)
    own: OwnSection = field(default_factory=OwnSection)


SECTIONS: dict[str, Any] = {one.name: one.type for one in fields(Config) if is_dataclass(one.type)}
"""The sections by name."""
KEYS: dict[str, Key] = {
    one.path: one
    for name, family in {"": Config, **SECTIONS}.items()
    for one in declared_keys(family, f"{name}." if name else "")
}
"""Every key by its path, first those without a section."""
