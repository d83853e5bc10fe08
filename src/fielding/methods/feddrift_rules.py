"""What can be chosen of FedDrift, checked."""

from dataclasses import dataclass
from typing import get_args

from fielding.errors import OptionError
from fielding.methods.option_checks import flag, number, one_of, whole
from fielding.methods.participation import Participation, is_sampled

STARTS = ("common", "each")
MEMORIES = ("auto", "all", "window")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRules:
    """How FedDrift decides.

    Parameters
    ----------
    delta
        A client whose best model gets this much less right than last time has drifted.
    delta_merge
        Models no farther apart than this become one; None: they never merge.
    isolation
        Intervals in which a new model is its client's alone.
    shares_new
        Whether all clients that drift in the same interval share one new model.
    max_models
        How many models there can be.
    start
        ``"common"``: one model for all; ``"each"``: one per client.
    memory
        ``"all"``: models train on all data that they own; ``"window"``: on those in the window; ``"auto"``: all if
        everybody takes part.
    participation
        ``"all"``: everybody trains and is tested; ``"sampled"``: participants train, and who reports drift is tested;
        ``"auto"``: all up to 200 clients.
    train_all
        Whether everybody trains every model; what comes back from whom the model owns no data of is thrown away.
    """

    delta: float = 0.1
    delta_merge: float | None = None
    isolation: int = 1
    shares_new: bool = False
    max_models: int = 32
    start: str = "common"
    memory: str = "auto"
    participation: str = "auto"
    train_all: bool = False

    def __post_init__(self) -> None:
        number("delta", self.delta)
        if self.delta_merge is not None:
            number("delta_merge", self.delta_merge)
        whole("isolation", self.isolation)
        whole("max_models", self.max_models, most=10_000)
        one_of("start", self.start, STARTS)
        one_of("memory", self.memory, MEMORIES)
        one_of("participation", self.participation, get_args(Participation))
        flag("train_all", self.train_all)

    def is_sampled(self, n_clients: int) -> bool:
        """Return whether only participants train, and only who reports drift is tested."""
        return is_sampled(self.participation, n_clients)

    def is_windowed(self, n_clients: int) -> bool:
        """Return whether data that left the window are forgotten."""
        return self.memory == "window" or (self.memory == "auto" and self.is_sampled(n_clients))

    def n_first_models(self, n_clients: int) -> int:
        """Return how many models there are at the start."""
        if self.start == "each" and n_clients > self.max_models:
            raise OptionError(
                f"max_models is {self.max_models} but a model for each of {n_clients} clients is wanted at the start; "
                "give as many, or start = 'common'"
            )
        return n_clients if self.start == "each" else 1
