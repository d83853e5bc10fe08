"""What every trainer can do, and what it is asked to do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fielding._typing import Codes, Counts, Features, Json, Mask, Models, Vector
from fielding.errors import FieldingError, OptionError, error_words
from fielding.federation.clients import Pull
from fielding.training.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRate:
    """A rate that is multiplied by ``decay`` every ``every`` rounds and never falls below ``floor``.

    Examples
    --------
    FedScale's schedule:

    >>> rate = LearningRate(initial=0.05, decay=0.98, every=10, floor=5e-5)
    >>> rate.at(9), rate.at(10), rate.at(100_000)
    (0.05, 0.049, 5e-05)
    """

    initial: Annotated[float, Meta(ge=0)]
    decay: Annotated[float, Meta(ge=0)] = 1.0
    every: Annotated[int, Meta(ge=1)] = 10
    floor: Annotated[float, Meta(ge=0)] = 0.0

    def at(self, round_index: int) -> float:
        """Return the rate of a round; a floor above the initial rate has no effect."""
        return max(self.initial * self.decay ** (round_index // self.every), min(self.floor, self.initial))


Gather: TypeAlias = Callable[[Counts], tuple[Features, Codes]]
"""Returns features ``(n, ...)`` and labels ``(n,)`` of schedule entries given by position, ``(n,)``. Thread-safe."""

Scores: TypeAlias = npt.NDArray[np.float32]  # a number per row and class, shape (n, n_classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent with momentum, weight decay and FedProx, as in PyTorch's ``SGD``.

    A step with gradient ``g`` at ``w``, started from ``w0``: ``g += weight_decay * w + prox * (w - w0)``;
    ``v = momentum * v + g`` (first step: ``v = g``); ``w -= learning_rate * v``. The velocity starts anew each
    round. All parameters decay, biases too; buffers take no step.
    """

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    prox: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contrast:
    """Model-contrastive learning (MOON; Li et al., CVPR 2021).

    Adds to the loss of a sample ``mu * -log(s / (s + p))`` with ``s = exp(cos(z, z_start) / temperature)`` and ``p =
    exp(cos(z, z_previous) / temperature)``: features ``z`` of the model in training shall be like those under the model
    that the round started from, and unlike those under the model that the participant trained last time. There is no
    projection head: ``z`` is what goes into the last layer. The cosine with features that are all 0 is 0, and has no
    gradient.

    Parameters
    ----------
    mu
        Weight of the term, at least 0.
    temperature
        How sharply likeness is judged, above 0; the authors use 0.5.
    previous
        The models that the participants trained last, float32, shape ``(n_participants, n_numbers)``.
    has_previous
        Who has trained before, shape ``(n_participants,)``; for others there is no such term, and their rows of
        ``previous`` are not looked at.
    """

    mu: float
    temperature: float
    previous: Models
    has_previous: Mask

    @property
    def matters(self) -> bool:
        """Whether any participant's loss has the term."""
        return self.mu > 0 and bool(self.has_previous.any())

    def part(self, rows: slice) -> "Contrast":
        """Return the contrast of some of the participants."""
        return replace(self, previous=self.previous[rows], has_previous=self.has_previous[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivateSteps:
    """Noise on the gradients of some participants (DP-SGD; Abadi et al., 2016).

    The gradient of a step is ``(sum of g min(1, clip / |g|) + noise clip z) / batch`` over the gradients g of the
    samples that are drawn, with z standard normal.

    Parameters
    ----------
    is_drawn
        Which of the work's draws hold a sample, shape ``(n_participants, n_steps, batch_size)``.
    clip, noise
        Length that the gradient of a sample is cut down to, and the noise multiplier.
    batch
        Samples that a step is expected to draw, above 0, shape ``(n_participants,)``; not how many it did.
    normals
        Of each participant, what returns so many fresh standard normal numbers.
    """

    is_drawn: Mask
    clip: float
    noise: float
    batch: Vector
    normals: Sequence[Callable[[int], Vector]]

    def draw_noise(self, n_numbers: int) -> Models:
        """Return the noise of a step, float32, shape ``(n_participants, n_numbers)``."""
        scale = self.noise * self.clip
        return np.stack([(scale * draw(n_numbers)).astype(np.float32) for draw in self.normals])

    def part(self, rows: slice) -> "PrivateSteps":
        """Return those of some of the participants."""
        return replace(self, is_drawn=self.is_drawn[rows], batch=self.batch[rows], normals=self.normals[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalWork:
    """What some participants of a round do.

    Parameters
    ----------
    models
        The models to start from, float32, shape ``(n_models, n_numbers)``; never written to.
    start
        Which of them each participant starts from, shape ``(n_participants,)``.
    draws
        Schedule entries of each participant's mini-batches, shape ``(n_participants, n_steps, batch_size)``.
    rate_factors
        Factor on the learning rate of each participant, at least 0, shape ``(n_participants,)``; None: 1 for all.
    pull
        A pull toward other models, on top of FedProx; None: there is none.
    contrast
        A contrastive part of the loss; None: there is none. Reported losses are without it.
    offsets
        What is added to the scores of the classes inside the loss of each participant's samples, float32, shape
        ``(n_participants, n_classes)``: the logarithm of its label mix, for balanced training. Finite. Reported losses
        are with them: what training lowers. None: nothing.
    mixes
        The share of each label among each participant's samples, same shape; None if no mixes are kept. Finite. A
        trainer that keeps no mixes ignores them.
    round_index
        The round in hand, for code of the user's own; trainers take no notice.
    private
        Noise on the gradients, whose draws have places without a sample; None: there is none.
    """

    models: Models
    start: Counts
    draws: Counts
    gather: Gather
    sgd: Sgd
    rate_factors: Vector | None = None
    pull: Pull | None = None
    contrast: Contrast | None = None
    offsets: Scores | None = None
    mixes: Scores | None = None
    round_index: int = 0
    private: PrivateSteps | None = None

    def part(self, rows: slice) -> "LocalWork":
        """Return the work of some of the participants; arrays are views."""
        return replace(
            self,
            start=self.start[rows],
            draws=self.draws[rows],
            rate_factors=None if self.rate_factors is None else self.rate_factors[rows],
            pull=None if self.pull is None else self.pull.of(rows),
            contrast=None if self.contrast is None else self.contrast.part(rows),
            offsets=None if self.offsets is None else self.offsets[rows],
            mixes=None if self.mixes is None else self.mixes[rows],
            private=None if self.private is None else self.private.part(rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """What local training gave, a row per participant.

    Parameters
    ----------
    models
        float32, shape ``(n_participants, n_numbers)``.
    loss
        Mean loss over all samples trained on, each under the weights before its step, shape ``(n_participants,)``; with
        the offsets of the work, without its contrast.
    n_samples
        Number of samples that each trained on; None: all that it had at hand.
    metrics
        What else a user's own code says, by name, NaN where it says nothing, shape ``(n_participants,)``.
    """

    models: Models
    loss: Vector
    square_loss: Vector
    n_samples: Counts | None = None
    metrics: Mapping[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPath:
    """How a trainer works, settled by a rule on the model and its inputs alone, so that results repeat.

    Parameters
    ----------
    name
        ``"stacked"``: participants together; ``"sequential"``: one by one.
    chunk
        Participants per call of :meth:`Trainer.train`; the rows of one call may influence each other's rounding.
    n_threads
        Threads that one call uses inside; several calls run at once only if it is 1.
    eval_chunk
        Samples per call of :meth:`Trainer.scores`.
    """

    name: str
    chunk: int
    n_threads: int
    eval_chunk: int

    def record(self) -> dict[str, Json]:
        """Return the path as the manifest holds it."""
        return {"path": self.name, "chunk": self.chunk, "n_threads": self.n_threads, "eval_chunk": self.eval_chunk}


def path_from(record: Mapping[str, Json]) -> TrainingPath:
    """Return the path that a manifest holds."""
    return TrainingPath(
        name=str(record["path"]),
        chunk=int(str(record["chunk"])),
        n_threads=int(str(record["n_threads"])),
        eval_chunk=int(str(record["eval_chunk"])),
    )


class Trainer(Protocol):
    """Trains and scores models of one architecture; has no memory, and may be called from several threads."""

    @property
    def layout(self) -> Layout:
        """What the numbers of a model mean."""
        ...

    @property
    def path(self) -> TrainingPath:
        """How it works."""
        ...

    def initial_model(self, seed: int) -> Models:
        """Return the model that training starts from, float32, shape ``(n_numbers,)``."""
        ...

    def train(self, work: LocalWork) -> Trained:
        """Do the local steps of at most ``path.chunk`` participants."""
        ...

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the loss of each sample under a model, and whether its most likely class is right (ties: lowest)."""
        ...

    def features(self, model: Models, x: Features) -> tuple[npt.NDArray[np.float32], Scores]:
        """Return what goes into the last layer, shape ``(n_samples, n_features)``, and the scores of the classes.

        One forward pass, as when tested; scores are before softmax. Without a hidden layer features are the samples,
        flattened. Give at most ``path.eval_chunk`` samples per call.
        """
        ...

    def gradient(self, model: Models, x: Features, y: Codes) -> Models:
        """Return the gradient of the summed loss by the parameters, as when tested.

        float32, shape ``(layout.parameter_size,)``, in the order of the layout. The gradient of several calls together
        is their sum; give at most ``path.eval_chunk`` samples per call, all with labels.
        """
        ...


def steps_on_trial(n_samples: int) -> PrivateSteps:
    """Return private steps without noise of one participant, to find out whether a model can take them."""
    return PrivateSteps(
        is_drawn=np.ones((1, 1, n_samples), dtype=np.bool_),
        clip=1.0,
        noise=0.0,
        batch=np.ones(1),
        normals=[np.zeros],
    )


def try_scores(trainer: Trainer, x: Features, *, key: str) -> None:
    """Look at a sample, shape ``(1, ...)``, or raise OptionError, which begins with the config key, if that fails."""
    try:
        trainer.features(trainer.initial_model(0), x)
    except FieldingError as error:
        raise OptionError(f"{key}: {error}") from None


def try_work(trainer: Trainer, work: LocalWork) -> None:
    """Take a step of one participant, with a contrast if the run has one; raise OptionError in one line if it fails."""
    try:
        trainer.train(work)
    except FieldingError as error:
        if work.contrast is not None and trainer.path.name != "sequential":
            raise OptionError(f"training.moon is {work.contrast.mu:g}, but {error}") from None
        raise
    except Exception as error:  # whatever the user's module does
        n_samples = work.draws.shape[2]
        raise OptionError(
            f"model: a step on training.batch_size = {n_samples} samples fails: {error_words(error)}"
        ) from error
