"""Stage 12: how well clients are served; test samples of one model run through it together, not client by client."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from fielding._typing import Counts, Models, Vector
from fielding.client.ranges import Ranges, segment_means, segment_sums
from fielding.errors import InputError
from fielding.federation.evaluation import NO_SCORES, ClientScores
from fielding.rng import Hashes, hashed
from fielding.runtime.own_code import Metric, metric_of
from fielding.runtime.serve import LabelCorrection
from fielding.runtime.store import SampleStore
from fielding.runtime.train import LocalRule, draw_batches
from fielding.runtime.workers import Compute
from fielding.training.head import SampleScores
from fielding.training.trainer import LocalWork, Scores

MOST_NUMBERS = 1 << 24  # tuned models held at a time, in numbers: 64 MB, unless one call of the trainer gives more
Score: TypeAlias = Callable[[Models, Counts], Sequence[SampleScores]]
"""Returns loss and correctness of rows under a model in each of several ways, always in the same order."""


class LocalTest:
    """Tests the models that serve clients: as they are, corrected, and after steps of the clients' own.

    ``correction`` None: models are tested as they are alone. ``tuning``: the rule of the steps that each client takes
    on its model for a second test; None: it takes none. ``metrics`` of the user's own look at models as they are.
    """

    def __init__(
        self,
        store: SampleStore,
        compute: Compute,
        *,
        correction: LabelCorrection | None,
        tuning: LocalRule | None,
        metrics: Mapping[str, Metric] | None = None,
        seed: int,
        keys: Hashes,
    ) -> None:
        self._store, self._compute, self._seed, self._keys = store, compute, seed, keys
        self._correction, self._tuning, self._metrics = correction, tuning, metrics or {}
        self._last: tuple[Models, Counts, int, Scores] | None = None

    def test(
        self, models: Models, row: Counts, samples: Mapping[str, Ranges], *, round_index: int, training: Ranges
    ) -> dict[str, ClientScores]:
        """Score each client's model on several sets of its samples, by name, if it also has samples to train on.

        ``row``: which model serves each client.
        """
        found = {name: self._test_served(models, row, one, round_index, training) for name, one in samples.items()}
        if self._tuning is None:
            return found
        tuned = self._test_tuned(self._tuning, models, row, samples, round_index, training)
        return {name: replace(one, also={**one.also, "tuned": tuned[name]}) for name, one in found.items()}

    def _test_served(
        self, models: Models, row: Counts, ranges: Ranges, round_index: int, training: Ranges
    ) -> ClientScores:
        """Score the models that clients are served with: as they are, and corrected if that is what clients do."""
        tested = _tested(ranges, training)
        if self._correction is None:
            return self._with_metrics(self._measure(models, row, ranges, tested), models, row, ranges)
        offsets = self._offsets(models, row, round_index, training)
        plain, corrected = score_clients(models, row, ranges, tested, self._correct(self._correction, offsets))
        if self._compute.tests_whole_windows:
            plain = self._measure(models, row, ranges, tested)
            n_tested = np.zeros(row.size, dtype=np.int64)
            n_tested[plain.clients] = plain.n_test
            if (odd := np.flatnonzero(n_tested[tested] != corrected.n_test)).size:
                raise InputError(
                    f"evaluate tested {n_tested[tested[odd[0]]]} of {corrected.n_test[odd[0]]} samples, but corrected "
                    "models are tested on all; test all of them"
                )
        return replace(self._with_metrics(plain, models, row, ranges), also={"corrected": corrected})

    def _with_metrics(self, scores: ClientScores, models: Models, row: Counts, ranges: Ranges) -> ClientScores:
        """Return scores with what metrics of the user's own say of the same clients."""
        clients = scores.clients
        found = {name: np.full(clients.size, np.nan) for name in self._metrics}
        for model in np.unique(row[clients]).tolist() if found else []:
            own = np.flatnonzero(row[clients] == model)
            rows, sizes = ranges.of(clients[own])
            by_class, labels = self._compute.class_scores(models[model], rows, self._store.gather)
            ends = np.cumsum(sizes)
            for at, start, end in zip(own.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True):
                for name, metric in self._metrics.items():
                    found[name][at] = metric_of(name, metric, by_class[start:end], labels[start:end])
        return replace(scores, metrics={**scores.metrics, **found})

    def _measure(self, models: Models, row: Counts, ranges: Ranges, tested: Counts) -> ClientScores:
        order = tested[np.argsort(row[tested], kind="stable")]
        n_test, correct, loss = np.empty(order.size, np.int64), np.empty(order.size, np.int64), np.empty(order.size)
        metrics: dict[str, Vector] = {}
        for at in np.unique(row[order]).tolist():
            own = np.flatnonzero(row[order] == at)
            found = self._compute.measure(models[at], *ranges.of(order[own]), self._store.gather)
            n_test[own], correct[own], loss[own] = found.n_test, found.correct, found.loss
            for name, values in found.metrics.items():
                metrics.setdefault(name, np.full(order.size, np.nan))[own] = values
        back = np.argsort(order, kind="stable")
        back = back[n_test[back] > 0]  # code of the user's own may leave samples out, even all
        return ClientScores(
            clients=order[back],
            n_test=n_test[back],
            correct=correct[back],
            loss=loss[back],
            metrics={name: values[back] for name, values in metrics.items()},
        )

    def _correct(self, correction: LabelCorrection, offsets: Scores) -> Score:
        return lambda model, rows: correction.score(model, rows, offsets)

    def _offsets(self, models: Models, row: Counts, round_index: int, training: Ranges) -> Scores:
        """Return the offsets of all clients; the same models are measured on several samples, so the last are kept."""
        last = self._last
        if self._correction is None:
            raise RuntimeError("nothing is corrected")
        if last is None or not (last[0] is models and last[1] is row and last[2] == round_index):
            everyone = np.arange(self._store.n_clients)
            offsets = self._correction.offsets(models, row, clients=everyone, training=training)
            last = self._last = (models, row, round_index, offsets)
        return last[3]

    def _test_tuned(
        self,
        rule: LocalRule,
        models: Models,
        row: Counts,
        samples: Mapping[str, Ranges],
        round_index: int,
        training: Ranges,
    ) -> dict[str, ClientScores]:
        """Score the models that clients have after their own steps, with the offsets that they took them with."""
        offsets = None if self._correction is None else self._offsets(models, row, round_index, training)
        tested = {name: _tested(ranges, training) for name, ranges in samples.items()}
        everyone = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *tested.values()]))
        own_row = np.zeros(row.size, dtype=np.int64)
        pieces: dict[str, list[ClientScores]] = {name: [] for name in samples}
        # Whole calls of the trainer: what belongs into one must not depend on how much memory there is.
        chunk = self._compute.path.chunk
        at_once = chunk * max(1, MOST_NUMBERS // (chunk * models.shape[1]))
        for first in range(0, everyone.size, at_once):
            some = everyone[first : first + at_once]
            work = LocalWork(
                models=models,
                start=row[some],
                draws=draw_batches(
                    training,
                    some,
                    keys=hashed(self._seed, "fine tuning", self._keys[some]),
                    moment=(self._seed, round_index),
                    shape=(rule.n_steps, rule.batch_size),
                ),
                gather=self._store.gather,
                sgd=rule.sgd(round_index),
                offsets=None if offsets is None else offsets[some],
            )
            own = self._compute.train(work, training.some(some), with_progress=False).models
            own_row[some] = np.arange(some.size)
            for name, ranges in samples.items():
                here = some[np.isin(some, tested[name])]
                if self._correction is None or offsets is None:
                    pieces[name].append(self._measure(own, own_row, ranges, here))
                else:
                    score = self._correct(self._correction, offsets)
                    pieces[name].append(score_clients(own, own_row, ranges, here, score)[1])
        return {name: _join_scores(parts) for name, parts in pieces.items()}


def _tested(ranges: Ranges, training: Ranges) -> Counts:
    """Return the clients that have samples to be tested on and samples to train on, rising."""
    return np.flatnonzero((ranges.sizes > 0) & (training.sizes > 0))


def _join_scores(parts: Sequence[ClientScores]) -> ClientScores:
    if not parts:
        return NO_SCORES
    return ClientScores(
        clients=np.concatenate([one.clients for one in parts]),
        n_test=np.concatenate([one.n_test for one in parts]),
        correct=np.concatenate([one.correct for one in parts]),
        loss=np.concatenate([one.loss for one in parts]),
    )


def score_clients(
    models: Models, row: Counts, ranges: Ranges, tested: Counts, score: Score
) -> tuple[ClientScores, ...]:
    """Score ``tested`` clients, rising, each with a sample, in several ways at once; ``row``: the model of each."""
    order = tested[np.argsort(row[tested], kind="stable")]
    entries, sizes = ranges.of(order)
    ends = np.cumsum(np.bincount(row[order], weights=sizes, minlength=models.shape[0])).astype(np.int64)
    pieces = [
        score(model, entries[start:end])
        for model, (start, end) in zip(models, pairwise([0, *ends.tolist()]), strict=True)
    ]
    back, found = np.argsort(order, kind="stable"), []
    for parts in zip(*pieces, strict=True):
        losses = np.concatenate([np.empty(0, dtype=np.float32), *(part[0] for part in parts)])
        right = np.concatenate([np.empty(0, dtype=np.bool_), *(part[1] for part in parts)])
        found.append(
            ClientScores(
                clients=order[back],
                n_test=sizes[back],
                correct=segment_sums(right, sizes)[back],
                loss=segment_means(losses, sizes)[back],
            )
        )
    return tuple(found)
