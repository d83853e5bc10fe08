"""The user's own code on a device, and how models and samples pass through it."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Models
from fielding.errors import InputError, echo
from fielding.flower.device.local_jobs import ModelFactory
from fielding.flower.device.samples import (
    Describe,
    Embed,
    Embedded,
    Evaluate,
    Fitted,
    Kept,
    LoadData,
    Scored,
    Tensors,
    Train,
)
from fielding.training.label_mix import LABEL_MIX
from fielding.training.layout import Layout
from fielding.training.trainer import Scores


def named_arrays(model: object, giver: str) -> Tensors:
    """Return a model as float32 arrays by name, or raise.

    Parameters
    ----------
    model
        Arrays or torch tensors by name, on whatever device, or a torch module. Whole numbers, as the counters of
        BatchNorm, become floats.
    giver
        Whose fault it is if it is no model.

    Examples
    --------
    >>> named_arrays({"weight": [[1, 2]]}, "train")
    {'weight': array([[1., 2.]], dtype=float32)}
    >>> named_arrays([1, 2], "train")
    Traceback (most recent call last):
    fielding.errors.InputError: train gave [1, 2] for a model; give arrays by name, as net.state_dict() has them
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
    """Return what evaluate gave, its figures as plain numbers, or raise.

    Examples
    --------
    >>> checked_scored(Scored(n_test=40, correct=0.9, loss=0.3))
    Traceback (most recent call last):
    fielding.errors.InputError: evaluate gave correct = 0.9 and n_test = 40; give how many samples were tested, ...
    """
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


def _number(value: object) -> float | None:
    """Return a number, also of an array or tensor that holds but one; None if it is none."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        return None if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    return None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnCode:
    """What the user brings along.

    Parameters
    ----------
    load_data
        Where samples come from.
    train, evaluate
        Her training and test; None: Fielding's own.
    describe
        What stands for a window in place of label shares; drift is still judged by labels.
    model
        Makes the torch module that Fielding trains; None: the one that the server names.
    embed
        Looks at samples with a model of hers, where windows are described or drift is judged through one, or where
        scores of classes are needed for anything else; None: she has no training of her own, or labels are enough.
    """

    load_data: LoadData
    train: Train | None = None
    evaluate: Evaluate | None = None
    describe: Describe | None = None
    model: ModelFactory | None = None
    embed: Embed | None = None


def shown_model(layout: Layout, model: Models) -> Tensors:
    """Return a model by names, for code that may write to it; the label mix that it carries is Fielding's business."""
    return {name: array.copy() for name, array in layout.tensors(model).items() if name != LABEL_MIX}


def own_score(evaluate: Evaluate, tensors: Tensors, samples: Kept) -> Scored:
    """Return what the user's own code says of a model, or raise if it says nothing."""
    return checked_scored(evaluate(tensors, samples.shown()))


def own_sight(embed: Embed | None, tensors: Tensors, samples: Kept, n_classes: int) -> tuple[Scores, Scores]:
    """Return features and scores of samples as the user's own code sees them, a row each, or raise.

    Parameters
    ----------
    embed
        Her code; None: there is none, though it is needed.
    tensors, samples
        What it is about.
    n_classes
        Length of the class list.
    """
    if embed is None:
        raise InputError(
            "scores of classes or features are needed of a model, but client_app has train without embed; give it "
            "embed(model, samples) -> Embedded(features, scores), or describe windows by labels and leave "
            "serving.correction and training.rehearsal out"
        )
    given: object = embed(tensors, samples.shown())
    if not isinstance(given, Embedded):
        raise InputError(f"embed gave {echo(given)}; return Embedded(features, scores)")
    n_samples = samples.y.size
    features, scores = (np.asarray(one, dtype=np.float32) for one in (given.features, given.scores))
    if features.ndim != 2 or features.shape[0] != n_samples or scores.shape != (n_samples, n_classes):
        raise InputError(
            f"embed gave features of shape {features.shape} and scores of shape {scores.shape}; give {n_samples} rows "
            f"of each, and {n_classes} scores in each"
        )
    if not (np.isfinite(features).all() and np.isfinite(scores).all()):
        raise InputError("embed gave NaN or infinity; every feature and score must be a finite number")
    return features, scores
