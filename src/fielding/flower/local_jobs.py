"""Training and testing on a device with Fielding's own trainers: the draws and steps that the simulator would make."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np

from fielding._typing import ClientId, Json, Models
from fielding.errors import InputError, echo
from fielding.federation.correction import balancing_offsets
from fielding.flower.orders import EvaluateOrder, TrainOrder
from fielding.flower.samples import Job, Kept
from fielding.rng import client_key
from fielding.training.batches import drawn_positions
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import LocalWork, Sgd, Trainer

ModelFactory = Callable[..., object]
"""Makes a torch module: ``factory(input_shape=..., n_classes=...)``."""


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

    Examples
    --------
    >>> JobSettings(client=3, classes=10).record()["batch_size"]
    20
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

    def record(self) -> dict[str, Json]:
        """Return the settings as an order holds them."""
        return asdict(self)

    def job(self, order: TrainOrder) -> Job:
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
        )


def settings_from(record: Mapping[str, Json]) -> JobSettings:
    """Return the settings of an order, or raise if one is missing, unknown or of another type."""
    known = {field.name: field for field in fields(JobSettings)}
    if unknown := sorted(record.keys() - known.keys()):
        raise InputError(f"the settings of an order name {echo(unknown[0])}; this release knows {', '.join(known)}")
    if missing := [name for name in ("client", "classes") if name not in record]:
        raise InputError(f"the settings of an order lack {missing[0]!r}; use the same release on server and clients")
    return JobSettings(**{name: _checked(name, value) for name, value in record.items()})  # type: ignore[arg-type]


def _checked(name: str, value: Json) -> Json:
    """Return a setting, or raise."""
    if name == "client":
        fits = isinstance(value, (int, str)) and not isinstance(value, bool)
    elif name in ("classes", "hidden", "batch_size"):
        fits = type(value) is int and 1 <= value < 2**31
    elif name in ("model", "trainer", "device"):
        fits = isinstance(value, str)
    elif name == "balanced":
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
    if not fits:
        raise InputError(f"{name} in the settings of an order is {echo(value)}; look at the server's config")
    return value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """A trained model: float32, shape ``(n_numbers,)``; samples at hand, mean loss and mean of its square."""

    model: Models
    n_samples: int
    loss: float
    square_loss: float
    start_loss: float | None = None


def trained_here(order: TrainOrder, samples: Kept, *, factory: ModelFactory | None = None) -> Training:
    """Return what a round of local steps gives, as one participant of the simulator would.

    Parameters
    ----------
    order
        The model to start from, and how to train it.
    samples
        What may be trained on, at least one, in the order of arrival.
    factory
        Makes the module in place of the one that the settings name.
    """
    settings = settings_from(order.settings)
    trainer = _trainer(order, settings, samples, factory)
    n_samples = int(samples.y.size)
    draws = drawn_positions(
        np.array([n_samples]),
        keys=np.array([client_key(settings.client)], dtype=np.uint64),
        moment=(order.seed, order.round_index),
        shape=(order.n_steps, settings.batch_size),
    )
    offsets = None
    if settings.balanced:
        mix = np.bincount(samples.y, minlength=settings.classes)[np.newaxis] / n_samples
        offsets = balancing_offsets(mix, np.array([n_samples]))
    work = LocalWork(
        models=order.model[np.newaxis],
        start=np.zeros(1, dtype=np.int64),
        draws=draws,
        gather=lambda rows: (samples.x[rows], samples.y[rows]),
        sgd=Sgd(
            learning_rate=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            prox=settings.prox,
        ),
        rate_factors=None if settings.rate_factor == 1.0 else np.array([settings.rate_factor]),
        offsets=offsets,
    )
    done = trainer.train(work)
    return Training(
        model=done.models[0],
        n_samples=n_samples,
        loss=float(done.loss[0]),
        square_loss=float(done.square_loss[0]),
        start_loss=_score(trainer, order.model, samples)[1] if order.with_start_loss else None,
    )


def scored_here(order: EvaluateOrder, samples: Kept, *, factory: ModelFactory | None = None) -> tuple[int, float]:
    """Return how many samples a model gets right, and its mean loss; there is at least one sample."""
    return _score(_trainer(order, settings_from(order.settings), samples, factory), order.model, samples)


def _score(trainer: Trainer, model: Models, samples: Kept) -> tuple[int, float]:
    chunk, n_samples = trainer.path.eval_chunk, int(samples.y.size)
    parts = [
        trainer.scores(model, samples.x[first : first + chunk], samples.y[first : first + chunk])
        for first in range(0, n_samples, chunk)
    ]
    losses = np.concatenate([losses for losses, _ in parts]).astype(np.float64)
    return int(sum(int(right.sum()) for _, right in parts)), float(losses.sum() / n_samples)


def _trainer(
    order: TrainOrder | EvaluateOrder, settings: JobSettings, samples: Kept, factory: ModelFactory | None
) -> Trainer:
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
    if samples.y.max() >= settings.classes:
        raise InputError(
            f"a sample has label {samples.y.max()}, but the server's model knows {settings.classes} classes"
        )
    trainer = trainer_for(request)
    if trainer.layout != order.layout:
        raise InputError(
            f"the server sent a model of {order.layout.size} numbers, but {settings.model!r} on samples of shape "
            f"{request.input_shape} has {trainer.layout.size}; bring config and load_data into line"
        )
    return trainer
