"""Simulated time: how long tasks take, which answers a round waits for, and when it ends (METHODS.md 12)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask, Vector
from fielding.errors import InputError, echo
from fielding.federation.ledger import Costs
from fielding.simulation.hardware import Devices

TRAINING_FACTOR = 3.0  # training on a sample takes as long as this many forward passes: forward and backward
BYTES_PER_KBIT = 1024.0 / 8.0
"""A kbit of size is 1024 bit here, as in FedScale; bandwidths in kbit/s are taken as they are."""
_SOONER = ("sooner_cluster", "sooner_s")


def seconds_of(devices: Devices, clients: Counts, costs: Costs) -> Vector:
    """Return how long each task takes the device of its client: computing, then both transfers one after the other.

    ``clients`` has shape ``(n_tasks,)``.

    Examples
    --------
    >>> devices = Devices(ms_per_sample=np.array([10.0]), kbps=np.array([800.0]))
    >>> seconds_of(devices, np.array([0]), Costs(down_bytes=102_400, up_bytes=102_400, train_samples=100)).tolist()
    [5.0]
    """
    passes = np.asarray(costs.forward_samples) + TRAINING_FACTOR * np.asarray(costs.train_samples)
    kbit = (np.asarray(costs.down_bytes) + np.asarray(costs.up_bytes)) / BYTES_PER_KBIT
    return np.asarray(passes * devices.ms_per_sample[clients] / 1000.0 + kbit / devices.kbps[clients])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundOutcome:
    """Which answers of a round count, and how long it took.

    Parameters
    ----------
    kept
        Whether the answer of a task counts, shape ``(n_tasks,)``.
    reasons
        Why it does not: ``""``, ``"straggler"`` or ``"offline"``, same shape.
    durations_s
        How long each group took, shape ``(n_groups,)``.
    duration_s
        How long the round took: the slowest group.
    """

    kept: Mask
    reasons: npt.NDArray[np.str_]
    durations_s: Vector
    duration_s: float

    def spent(self, costs: Costs) -> Costs:
        """Return what the tasks really cost: stragglers everything, clients that went offline all but the upload."""
        return replace(costs, up_bytes=np.where(self.reasons == "offline", 0, costs.up_bytes))


def settle_round(groups: Counts, seconds: Vector, *, wanted: Counts, finishes_online: Mask) -> RoundOutcome:
    """Decide which answers a round keeps; groups run side by side.

    Of a group's tasks that finish online, the ``wanted`` fastest are kept (ties: as they stand in the arrays), and
    the slowest of these is the group's duration. If none finishes online, the group keeps nothing and takes the
    median time of its tasks. A group without tasks, or of which nothing is wanted, takes no time.

    Parameters
    ----------
    groups
        The group of each task, shape ``(n_tasks,)``.
    seconds
        How long each task takes, same shape.
    wanted
        How many answers of each group are enough, shape ``(n_groups,)``.
    finishes_online
        Whether the client of each task can be reached when it is done, shape ``(n_tasks,)``.

    Examples
    --------
    >>> outcome = settle_round(np.array([0, 0, 0, 1]), np.array([3.0, 1.0, 2.0, 9.0]), wanted=np.array([1, 1]),
    ...                        finishes_online=np.array([True, False, True, False]))
    >>> outcome.reasons.tolist(), outcome.durations_s.tolist(), outcome.duration_s
    (['straggler', 'offline', '', 'offline'], [2.0, 9.0], 9.0)
    """
    _check_tasks(groups, seconds, wanted, finishes_online)
    kept = np.zeros(groups.size, dtype=np.bool_)
    online = np.flatnonzero(finishes_online)
    by_speed = online[np.lexsort((seconds[online], groups[online]))]
    group = groups[by_speed]
    rank = np.arange(group.size) - np.searchsorted(group, group)
    kept[by_speed] = rank < wanted[group]
    reasons = np.where(kept, "", np.where(finishes_online, "straggler", "offline"))
    durations = np.zeros(wanted.size)
    np.maximum.at(durations, groups[kept], seconds[kept])
    for failed in np.setdiff1d(groups[wanted[groups] > 0], groups[kept]).tolist():
        durations[failed] = np.median(seconds[groups == failed])
    return RoundOutcome(kept=kept, reasons=reasons, durations_s=durations, duration_s=float(durations.max(initial=0.0)))


def _check_tasks(groups: Counts, seconds: Vector, wanted: Counts, finishes_online: Mask) -> None:
    """Raise if the parts of a round do not fit together."""
    if not groups.shape == seconds.shape == finishes_online.shape == (groups.size,):
        raise InputError(
            f"groups, seconds and finishes_online have shapes {groups.shape}, {seconds.shape} and "
            f"{finishes_online.shape}; give one of each per task"
        )
    if groups.size and not (groups.min() >= 0 and groups.max() < wanted.size):
        raise InputError(f"groups hold {echo(groups.tolist())}; give positions in wanted, from 0 to {wanted.size - 1}")
    if not ((seconds >= 0.0) & (seconds < np.inf)).all():
        raise InputError(f"seconds hold {echo(seconds.tolist())}; give finite numbers that are not negative")


class Clock:
    """Simulated time in seconds, which moves only when told to; clusters may go on by themselves until they meet.

    ``now_s`` is the time of the latest cluster; a cluster that was done sooner has a time of its own. A resumed run
    gives what both had come to.

    Examples
    --------
    >>> clock = Clock()
    >>> clock.advance(1.5)
    >>> clock.go_on(np.array([0, 1]), np.array([2.0, 8.0]))
    >>> clock.go_on(np.array([0, 1]), np.array([3.0, 1.0]))
    >>> clock.times_of(np.array([0, 1])).tolist(), clock.now_s
    ([6.5, 10.5], 10.5)
    >>> clock.meet()
    >>> clock.times_of(np.array([0, 1])).tolist()
    [10.5, 10.5]
    """

    def __init__(self, now_s: float = 0.0, sooner: Mapping[int, float] | None = None) -> None:
        self._now_s = _check_seconds("now_s", now_s)
        self._sooner = {row: _check_seconds("time of a cluster", time_s) for row, time_s in (sooner or {}).items()}

    @classmethod
    def restored(cls, now_s: float, arrays: Mapping[str, npt.NDArray[np.generic]]) -> "Clock":
        """Return a clock that goes on from what :meth:`arrays` gave, if that is among some arrays."""
        rows, times = (arrays.get(name, np.empty(0)).tolist() for name in _SOONER)
        return cls(now_s, {int(row): float(time_s) for row, time_s in zip(rows, times, strict=True)})

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the clusters with a time of their own, for a checkpoint; nothing if there are none."""
        if not self._sooner:
            return {}
        rows, times = self.sooner.keys(), self.sooner.values()
        return {_SOONER[0]: np.array([*rows], dtype="<i8"), _SOONER[1]: np.array([*times], dtype="<f8")}

    @property
    def now_s(self) -> float:
        """Seconds since the start of the run, of the latest cluster."""
        return self._now_s

    @property
    def sooner(self) -> dict[int, float]:
        """The clusters, by their rows, that were done sooner than the latest, and when; rising."""
        return dict(sorted(self._sooner.items()))

    def times_of(self, clusters: Counts) -> Vector:
        """Return the time that each of some clusters has come to, by their rows; of an unknown one, the latest."""
        if not self._sooner:
            return np.full(clusters.shape, self._now_s)
        table = np.full(max(max(self._sooner), int(clusters.max(initial=0))) + 1, self._now_s)
        table[list(self._sooner)] = list(self._sooner.values())
        return table[clusters]

    def meet(self) -> None:
        """Let all clusters wait for the latest."""
        self._sooner = {}

    def advance(self, seconds: float) -> None:
        """Let all clusters meet, and then time pass for all of them."""
        self._now_s += _check_seconds("seconds to advance", seconds)
        self.meet()

    def go_on(self, clusters: Counts, seconds: Vector) -> None:
        """Let time pass for some clusters, each by itself; a cluster that is not named waits for all of them.

        It had no place in the round: would it not wait, more clients would be busy at once than a round has places.
        """
        ends = self.times_of(clusters) + [_check_seconds("seconds to advance", one) for one in seconds.tolist()]
        self._now_s = max(self._now_s, float(ends.max(initial=0.0)))
        pairs = zip(clusters.tolist(), ends.tolist(), strict=True)
        self._sooner = {row: end for row, end in pairs if end < self._now_s}


def _check_seconds(name: str, seconds: float) -> float:
    if not 0.0 <= seconds < np.inf:
        raise InputError(f"{name} is {echo(seconds)}; give a finite number that is not negative")
    return float(seconds)
