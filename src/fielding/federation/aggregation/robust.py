"""Aggregators that a few lying participants cannot lead astray; every client weighs the same, whatever it claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fielding._typing import Models, Vector
from fielding.federation.aggregation.aggregator import Uploads, check_below
from fielding.federation.models import column_chunks, mean_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """Takes the median of every number (Yin et al., ICML 2018)."""

    memory: ClassVar[Mapping[str, float]] = {}
    needs_start_loss: ClassVar[bool] = False

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the median of the uploads."""
        return _by_columns(uploads.models, trim=(uploads.models.shape[0] - 1) // 2), {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedMean:
    """Takes the mean of every number without its largest and smallest values (Yin et al., ICML 2018).

    Parameters
    ----------
    share
        Share of the participants that is left out at each end, rounded down, below a half.
    """

    share: float = 0.2
    memory: ClassVar[Mapping[str, float]] = {}
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_below("share", self.share, 0.5)

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the mean of what lies between."""
        return _by_columns(uploads.models, trim=int(self.share * uploads.models.shape[0])), {}


def _by_columns(models: Models, *, trim: int) -> Models:
    """Return the mean of every column without its ``trim`` smallest and largest values."""
    new = np.empty(models.shape[1], dtype=np.float32)
    for part in column_chunks(models.shape[1]):
        ordered = np.sort(models[:, part], axis=0)
        new[part] = ordered[trim : models.shape[0] - trim].mean(axis=0, dtype=np.float64)
    return new


def clip_changes(
    model: Models, uploads: Models, n_parameters: int, *, usual: float, factor: float
) -> tuple[Models, float]:
    """Return uploads whose changes of parameters are no longer than so many times the usual one, and its new length.

    ``usual``: an exponential average of the median lengths of earlier rounds; 0 if there were none. An upload that is
    not too long is left as it is, to the bit; where none is, the uploads themselves are returned.

    Examples
    --------
    >>> model, uploads = np.zeros(2, dtype=np.float32), np.array([[1, 0], [0, 1], [0, 9]], dtype=np.float32)
    >>> clipped, usual = clip_changes(model, uploads, 2, usual=0.0, factor=2.0)
    >>> clipped.tolist(), usual
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], 1.0)
    """
    part = slice(0, n_parameters)
    lengths = change_lengths(model[part], uploads[:, part])
    now = float(np.median(lengths))
    usual = now if usual == 0.0 else 0.9 * usual + 0.1 * now
    too_long = np.flatnonzero(lengths > factor * usual) if usual > 0.0 else np.empty(0, dtype=np.int64)
    clipped = uploads.copy() if too_long.size else uploads
    for at in too_long:
        change = uploads[at, part].astype(np.float64) - model[part]
        clipped[at, part] = model[part] + factor * usual / lengths[at] * change
    return clipped, usual


def change_lengths(model: Models, uploads: Models) -> Vector:
    """Return how far each upload lies from the model, in float64, shape ``(n_participants,)``."""
    return np.array([float(np.linalg.norm(upload.astype(np.float64) - model)) for upload in uploads])


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKrum:
    """Takes the mean of the uploads that lie nearest to their neighbors (Blanchard et al., NeurIPS 2017).

    Distances are those of parameters: buffers (statistics of layers, label mixes) differ as honest clients' data do.

    Parameters
    ----------
    liars
        Share of the participants that may lie, below a half: an upload is judged by its distances to as many others as
        are honest beside it, and the most isolated ones are left out.
    """

    liars: float = 0.2
    memory: ClassVar[Mapping[str, float]] = {}
    needs_start_loss: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_below("liars", self.liars, 0.5)

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        """Return the mean of the uploads that are kept."""
        models = uploads.models[:, : uploads.n_parameters]
        n_models = models.shape[0]
        n_liars = int(self.liars * n_models)
        if n_models < 3:
            return mean_model(uploads.models), {}
        squares = np.zeros((n_models, n_models))
        for part in column_chunks(models.shape[1]):
            rows = models[:, part].astype(np.float64)
            inner = rows @ rows.T
            lengths = np.diag(inner)
            squares += np.maximum(lengths[:, np.newaxis] + lengths - 2.0 * inner, 0.0)
        n_neighbors = max(1, n_models - n_liars - 2)
        scores = np.sort(squares, axis=1)[:, 1 : n_neighbors + 1].sum(axis=1)
        kept = np.sort(np.argsort(scores, kind="stable")[: n_models - n_liars])
        return mean_model(uploads.models[kept]), {}
