"""What the shared model sees in the samples that windows show; every sample is looked at once, when it arrives."""

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Models
from fielding.client.representation.representation import Seen
from fielding.traces.sliding import SlidingWindows
from fielding.training.head import features_of, gradient_of, head_size
from fielding.training.trainer import Scores, Trainer

Columns = npt.NDArray[np.float32]


class Sight:
    """Features and scores of the training samples that are visible now.

    Parameters
    ----------
    windows
        What clients see when.
    trainer
        Of the shared model; None if representations need none: labels speak for themselves.

    Attributes
    ----------
    model
        The shared model, float32, shape ``(n_numbers,)``; None until somebody shares one.
    """

    def __init__(self, windows: SlidingWindows, trainer: Trainer | None) -> None:
        self._windows, self._trainer = windows, trainer
        self.model: Models | None = None
        self._rows: Counts = np.empty(0, dtype=np.int64)
        self._features: Columns = np.empty((0, 0), dtype=np.float32)
        self._scores: Scores = np.empty((0, len(windows.pool.classes)), dtype=np.float32)

    @property
    def needs_model(self) -> bool:
        """Whether samples go through a shared model at all."""
        return self._trainer is not None

    @property
    def is_open(self) -> bool:
        """Whether there is all that is needed to see."""
        return not self.needs_model or self.model is not None

    def show(self, rows: Counts) -> tuple[Counts, Counts]:
        """Look at what is new among the schedule rows that are visible from now on, and forget what is not.

        Parameters
        ----------
        rows
            Rising, shape ``(n_visible,)``.

        Returns
        -------
        The rows that are not visible any more, and those that are new.
        """
        is_kept = np.isin(self._rows, rows, assume_unique=True)
        new = rows[~np.isin(rows, self._rows, assume_unique=True)]
        features, scores = self._looked_at(new)
        if not self._rows.size:
            self._features = features[:0]  # how many there are shows with the first samples
        order = np.argsort(np.concatenate([self._rows[is_kept], new]))
        self._features = np.concatenate([self._features[is_kept], features])[order]
        self._scores = np.concatenate([self._scores[is_kept], scores])[order]
        gone, self._rows = self._rows[~is_kept], rows
        return gone, new

    def of(self, rows: Counts, sizes: Counts) -> Seen:
        """Return visible samples as representations want them; those of a client stand together, ``sizes`` each."""
        at = np.searchsorted(self._rows, rows)
        trainer, n_classes = self._trainer, self._scores.shape[1]
        return Seen(
            labels=self._windows.schedule.y[rows].astype(np.int64),
            features=self._features[at],
            scores=self._scores[at],
            sizes=sizes,
            gradients=lambda: self._gradients(rows, sizes),
            n_head=0 if trainer is None else head_size(trainer.layout, n_classes),
        )

    def _looked_at(self, rows: Counts) -> tuple[Columns, Scores]:
        """Return features and scores of schedule rows."""
        if self._trainer is None or self.model is None or not rows.size:
            shape = (rows.size, self._features.shape[1])
            return np.zeros(shape, dtype=np.float32), np.zeros((rows.size, self._scores.shape[1]), dtype=np.float32)
        return features_of(self._trainer, self.model, rows, self._windows.gather)

    def _gradients(self, rows: Counts, sizes: Counts) -> Matrix:
        """Return the gradient of the summed loss of each client's samples."""
        if self._trainer is None or self.model is None:
            raise RuntimeError("gradients need a shared model")
        found = np.zeros((sizes.size, self._trainer.layout.parameter_size))
        ends = np.cumsum(sizes)
        for client, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
            found[client] = gradient_of(self._trainer, self.model, rows[int(start) : int(end)], self._windows.gather)
        return found
