"""The user's own code on a device, and how models and samples pass through it."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Models
from fielding.errors import InputError, echo
from fielding.flower.local_jobs import ModelFactory
from fielding.flower.own_models import checked_scored
from fielding.flower.samples import (
    Describe,
    Embed,
    Embedded,
    Evaluate,
    Kept,
    LoadData,
    Scored,
    Tensors,
    Train,
)
from fielding.training.label_mix import LABEL_MIX
from fielding.training.layout import Layout
from fielding.training.trainer import Scores


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
