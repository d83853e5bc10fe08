"""Rehearsal (CDA-FedAvg): clients notice that a model lost touch with their data, then train on older samples, too."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Models
from fielding.client.rehearsal import PURPOSE, Confidence, after_looks, look_ends, remembered
from fielding.errors import CheckpointError, echo
from fielding.rng import Hashes, hashed
from fielding.simulation.scoring import Score
from fielding.traces.sliding import Ranges, SlidingWindows

NEXT, CONFIDENCE = "rehearsal.next", "rehearsal.confidence"
OWNER, ROW = "rehearsal.memory_client", "rehearsal.memory_row"
"""Names of the arrays of a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unseen:
    """What a client looks at next.

    Parameters
    ----------
    client
        Whose.
    rows
        Schedule rows, oldest first.
    ends
        Where each look ends in them, the last at their end; a look begins where the one before ends, with an interval.
    next_interval
        The first interval that is left for another time.
    """

    client: int
    rows: Counts
    ends: list[int]
    next_interval: int


class Rehearsal:
    """The detectors and long-term memories of all clients; each knows training samples of its own only.

    A participant looks at the training samples of its window that it has not looked at before: interval by interval, at
    least ``LEAST_LOOK`` at a time, it puts them through the model that it received, before it trains on them, and
    runs a CUSUM on the probabilities of their labels (:class:`~fielding.client.rehearsal.Confidence`). On an
    alarm, what its window holds of earlier intervals goes to its long-term memory: at most ``PER_LABEL`` samples of a
    label, those with the smallest hashes of all that ever went there, which is a uniform sample of them. From then on
    it trains on its window and its memory together; a sample in both counts once.

    Parameters
    ----------
    windows
        What clients see when.
    seed, keys
        Seed of the hashes, and the hash of each client's id.
    """

    def __init__(self, windows: SlidingWindows, *, seed: int, keys: Hashes) -> None:
        self._windows, self._seed, self._keys = windows, seed, keys
        self._next = np.zeros(windows.n_clients, dtype=np.int64)
        self._confidence = np.zeros((windows.n_clients, len(fields(Confidence))))
        self._memory: dict[int, Counts] = {}

    def memory(self, client: int) -> Counts:
        """Return the schedule rows that a client remembers, rising."""
        return self._memory.get(client, np.empty(0, dtype=np.int64)).copy()

    # ---- looking -----------------------------------------------------------------------------------------------

    def passes(self, clients: Counts, round_index: int) -> Counts:
        """Return how many samples each job's client looks at; one with several jobs looks once, for its first.

        Parameters
        ----------
        clients
            Whose job, shape ``(n_jobs,)``.
        round_index
            The round.
        """
        counts = np.zeros(clients.size, dtype=np.int64)
        for job, unseen in self._unseen(clients, round_index).items():
            counts[job] = unseen.rows.size
        return counts

    def look(self, jobs: tuple[Counts, Counts], models: Models, *, score: Score, round_index: int) -> None:
        """Let clients look at what came since they looked last, and remember what was if they are alarmed.

        Parameters
        ----------
        jobs
            Whose job, and which of the models it received, both of shape ``(n_jobs,)``.
        models
            Shape ``(n_models, n_numbers)``.
        score
            Puts samples through a model.
        round_index
            The round.
        """
        clients, start = jobs
        unseen = self._unseen(clients, round_index)
        for model in np.unique(start[list(unseen)]).tolist():
            looks = [one for job, one in unseen.items() if start[job] == model]
            losses = score(models[model], np.concatenate([one.rows for one in looks]))[0]
            ends = np.cumsum([one.rows.size for one in looks])
            for one, own in zip(looks, np.split(losses, ends[:-1]), strict=True):
                self._take_in(one, own, round_index)

    def _unseen(self, clients: Counts, round_index: int) -> dict[int, Unseen]:
        """Return what there is to look at, by the first job of each client."""
        stop = self._windows.n_complete(round_index)
        _, jobs = np.unique(clients, return_index=True)
        found = {
            job: self._unseen_by(int(clients[job]), round_index) for job in jobs if self._next[clients[job]] < stop
        }
        return {int(job): one for job, one in found.items() if one.rows.size}

    def _unseen_by(self, client: int, round_index: int) -> Unseen:
        first, stop = self._windows.visible(round_index)
        rows = self._rows(client, max(first, int(self._next[client])), stop)
        intervals = self._windows.schedule.interval[rows]
        ends = look_ends(intervals)
        next_interval = int(intervals[ends[-1] - 1]) + 1 if ends else int(self._next[client])
        return Unseen(client=client, rows=rows[: ends[-1] if ends else 0], ends=ends, next_interval=next_interval)

    def _take_in(self, unseen: Unseen, losses: npt.NDArray[np.float32], round_index: int) -> None:
        client = unseen.client
        weight, mean, squares, excess = self._confidence[client].tolist()
        before = Confidence(weight=weight, mean=mean, squares=squares, excess=excess)
        looked = after_looks(before, losses, unseen.ends)
        self._confidence[client], self._next[client] = astuple(looked.confidence), unseen.next_interval
        for begin in looked.alarms:
            self._remember(client, round_index, int(self._windows.schedule.interval[unseen.rows[begin]]))

    # ---- remembering -------------------------------------------------------------------------------------------

    def _remember(self, client: int, round_index: int, stop: int) -> None:
        """Put what the window holds of the intervals before one into the memory of a client."""
        rows = np.union1d(self.memory(client), self._rows(client, self._windows.visible(round_index)[0], stop))
        labels = self._windows.schedule.y[rows]
        # By position among the client's own rows: the order of clients in a file changes nothing.
        own = rows - np.searchsorted(self._windows.schedule.client, client)
        draws = hashed(self._seed, PURPOSE, self._keys[client], own.astype(np.uint64))
        self._memory[client] = rows[remembered(labels, draws)]

    def extended(self, clients: Counts, samples: Ranges) -> Ranges:
        """Return the samples of jobs together with what their clients remember beyond them.

        Parameters
        ----------
        clients
            Whose job, shape ``(n_jobs,)``.
        samples
            The window of each.
        """
        if not any(client in self._memory for client in clients.tolist()):
            return samples
        parts = []
        for job, client in enumerate(clients.tolist()):
            window = samples.of(np.array([job]))[0]
            memory = self.memory(client)
            # Rows of a client rise with time: what does not come before its window is in it.
            is_older = memory < window[0] if window.size else np.zeros(memory.size, dtype=np.bool_)
            parts.append(np.concatenate([memory[is_older], window]))
        sizes = np.array([part.size for part in parts], dtype=np.int64)
        stop = np.cumsum(sizes)
        return Ranges(start=stop - sizes, stop=stop, entries=np.concatenate(parts))

    def _rows(self, client: int, first: int, stop: int) -> Counts:
        """Return the training rows of a client from one interval up to, not including, another."""
        block = [np.arange(first, stop)]
        return self._windows.training_blocks(np.array([client]), block).of(np.zeros(1, dtype=np.int64))[0]

    # ---- coming back -------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return all that a checkpoint needs: a row per client (<i8, <f8), and a pair per sample remembered (<i8)."""
        owners = [np.full(rows.size, client) for client, rows in sorted(self._memory.items())]
        rows = [rows for _, rows in sorted(self._memory.items())]
        none = np.empty(0, dtype=np.int64)
        return {
            NEXT: self._next.astype("<i8"),
            CONFIDENCE: self._confidence.astype("<f8"),
            OWNER: np.concatenate([none, *owners]).astype("<i8"),
            ROW: np.concatenate([none, *rows]).astype("<i8"),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go back to what :meth:`arrays` gave.

        Raises
        ------
        CheckpointError
            If the arrays are missing or do not fit.
        """
        now = self.arrays()
        if lacking := now.keys() - arrays.keys():
            raise CheckpointError(f"the checkpoint lacks {echo(min(lacking))}; resume with the options it began with")
        for name in (NEXT, CONFIDENCE):
            if arrays[name].shape != now[name].shape:
                raise CheckpointError(
                    f"{name} of the checkpoint has shape {arrays[name].shape}; {now[name].shape} is wanted"
                )
        self._next = arrays[NEXT].astype(np.int64)
        self._confidence = arrays[CONFIDENCE].astype(np.float64)
        owners, rows = arrays[OWNER].astype(np.int64), arrays[ROW].astype(np.int64)
        self._memory = {client: rows[owners == client] for client in np.unique(owners).tolist()}
