"""What a drift scenario is asked for, and the one verb that it answers with."""

from dataclasses import dataclass
from typing import Protocol

from fielding.config.options import check_number, check_whole
from fielding.errors import OptionError, echo
from fielding.traces.pool import Pool
from fielding.traces.schedule import Schedule

LEAST_ALPHA, MOST_ALPHA = 1e-3, 1e6
MOST_CONCEPTS = 1000


def check_share(name: str, value: object) -> None:
    """Raise unless the option is a number from 0 to 1."""
    check_number(name, value, low=0.0, high=1.0)


def check_alpha(value: object, *, may_be_zero: bool = False) -> None:
    """Raise unless the option can be the parameter of a Dirichlet distribution, or 0 where that means none."""
    if may_be_zero and not isinstance(value, bool) and value == 0:
        return
    try:
        check_number("alpha", value, low=LEAST_ALPHA, high=MOST_ALPHA)
    except OptionError as error:
        raise OptionError(f"{error}{', or 0 for one label mix for all' if may_be_zero else ''}") from None


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless the option is one of the choices."""
    if value not in choices:
        raise OptionError(f"{name} is {echo(value)}; give one of {', '.join(choices)}")


MOST_ENTRIES = 2**29  # samples dealt beyond this, of some 30 bytes each, would fill the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class DealRequest:
    """How many samples to deal to how many clients over how much time.

    ``n_first`` intervals are complete when training starts. Until then nothing drifts; every later boundary between two
    intervals is a drift event. The last ``n_ahead`` of the ``n_intervals`` are there to test models on: what is dealt
    before is the same without them.
    """

    n_clients: int
    n_intervals: int
    n_first: int = 1
    n_ahead: int = 0
    samples_per_interval: int = 20

    def __post_init__(self) -> None:
        for name in ("n_clients", "n_intervals", "n_first", "samples_per_interval"):
            check_whole(name, getattr(self, name), low=1)
        check_whole("n_ahead", self.n_ahead, low=0)
        n_reached = self.n_intervals - self.n_ahead
        if self.n_first > n_reached:
            raise OptionError(f"n_first is {self.n_first}, but there are {n_reached} intervals; deal at least as many")
        if self.n_clients * n_reached * self.samples_per_interval >= MOST_ENTRIES:
            raise OptionError(
                f"{self.n_clients} clients times {n_reached} intervals of {self.samples_per_interval} samples "
                "are too many to deal; lower one of them until there are fewer than 2^29 in all (16 GB)"
            )

    @property
    def halfway(self) -> int:
        """The interval in the middle of those that begin after the training did."""
        return self.n_first + (self.n_intervals - self.n_ahead - self.n_first) // 2


class Scenario(Protocol):
    """A way in which the data of clients differ and drift: frozen, its fields are its knobs, each with a default."""

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when, the same for equal arguments; the true concepts are recorded.

        A sample may go to several clients, and to the same one again; the seed is not negative.
        """
        ...
