"""Local training and scoring on several threads; the results do not depend on how many."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Mask, Models, Vector
from fielding.client.ranges import Ranges, segment_means, segment_sums
from fielding.training.head import features_of, gradient_of
from fielding.training.layout import Layout
from fielding.training.trainer import Gather, LocalWork, Scores, Trained, Trainer, TrainingPath

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")
OnTrained: TypeAlias = Callable[[int, int], None]  # called with how many participants of how many have trained

SMALL_MODEL = 20_000
"""Numbers of a stacked model below which a second thread does not pay (7,000: slower on a busy machine)."""


class Measured(NamedTuple):
    """How a model does on segments of rows: how many were tested, how many are right, the mean loss (NaN: no rows).

    ``metrics``: what else a user's own code says, by name.
    """

    n_test: Counts
    correct: Counts
    loss: Vector
    metrics: Mapping[str, Vector]


class Compute(Protocol):
    """Trains and scores models on rows of a store, by one of Fielding's trainers or by a user's own code."""

    @property
    def layout(self) -> Layout:
        """What the numbers of a model mean."""
        ...

    @property
    def path(self) -> TrainingPath:
        """How the trainer works."""
        ...

    on_trained: OnTrained

    @property
    def tests_whole_windows(self) -> bool:
        """Whether a test of a window is one number of its own, which per-sample scores need not add up to."""
        ...

    def train(self, work: LocalWork, at_hand: Ranges, *, with_progress: bool = True) -> Trained:
        """Do the local steps of all participants; ``at_hand``: all samples that each may train on."""
        ...

    def scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return loss and correctness of rows under a model."""
        ...

    def class_scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[Scores, Codes]:
        """Return the scores of classes, shape ``(n_rows, n_classes)``, and labels of rows, one at least."""
        ...

    def features(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Scores]:
        """Return what goes into the last layer, and the scores of classes, of rows, one at least."""
        ...

    def gradient(self, model: Models, rows: Counts, gather: Gather) -> Vector:
        """Return the gradient of the summed loss of rows by all parameters, shape ``(n_parameters,)``."""
        ...

    def measure(self, model: Models, rows: Counts, sizes: Counts, gather: Gather) -> Measured:
        """Return how many of each segment of rows were tested, how many are right, and the mean loss (NaN: no rows)."""
        ...

    def close(self) -> None:
        """Release what was taken: threads."""
        ...


class Crew(Protocol):
    """Trains pieces of local work elsewhere, several at a time."""

    def train(self, pieces: Sequence[LocalWork]) -> Iterator[tuple[int, Trained]]:
        """Yield what each piece gave, with its position, in any order."""
        ...


def ignore_progress(_done: int, _total: int) -> None:
    """Ignore how many participants have trained."""


class Workers:
    """Runs a trainer's calls, several at a time if each uses one thread.

    What belongs into one call follows from the trainer's path alone, so one worker and many give the same bits.

    ``n_workers`` calls may run at once. ``on_trained`` is called by the thread of :meth:`train`; results do not depend
    on it. ``crew``: trains in place of this process, which does all else.
    """

    tests_whole_windows = False

    def __init__(self, trainer: Trainer, n_workers: int = 1, *, crew: Crew | None = None) -> None:
        self._trainer, self._crew = trainer, crew
        self.on_trained: OnTrained = ignore_progress
        # Steps of small stacked models are so short that threads would spend them on waiting for the interpreter.
        is_small = trainer.path.name == "stacked" and trainer.layout.size < SMALL_MODEL
        is_parallel = n_workers > 1 and trainer.path.n_threads == 1 and not is_small
        self._threads = ThreadPoolExecutor(n_workers, thread_name_prefix="fielding") if is_parallel else None

    @property
    def layout(self) -> Layout:
        """What the numbers of a model mean."""
        return self._trainer.layout

    @property
    def path(self) -> TrainingPath:
        """How the trainer works."""
        return self._trainer.path

    def close(self) -> None:
        """Release the threads."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def train(self, work: LocalWork, at_hand: Ranges | None = None, *, with_progress: bool = True) -> Trained:  # noqa: ARG002
        """Do the local steps of all participants, ``path.chunk`` of them per call."""
        chunk, on_trained = self._trainer.path.chunk, self.on_trained if with_progress else ignore_progress
        pieces = [work.part(slice(at, at + chunk)) for at in range(0, work.start.size, chunk)]
        if len(pieces) == 1 and self._crew is None:
            done = self._trainer.train(pieces[0])
            on_trained(work.start.size, work.start.size)
            return done
        # Every call puts its rows where they belong, so that the models are never there twice.
        models = np.empty((work.start.size, work.models.shape[1]), dtype=np.float32)
        losses = np.empty((2, work.start.size))

        def keep(at: int, one: Trained) -> int:
            rows = slice(at * chunk, (at + 1) * chunk)
            models[rows], losses[0, rows], losses[1, rows] = one.models, one.loss, one.square_loss
            return at

        if self._crew is None:
            kept = self._map(lambda at: keep(at, self._trainer.train(pieces[at])), range(len(pieces)))
        else:
            kept = (keep(at, one) for at, one in self._crew.train(pieces))
        for n_pieces, _ in enumerate(kept, start=1):
            on_trained(min(n_pieces * chunk, work.start.size), work.start.size)
        return Trained(models=models, loss=losses[0], square_loss=losses[1])

    def scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return loss and correctness of rows under a model, ``path.eval_chunk`` of them per call."""
        done = list(self._map(lambda piece: self._trainer.scores(model, *gather(piece)), self._pieces(rows)))
        losses, right = [one[0] for one in done], [one[1] for one in done]
        return np.concatenate([np.empty(0, np.float32), *losses]), np.concatenate([np.empty(0, np.bool_), *right])

    def class_scores(self, model: Models, rows: Counts, gather: Gather) -> tuple[Scores, Codes]:
        """Return the scores of classes, shape ``(n_rows, n_classes)``, and labels of rows, one at least."""

        def score(piece: Counts) -> tuple[Scores, Codes]:
            x, y = gather(piece)
            return self._trainer.features(model, x)[1], y

        done = list(self._map(score, self._pieces(rows)))
        return np.concatenate([one[0] for one in done]), np.concatenate([one[1] for one in done])

    def features(self, model: Models, rows: Counts, gather: Gather) -> tuple[npt.NDArray[np.float32], Scores]:
        """Return what goes into the last layer, and the scores of classes, of rows, one at least."""
        return features_of(self._trainer, model, rows, gather)

    def gradient(self, model: Models, rows: Counts, gather: Gather) -> Vector:
        """Return the gradient of the summed loss of rows by all parameters, shape ``(n_parameters,)``."""
        return gradient_of(self._trainer, model, rows, gather)

    def measure(self, model: Models, rows: Counts, sizes: Counts, gather: Gather) -> Measured:
        """Return, for consecutive segments of rows, their sizes, how many are right, and the mean loss."""
        losses, right = self.scores(model, rows, gather)
        return Measured(sizes, segment_sums(right, sizes), segment_means(losses, sizes), {})

    def _pieces(self, rows: Counts) -> list[Counts]:
        chunk = self._trainer.path.eval_chunk
        return [rows[at : at + chunk] for at in range(0, rows.size, chunk)]

    def _map(self, call: Callable[[Piece], Answer], pieces: Sequence[Piece]) -> Iterator[Answer]:
        """Yield the answers in the order of the pieces, each as soon as it and those before it are there."""
        if self._threads is None or len(pieces) < 2:
            return map(call, pieces)
        return self._threads.map(call, pieces)
