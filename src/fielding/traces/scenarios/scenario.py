"""What a drift scenario is asked for, and the one verb that it answers with."""

from dataclasses import dataclass
from typing import Protocol

from fielding.errors import OptionError
from fielding.traces.pool import Pool
from fielding.traces.scenarios.options import check_whole
from fielding.traces.schedule import Schedule

MOST_ENTRIES = 2**27
"""Samples dealt beyond this would fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DealRequest:
    """How many samples to deal to how many clients over how much time.

    Parameters
    ----------
    n_clients
        Clients; their ids are the whole numbers from 0.
    n_intervals
        Intervals; one arrival of samples each.
    n_first
        Intervals that are complete when training starts. Until then nothing drifts; every later boundary between
        two intervals is a drift event.
    samples_per_interval
        Samples that a client gets in each interval, train and test together.

    Raises
    ------
    OptionError
        If a number is below 1, training would start after the last interval, or there is too much to deal.
    """

    n_clients: int
    n_intervals: int
    n_first: int = 1
    samples_per_interval: int = 20

    def __post_init__(self) -> None:
        for name in ("n_clients", "n_intervals", "n_first", "samples_per_interval"):
            check_whole(name, getattr(self, name), low=1)
        if self.n_first > self.n_intervals:
            raise OptionError(
                f"n_first is {self.n_first}, but there are {self.n_intervals} intervals; deal at least as many"
            )
        if self.n_clients * self.n_intervals * self.samples_per_interval >= MOST_ENTRIES:
            raise OptionError(
                f"{self.n_clients} clients times {self.n_intervals} intervals of {self.samples_per_interval} samples "
                "are too many to deal; lower one of them until there are fewer than 2^27 in all"
            )


class Scenario(Protocol):
    """A way in which the data of clients differ and drift: frozen, its fields are its knobs, each with a default."""

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when, the same for equal arguments; the true concepts are recorded.

        Parameters
        ----------
        pool
            The samples; a sample may go to several clients, and to the same one again.
        request
            How much to deal.
        seed
            The seed of the run, not negative.
        """
        ...
