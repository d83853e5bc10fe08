"""The door: the only way to clients, the same in the simulator and in life. What is missing comes with a reason."""

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from fielding._typing import ClientId, Counts, Mask, Matrix, Models, Vector
from fielding.federation.evaluation import ClientScores
from fielding.rng import Hashes

Reason: TypeAlias = Literal["straggler", "offline", "refused", "failed"]
"""Why a client's answer is missing: too slow, not there, without data, or an answer that is no model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingPlan:
    """Who is asked to train which model; groups do not wait for each other's members.

    Parameters
    ----------
    models
        What training starts from, float32, shape ``(n_models, n_numbers)``.
    clients
        Who is asked, shape ``(n_jobs,)``; a client may have several jobs.
    groups
        The group of each job, from 0, same shape.
    start
        The model of each job, same shape.
    wanted
        How many answers of each group are enough, shape ``(n_groups,)``; whoever is later is a straggler.
    is_probe
        Whether the answers are only looked at: then they are charged as probes.
    n_steps
        Local steps; None for those of the run.
    with_start_loss
        Whether participants also say how well the model served all their samples before they trained.
    """

    models: Models
    clients: Counts
    groups: Counts
    start: Counts
    wanted: Counts
    is_probe: bool = False
    n_steps: int | None = None
    with_start_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Updates:
    """What came back, by group, then by client.

    Parameters
    ----------
    clients, groups
        Whose answer, of which group, shape ``(n_answers,)``.
    models
        float32, shape ``(n_answers, n_numbers)``; all finite.
    n_samples
        How many samples each client could train on.
    loss, square_loss
        Mean loss over the samples trained on, and mean of its square.
    missing
        Per reason, the clients that were asked and did not answer.
    duration_s
        Simulated seconds until the last group had enough.
    n_parameters
        How many numbers of a model are parameters; the others are buffers.
    learning_rate
        Of the local steps.
    start_loss
        Mean loss of the model that training started from over all of each client's samples, if the plan asked.
    """

    clients: Counts
    groups: Counts
    models: Models
    n_samples: Counts
    loss: Vector
    square_loss: Vector
    missing: dict[Reason, list[int]] = field(default_factory=dict)
    duration_s: float = 0.0
    n_parameters: int
    learning_rate: float
    start_loss: Vector | None = None


class Clients(Protocol):
    """All that a method may know of and ask from its clients; every use is charged to the ledger."""

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """The clients; everywhere else they are known by their position here."""
        ...

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        """Return a random number for each client that depends on seed, round and its id alone."""
        ...

    def askable(self) -> Mask:
        """Return who has data and can be reached now, shape ``(n_clients,)``."""
        ...

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        ...

    def train(self, plan: TrainingPlan) -> Updates:
        """Let clients train; time passes until every group has enough answers."""
        ...

    def losses(self, clients: Counts, models: Models) -> Matrix:
        """Return the mean loss of models on clients' training windows, shape ``(n_clients, n_models)``.

        Every client downloads every model. NaN where a client did not answer.
        """
        ...

    def scores(self, models: Models, row: Counts) -> ClientScores:
        """Measure each client's model on its own test samples; a measurement of ours, which costs clients nothing.

        Parameters
        ----------
        models
            shape ``(n_models, n_numbers)``.
        row
            Which of them serves each client, shape ``(n_clients,)``.
        """
        ...
