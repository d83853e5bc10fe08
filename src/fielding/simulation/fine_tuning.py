"""Every client takes a few steps of its own from the model that serves it, before it is tested once more."""

from collections.abc import Iterator

from fielding._typing import Counts, Models
from fielding.rng import Hashes, hashed
from fielding.simulation.batches import drawn_batches
from fielding.simulation.local_training import Moment
from fielding.simulation.settings import LocalRule
from fielding.simulation.workers import Workers
from fielding.traces.sliding import SlidingWindows
from fielding.training.trainer import LocalWork, Scores

MOST_NUMBERS = 1 << 24
"""Tuned models held at a time, in numbers: 64 MB, unless one call of the trainer gives more."""


class FineTuning:
    """Tunes models; what a client draws depends on seed, round and its id alone.

    Parameters
    ----------
    windows
        What clients see when.
    workers
        Who computes.
    rule
        How long and how fast clients tune.
    seed, keys
        Seed of all draws, and the hash of each client's id.
    """

    def __init__(self, windows: SlidingWindows, workers: Workers, rule: LocalRule, *, seed: int, keys: Hashes) -> None:
        self._windows, self._workers, self._rule = windows, workers, rule
        self._seed, self._keys = seed, keys

    def tuned(
        self, models: Models, row: Counts, *, clients: Counts, moment: Moment, offsets: Scores | None
    ) -> Iterator[tuple[Counts, Models]]:
        """Yield clients, some at a time, with the model that each has after its steps.

        Parameters
        ----------
        models
            What they start from, shape ``(n_models, n_numbers)``.
        row
            Which of them serves each client, shape ``(n_clients,)``.
        clients
            Who takes the steps; each has training samples.
        moment
            When.
        offsets
            What is added to the scores of all clients inside the loss, shape ``(n_clients, n_classes)``; None: nothing.
        """
        # Whole calls of the trainer: what belongs into one must not depend on how much memory there is.
        chunk = self._workers.path.chunk
        at_once = chunk * max(1, MOST_NUMBERS // (chunk * models.shape[1]))
        for first in range(0, clients.size, at_once):
            some = clients[first : first + at_once]
            work = LocalWork(
                models=models,
                start=row[some],
                draws=drawn_batches(
                    moment.training,
                    some,
                    keys=hashed(self._seed, "fine tuning", self._keys[some]),
                    moment=(self._seed, moment.round_index),
                    shape=(self._rule.n_steps, self._rule.batch_size),
                ),
                gather=self._windows.gather,
                sgd=self._rule.sgd(moment.round_index),
                offsets=None if offsets is None else offsets[some],
            )
            yield some, self._workers.train(work, is_told=False).models
