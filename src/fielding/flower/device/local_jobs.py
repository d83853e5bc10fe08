"""Training and testing on a device with Fielding's own trainers: the draws and steps that the simulator would make."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from fielding._typing import ClientId, Counts, Json, Matrix, Models
from fielding.errors import InputError, echo
from fielding.federation.clients import Pull
from fielding.flower.device.samples import NOTHING, DeviceNode, Job, Kept
from fielding.flower.wire.orders import EvaluateOrder, TrainOrder
from fielding.rng import Hashes, client_key
from fielding.serving.correction import CALIBRATED, CORRECTIONS, balancing_offsets
from fielding.training.batches import drawn_positions
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.head import Judged
from fielding.training.label_mix import LABEL_MIX, MixKeepingTrainer
from fielding.training.layout import Layout
from fielding.training.trainer import Contrast, LocalWork, Scores, Sgd, Trainer

_SIZES = ("classes", "hidden", "batch_size")
_TEXTS = ("model", "trainer", "device")
_FLAGS = ("balanced", "rehearsal")


def checked_setting(name: str, value: Json) -> Json:
    """Return a setting, or raise.

    Examples
    --------
    >>> checked_setting("mix_rate", 2.0)
    Traceback (most recent call last):
    fielding.errors.InputError: mix_rate in the settings of an order is 2.0; look at the server's config
    """
    if not _fits(name, value):
        raise InputError(f"{name} in the settings of an order is {echo(value)}; look at the server's config")
    return value


def _fits(name: str, value: Json) -> bool:
    if name == "client":
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    if name in _SIZES:
        return type(value) is int and 1 <= value < 2**31
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _FLAGS:
        return isinstance(value, bool)
    if name == "fine_tune":
        return type(value) is int and 0 <= value < 2**31
    if name == "correction":
        return value in CORRECTIONS
    return _is_number(name, value) or (name == "smoothing" and value == CALIBRATED)


def _is_number(name: str, value: Json) -> bool:
    """Return whether a setting is a number in its range."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if name == "moon_temperature":
        return 0 < value < float("inf")
    return 0 <= value <= 1 if name == "mix_rate" else 0 <= value < float("inf")


ModelFactory = Callable[..., object]
"""Makes a torch module: ``factory(input_shape=..., n_classes=...)``."""
Scorer = Callable[[Models, Kept], tuple[int, float]]
"""Returns how many samples a model gets right, and its mean loss; there is at least one sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What the server says in the settings of its orders; a device draws as this client and steps by this rule.

    Parameters
    ----------
    client
        Who is asked, as the server knows it: draws depend on it. A device with keys cannot find out by itself.
    classes
        How many there are.
    model, hidden, trainer, device
        As in :class:`~fielding.training.factory.ModelRequest`; one's own training code takes no notice.
    batch_size
        Samples of a step.
    learning_rate, rate_factor
        Of this round, and the factor on it.
    momentum, weight_decay, prox
        As in :class:`~fielding.training.trainer.Sgd`.
    balanced
        Whether the logarithm of the label mix is added to the scores inside the loss.
    fine_tune
        Steps that a device takes on the model that serves it before it is tested once more; 0: it is not.
    correction, smoothing
        How the device corrects models that serve it, see :mod:`fielding.serving.correction`; models carry their
        label mix then.
    mix_rate
        How fast that follows training.
    moon, moon_temperature
        Of MOON, see :class:`~fielding.training.trainer.Contrast`; 0: the device keeps no model that it trained.
    rehearsal
        Whether the device watches how confident models are, and trains on samples from before it was alarmed, too.

    Examples
    --------
    >>> JobSettings(client=3, classes=10, batch_size=5).record()
    {'client': 3, 'classes': 10, 'batch_size': 5}
    >>> settings_from({"client": "a", "classes": 2, "momentum": 0.9}).momentum
    0.9
    """

    client: ClientId
    classes: int
    model: str = "mlp"
    hidden: int = 64
    trainer: str = "numpy"
    device: str = "cpu"
    batch_size: int = 20
    learning_rate: float = 0.05
    rate_factor: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    prox: float = 0.0
    balanced: bool = False
    fine_tune: int = 0
    correction: str = "none"
    smoothing: float | str = CALIBRATED
    mix_rate: float = 0.2
    moon: float = 0.0
    moon_temperature: float = 0.5
    rehearsal: bool = False

    @property
    def is_corrected(self) -> bool:
        """Whether the device corrects models."""
        return self.correction != "none"

    def record(self) -> dict[str, Json]:
        """Return the settings as an order holds them; what is as usual takes no room."""
        usual = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    def job(self, order: TrainOrder, node: DeviceNode) -> Job:
        """Return what a user's own training code is told."""
        return Job(
            round_index=order.round_index,
            n_steps=order.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate * self.rate_factor,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            prox=self.prox,
            seed=order.seed,
            node=node,
        )


def settings_from(record: Mapping[str, Json]) -> JobSettings:
    """Return the settings of an order, or raise if one is missing, unknown or of another type."""
    known = {field.name: field for field in fields(JobSettings)}
    if unknown := sorted(record.keys() - known.keys()):
        raise InputError(f"the settings of an order name {echo(unknown[0])}; this release knows {', '.join(known)}")
    if missing := [name for name in ("client", "classes") if name not in record]:
        raise InputError(f"the settings of an order lack {missing[0]!r}; use the same release on server and clients")
    return JobSettings(**{name: checked_setting(name, value) for name, value in record.items()})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """A trained model: float32, shape ``(n_numbers,)``; samples at hand, mean loss and mean of its square.

    ``start``: which of several models it was trained from; None if there was but one.
    """

    model: Models
    n_samples: int
    loss: float
    square_loss: float
    start_loss: float | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """What training takes into account beside a model and the samples of a window; nothing, most of the time.

    Parameters
    ----------
    remembered
        Earlier samples that are trained on, too.
    previous
        The model that the device trained last, for MOON; None: there is none.
    offsets
        What is added to scores of classes inside the loss, shape ``(1, n_classes)``, in place of what the settings say.
    keys
        What draws depend on, shape ``(1,)``; None for the client's id.
    """

    remembered: Kept = NOTHING
    previous: Models | None = None
    offsets: Scores | None = None
    keys: Hashes | None = None


def trained_here(
    order: TrainOrder, samples: Kept, *, factory: ModelFactory | None = None, beside: Beside | None = None
) -> Training:
    """Return what a round of local steps gives, as one participant of the simulator would.

    Parameters
    ----------
    order
        The model to start from, and how to train it.
    samples
        What may be trained on, at least one, in the order of arrival.
    factory
        Makes the module in place of the one that the settings name.
    beside
        What else counts; None: nothing.
    """
    settings, beside = settings_from(order.settings), beside or Beside()
    at_hand = beside.remembered.followed_by(samples)
    trainer = trainer_here(order.layout, settings, at_hand, factory)
    work = LocalWork(
        models=order.model[np.newaxis],
        start=np.zeros(1, dtype=np.int64),
        draws=_draws(order, settings, at_hand.y.size, beside.keys),
        gather=lambda rows: (at_hand.x[rows], at_hand.y[rows]),
        sgd=Sgd(
            learning_rate=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            prox=settings.prox,
        ),
        rate_factors=None if settings.rate_factor == 1.0 else np.array([settings.rate_factor]),
        pull=_pull(order),
        contrast=_contrast(settings, beside.previous),
        offsets=beside.offsets,
    )
    done = trainer.train(_with_labels(work, order.layout, settings, at_hand))
    return Training(
        model=done.models[0],
        n_samples=int(at_hand.y.size),
        loss=float(done.loss[0]),
        square_loss=float(done.square_loss[0]),
        start_loss=_score(trainer, order.model, samples)[1] if order.with_start_loss else None,
    )


def _draws(order: TrainOrder, settings: JobSettings, n_samples: int, keys: Hashes | None) -> Counts:
    return drawn_positions(
        np.array([n_samples]),
        keys=np.array([client_key(settings.client)], dtype=np.uint64) if keys is None else keys,
        moment=(order.seed, order.round_index),
        shape=(order.n_steps, settings.batch_size),
    )


def _with_labels(work: LocalWork, layout: Layout, settings: JobSettings, samples: Kept) -> LocalWork:
    """Return work with what the labels of its samples change: scores inside the loss, the mix that a model carries."""
    mixes = label_shares(samples, settings.classes)
    if settings.balanced and work.offsets is None:
        work = replace(work, offsets=balancing_offsets(mixes, np.array([samples.y.size])))
    return replace(work, mixes=mixes.astype(np.float32)) if LABEL_MIX in layout.names else work


def label_shares(samples: Kept, n_classes: int) -> Matrix:
    """Return the share of each label in samples, at least one, shape ``(1, n_classes)``."""
    return np.asarray(np.bincount(samples.y, minlength=n_classes)[np.newaxis] / samples.y.size)


def _contrast(settings: JobSettings, previous: Models | None) -> Contrast | None:
    """Return the contrast with the model that the device trained last."""
    if previous is None or not settings.moon:
        return None
    return Contrast(
        mu=settings.moon,
        temperature=settings.moon_temperature,
        previous=previous[np.newaxis],
        has_previous=np.ones(1, dtype=np.bool_),
    )


def _pull(order: TrainOrder) -> Pull | None:
    """Return the pull of an order, as a trainer takes it."""
    if order.pull is None:
        return None
    anchor = np.zeros((1, order.model.size), dtype=np.float32)
    anchor[0, : order.pull.anchor.size] = order.pull.anchor
    row = np.zeros(1, dtype=np.int64)
    return Pull(anchors=anchor, row=row, strength=order.pull.strength(order.model.size))


def scored_here(order: EvaluateOrder, samples: Kept, *, factory: ModelFactory | None = None) -> tuple[int, float]:
    """Return how many samples a model gets right, and its mean loss; there is at least one sample."""
    trainer = trainer_here(order.layout, settings_from(order.settings), samples, factory)
    return _score(trainer, order.model, samples)


def sample_scores(trainer: Trainer, model: Models, samples: Kept) -> Judged:
    """Return loss and correctness of samples, at least one, a bounded number of them at a time."""
    chunk = trainer.path.eval_chunk
    parts = [
        trainer.scores(model, samples.x[first : first + chunk], samples.y[first : first + chunk])
        for first in range(0, samples.y.size, chunk)
    ]
    return np.concatenate([losses for losses, _ in parts]), np.concatenate([right for _, right in parts])


def summed_up(found: Judged) -> tuple[int, float]:
    """Return how many samples are right, and the mean loss of all, at least one."""
    losses, right = found
    return int(right.sum()), float(losses.astype(np.float64).sum() / losses.size)


def _score(trainer: Trainer, model: Models, samples: Kept) -> tuple[int, float]:
    return summed_up(sample_scores(trainer, model, samples))


def trainer_here(layout: Layout, settings: JobSettings, samples: Kept, factory: ModelFactory | None) -> Trainer:
    """Return the trainer of the model that came, or raise if it is another one than the settings describe."""
    request = ModelRequest(
        name=settings.model,
        factory=factory,
        input_shape=tuple(samples.x.shape[1:]),
        n_classes=settings.classes,
        trainer=settings.trainer if factory is None else "torch",
        device=settings.device,
        hidden=settings.hidden,
    )
    if (label := samples.y.max()) >= settings.classes:
        raise InputError(f"a sample has label {label}, but the server's model knows {settings.classes} classes")
    trainer = trainer_for(request)
    if LABEL_MIX in layout.names:
        trainer = MixKeepingTrainer(trainer, settings.classes, rate=settings.mix_rate, is_balanced=settings.balanced)
    if trainer.layout != layout:
        raise InputError(
            f"the server sent a model of {layout.size} numbers, but {settings.model!r} on samples of shape "
            f"{request.input_shape} has {trainer.layout.size}; bring config and load_data into line, or give "
            "client_app train and evaluate if server_app has a first_model"
        )
    return trainer
