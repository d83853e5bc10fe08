"""Three personal rivals that the package does not carry: Ditto's own models, own heads of FedRoD, kNN-Per's neighbours.

They come in by the doors that a user's own methods and experts have: ``experiments.beyond.personal:Ditto``,
``experiments.beyond.personal:own_head`` and ``experiments.beyond.personal:neighbours``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Json, Mask, Membership, Models
from fielding.federation.clients import Clients, Pull, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.global_model import GlobalModel
from fielding.methods.local import check_memory
from fielding.methods.method import MethodSetting, plan_probe
from fielding.serving.experts import Said, Seen, Window, softmax
from fielding.serving.weights import Stack

N_FOLDS = 3  # in which an own head is fitted to judge it
N_STEPS = 30
RATE = 0.5
DECAY = 1e-3
N_NEIGHBOURS = 10
UNIFORM = 1e-3  # of what the neighbours say is an equal share of all classes


class Ditto:
    """One model for all, and beside it a model of one's own that is drawn towards it (Li et al., 2021).

    A participant trains both, the own one first; until a client has taken part the one for all serves it. Sends no
    more than one model does, computes twice as much.

    Parameters
    ----------
    pull
        Strength by which own models are drawn towards the one for all, lambda there.
    """

    def __init__(self, setting: MethodSetting, *, pull: float = 1.0) -> None:
        self._shared = GlobalModel(setting)
        n_numbers = setting.initial.size
        self._strength = np.zeros(n_numbers)
        self._strength[: setting.n_parameters or n_numbers] = pull
        self._own: Models = np.empty((0, n_numbers), dtype=np.float32)
        self._is_own: Mask = np.empty(0, dtype=np.bool_)
        self.grow(setting.client_ids)

    @property
    def models(self) -> Models:
        """The model for all, then one of each client."""
        return np.concatenate([self._shared.models, self._own])

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Let clients that joined have the model for all."""
        check_memory(len(client_ids), self._strength.size)
        n_new = len(client_ids) - len(self._own)
        self._own = np.concatenate([self._own, np.zeros((n_new, self._strength.size), dtype=np.float32)])
        self._is_own = np.concatenate([self._is_own, np.zeros(n_new, dtype=np.bool_)])
        self._shared.grow(client_ids)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants among all clients; they begin with their own models."""
        plan = self._shared.plan(clients)
        who = np.unique(plan.clients)
        if not who.size:
            return plan
        nothing, models = np.zeros(who.size), self.models
        start = np.where(self._is_own[who], 1 + who, 0)
        pull = Pull(anchors=models[:1], row=np.zeros(who.size, dtype=np.int64), strength=self._strength)
        probe = replace(plan_probe(who, models, start, downloads=nothing), uploads=nothing, pull=pull)
        trained = clients.train(probe)
        own, is_own = self._own.copy(), self._is_own.copy()
        own[trained.clients], is_own[trained.clients] = trained.models, True
        self._own, self._is_own = own, is_own
        return plan

    def learn(self, updates: Updates) -> None:
        """Combine what came back into the model for all."""
        self._shared.learn(updates)

    def membership(self) -> Membership:
        """Return that clients with a model of their own are served by it."""
        rows = np.arange(1, 1 + self._is_own.size, dtype=np.int32)
        return np.asarray(np.where(self._is_own, rows, 0), dtype=np.int32)

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return all models."""
        values, arrays = self._shared.snapshot()
        return values, {**arrays, "models": self.models, "is_own": self._is_own}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        shared, own = np.split(arrays["models"].astype(np.float32), [1])
        self._shared.restore(values, {**arrays, "models": shared})
        self._own, self._is_own = own, arrays["is_own"].astype(np.bool_)


def own_head(window: Window, asked: Seen, base: Said) -> Said:
    """Say what the served model and a head of the client's own say together (the second head of FedRoD, linear).

    Fitted to the window, on top of scores that stay as they are; what it says of a third of the window is said by one
    fitted to the rest.
    """
    scores, fold = window.scores[:, 0], np.arange(window.labels.shape[1]) % N_FOLDS
    scale = np.sqrt(np.square(window.features).sum(axis=2).max(axis=1))[:, np.newaxis, np.newaxis]
    scale = np.where(scale > 0, scale, 1.0)
    features, new = _with_ones(window.features / scale), _with_ones(asked.features / scale)
    held_out = np.zeros_like(base.held_out)
    for one in range(N_FOLDS):
        head = _fitted(features, scores, window.one_hot * (fold != one)[:, np.newaxis])
        held_out[:, fold == one] = softmax(scores + features @ head)[:, fold == one]
    return Said(held_out, softmax(asked.scores[:, 0] + new @ _fitted(features, scores, window.one_hot)))


def neighbours(window: Window, asked: Seen, base: Said) -> Said:
    """Say which labels the nearest samples of the window have, by features, nearer ones counting more (kNN-Per).

    A sample of the window itself is told by those of other stretches of it.
    """
    is_sample, folds = window.is_sample, window.folds
    apart = _squared_distances(window.features, window.features)
    pairs = is_sample[:, :, np.newaxis] & np.triu(is_sample[:, np.newaxis, :], 1)
    middle = [float(np.median(one[there])) if there.any() else 0.0 for one, there in zip(apart, pairs, strict=True)]
    width = np.array([one if one > 1e-12 else 1.0 for one in middle])[:, np.newaxis, np.newaxis]
    same_fold = folds[:, :, np.newaxis] == folds[:, np.newaxis, :]
    found = []
    for distances in (np.where(same_fold, np.inf, apart), _squared_distances(asked.features, window.features)):
        distances = np.where(is_sample[:, np.newaxis, :], distances, np.inf)
        nearest = np.argsort(distances, axis=2)[:, :, :N_NEIGHBOURS]
        near = np.take_along_axis(distances, nearest, axis=2)
        first = np.where(np.isfinite(near[..., :1]), near[..., :1], 0.0)
        weights = np.exp(-(near - first) / width)
        shares = np.einsum(
            "bmk,bmkc->bmc", weights, np.stack([one[at] for one, at in zip(window.one_hot, nearest, strict=True)])
        )
        totals = shares.sum(axis=2, keepdims=True)
        shares = np.divide(shares, totals, out=np.full_like(shares, 1.0 / shares.shape[2]), where=totals > 0)
        found.append((1.0 - UNIFORM) * shares + UNIFORM / shares.shape[2])
    knows = (window.sizes > 1)[:, np.newaxis, np.newaxis]
    return Said(np.where(knows, found[0], base.held_out), np.where(knows, found[1], base.asked))


def _squared_distances(first: Stack, second: Stack) -> Stack:
    squares = np.square(first).sum(axis=2)[:, :, np.newaxis] + np.square(second).sum(axis=2)[:, np.newaxis, :]
    return np.asarray(np.maximum(squares - 2.0 * first @ second.swapaxes(1, 2), 0.0))


def _with_ones(features: Stack) -> Stack:
    return np.concatenate([features, np.ones((*features.shape[:2], 1))], axis=2)


def _fitted(features: Stack, scores: Stack, one_hot: Stack) -> Stack:
    """Return heads under which labels are likely, by gradient descent; rows of zeros in ``one_hot`` do not count."""
    counts = one_hot.sum(axis=2, keepdims=True)
    n = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    head = np.zeros((features.shape[0], features.shape[2], scores.shape[2]))
    moved = np.zeros_like(head)
    for _ in range(N_STEPS):
        wrong = (softmax(scores + features @ head) - one_hot) * counts
        moved = 0.9 * moved - RATE * (features.swapaxes(1, 2) @ wrong / n + DECAY * head)
        head = head + moved
    return head
