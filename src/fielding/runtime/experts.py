"""How clients read their samples with experts, and how they come to know which of them to believe (docs/serving.md)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Features, Mask, Matrix, Models, Vector
from fielding.client.ranges import Ranges
from fielding.config.parts import Family, imported_function
from fielding.errors import InputError, OptionError, echo
from fielding.federation.evaluation import ClientScores
from fielding.runtime.own_code import Metric, metric_of
from fielding.runtime.serve import Serving
from fielding.runtime.store import SampleStore
from fielding.runtime.workers import Compute
from fielding.serving.correction import label_offsets, smooth_mixes, trust_mixes
from fielding.serving.experts import (
    MOST_SAMPLES,
    N_FOLDS,
    N_WAVES,
    Expert,
    Said,
    Seen,
    Window,
    folds_of,
    projected,
    served,
    wave_widths,
    waves,
)
from fielding.serving.weights import (
    LEAST,
    Stack,
    arrival_losses,
    common_belief,
    heard_losses,
    likelihoods,
    memories,
    posterior_weights,
    shared_weights,
    window_weights,
)
from fielding.training.head import head_size
from fielding.training.label_mix import label_mix_of
from fielding.training.trainer import Scores

MOST_NUMBERS = 1 << 22  # of one array of a stack of clients: 32 MB
FIRST_PRIOR, PRIOR = 4.0, 0.5  # samples that speak beforehand for the expert believed at first, and for each other
LEAST_WINDOW = 10  # samples by which the local expert of a client can tell how far inputs are apart
HEDGE = 0.3  # of what is said of samples like those at hand is said by the weights of the stream
EXPERTS: Family[Expert] = Family("expert")
BASES = ("served", "corrected", "common", "heads")
"""Experts that read the scores of models alone; the last of them that a client has is the base of the others."""
RESIDUAL = "residual"
LOCAL = "local"
WINDOW = "window"
"""The mixture of all experts by what they say of the window: one more expert, for the stream of samples."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """What experts say of samples of some clients.

    ``said``: by the mixture of the window last, shape ``(n_experts + 1, n_clients, n_asked, n_classes)``, padded to the
    client with most samples. ``mixture``: the weights of that mixture, shape ``(n_clients, n_experts)``; ``losses``: of
    the same experts on the window, out of fold.
    """

    clients: Counts
    said: Stack
    mixture: Matrix
    losses: Matrix


class ServedExperts:
    """The experts of N clients, and how much each client believes each of them.

    Two kinds of evidence. *Window*: what experts say of the samples in the window, out of fold; right for samples like
    those. *Stream*: how well each predicted the samples that came, before anything learned from them; right for those
    to come, and kept. Participants tell their last losses with the models that they send, and all clients hear what
    those of all come to: a client without samples so far believes that alone, any other in part.

    ``has_heads``: whether the models of clusters share a body, so that a client can read with all their heads; the last
    of several models is the one for all clients then.
    """

    def __init__(self, store: SampleStore, compute: Compute, rule: Serving, *, has_heads: bool = False) -> None:
        self._store, self._compute, self._rule = store, compute, rule
        n_head = head_size(compute.layout, store.n_classes)
        self._n_features, self._n_head = n_head // store.n_classes, n_head if has_heads else 0
        self._n_inputs = math.prod(store.gather(np.empty(0, dtype=np.int64))[0].shape[1:])
        self.names = rule.experts
        self.told_names = told_names(rule)
        self._experts = [expert_named(name) for name in self.names]
        # Believed at first: the residuals, which know by themselves when to say what their base says.
        first = self.names.index(RESIDUAL) if RESIDUAL in self.names else sum(name in BASES for name in self.names) - 1
        self._prior: Vector = np.full(len(self.names) + 1, PRIOR)
        self._prior[[first, -1]] = FIRST_PRIOR
        self.looked: Counts = np.zeros(store.n_clients, dtype=np.int64)  # what the last samples cost each client
        # By the stream: a weight of each expert, its log loss on the newest of them, NaN before any.
        self._posterior: Matrix = np.full((store.n_clients, self._prior.size), np.nan)
        self.losses: Matrix = np.full((store.n_clients, self._prior.size), np.nan)
        # Sums over arrivals of what the memory of models made of each expert's word about windows, and their number.
        self._memories: Matrix = np.zeros((store.n_clients, len(self.names) + 1))
        # The same losses of all clients, as far as participants told.
        self.heard: Vector = np.full(self._prior.size, np.nan)
        # Of clients whose windows have slid: the sums that the local expert keeps of what left, and their waves' width.
        self._past: dict[int, npt.NDArray[np.float32]] = {}
        self._width: dict[int, float] = {}

    def count_passes(self, sizes: Counts) -> Counts:
        """Return what experts cost clients with windows of such sizes, in samples put through a model.

        The window goes through the model once; kernels and their decomposition count as many passes as they take
        multiplications. An empty window costs nothing: experts are not asked.
        """
        n, n_numbers = np.minimum(sizes, MOST_SAMPLES), self._compute.layout.parameter_size
        work = n * n * (self._n_features + 9 * n) if RESIDUAL in self.names else np.zeros_like(n)
        if LOCAL in self.names:  # projections, products of waves, equations of which each sample is one, folds
            work = work + N_WAVES * (n * (self._n_inputs + 8 * N_WAVES) + 2 * n * n // N_FOLDS + 3 * N_WAVES**2)
        return np.where(n > 0, n + -(-work // n_numbers), 0)

    def count_numbers(self, n_models: int) -> tuple[int, int]:
        """Return how many numbers travel with a model to a client, and back: heads with their label mixes, losses."""
        n_heads = n_models - 1 if self._n_head else 0
        return n_heads * (self._n_head + self._store.n_classes) + self._prior.size, self._prior.size

    def learn(self, models: Models, row: Counts, arrived: Ranges, training: Ranges) -> None:
        """Let all experts predict samples that arrived, and believe those more that were right.

        ``training``: the windows as they were before, ``row``: the model that served each client then.
        """
        clients = np.flatnonzero((arrived.sizes > 0) & (training.sizes > 0))
        self.looked[clients] = self.count_passes(training.sizes[clients])
        for reading in self._read(models, row, clients, arrived, training):
            rows, sizes = arrived.of(reading.clients)
            labels, there = _padded(self._store.labels(rows), sizes, reading.said.shape[2])
            likely = likelihoods(reading.said, labels)
            losses = arrival_losses(likely, there)
            self._posterior[reading.clients] = posterior_weights(self.weights(reading.clients), losses)
            self.losses[reading.clients] = losses
            if LOCAL in self.names:
                knows = training.sizes[reading.clients] > 1  # of a single sample, it says what models say
                found = memories(
                    losses[:, :-1],
                    reading.losses,
                    honest=self.names.index(LOCAL),
                    n_classes=self._store.n_classes,
                )
                self._memories[reading.clients[knows]] += np.hstack([found, np.ones((len(found), 1))])[knows]

    def keep(self, before: Ranges, after: Ranges) -> None:
        """Let the local expert of each client take in the samples that leave its window.

        ``before``, ``after``: the windows, in the same entries; of both, experts look at the newest samples.
        """
        if LOCAL not in self.names:
            return
        before, after = _newest(before), _newest(after)
        n_leaving = np.clip(after.start - before.start, 0, before.sizes)
        for client in np.flatnonzero(n_leaving).tolist():
            if client not in self._past and before.sizes[client] < LEAST_WINDOW:
                continue
            rows, _ = before.of(np.array([client]))
            shown, n = projected(self._store.gather(rows)[0])[np.newaxis], int(n_leaving[client])
            if client not in self._past:
                self._width[client] = float(wave_widths(shown, np.ones((1, rows.size), dtype=np.bool_))[0])
                self._past[client] = np.zeros((2 * N_WAVES, 2 * N_WAVES + self._store.n_classes), dtype=np.float32)
            kept = waves(shown[:, :n], np.array([self._width[client]]))[0]
            one_hot = self._store.labels(rows[:n])[:, np.newaxis] == np.arange(self._store.n_classes)
            self._past[client] += (kept.T @ np.concatenate([kept, one_hot], axis=1)).astype(np.float32)

    def weights(self, clients: Counts) -> Matrix:
        """Return how much clients believe each expert in what is to come, the mixture of the window last."""
        return shared_weights(self._posterior[clients], common_belief(self.heard, self._prior))

    def hear(self, told: Matrix) -> None:
        """Let all clients know what the last losses of some, who sent them with their models, add to those of all."""
        self.heard = heard_losses(self.heard, told)

    def test(
        self,
        models: Models,
        row: Counts,
        samples: Mapping[str, Ranges],
        training: Ranges,
        metrics: Mapping[str, Metric],
    ) -> dict[str, ClientScores]:
        """Score what clients are served: by the weights of the stream on ``"next"``, else by both.

        ``metrics`` of the user's own see logarithms of shares, whose softmax are the shares.
        """
        tested = {name: np.flatnonzero((one.sizes > 0) & (training.sizes > 0)) for name, one in samples.items()}
        everyone = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *tested.values()]))
        asked = _joined([one.some(everyone) for one in samples.values()])
        place = np.full(self._store.n_clients, -1)
        place[everyone] = np.arange(everyone.size)
        asked = Ranges(start=asked.start[place], stop=asked.stop[place], entries=asked.entries)  # -1: never looked at
        n_clients = self._store.n_clients
        correct = {name: np.zeros(n_clients, dtype=np.int64) for name in samples}
        alone = {name: np.zeros((self._prior.size, n_clients), dtype=np.int64) for name in samples}
        counts_for = np.zeros((len(self.names), n_clients))  # what each expert counts for, the mixture taken apart
        loss = {name: np.zeros(n_clients) for name in samples}
        measured = {name: {metric: np.full(n_clients, np.nan) for metric in metrics} for name in samples}
        for reading in self._read(models, row, everyone, asked, training):
            clients, weights = reading.clients, self.weights(reading.clients)
            counts_for[:, clients] = (weights[:, :-1] + weights[:, -1:] * reading.mixture).T
            streamed, at_hand = _mixed(reading, weights)
            rows, sizes = asked.of(clients)
            labels, _ = _padded(self._store.labels(rows), sizes, streamed.shape[1])
            by_each = reading.said.argmax(axis=3) == labels
            column, begin = np.arange(streamed.shape[1]), np.zeros(clients.size, dtype=np.int64)
            for name, one in samples.items():
                said, end = streamed if name == "next" else at_hand, begin + one.sizes[clients]
                mine = (column >= begin[:, np.newaxis]) & (column < end[:, np.newaxis])
                given = np.take_along_axis(said, labels[..., np.newaxis], axis=2)[..., 0]
                correct[name][clients] = ((said.argmax(axis=2) == labels) & mine).sum(axis=1)
                alone[name][:, clients] = (by_each & mine).sum(axis=2)
                loss[name][clients] = -(np.log(np.maximum(given, LEAST)) * mine).sum(axis=1)
                for at, client in enumerate(clients.tolist()) if metrics else ():
                    own = mine[at]
                    for metric, measure in metrics.items() if own.any() else ():
                        scores = np.log(np.maximum(said[at, own], LEAST))
                        measured[name][metric][client] = metric_of(metric, measure, scores, labels[at, own])
                begin = end
        return {
            name: ClientScores(
                clients=who,
                n_test=samples[name].sizes[who],
                correct=correct[name][who],
                loss=loss[name][who] / samples[name].sizes[who],
                expert_weights=dict(zip(self.names, counts_for[:, who], strict=True)),
                expert_losses=dict(zip(self.told_names, self.losses[who].T, strict=True)),
                expert_correct=dict(zip(self.told_names, alone[name][:, who], strict=True)),
                metrics={metric: values[who] for metric, values in measured[name].items()},
            )
            for name, who in tested.items()
        }

    def shares(self, models: Models, row: Counts, asked: Ranges, training: Ranges) -> Stack:
        """Return the shares of classes that a client which is alone here is served for samples like its window's.

        Shape ``(n_asked, n_classes)``, in the order of ``asked``; both ranges hold a sample at least.
        """
        (reading,) = self._read(models, row, np.zeros(1, dtype=np.int64), asked, training)
        return np.asarray(_mixed(reading, self.weights(reading.clients))[1][0, : asked.sizes[0]])

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what clients know of their experts and heard of others, for checkpoints.

        Not what they keep of samples that left their windows: it comes back with the windows, round by round.
        """
        return {
            "expert_weights": self._posterior,
            "expert_losses": self.losses,
            "expert_memories": self._memories,
            "expert_heard": self.heard,
        }

    def own_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a client that is alone here knows by itself, and what it keeps of samples that are gone."""
        known = {name: mine for name, mine in self.arrays().items() if name != "expert_heard"}
        if 0 in self._past:
            known |= {"expert_past": self._past[0], "expert_width": np.array(self._width[0])}
        return known

    def know(self, heard: Vector, own: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Let a client know what it heard, and by itself; what does not fit its experts counts as nothing.

        What it keeps of samples that are gone stays when the list of classes has grown.
        """
        for name, mine in self.own_arrays().items():
            if name in own and own[name].shape == mine.shape:
                mine[...] = own[name]
        n_waves, past, width = 2 * N_WAVES, own.get("expert_past"), own.get("expert_width")
        n_columns = n_waves + self._store.n_classes
        if past is not None and width is not None and past.shape[0] == n_waves < past.shape[1] <= n_columns:
            # Of classes that are new since then nothing is kept.
            self._past[0] = np.pad(past.astype(np.float32), ((0, 0), (0, n_columns - past.shape[1])))
            self._width[0] = float(width)
        if heard.shape == self.heard.shape:
            self.heard = heard

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Give clients back what :meth:`arrays` gave; what older versions did not keep starts anew."""
        for name, own in self.arrays().items():
            if name in arrays:
                own[...] = arrays[name]

    def _read(self, models: Models, row: Counts, clients: Counts, asked: Ranges, training: Ranges) -> Iterator[Reading]:
        """Let experts read samples of many clients at a time: of those whose windows are of about one size."""
        n_heads = [len(_order(own, len(models))) if self._has_heads(models) else 1 for own in range(len(models))]
        keys = np.stack(
            [
                np.asarray(n_heads)[row[clients]],
                _class_of(np.minimum(training.sizes, MOST_SAMPLES)[clients]),
                1 << np.ceil(np.log2(asked.sizes[clients])).astype(np.int64),
            ]
        )
        order = np.lexsort((clients, row[clients], *keys[::-1]))
        clients, keys = clients[order], keys[:, order]
        edges = np.flatnonzero((np.diff(keys, axis=1) != 0).any(axis=0)) + 1
        for group in np.split(np.arange(clients.size), edges):
            if not group.size:
                continue
            heads, n, _ = (int(one) for one in keys[:, group[0]])
            m = int(asked.sizes[clients[group]].max())
            seen = 2 * N_WAVES * max(n + m, 2 * N_WAVES + self._store.n_classes) if LOCAL in self.names else 0
            largest = max(n * n, (n + m) * max(len(self.names), heads) * self._store.n_classes, (n + m) * 64, seen)
            at_once = max(1, MOST_NUMBERS // largest)
            for first in range(0, group.size, at_once):
                some = clients[group[first : first + at_once]]
                yield self._say(models, row[some], some, asked, training, shape=(n, m))

    def _say(
        self, models: Models, row: Counts, clients: Counts, asked: Ranges, training: Ranges, *, shape: tuple[int, int]
    ) -> Reading:
        """Return what all experts say of the samples that clients are asked about, and their mixture.

        ``row``: the model of each client, those of one model side by side.
        """
        parts = [
            self._seen(models, int(row[mine[0]]), clients[mine], asked, training, shape=shape)
            for mine in np.split(np.arange(clients.size), np.flatnonzero(np.diff(row)) + 1)
        ]
        window = Window(**_together([one for one, _ in parts]))
        new = Seen(**_together([one for _, one in parts]))
        base, every = served(window, new), list[Said]()
        for name, expert in zip(self.names, self._experts, strict=True):
            every.append(expert(window, new, base))
            base = every[-1] if name in BASES and name != "common" else base
        likely = likelihoods(np.stack([one.held_out for one in every]), window.labels)
        prior = np.broadcast_to(self._prior[:-1], (clients.size, len(every)))
        asked_of = np.stack([one.asked for one in every])
        weights = window_weights(self._doubted(likely, clients), window.is_sample, prior)
        mixture = np.einsum("be,ebmc->bmc", weights, asked_of, optimize=True)
        return Reading(
            clients=clients,
            said=np.concatenate([asked_of, mixture[np.newaxis]]),
            mixture=weights,
            losses=arrival_losses(likely, window.is_sample),
        )

    def _doubted(self, likely: Stack, clients: Counts) -> Stack:
        """Return likelihoods of windows, less for experts that knew windows better than what came so far."""
        known = self._memories[clients, :-1] / np.maximum(self._memories[clients, -1:], 1.0)
        return np.asarray(likely * np.exp(-np.maximum(known, 0.0)).T[..., np.newaxis])

    def _seen(
        self, models: Models, own: int, clients: Counts, asked: Ranges, training: Ranges, *, shape: tuple[int, int]
    ) -> tuple[Window, Seen]:
        """Return what the model of some clients, and all heads, make of their windows and of what is asked about."""
        windows = _newest(training.some(clients))
        (rows, sizes), (asked_rows, asked_sizes) = windows.of(np.arange(clients.size)), asked.of(clients)
        features, scores = self._compute.features(models[own], np.concatenate([rows, asked_rows]), self._store.gather)
        labels, is_sample = _padded(self._store.labels(rows), sizes, shape[0])
        heads = self._head_scores(models, own, features, scores)  # (n_heads, n_rows, n_classes)
        offsets, held_out = self._offsets(models, own, labels, is_sample, heads.shape[0])
        shown, asked_shown, past = self._waves(clients, rows, sizes, asked_rows, asked_sizes, shape=shape)
        window = Window(
            features=_stacked(features[: rows.size], sizes, shape[0]),
            scores=np.stack([_stacked(one[: rows.size], sizes, shape[0]) for one in heads], axis=1),
            offsets=held_out,
            waves=shown,
            labels=labels,
            is_sample=is_sample,
            past=past,
        )
        new = Seen(
            features=_stacked(features[rows.size :], asked_sizes, shape[1]),
            scores=np.stack([_stacked(one[rows.size :], asked_sizes, shape[1]) for one in heads], axis=1),
            offsets=offsets[:, :, np.newaxis],
            waves=asked_shown,
        )
        return window, new

    def _waves(
        self,
        clients: Counts,
        rows: Counts,
        sizes: Counts,
        asked: Counts,
        asked_sizes: Counts,
        *,
        shape: tuple[int, int],
    ) -> tuple[Stack, Stack, Stack]:
        """Return windows and samples that are asked about as the local expert sees them, and what is past."""
        if LOCAL not in self.names:
            return (
                np.zeros((clients.size, shape[0], 0)),
                np.zeros((clients.size, shape[1], 0)),
                np.zeros((clients.size, 0, 0)),
            )
        both = projected(self._store.gather(np.concatenate([rows, asked]))[0])
        window, new = _stacked(both[: rows.size], sizes, shape[0]), _stacked(both[rows.size :], asked_sizes, shape[1])
        width = np.array([self._width.get(client, np.nan) for client in clients.tolist()])
        is_new = np.isnan(width)
        if is_new.any():  # nothing left their windows so far
            width[is_new] = wave_widths(window[is_new], (np.arange(shape[0]) < sizes[:, np.newaxis])[is_new])
        nothing = np.zeros((2 * N_WAVES, 2 * N_WAVES + self._store.n_classes), dtype=np.float32)
        past = np.stack([self._past.get(client, nothing) for client in clients.tolist()]).astype(np.float64)
        return waves(window, width), waves(new, width), past

    def _has_heads(self, models: Models) -> bool:
        return self._n_head > 0 and models.shape[0] > 1

    def _head_scores(self, models: Models, own: int, features: Features, scores: Scores) -> Stack:
        """Return the scores that every head gives: the client's own, the one for all, the others."""
        if not self._has_heads(models):
            return scores[np.newaxis].astype(np.float64)
        layout, n_classes = self._compute.layout, self._store.n_classes
        last = models[:, layout.parameter_size - self._n_head : layout.parameter_size].astype(np.float64)
        last = last[_order(own, len(models))[1:]]
        weights = last[:, : self._n_head - n_classes].reshape(len(last), n_classes, -1)
        found = features.astype(np.float64) @ weights.swapaxes(1, 2) + last[:, np.newaxis, self._n_head - n_classes :]
        return np.concatenate([scores[np.newaxis], found])

    def _offsets(self, models: Models, own: int, labels: Counts, is_sample: Mask, n_heads: int) -> tuple[Stack, Stack]:
        """Return what shifts the scores of each head to each client's label mix: of any sample, and of the window.

        The latter do not count labels of a sample's fold; shapes ``(n_clients, n_heads, n_classes)`` and
        ``(n_clients, n_heads, n_window, n_classes)``.
        """
        n_clients, n_classes = len(labels), self._store.n_classes
        if not self._rule.is_corrected:
            return np.zeros((n_clients, n_heads, n_classes)), np.zeros((n_clients, n_heads, 1, n_classes))
        folds = folds_of(is_sample)
        counts = np.zeros((n_clients, N_FOLDS + 1, n_classes))
        np.add.at(counts, (np.nonzero(is_sample)[0], folds[is_sample], labels[is_sample]), 1.0)
        left = counts.sum(axis=1, keepdims=True) - counts  # of the last, which padding has, nothing is left out
        carried = label_mix_of(models[_order(own, len(models))[:n_heads]], n_classes)
        mixes = trust_mixes(carried, self._rule.correction)
        shape = (n_clients, n_heads, N_FOLDS + 1, n_classes)
        flat_counts = np.broadcast_to(left[:, np.newaxis], shape).reshape(-1, n_classes)
        flat_mixes = np.broadcast_to(mixes[:, np.newaxis], shape).reshape(-1, n_classes)
        found = label_offsets(smooth_mixes(flat_counts, flat_mixes, self._rule.smoothing), flat_mixes)
        offsets = found.astype(np.float64).reshape(shape)
        return offsets[:, :, -1], np.take_along_axis(offsets, folds[:, np.newaxis, :, np.newaxis], axis=2)


def _mixed(reading: Reading, weights: Matrix) -> tuple[Stack, Stack]:
    """Return what clients are served, by their weights of the stream, for samples to come and for those at hand."""
    streamed = np.einsum("be,ebmc->bmc", weights, reading.said, optimize=True)
    return streamed, HEDGE * streamed + (1.0 - HEDGE) * reading.said[-1]


def told_names(rule: Serving) -> tuple[str, ...]:
    """Return the names of what clients weigh by the stream of samples: their experts, and the mixture of the window."""
    return (*rule.experts, WINDOW) if rule.experts else ()


def expert_named(name: str) -> Expert:
    """Return an expert by its name, or one of the user's own by ``module:name``, whose answers are checked."""
    if name in EXPERTS:
        return EXPERTS[name]
    own: Callable[..., Any] = imported_function(name, key="serving.experts", known=EXPERTS)

    def checked(window: Window, asked: Seen, base: Said) -> Said:
        try:
            said = Said(*(np.asarray(one, dtype=np.float64) for one in own(window, asked, base)))
        except Exception as error:
            raise InputError(f"the expert {name} failed: {error!r}") from error
        for what, mine, wanted in zip(("held_out", "asked"), said, base, strict=True):
            if mine.shape != wanted.shape:
                raise InputError(f"the expert {name} gave {what} of shape {mine.shape}; give {wanted.shape}")
        known = said.held_out[window.is_sample]
        if not all((one >= 0.0).all() and (abs(one.sum(axis=-1) - 1.0) < 1e-3).all() for one in (known, said.asked)):
            raise InputError(f"the expert {name} gave numbers that are no shares of classes; let them sum to 1")
        return said

    return checked


def expert_names(asked: str | Sequence[str], *, is_corrected: bool, has_heads: bool) -> tuple[str, ...]:
    """Return the experts that a config asks for: all that help (``"auto"``), none (``"none"``), or those named.

    Every client has ``served``. Those that read scores alone come first: they are the base of the others. Where there
    are ``heads``, they are corrected too, and ``corrected``, the client's own head alone, adds nothing.

    Examples
    --------
    >>> expert_names(["residual"], is_corrected=True, has_heads=False)
    ('served', 'residual')
    >>> expert_names("auto", is_corrected=True, has_heads=True)
    ('served', 'common', 'heads', 'residual', 'local')
    """
    if asked == "none":
        return ()
    lacking = {"corrected": not is_corrected, "heads": not has_heads, "common": not has_heads}
    helpful = [name for name in EXPERTS if not lacking.get(name) and not (has_heads and name == "corrected")]
    names = helpful if asked == "auto" else asked
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if lacking.get(name):
            needed = 'serving.correction = "prior"' if name == "corrected" else "aggregation.shared_body = true"
            raise OptionError(f"serving.experts has {echo(name)}, which needs {needed}")
        expert_named(name)
    bases = [name for name in BASES if name == "served" or name in names]
    return (*bases, *dict.fromkeys(name for name in names if name not in BASES))


def _order(own: int, n_models: int) -> list[int]:
    """Return rows of models in the order of their heads: a client's own, the one for all (the last), the others.

    Examples
    --------
    >>> _order(1, 4), _order(3, 4)
    ([1, 3, 0, 2], [3, 3, 0, 1, 2])
    """
    return [own, n_models - 1, *(row for row in range(n_models - 1) if row != own)]


def _newest(windows: Ranges) -> Ranges:
    """Return the samples of windows that experts look at."""
    return Ranges(
        start=np.maximum(windows.start, windows.stop - MOST_SAMPLES), stop=windows.stop, entries=windows.entries
    )


def _class_of(sizes: Counts) -> Counts:
    """Return sizes rounded up, so that clients with windows of about one size can be stacked: by an eighth at most.

    Examples
    --------
    >>> _class_of(np.array([1, 8, 9, 100, 101])).tolist()
    [1, 8, 9, 104, 104]
    """
    step = 1 << np.maximum(np.log2(np.maximum(sizes, 1)).astype(np.int64) - 3, 0)
    return np.asarray(-(-np.maximum(sizes, 1) // step) * step)


def _together(parts: Sequence[Seen]) -> dict[str, Any]:
    """Return the arrays of several stacks of clients as those of one."""
    return {one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(parts[0])}


def _joined(parts: Sequence[Ranges]) -> Ranges:
    """Return ranges that hold what several ranges hold of each client, one after the other."""
    everyone = np.arange(parts[0].start.size)
    rows, sizes = zip(*(one.of(everyone) for one in parts), strict=True)
    owner = np.concatenate([np.repeat(everyone, one) for one in sizes])
    stop = np.cumsum(np.sum(sizes, axis=0))
    return Ranges(
        start=stop - np.sum(sizes, axis=0),
        stop=stop,
        entries=np.concatenate(rows)[np.argsort(owner, kind="stable")],
    )


def _padded(values: npt.NDArray[np.integer], sizes: Counts, length: int) -> tuple[Counts, npt.NDArray[np.bool_]]:
    """Return consecutive segments of numbers as rows of one length, and which places hold one."""
    there = np.arange(length) < sizes[:, np.newaxis]
    found = np.zeros(there.shape, dtype=np.int64)
    found[there] = values
    return found, there


def _stacked(values: npt.NDArray[np.floating], sizes: Counts, length: int) -> Stack:
    """Return consecutive segments of rows as a stack, padded with zeros."""
    there = np.arange(length) < sizes[:, np.newaxis]
    found = np.zeros((*there.shape, values.shape[1]))
    found[there] = values
    return found
