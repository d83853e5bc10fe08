"""The user's own code where data are, in the simulator and on devices: what passes through it, and how it is called."""

import contextlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Json, Mask, Models, Vector
from fielding.client.ranges import Ranges
from fielding.errors import InputError, OptionError, echo
from fielding.runtime.store import SampleStore
from fielding.runtime.workers import Measured, OnTrained, ignore_progress
from fielding.training.head import score_samples
from fielding.training.label_mix import LABEL_MIX, move_mixes
from fielding.training.layout import Layout
from fielding.training.trainer import Gather, LocalWork, Scores, Trained, TrainingPath

MOST_METRICS = 20  # metrics of the user's own in a run
Tensors: TypeAlias = dict[str, npt.NDArray[np.float32]]
"""A model as a user's own code takes it: arrays by name, as in a state dict."""


class Stateful(Protocol):
    """A torch module, as far as it matters here: it has a state dict."""

    def state_dict(self) -> Mapping[str, Any]: ...  # noqa: D102


AnyModel: TypeAlias = Mapping[str, Any] | Stateful
"""A model as a user's own code may give it: arrays or tensors by name, or a torch module."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of a client.

    Parameters
    ----------
    x
        Features as the model takes them, shape ``(n_samples, ...)``; they become float32.
    y
        Labels as positions in the class list, shape ``(n_samples,)``; on Flower, where ``train`` and ``evaluate`` are
        the app's own and there is one class, any numbers.
    is_test
        Which ones are for tests alone, same shape; None: a fifth, chosen by a hash of their content.
    rounds
        In which round each arrived, below 0 before the start, same shape; None: now.
    times
        From when each is, unix seconds, same shape; needed where ``trace.window`` is a length of time.
    """

    x: npt.ArrayLike
    y: npt.ArrayLike
    is_test: npt.ArrayLike | None = None
    rounds: npt.ArrayLike | None = None
    times: npt.ArrayLike | None = None

    def __len__(self) -> int:
        return len(np.asarray(self.y))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """Where a user's own code runs: a device, or a client of the simulator.

    Parameters
    ----------
    partition
        The part of the data that this node holds, if its node config names one (``partition-id``); in the simulator the
        position of the client.
    config
        The node config and, below it, the run config; in the simulator what ``[own]`` of the config says, as
        ``own.NAME``.
    folder
        For files of one's own: kept between messages and restarts, apart for every run.
    since
        The round of the last samples that were taken in; None: none ever were, or what was known of them is lost.
    """

    partition: int | None
    config: Mapping[str, Json]
    folder: Path
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How the server wants a model trained; one's own code may take it as advice.

    Parameters
    ----------
    seed
        Of draws; with the round it makes them repeatable.
    node
        Where this is: its config has settings of one's own (``own.epochs``), its folder is for files of one's own.
    """

    round_index: int
    n_steps: int
    batch_size: int
    learning_rate: float
    momentum: float
    weight_decay: float
    prox: float
    seed: int
    node: DeviceNode


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What training gave.

    Parameters
    ----------
    model
        Arrays or torch tensors under the names and in the shapes that came, as a state dict, or a torch module.
    n_samples, loss
        How many samples it was trained on, and the mean loss over them.
    square_loss
        Mean of the squared losses; None: the square of the mean.
    metrics
        Whatever else is to be told of it, a number by name.
    """

    model: AnyModel
    n_samples: int
    loss: float
    square_loss: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scored:
    """How a model does: how many samples were tested, how many of them it gets right, and its mean loss.

    ``metrics``: whatever else was measured, a number by name; NaN where there is none.
    """

    n_test: int
    correct: int
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What a model makes of samples, a row each.

    ``features``: what goes into its last layer, shape ``(n_samples, n_features)``; ``scores``: of the classes, before
    softmax, shape ``(n_samples, n_classes)``.
    """

    features: npt.ArrayLike
    scores: npt.ArrayLike


Visit: TypeAlias = Callable[[int, int], AbstractContextManager[DeviceNode]]
"""``visit(client, round_index)``: the node where a client's code works, for a block."""
Train: TypeAlias = Callable[[Tensors, Samples, Job], Fitted]  # trains a model
Evaluate: TypeAlias = Callable[[Tensors, Samples], Scored] | Callable[[Tensors, Samples, DeviceNode], Scored]
"""Tests a model; one that takes three arguments is told where it is."""
Metric: TypeAlias = Callable[[npt.NDArray[np.float64], Counts], float]
"""Measures how scores of classes, ``(n_samples, n_classes)``, fit labels, ``(n_samples,)``; NaN where it cannot."""
Embed: TypeAlias = Callable[[Tensors, Samples], Embedded]  # looks at samples with a model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnTraining:
    """How a user's own code trains, tests and looks at samples; None: Fielding does it."""

    train: Train | None = None
    evaluate: Evaluate | None = None
    embed: Embed | None = None

    def check(self, giver: str) -> None:
        """Raise if one function is there without another that it needs; ``giver``: who has them, for the message."""
        if (self.train is None) != (self.evaluate is None):
            given = "train" if self.evaluate is None else "evaluate"
            raise OptionError(f"{giver} has {given} alone; give train and evaluate, or none of them")
        if self.embed is not None and self.train is None:
            raise OptionError(f"{giver} has embed without train; leave embed out, since Fielding knows its own models")


NO_EMBED = (
    "scores of classes or features are needed of a model, but there is train without embed; give embed(model, samples) "
    "-> Embedded(features, scores), or describe windows by labels and leave serving.correction, evaluation.metrics and "
    "training.rehearsal out"
)
NO_GRADIENT = (
    "coordinator.representation is gradient, which code of one's own for training cannot give; take head-gradient, "
    "which needs features and scores alone"
)
NO_CONTRAST = "training.moon contrasts models with earlier ones, which one's own train cannot do; leave it out"
"""Why code of one's own cannot be used."""


class OwnCompute:
    """Trains and scores models by the user's own code, client by client.

    ``visit`` gives, for the time of a training, the node of a client in a round; None if nothing is trained.
    ``first``: the model that training starts from, if it is known here. ``on_trained`` is called with how many
    participants of how many have trained. ``round_index`` is the round in hand.
    """

    tests_whole_windows = True
    path = TrainingPath(name="own", chunk=1, n_threads=1, eval_chunk=1)

    def __init__(
        self,
        own: OwnTraining,
        store: SampleStore,
        layout: Layout,
        *,
        mix_rate: float,
        seed: int,
        visit: Visit | None = None,
        first: Models | None = None,
    ) -> None:
        self._own, self._store, self.layout, self._visit, self._first = own, store, layout, visit, first
        self._mix_rate, self._seed = mix_rate, seed
        self.on_trained: OnTrained = ignore_progress
        self.round_index = 0

    def close(self) -> None:
        """Do nothing: there are no threads."""

    def initial_model(self, _seed: int) -> Models:
        """Return the model that training starts from: the user's own, whatever the seed."""
        if self._first is None:
            raise RuntimeError("the first model is not known here")
        return self._first

    def train(self, work: LocalWork, at_hand: Ranges, *, with_progress: bool = True) -> Trained:
        """Let the user's code train a model of each participant on all samples that it has at hand."""
        if self._own.train is None or self._visit is None:
            raise RuntimeError("there is no training code, or nothing to train")
        if work.pull is not None:
            raise InputError("the method pulls models toward others, which one's own train cannot do; choose another")
        if work.contrast is not None:
            raise InputError(NO_CONTRAST)
        n_participants, n_steps, batch_size = work.draws.shape
        models = np.empty((n_participants, self.layout.size), dtype=np.float32)
        losses, n_samples = np.empty((2, n_participants)), np.empty(n_participants, dtype=np.int64)
        told: list[Mapping[str, float]] = []
        for at in range(n_participants):
            rows, start = at_hand.of(np.array([at]))[0], work.models[work.start[at]]
            factor = 1.0 if work.rate_factors is None else float(work.rate_factors[at])
            with self._visit(int(self._store.owners(rows[:1])[0]), work.round_index) as node:
                job = Job(
                    round_index=work.round_index,
                    n_steps=n_steps,
                    batch_size=batch_size,
                    learning_rate=work.sgd.learning_rate * factor,
                    momentum=work.sgd.momentum,
                    weight_decay=work.sgd.weight_decay,
                    prox=work.sgd.prox,
                    seed=self._seed,
                    node=node,
                )
                fitted = checked_fitted(self._own.train(self._show(start), samples_of(self._store, rows), job))
            tensors = named_arrays(fitted.model, "train")
            carried = self.layout.tensors(start).get(LABEL_MIX)
            if carried is not None:
                tensors[LABEL_MIX] = carried
                if work.mixes is not None:
                    mix = work.mixes[at : at + 1]
                    moved = move_mixes(carried[np.newaxis], mix, rate=self._mix_rate, is_balanced=False)
                    tensors[LABEL_MIX] = moved[0]
            models[at] = self.layout.flat(tensors)
            losses[:, at] = fitted.loss, fitted.loss**2 if fitted.square_loss is None else fitted.square_loss
            n_samples[at] = fitted.n_samples
            told.append(fitted.metrics)
            if with_progress:
                self.on_trained(at + 1, n_participants)
        metrics = metric_columns(told)
        return Trained(models=models, loss=losses[0], square_loss=losses[1], n_samples=n_samples, metrics=metrics)

    def scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return loss and correctness of rows by the scores of their classes."""
        if not rows.size:
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.bool_)
        return score_samples(*self.class_scores(model, rows, gather))

    def class_scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[Scores, Codes]:
        """Return the scores of classes, as ``embed`` gives them, and the labels of rows."""
        return self.features(model, rows, gather)[1], self._store.labels(rows)

    def features(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Scores]:  # noqa: ARG002
        """Return features and scores of rows as the user's ``embed`` sees them, client by client, or raise."""
        ends = np.flatnonzero(np.diff(self._store.owners(rows))) + 1
        done = [self._embed(model, piece) for piece in np.split(rows, ends)]
        return np.concatenate([one[0] for one in done]), np.concatenate([one[1] for one in done])

    def _embed(self, model: Models, rows: Counts) -> tuple[npt.NDArray[np.float32], Scores]:
        if self._own.embed is None:
            raise InputError(NO_EMBED)
        given: object = self._own.embed(self._show(model), samples_of(self._store, rows))
        if not isinstance(given, Embedded):
            raise InputError(f"embed gave {echo(given)}; return Embedded(features, scores)")
        features, scores = (np.asarray(one, dtype=np.float32) for one in (given.features, given.scores))
        n_classes = self._store.n_classes
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
        raise InputError(NO_GRADIENT)

    def measure(
        self,
        model: Models,
        rows: Counts,
        sizes: Counts,
        gather: Gather,  # noqa: ARG002
    ) -> Measured:
        """Return what the user's ``evaluate`` says of a model on each segment of rows."""
        if self._own.evaluate is None:
            raise RuntimeError("there is no code for tests")
        n_tested, correct, loss = np.zeros_like(sizes), np.zeros_like(sizes), np.full(sizes.size, np.nan)
        ends, told = np.cumsum(sizes), list[Mapping[str, float]]([{}] * sizes.size)
        for at in np.flatnonzero(sizes).tolist():
            found = checked_scored(self._evaluate(model, rows[ends[at] - sizes[at] : ends[at]]))
            n_tested[at], correct[at], loss[at] = found.n_test, found.correct, found.loss
            told[at] = found.metrics
        return Measured(n_tested, correct, loss, metric_columns(told))

    def _evaluate(self, model: Models, rows: Counts) -> object:
        """Return what the user's ``evaluate`` gives, told where it is if it takes three arguments."""
        evaluate: Callable[..., object] | None = self._own.evaluate
        if evaluate is None:
            raise RuntimeError("there is no code for tests")
        some = samples_of(self._store, rows)
        if not _takes_node(evaluate):
            return evaluate(self._show(model), some)
        if self._visit is None:
            raise RuntimeError("it is not known where this is")
        with self._visit(int(self._store.owners(rows[:1])[0]), self.round_index) as node:
            return evaluate(self._show(model), some, node)

    def _show(self, model: Models) -> Tensors:
        return named_tensors(self.layout, model)


def named_tensors(layout: Layout, model: Models) -> Tensors:
    """Return a model by names, for code that may write to it; the label mix that it carries is left out."""
    return {name: array.copy() for name, array in layout.tensors(model).items() if name != LABEL_MIX}


def samples_of(store: SampleStore, rows: Counts) -> Samples:
    """Return the samples of rows for code that may do with them what it wants."""
    x, y = store.gather(rows)
    targets = store.targets(rows)
    return Samples(x, y.astype(np.int64) if targets is None else targets, store.is_test(rows), store.rounds(rows))


def first_model_of(given: object, giver: str) -> tuple[Models, Layout]:
    """Return the first model of the user's own code, parameters before anything else in it, or raise."""
    tensors = named_arrays(given, giver)
    parameters = parameter_names(given, tensors)
    names = tuple(sorted(tensors, key=lambda name: name not in parameters))
    for name in names:
        if not np.isfinite(tensors[name]).all():
            raise InputError(f"{name!r} in the model that {giver} gave holds NaN or infinity; begin with numbers")
    layout = Layout(
        names=names,
        shapes=tuple(tensors[name].shape for name in names),
        n_parameters=sum(name in parameters for name in names),
    )
    return layout.flat(tensors), layout


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
    metrics = checked_metrics(fitted.metrics, "train")
    return Fitted(fitted.model, n_samples, loss, loss**2 if square is None else square, metrics)


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
    return Scored(n_test, correct, loss, checked_metrics(scored.metrics, "evaluate"))


def checked_metrics(given: object, giver: str) -> dict[str, float]:
    """Return metrics of the user's own as plain numbers, or raise."""
    if not isinstance(given, Mapping):
        raise InputError(f"{giver} gave metrics = {echo(given)}; give numbers by name")
    found = {str(name): _number(value) for name, value in given.items()}
    check_metric_names(found, f"metrics of {giver}")
    for name, value in found.items():
        if value is None:
            raise InputError(f"{giver} gave the metric {name} = {echo(given[name])}; give a number, NaN for none")
    return {name: value for name, value in found.items() if value is not None}


def metric_columns(told: Sequence[Mapping[str, float]]) -> dict[str, Vector]:
    """Return metrics by name, a number for each of some clients; NaN where one has none.

    Examples
    --------
    >>> metric_columns([{"mae": 1.0}, {}])
    {'mae': array([ 1., nan])}
    """
    names = dict.fromkeys(name for one in told for name in one)
    return {name: np.array([one.get(name, math.nan) for one in told], dtype=np.float64) for name in names}


@cache
def _takes_node(evaluate: Callable[..., object]) -> bool:
    """Return whether a function takes three arguments; one that does not tell takes two."""
    try:
        parameters = signature(evaluate).parameters.values()
    except (TypeError, ValueError):
        return False
    by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    n_places = sum(one.kind in by_place for one in parameters)
    return n_places >= 3 or any(one.kind is Parameter.VAR_POSITIONAL for one in parameters)


def check_metric_names(names: Collection[str], giver: str) -> None:
    """Raise if metrics of the user's own are too many, or have names that logs should not hold."""
    if len(names) > MOST_METRICS:
        raise OptionError(f"{giver} are {len(names)}; give at most {MOST_METRICS}")
    for name in names:
        if not re.fullmatch(r"[\w.-]{1,40}", name, re.ASCII):
            raise OptionError(
                f"{giver} has the name {echo(name)}; give up to 40 letters, digits, dots, dashes and underscores"
            )


def metric_of(name: str, metric: Metric, scores: Scores, labels: Codes) -> float:
    """Return what a metric of the user's own says of a client's samples, or raise if that is no number."""
    given: object = metric(scores.astype(np.float64), labels.astype(np.int64))
    value = _number(given)
    if value is None:
        raise InputError(f"metric {name} gave {echo(given)}; return a number, NaN where there is none")
    return value


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
