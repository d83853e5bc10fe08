"""What clients keep for themselves between rounds: previous models (MOON) and remembered samples (CDA-FedAvg)."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Models
from fielding.client.ranges import Ranges, joined_ranges
from fielding.client.rehearsal import PURPOSE, Confidence, choose_remembered, look_ends, update_confidence
from fielding.errors import CheckpointError, echo
from fielding.rng import Hashes, hashed
from fielding.runtime.store import SampleStore

_CLIENTS, _MODELS = "previous.clients", "previous.models"
_NEXT, _CONFIDENCE = "rehearsal.next", "rehearsal.confidence"
_OWNER, _ROW = "rehearsal.memory_client", "rehearsal.memory_row"

Arrays = Mapping[str, npt.NDArray[np.generic]]


class PreviousModels:
    """The model that each client trained last (MOON).

    A previous model is never sent. It takes a model's worth of memory for each client that has trained, on that client
    in life, and as much again in every checkpoint.

    Examples
    --------
    >>> previous = PreviousModels()
    >>> previous.keep(np.array([5, 3, 5]), np.array([[1, 1], [2, 2], [3, 3]], dtype=np.float32))
    >>> models, has_one = previous.of(np.array([4, 5]), 2)
    >>> models.tolist(), has_one.tolist()
    ([[0.0, 0.0], [3.0, 3.0]], [False, True])
    """

    def __init__(self) -> None:
        self._models: dict[int, Models] = {}

    def keep(self, clients: Counts, models: Models) -> None:
        """Keep trained models, one row per job; a client with several keeps the last that is finite."""
        for client, model in zip(clients.tolist(), models, strict=True):
            if np.isfinite(model).all():
                self._models[client] = model.copy()  # a view would hold the models of the whole round

    def has(self, clients: Counts) -> Mask:
        """Return which clients have trained before, shape ``(n_clients,)``."""
        return np.array([client in self._models for client in clients.tolist()], dtype=np.bool_)

    def of(self, clients: Counts, n_numbers: int) -> tuple[Models, Mask]:
        """Return the previous models of some clients, each of so many numbers, zeros without; and which have one."""
        models = np.zeros((clients.size, n_numbers), dtype=np.float32)
        for at, client in enumerate(clients.tolist()):
            if client in self._models:
                models[at] = self._models[client]
        return models, self.has(clients)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the state for a checkpoint: clients, <i8, rising, and their models, <f4, a row each."""
        clients = np.array(sorted(self._models), dtype="<i8")
        n_numbers = next(iter(self._models.values())).size if self._models else 0
        return {_CLIENTS: clients, _MODELS: self.of(clients, n_numbers)[0].astype("<f4", copy=False)}

    def restore(self, arrays: Arrays) -> None:
        """Go back to what :meth:`arrays` gave, or raise :class:`CheckpointError`."""
        if lacking := {_CLIENTS, _MODELS} - arrays.keys():
            raise CheckpointError(f"the checkpoint lacks {echo(min(lacking))}; resume with the options it began with")
        clients, models = arrays[_CLIENTS], arrays[_MODELS]
        if models.ndim != 2 or clients.shape != models.shape[:1]:
            raise CheckpointError(
                f"{_CLIENTS} and {_MODELS} of the checkpoint have shapes {clients.shape} and {models.shape}; "
                "give a row per client"
            )
        self._models.clear()
        self.keep(clients.astype(np.int64), models.astype(np.float32))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Unseen:
    """Samples that a client looks at next: rows, oldest first, and where each look ends in them."""

    client: int
    rows: Counts
    ends: list[int]


class Rehearsal:
    """The detectors and long-term memories of all clients; each knows training samples of its own only.

    A participant looks at the training samples of its window that it has not looked at before: interval by interval, at
    least ``LEAST_LOOK`` at a time, it puts them through the model that it received, before it trains on them, and
    runs a CUSUM on the probabilities of their labels (:class:`~fielding.client.rehearsal.Confidence`). On an
    alarm, what its window holds of earlier intervals goes to its long-term memory: at most ``PER_LABEL`` samples of a
    label, those with the smallest hashes of all that ever went there, which is a uniform sample of them. From then on
    it trains on its window and its memory together; a sample in both counts once.

    Draws depend on ``seed`` and ``keys``, the hash of each client's id.
    """

    def __init__(self, store: SampleStore, *, seed: int, keys: Hashes) -> None:
        self._store, self._seed, self._keys = store, seed, keys
        self._next = np.zeros(store.n_clients, dtype=np.int64)  # place of the first sample that is unseen
        self._confidence = np.zeros((store.n_clients, len(fields(Confidence))))
        self._memory: dict[int, Counts] = {}

    def memory(self, client: int) -> Counts:
        """Return the rows that a client remembers, rising."""
        return self._memory.get(client, np.empty(0, dtype=np.int64)).copy()

    def passes(self, clients: Counts, training: Ranges) -> Counts:
        """Return how many samples each job's client looks at; one with several jobs looks once, for its first."""
        counts = np.zeros(clients.size, dtype=np.int64)
        for job, unseen in self._unseen(clients, training).items():
            counts[job] = unseen.rows.size
        return counts

    def look(
        self,
        clients: Counts,
        start: Counts,
        models: Models,
        *,
        losses: Callable[[Models, Counts], Models],
        training: Ranges,
    ) -> None:
        """Let clients look at what came since they looked last, and remember what was before if they are alarmed.

        ``clients`` and ``start``, shape ``(n_jobs,)``: whose job, and which of the models it received; ``losses`` gives
        those of rows under a model, ``training`` the windows of all clients.
        """
        unseen = self._unseen(clients, training)
        for model in np.unique(start[list(unseen)]).tolist():
            looks = [one for job, one in unseen.items() if start[job] == model]
            found = losses(models[model], np.concatenate([one.rows for one in looks]))
            ends = np.cumsum([one.rows.size for one in looks])
            for one, own in zip(looks, np.split(found, ends[:-1]), strict=True):
                self._take_in(one, own, training)

    def _unseen(self, clients: Counts, training: Ranges) -> dict[int, _Unseen]:
        """Return what there is to look at, by the first job of each client."""
        found: dict[int, _Unseen] = {}
        for job in np.unique(clients, return_index=True)[1].tolist():
            client = int(clients[job])
            rows = self._window(client, training)
            rows = rows[self._store.places(rows) >= self._next[client]]
            if ends := look_ends(self._store.intervals(rows)):
                found[job] = _Unseen(client=client, rows=rows[: ends[-1]], ends=ends)
        return found

    def _take_in(self, unseen: _Unseen, losses: Models, training: Ranges) -> None:
        client = unseen.client
        weight, mean, squares, excess = self._confidence[client].tolist()
        before = Confidence(weight=weight, mean=mean, squares=squares, excess=excess)
        confidence, alarms = update_confidence(before, losses, unseen.ends)
        self._confidence[client] = astuple(confidence)
        self._next[client] = int(self._store.places(unseen.rows[-1:])[0]) + 1
        for begin in alarms:
            window = self._window(client, training)
            older = window[self._store.intervals(window) < self._store.intervals(unseen.rows[begin : begin + 1])[0]]
            rows = np.union1d(self.memory(client), older)
            # By place among the client's own samples: the order of clients in a file changes nothing.
            draws = hashed(self._seed, PURPOSE, self._keys[client], self._store.places(rows).astype(np.uint64))
            self._memory[client] = rows[choose_remembered(self._store.labels(rows), draws)]

    def _window(self, client: int, training: Ranges) -> Counts:
        return training.of(np.array([client]))[0]

    def extend(self, clients: Counts, samples: Ranges) -> Ranges:
        """Return the windows of jobs together with what their clients remember beyond them."""
        if not any(client in self._memory for client in clients.tolist()):
            return samples
        parts = []
        for job, client in enumerate(clients.tolist()):
            window = samples.of(np.array([job]))[0]
            memory = self.memory(client)
            # Rows of a client rise with time: what does not come before its window is in it.
            is_older = memory < window[0] if window.size else np.zeros(memory.size, dtype=np.bool_)
            parts.append(np.concatenate([memory[is_older], window]))
        return joined_ranges(parts)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the state for a checkpoint: a row per client (<i8, <f8), and a pair per sample remembered (<i8)."""
        owners = [np.full(rows.size, client) for client, rows in sorted(self._memory.items())]
        rows = [rows for _, rows in sorted(self._memory.items())]
        none = np.empty(0, dtype=np.int64)
        return {
            _NEXT: self._store.marks(self._next).astype("<i8"),
            _CONFIDENCE: self._confidence.astype("<f8"),
            _OWNER: np.concatenate([none, *owners]).astype("<i8"),
            _ROW: np.concatenate([none, *rows]).astype("<i8"),
        }

    def restore(self, arrays: Arrays) -> None:
        """Go back to what :meth:`arrays` gave, or raise :class:`CheckpointError` if it does not fit."""
        now = self.arrays()
        if lacking := now.keys() - arrays.keys():
            raise CheckpointError(f"the checkpoint lacks {echo(min(lacking))}; resume with the options it began with")
        for name in (_NEXT, _CONFIDENCE):
            if arrays[name].shape != now[name].shape:
                raise CheckpointError(
                    f"{name} of the checkpoint has shape {arrays[name].shape}; {now[name].shape} is wanted"
                )
        self._next = self._store.marked_places(arrays[_NEXT].astype(np.int64))
        self._confidence = arrays[_CONFIDENCE].astype(np.float64)
        owners, rows = arrays[_OWNER].astype(np.int64), arrays[_ROW].astype(np.int64)
        self._memory = {client: rows[owners == client] for client in np.unique(owners).tolist()}
