"""What every pace can do, what it is given, and how its state follows the clusters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from fielding._typing import Floats, Matrix, Models
from fielding.federation.models import mix_models

Memory: TypeAlias = Mapping[str, Floats]
"""State of one cluster by name: float32 per number of the model, float64 for all else; 1-D, never edited."""

LEAST_FACTOR = 1e-6  # no pace goes below it: a learning rate of zero would never see the change that it waits for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaceStep:
    """What one round did to one cluster."""

    # Model before and after the round, finite, shape (n_numbers,).
    before: Models
    after: Models
    loss: float  # mean training loss of the participants; a loss that is not finite is no measurement
    has_new_data: bool  # whether data have arrived since the cluster trained last; those of the start are not new
    round_index: int  # of the federation, not negative
    # How many numbers, at the beginning, are parameters; the others are buffers. None for all.
    n_parameters: int | None = None


class Pace(Protocol):
    """Decides at the server how fast the clients of a cluster train; its state goes in and comes out."""

    def memory(self, n_numbers: int) -> dict[str, Floats]:
        """Return the state of a cluster that has not trained yet, for a model of so many numbers."""
        ...

    def factor(self, memory: Memory) -> float:
        """Return what to multiply the learning rate of the cluster's next round with, from ``LEAST_FACTOR`` to 1."""
        ...

    def restarts(self, memory: Memory) -> bool:
        """Return whether the cluster's next round is to start from the initial model instead of its own."""
        ...

    def observe(self, step: PaceStep, memory: Memory) -> dict[str, Floats]:
        """Return the state after a round in which the cluster trained."""
        ...


def mix_memory(memory: Memory, mixing: Matrix) -> dict[str, Floats]:
    """Return the states of new clusters made from old ones.

    What there is per number of a model (float32) mixes like the models; all else (float64: counts, moments) is taken
    over from the old cluster with the largest share, the first of equals.

    ``memory``: by name, one row per old cluster. ``mixing``: as in :func:`~fielding.federation.models.mix_models`,
    shape ``(n_after, n_before)``.

    Examples
    --------
    >>> rows = {"mean": np.array([[0.0], [4.0]], dtype=np.float32), "time": np.array([[1.0], [9.0]])}
    >>> mixed = mix_memory(rows, np.array([[0.25, 0.75]]))
    >>> mixed["mean"].tolist(), mixed["time"].tolist()
    ([[3.0]], [[9.0]])
    """
    parents = np.argmax(mixing, axis=1)
    return {
        name: mix_models(rows.astype(np.float32, copy=False), mixing) if rows.dtype == np.float32 else rows[parents]
        for name, rows in memory.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Leaves the learning rate alone, and remembers nothing."""

    def memory(self, n_numbers: int) -> dict[str, Floats]:  # noqa: ARG002
        """Return nothing."""
        return {}

    def factor(self, memory: Memory) -> float:  # noqa: ARG002
        """Return 1."""
        return 1.0

    def restarts(self, memory: Memory) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def observe(self, step: PaceStep, memory: Memory) -> dict[str, Floats]:  # noqa: ARG002
        """Return nothing."""
        return {}
