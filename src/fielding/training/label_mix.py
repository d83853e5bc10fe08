"""The label mix that a model was trained on, carried by the model itself as its last buffer."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Features, Mask, Matrix, Models, Vector
from fielding.errors import OptionError, echo
from fielding.training.batches import check_work
from fielding.training.layout import Layout
from fielding.training.trainer import LocalWork, Scores, Trained, Trainer, TrainingPath

LABEL_MIX = "label_mix"  # name of the buffer
LEAST_SHARE = 1e-6  # the smallest share that a class is said to have: its logarithm stays finite

Numbers = TypeVar("Numbers", npt.NDArray[np.float32], npt.NDArray[np.float64])


def label_mix_of(models: Models, n_classes: int) -> Matrix:
    """Return the label mixes that models carry, as shares that sum to 1.

    Models have the buffer at their end; float64, shape ``(..., n_classes)``. No share is below ``LEAST_SHARE`` but for
    rounding; negative numbers count as 0, and a buffer without any number above 0, or with one that is not finite, as
    the uniform mix.

    Examples
    --------
    >>> models = np.array([[7.0, 1.0, 3.0], [7.0, np.nan, 3.0]], dtype=np.float32)
    >>> label_mix_of(models, 2).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    tail = models[..., models.shape[-1] - n_classes :].astype(np.float64)
    is_usable = np.isfinite(tail).all(axis=-1, keepdims=True)
    shares = np.maximum(np.where(is_usable, tail, 0.0), 0.0)
    totals = shares.sum(axis=-1, keepdims=True)
    even = np.full_like(shares, 1.0 / n_classes)
    shares = np.maximum(np.divide(shares, totals, out=even, where=totals > 0.0), LEAST_SHARE)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def strip_mix(models: Numbers, n_classes: int) -> Numbers:
    """Return models without the buffer at their end: a view, shape ``(..., n_numbers - n_classes)``."""
    return models[..., : models.shape[-1] - n_classes]


def extend_layout(layout: Layout, n_classes: int) -> Layout:
    """Return the layout of models that carry their mix behind all else, or raise if a tensor has the buffer's name."""
    if LABEL_MIX in layout.names:
        raise OptionError(f"the model has a tensor {LABEL_MIX!r}, where the label mix is kept; name it otherwise")
    return replace(layout, names=(*layout.names, LABEL_MIX), shapes=(*layout.shapes, (n_classes,)))


def append_even_mix(model: Models, n_classes: int) -> Models:
    """Return a model with an even mix behind it, shape ``(n_numbers + n_classes,)``."""
    return np.concatenate([model, np.full(n_classes, 1.0 / n_classes, dtype=np.float32)])


def move_mixes(carried: Scores, mixes: Scores, *, rate: float, is_balanced: bool) -> Scores:
    """Return the buffers of models after training: ``(1 - rate) * old + rate * mix``.

    ``carried``: the buffers before, whatever numbers they hold, shape ``(n_participants, n_classes)``. Where the
    ``mixes`` of labels trained on are all zeros the buffer stays.
    """
    own = np.maximum(mixes.astype(np.float64), 0.0)
    totals = own.sum(axis=1, keepdims=True)
    even = np.full_like(own, 1.0 / own.shape[1])
    target = even if is_balanced else np.divide(own, totals, out=even, where=totals > 0.0)
    # From shares, not from the numbers as they came: whatever was sent weighs no more than a mix.
    moved = (1.0 - rate) * label_mix_of(carried, own.shape[1]) + rate * target
    return np.where(totals > 0.0, moved, carried).astype(np.float32)


class LabelMixTrainer:
    """Trains with another trainer, and keeps track of the label mix that each model was trained on.

    Models have a buffer more, ``"label_mix"``, which starts even. Training moves it to ``(1 - rate) * old + rate *
    mix``, where ``mix`` is the participant's own; all else that happens to buffers, such as averages, happens to it.

    ``rate``, from 0 to 1, is how far a round of training takes the mix. With ``is_balanced`` training takes the mix off
    the scores, so that models learn as from an even mix: then the buffer moves toward that.

    Examples
    --------
    >>> from fielding.training.numpy_models import Dense
    >>> from fielding.training.numpy_trainer import NumpyTrainer
    >>> inner = NumpyTrainer(Dense(n_inputs=1, n_hidden=0, n_classes=2))
    >>> trainer = LabelMixTrainer(inner, 2, rate=0.5, is_balanced=False)
    >>> trainer.layout.names, trainer.initial_model(1)[-2:].tolist()
    (('weight', 'bias', 'label_mix'), [0.5, 0.5])
    """

    def __init__(self, inner: Trainer, n_classes: int, *, rate: float, is_balanced: bool) -> None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 <= rate <= 1.0:
            raise OptionError(f"mix_rate is {echo(rate)}; give a number from 0 to 1")
        self.layout: Layout = extend_layout(inner.layout, n_classes)
        self._inner = inner
        self._n_classes = n_classes
        self._rate = rate
        self._is_balanced = is_balanced

    @property
    def path(self) -> TrainingPath:
        """How the inner trainer works."""
        return self._inner.path

    def initial_model(self, seed: int) -> Models:
        """Return the first model of the inner trainer with an even mix."""
        return append_even_mix(self._inner.initial_model(seed), self._n_classes)

    def train(self, work: LocalWork) -> Trained:
        """Do the local steps of some participants, and move their mixes; without ``work.mixes`` those stay.

        So does the mix of a participant whose own is all zeros: it knows no labels.
        """
        check_work(work, layout=self.layout, n_classes=self._n_classes)
        n_classes, pull, contrast = self._n_classes, work.pull, work.contrast
        if pull is not None:
            strength: Vector = strip_mix(pull.strength, n_classes)
            pull = replace(pull, anchors=strip_mix(pull.anchors, n_classes), strength=strength)
        if contrast is not None:
            contrast = replace(contrast, previous=strip_mix(contrast.previous, n_classes))
        bare = strip_mix(work.models, n_classes)
        done = self._inner.train(replace(work, models=bare, pull=pull, contrast=contrast, mixes=None))
        mixes = work.models[work.start, self._inner.layout.size :]
        if work.mixes is not None:
            mixes = move_mixes(mixes, work.mixes, rate=self._rate, is_balanced=self._is_balanced)
        return replace(done, models=np.concatenate([done.models, mixes], axis=1))

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the loss of each sample, shape ``(n_samples,)``, and whether its most likely class is right."""
        return self._inner.scores(strip_mix(model, self._n_classes), x, y)

    def features(self, model: Models, x: Features) -> tuple[npt.NDArray[np.float32], Scores]:
        """Return what goes into the last layer, and the scores of the classes."""
        return self._inner.features(strip_mix(model, self._n_classes), x)

    def gradient(self, model: Models, x: Features, y: Codes) -> Models:
        """Return the gradient of the summed loss by the parameters, shape ``(n_parameters,)``; the mix is none."""
        return self._inner.gradient(strip_mix(model, self._n_classes), x, y)


def plain_model(model: Models, layout: Layout, n_classes: int) -> Models:
    """Return a model of a layout without its label mix, if it carries one."""
    return strip_mix(model, n_classes) if LABEL_MIX in layout.names else model
