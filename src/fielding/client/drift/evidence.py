"""Stage 3: what a drift test may look at, and what it must be able to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fielding._typing import Counts, Mask
from fielding.client.report import row_chunks
from fielding.errors import OptionError, echo

CHUNK = 4096
"""Clients that are tested in one go: with 100 labels a chunk in float64 takes 3 MB, whatever the number of clients."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What is known of some clients when their drift is judged, one row per client.

    Parameters
    ----------
    reported
        Label counts of the last report, shape ``(n_clients, n_labels)``.
    current
        Label counts of the window now, same shape.
    fresh
        Label counts of what arrived since the last report and still is in the window, same shape.
    age
        Rounds since the last report, shape ``(n_clients,)``.
    arrived
        Samples that arrived with this observation, shape ``(n_clients,)``.
    """

    reported: Counts
    current: Counts
    fresh: Counts
    age: Counts
    arrived: Counts

    @property
    def n_clients(self) -> int:
        """How many clients are judged."""
        return int(self.age.size)

    def comparable(self) -> Mask:
        """Return who has samples now and had some at the last report; the others are no business of a drift test."""
        return np.asarray(self.reported.any(axis=1) & self.current.any(axis=1))

    def rows(self, which: slice | Counts) -> "Evidence":
        """Return the evidence of some clients."""
        return Evidence(
            reported=self.reported[which],
            current=self.current[which],
            fresh=self.fresh[which],
            age=self.age[which],
            arrived=self.arrived[which],
        )

    def chunks(self) -> Iterator[tuple[slice, "Evidence"]]:
        """Yield the evidence of at most ``CHUNK`` clients at a time, in order."""
        for part in row_chunks(self.n_clients, CHUNK):
            yield part, self.rows(part)


@runtime_checkable
class DriftTest(Protocol):
    """Decides which clients moved since their last report.

    An implementation is a frozen dataclass whose fields are its options, every one with a default.
    """

    @property
    def is_timed(self) -> bool:
        """Whether the answer may turn to yes although no sample came or left; False saves most of the work."""
        ...

    def drifted(self, evidence: Evidence) -> Mask:
        """Return a yes or no per client, shape ``(n_clients,)``; no where it is not :meth:`~Evidence.comparable`."""
        ...


def checked_drift_test(drift_test: object) -> DriftTest:
    """Return the drift test, or raise if it is none: a name, for example."""
    if not isinstance(drift_test, DriftTest):
        raise OptionError(f"drift_test is {echo(drift_test)}; give an object such as Chi2() or AnyChange()")
    return drift_test


def judged_in_chunks(evidence: Evidence, judge: Callable[[Evidence], Mask]) -> Mask:
    """Return the answers of ``judge``, which sees a bounded number of clients at a time, all of them comparable."""
    drifted = np.zeros(evidence.n_clients, dtype=np.bool_)
    for part, chunk in evidence.chunks():
        comparable = np.flatnonzero(chunk.comparable())
        if comparable.size == chunk.n_clients:
            drifted[part] = judge(chunk)
        elif comparable.size:
            drifted[part.start + comparable] = judge(chunk.rows(comparable))
    return drifted
