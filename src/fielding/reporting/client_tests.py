"""How each client fared in one evaluation: a line of ``clients.jsonl`` as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Vector

_LARGEST = 2**31
"""A larger number of a round is damage."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientTests:
    """All clients that were tested after a round.

    Parameters
    ----------
    round_index
        The round.
    client_ids
        Who was tested, ``n_clients`` of them.
    cluster
        The cluster of each, -1 for none.
    n_test, correct
        How many test samples each had, and how many of them its model got right.
    otherwise
        How many were right if a client corrected (``"corrected"``) or tuned (``"tuned"``) its model.
    """

    round_index: int
    client_ids: tuple[ClientId, ...]
    cluster: npt.NDArray[np.int32]
    n_test: npt.NDArray[np.int32]
    correct: npt.NDArray[np.int32]
    otherwise: Mapping[str, npt.NDArray[np.int32]]

    def accuracy(self, how: str = "") -> Vector:
        """Return the accuracy of each client, NaN without test samples; ``how`` may name one of ``otherwise``."""
        right = self.otherwise[how] if how else self.correct
        blank = np.full(self.n_test.shape, np.nan)
        return np.asarray(np.divide(right, self.n_test, out=blank, where=self.n_test > 0), dtype=np.float64)


def client_tests(line: Mapping[str, Json]) -> ClientTests:
    """Return what a line of ``clients.jsonl`` tells.

    Raises
    ------
    KeyError, TypeError, ValueError, OverflowError
        If it is damaged.

    Examples
    --------
    >>> line = {"round": 4, "client": ["ann", "bob"], "cluster": [0, 1], "n_test": [4, 2], "correct": [1, 2]}
    >>> one = client_tests(line)
    >>> one.round_index, one.accuracy().tolist()
    (4, [0.25, 1.0])
    """
    ids = line["client"]
    round_index = line["round"]
    if not isinstance(ids, list) or not isinstance(round_index, int):
        raise TypeError
    if not 0 <= round_index < _LARGEST:
        raise ValueError
    found = {name: np.array(line[name], dtype=np.int32) for name in ("cluster", "n_test", "correct")}
    otherwise = {name: np.array(line[name], dtype=np.int32) for name in ("corrected", "tuned") if name in line}
    if any(column.shape != (len(ids),) for column in (*found.values(), *otherwise.values())):
        raise ValueError
    return ClientTests(
        round_index=round_index,
        client_ids=tuple(one if isinstance(one, int) else str(one) for one in ids),
        **found,
        otherwise=otherwise,
    )
