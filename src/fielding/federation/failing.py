"""Clients that fail or send nonsense: each is asked more and more rarely, until it gives a sound answer."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Json, Mask
from fielding.errors import CheckpointError

LONGEST_REST = 64  # rounds that a client is left alone at most
MOST_NAMED = 20  # failing clients that a round names; all are counted
WORK = ("train", "describe", "evaluate", "probe")  # what clients are asked for; checkpoints hold places in it
_NAMES = ("failing.n_failures", "failing.until", "failing.at")
_SAID = "failing.said"  # the last words of all failing clients, in their order, a line each


class FailingClients:
    """Counts the failures in a row of each client, and leaves it alone for a while.

    After the n-th failure in a row a client is not asked for ``2 ** (n - 1)`` rounds, ``LONGEST_REST`` at most. A sound
    answer to what it failed at last, also that it has no data, forgives all: one that cannot train may still describe
    its data. A client that is slow or gone did not fail.

    Examples
    --------
    >>> failing = FailingClients()
    >>> failing.grow(2)
    >>> [failing.note(1, "train", round_index, "no such file") for round_index in (0, 2, 5)]
    [1, 2, 3]
    >>> [failing.rests(round_index).tolist() for round_index in (9, 10)]
    [[False, True], [False, False]]
    >>> failing.record(["ann", "bob"])
    {'n_failing': 1, 'failing': [{'client': 'bob', 'failures': 3, 'asked_from': 10, 'said': 'no such file'}]}
    >>> failing.forgive(1, "describe")
    >>> failing.record(["ann", "bob"])["n_failing"]
    1
    >>> failing.forgive(1, "train")
    >>> failing.record(["ann", "bob"])
    {}
    """

    def __init__(self) -> None:
        self._n_failures: Counts = np.empty(0, dtype=np.int64)
        self._until: Counts = np.empty(0, dtype=np.int64)  # the first round in which a client is asked again
        self._at: Counts = np.empty(0, dtype=np.int64)  # what it failed at last, by its place in WORK
        self._said: dict[int, str] = {}

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined."""
        n_new = n_clients - self._until.size
        columns = (self._n_failures, self._until, self._at)
        self._n_failures, self._until, self._at = (np.pad(one, (0, n_new)) for one in columns)

    def note(self, client: int, work: str, round_index: int, said: str) -> int:
        """Take note that a client failed at work in a round, and return how often in a row it has; once a round."""
        if round_index >= self._until[client]:
            self._n_failures[client] += 1
            rest = min(LONGEST_REST, 2 ** (min(int(self._n_failures[client]), 60) - 1))
            self._until[client], self._said[client] = round_index + 1 + rest, said
            self._at[client] = WORK.index(work)
        return int(self._n_failures[client])

    def forgive(self, client: int, work: str) -> None:
        """Take note of a sound answer."""
        if self._at[client] != WORK.index(work):
            return
        self._n_failures[client], self._until[client] = 0, 0
        self._said.pop(client, None)

    def asked_from(self, client: int) -> int:
        """Return the first round in which a client is asked again."""
        return int(self._until[client])

    def rests(self, round_index: int) -> Mask:
        """Return which clients are not to be asked in a round."""
        return np.asarray(self._until > round_index)

    def record(self, client_ids: Sequence[ClientId]) -> dict[str, Json]:
        """Return how many clients failed when they were asked last, and those that failed most; nothing if none did."""
        clients = np.flatnonzero(self._n_failures)
        if not clients.size:
            return {}
        worst = clients[np.argsort(-self._n_failures[clients], kind="stable")][:MOST_NAMED].tolist()
        return {
            "n_failing": int(clients.size),
            "failing": [
                {
                    "client": client_ids[client],
                    "failures": int(self._n_failures[client]),
                    "asked_from": self.asked_from(client),
                    "said": self._said.get(client, ""),
                }
                for client in worst
            ],
        }

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs."""
        columns = (self._n_failures, self._until, self._at)
        words = "\n".join(self._said.get(client, "") for client in np.flatnonzero(self._n_failures).tolist())
        found = {name: one.astype("<i8") for name, one in zip(_NAMES, columns, strict=True)}
        return {**found, _SAID: np.frombuffer(words.encode(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave; checkpoints of older versions hold none, and all are forgiven."""
        if _NAMES[0] not in arrays:
            return
        n_failures, until, at = (arrays.get(name, np.empty((0, 0))).astype(np.int64) for name in _NAMES)
        if n_failures.ndim != 1 or not n_failures.shape == until.shape == at.shape:
            raise CheckpointError("failures of clients in the checkpoint do not fit together; begin anew elsewhere")
        self._n_failures, self._until, self._at = n_failures, until, at
        words = arrays.get(_SAID, np.empty(0, dtype=np.uint8)).astype(np.uint8).tobytes().decode(errors="replace")
        self._said = dict(zip(np.flatnonzero(n_failures).tolist(), words.split("\n"), strict=False))
