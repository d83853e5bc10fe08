"""The user's own code on a device, and how models and samples pass through it."""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Mask, Models, Vector
from fielding.client.ranges import Ranges
from fielding.errors import InputError, echo
from fielding.flower.device.samples import (
    Describe,
    Embed,
    Embedded,
    Evaluate,
    Fitted,
    Job,
    LoadData,
    Scored,
    Tensors,
    Train,
)
from fielding.flower.device.store import DeviceStore
from fielding.flower.wire.orders import WorkRule
from fielding.training.head import score_samples
from fielding.training.label_mix import LABEL_MIX, move_mixes
from fielding.training.layout import Layout
from fielding.training.trainer import Gather, LocalWork, Scores, Trained, TrainingPath

ModelFactory = Callable[..., object]  # makes a torch module: factory(input_shape=..., n_classes=...)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnCode:
    """What the user brings along.

    As of :func:`~fielding.flower.device.client_app.client_app`; drift is judged by labels even with ``describe``.
    """

    load_data: LoadData
    train: Train | None = None
    evaluate: Evaluate | None = None
    describe: Describe | None = None
    model: ModelFactory | None = None
    embed: Embed | None = None


class OwnCompute:
    """Trains and scores models by the user's own code, for a runtime of one client.

    ``job``: what the user's training code is given; None if nothing is trained.
    """

    tests_whole_windows = True
    path = TrainingPath(name="own", chunk=1, n_threads=1, eval_chunk=1)

    def __init__(
        self, own: OwnCode, store: DeviceStore, layout: Layout, work: WorkRule, job: Job | None = None
    ) -> None:
        self._own, self._store, self.layout, self._work, self._job = own, store, layout, work, job

    def close(self) -> None:
        """Do nothing: there are no threads."""

    def train(self, work: LocalWork, at_hand: Ranges, *, with_progress: bool = True) -> Trained:  # noqa: ARG002
        """Let the user's code train one model on all samples at hand."""
        if self._own.train is None or self._job is None:
            raise RuntimeError("there is no training code, or nothing to train")
        if work.pull is not None:
            raise InputError("the method pulls models toward others, which one's own train cannot do; choose another")
        if work.contrast is not None:
            raise InputError(
                "training.moon contrasts models with earlier ones, which one's own train cannot do; leave it out"
            )
        factor = 1.0 if work.rate_factors is None else float(work.rate_factors[0])
        job = replace(self._job, learning_rate=work.sgd.learning_rate * factor, n_steps=work.draws.shape[1])
        start = work.models[work.start[0]]
        samples = self._store.samples(at_hand.of(np.zeros(1, dtype=np.int64))[0])
        fitted = checked_fitted(self._own.train(self._show(start), samples.as_samples(), job))
        tensors = named_arrays(fitted.model, "train")
        carried = self.layout.tensors(start).get(LABEL_MIX)
        if carried is not None and work.mixes is not None:
            mixes = move_mixes(carried[np.newaxis], work.mixes, rate=self._work.mix_rate, is_balanced=False)
            tensors[LABEL_MIX] = mixes[0]
        square = fitted.loss**2 if fitted.square_loss is None else fitted.square_loss
        return Trained(
            models=self.layout.flat(tensors)[np.newaxis],
            loss=np.array([fitted.loss]),
            square_loss=np.array([square]),
            n_samples=np.array([fitted.n_samples]),
        )

    def scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return loss and correctness of rows by the scores of their classes."""
        return score_samples(*self.class_scores(model, rows, gather))

    def class_scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[Scores, Codes]:
        """Return the scores of classes, as ``embed`` gives them, and the labels of rows."""
        return self.features(model, rows, gather)[1], self._store.labels(rows)

    def features(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Scores]:  # noqa: ARG002
        """Return features and scores of rows as the user's ``embed`` sees them, or raise if it cannot."""
        if self._own.embed is None:
            raise InputError(
                "scores of classes or features are needed of a model, but client_app has train without embed; give it "
                "embed(model, samples) -> Embedded(features, scores), or describe windows by labels and leave "
                "serving.correction and training.rehearsal out"
            )
        given: object = self._own.embed(self._show(model), self._store.samples(rows).as_samples())
        if not isinstance(given, Embedded):
            raise InputError(f"embed gave {echo(given)}; return Embedded(features, scores)")
        features, scores = (np.asarray(one, dtype=np.float32) for one in (given.features, given.scores))
        n_classes = self._work.classes
        if features.ndim != 2 or features.shape[0] != rows.size or scores.shape != (rows.size, n_classes):
            raise InputError(
                f"embed gave features of shape {features.shape} and scores of shape {scores.shape}; give {rows.size} "
                f"rows of each, and {n_classes} scores in each"
            )
        if not (np.isfinite(features).all() and np.isfinite(scores).all()):
            raise InputError("embed gave NaN or infinity; every feature and score must be a finite number")
        return features, scores

    def gradient(self, model: Models, rows: Counts, gather: Gather) -> Vector:  # noqa: ARG002
        """Raise: the user's code gives no gradients."""
        raise InputError(
            "coordinator.representation is gradient, which code of one's own for training cannot give; "
            "take head-gradient, which needs features and scores alone"
        )

    def measure(
        self,
        model: Models,
        rows: Counts,
        sizes: Counts,
        gather: Gather,  # noqa: ARG002
    ) -> tuple[Counts, Counts, Vector]:
        """Return what the user's ``evaluate`` says of a model on each segment of rows."""
        if self._own.evaluate is None:
            raise RuntimeError("there is no code for tests")
        n_tested, correct, loss = np.zeros_like(sizes), np.zeros_like(sizes), np.full(sizes.size, np.nan)
        ends = np.cumsum(sizes)
        for at in np.flatnonzero(sizes).tolist():
            some = self._store.samples(rows[ends[at] - sizes[at] : ends[at]])
            found = checked_scored(self._own.evaluate(self._show(model), some.as_samples()))
            n_tested[at], correct[at], loss[at] = found.n_test, found.correct, found.loss
        return n_tested, correct, loss

    def _show(self, model: Models) -> Tensors:
        """Return a model by names, for code that may write to it; the label mix that it carries is left out."""
        return {name: array.copy() for name, array in self.layout.tensors(model).items() if name != LABEL_MIX}


def checked_fitted(fitted: object) -> Fitted:
    """Return what train gave, its figures as plain numbers, or raise; its model is looked at elsewhere."""
    if not isinstance(fitted, Fitted):
        raise InputError(f"train gave {echo(fitted)}; return Fitted(model, n_samples, loss)")
    n_samples = _whole(fitted.n_samples)
    if n_samples is None or n_samples < 1:
        raise InputError(f"train gave n_samples = {echo(fitted.n_samples)}; give how many samples it was trained on")
    loss, square = _number(fitted.loss), _number(fitted.square_loss)
    if loss is None or not math.isfinite(loss):
        raise InputError(
            f"train gave loss = {echo(fitted.loss)}; give the mean loss, a finite number, or look at rate and samples"
        )
    if fitted.square_loss is not None and (square is None or not math.isfinite(square)):
        raise InputError(f"train gave square_loss = {echo(fitted.square_loss)}; give a finite number, or leave it out")
    return Fitted(fitted.model, n_samples, loss, loss**2 if square is None else square)


def checked_scored(scored: object) -> Scored:
    """Return what evaluate gave, its figures as plain numbers, or raise."""
    if not isinstance(scored, Scored):
        raise InputError(f"evaluate gave {echo(scored)}; return Scored(n_test, correct, loss)")
    n_test, correct, loss = _whole(scored.n_test), _whole(scored.correct), _number(scored.loss)
    if n_test is None or correct is None or not 0 <= correct <= n_test:
        raise InputError(
            f"evaluate gave correct = {echo(scored.correct)} and n_test = {echo(scored.n_test)}; give how many samples "
            "were tested, and how many of these are right: whole numbers, not a share"
        )
    if loss is None:
        raise InputError(f"evaluate gave loss = {echo(scored.loss)}; give the mean loss, a number")
    return Scored(n_test, correct, loss)


def named_arrays(model: object, giver: str) -> Tensors:
    """Return a model as float32 arrays by name, or raise.

    ``model``: arrays or torch tensors by name, on whatever device, or a torch module; whole numbers become floats.

    Examples
    --------
    >>> named_arrays({"weight": [[1, 2]]}, "train")
    {'weight': array([[1., 2.]], dtype=float32)}
    """
    state_dict = getattr(model, "state_dict", None)
    named: object = state_dict() if callable(state_dict) else model
    if not isinstance(named, Mapping) or not named:
        raise InputError(f"{giver} gave {echo(model)} for a model; give arrays by name, as net.state_dict() has them")
    return {str(name): _floats(one, f"{name!r} in the model that {giver} gave") for name, one in named.items()}


def parameter_names(model: object, tensors: Tensors) -> frozenset[str]:
    """Return which tensors are parameters: all, unless a torch module tells."""
    named = getattr(model, "named_parameters", None)
    return frozenset(name for name, _ in named()) if callable(named) else frozenset(tensors)


def _floats(value: object, what: str) -> npt.NDArray[np.float32]:
    detach = getattr(value, "detach", None)
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(detach().cpu().float().numpy() if callable(detach) else value)
        if array.dtype.kind in "biuf":
            return array.astype(np.float32)
    raise InputError(f"{what} is {echo(value)}; give an array of numbers")


def _number(value: object) -> float | None:
    """Return a number, also of an array or tensor that holds but one; None if it is none."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        return None if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    return None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None
