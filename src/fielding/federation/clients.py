"""The client API: the only way to clients, the same in the simulator and in life. What is missing has a reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fielding._typing import ClientId, Counts, Mask, Matrix, Membership, Models, Vector
from fielding.federation.evaluation import ClientScores
from fielding.rng import Hashes

if TYPE_CHECKING:
    from fielding.client.privacy.sums import Asked

Reason: TypeAlias = Literal["straggler", "offline", "refused", "failed"]
"""Why a client's answer is missing: too slow, not there, without data, or an answer that is no model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingPlan:
    """Which clients are asked to train which model; groups do not wait for each other's members.

    Parameters
    ----------
    models
        What training starts from, float32, shape ``(n_models, n_numbers)``.
    clients, groups, start
        The client, the group (from 0) and the model of each job, shape ``(n_jobs,)``; a client may have several jobs.
    wanted
        How many answers of each group are enough, shape ``(n_groups,)``; later clients are stragglers.
    is_probe
        Whether the answers are only looked at: then they are charged as probes.
    n_steps
        Local steps, one number or one per job; None for those of the run.
    with_start_loss
        Whether participants also say how well the model served all their samples before they trained.
    chooses
        Whether each client gets all models and trains the one with the lowest loss on its window, whatever ``start``
        says; several that serve it equally well: the first.
    rate_factors
        Factor on the learning rate of each job, with ``chooses`` of each model; None for 1.
    downloads, uploads
        How many models' worth of bytes each job receives and sends; None for 1, with ``chooses`` all models.
    blocks
        Per job, the intervals whose samples it trains on, also those that have left the window; None for the window.
    upload_shares
        Share of the numbers of its update that each job sends, drawn at random; the others count as unchanged. None for
        all.
    pull
        A second pull, beside FedProx.
    selected_for
        The cluster that each job's client was selected for; None for that of ``start``.
    is_parallel
        Whether each group trains a cluster of its own, whose row is its start, that depends on no other cluster until
        data arrive or reports act: then it need not wait for the others (``clock.barrier``). If in doubt, it is not so.
    """

    models: Models
    clients: Counts
    groups: Counts
    start: Counts
    wanted: Counts
    is_probe: bool = False
    n_steps: int | Counts | None = None
    with_start_loss: bool = False
    chooses: bool = False
    rate_factors: Vector | None = None
    downloads: Vector | None = None
    uploads: Vector | None = None
    blocks: Sequence[Counts] | None = None
    upload_shares: Vector | None = None
    pull: "Pull | None" = None
    selected_for: Counts | None = None
    is_parallel: bool = False

    def job(self, at: int) -> "TrainingPlan":
        """Return the plan of one job alone, as the device is asked that does it: it is client 0 of a fleet of one."""
        none, start = np.zeros(1, dtype=np.int64), int(self.start[at])
        offers_all = self.chooses and self.models.shape[0] > 1
        factors = self.rate_factors
        if factors is not None and not offers_all:
            factors = factors[start : start + 1] if self.chooses else factors[at : at + 1]
        n_steps = self.n_steps
        return TrainingPlan(
            models=self.models if offers_all else self.models[start : start + 1],
            clients=none,
            groups=none,
            start=none,
            wanted=np.ones(1, dtype=np.int64),
            is_probe=self.is_probe,
            n_steps=int(n_steps[at]) if isinstance(n_steps, np.ndarray) else n_steps,
            with_start_loss=self.with_start_loss,
            chooses=offers_all,
            rate_factors=factors,
            blocks=None if self.blocks is None else [self.blocks[at]],
            upload_shares=None if self.upload_shares is None else self.upload_shares[at : at + 1],
            pull=None if self.pull is None else self.pull.of(np.array([at])),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pull:
    """A pull toward other models than the one training starts from: adds ``strength * (w - anchor)`` to gradients."""

    anchors: Models  # the models to pull toward, float32, shape (n_anchors, n_numbers); never written to
    row: Counts  # which of them each job is pulled toward, shape (n_jobs,)
    # How much each number is pulled, at least 0, shape (n_numbers,); 0 on buffers, which take no step. FedAC pulls the
    # embedding alone: 0 on the last layer.
    strength: Vector

    def of(self, jobs: Counts | slice) -> "Pull":
        """Return the pull on some of the jobs."""
        return replace(self, row=self.row[jobs])


def _none() -> Counts:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Updates:
    """What came back: an entry for each answer, by group, then by client.

    Parameters
    ----------
    clients, groups
        Whose answer, as a position in ``client_ids``, and of which group of the plan, shape ``(n_answers,)``.
    start
        The row of the plan's models that each was trained from, same shape.
    models
        The models after training, not their changes: float32, finite, shape ``(n_answers, n_numbers)``.
    n_samples
        How many samples each client could train on.
    loss, square_loss
        Mean loss over the samples trained on, and mean of its square.
    missing
        By reason, the clients that were asked and did not answer.
    duration_s
        Simulated seconds that the slowest group took until it had enough.
    n_parameters
        How many numbers of a model are parameters; the others are buffers.
    learning_rate
        Of the local steps.
    start_loss
        Mean loss of the model before training over all of each client's samples, if the plan asked; else None.
    expert_losses, expert_names
        Last log losses of the experts of each client, shape ``(n_answers, n_experts)``, NaN of a client that tells
        none; None without experts. And what the experts are called.
    metrics
        What else a user's own code says of its training, by name, NaN of a client that says nothing.
    round_index, interval
        The round, and the newest interval of data in it.
    jobs, late
        The jobs of the plan that were answered, in the order of ``clients``, and those that came too late.
    seconds, compute_seconds
        Simulated seconds until each job of the plan was done, and those of them that computing took.
    """

    clients: Counts
    groups: Counts
    start: Counts
    models: Models
    n_samples: Counts
    loss: Vector
    square_loss: Vector
    missing: dict[Reason, list[int]] = field(default_factory=dict)
    duration_s: float = 0.0
    n_parameters: int
    learning_rate: float
    start_loss: Vector | None = None
    expert_losses: Matrix | None = None
    expert_names: tuple[str, ...] = ()
    metrics: Mapping[str, Vector] = field(default_factory=dict)
    round_index: int = 0
    interval: int = 0
    jobs: Counts = field(default_factory=_none)
    late: Counts = field(default_factory=_none)
    seconds: Vector = field(default_factory=lambda: np.empty(0))
    compute_seconds: Vector = field(default_factory=lambda: np.empty(0))

    @property
    def new_loss(self) -> Vector | None:
        """Log loss on each client's newest samples, before any client trained on them, NaN where it is not known.

        Of the model for all clients where there is one, else of the model that serves the client; None without experts.
        """
        if self.expert_losses is None:
            return None
        model = "common" if "common" in self.expert_names else "served"
        return np.asarray(self.expert_losses[:, self.expert_names.index(model)])


class Clients(Protocol):
    """All that a method may know of and ask from its clients; every use is charged to the ledger."""

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """The clients; everywhere else they are known by their position here. More may join when a round begins."""
        ...

    @property
    def round_index(self) -> int:
        """The round in hand, from 0."""
        ...

    @property
    def interval(self) -> int:
        """The newest interval of data that has come, from 0."""
        ...

    def fresh(self) -> Mask:
        """Return which clients can be reached and received training samples in this round, shape ``(n_clients,)``.

        In the first round these are the samples of the newest interval.
        """
        ...

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        """Return a random number for each client that depends on seed, round and its id alone."""
        ...

    def askable(self) -> Mask:
        """Return which clients have data and can be reached now, shape ``(n_clients,)``."""
        ...

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        ...

    def train(self, plan: TrainingPlan) -> Updates:
        """Let clients train; time passes until every group has enough answers, for groups in parallel by themselves."""
        ...

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,
        corrected: bool = False,
    ) -> Matrix:
        """Return the mean loss of models on clients' training samples, shape ``(n_clients, n_models)``.

        Every client downloads every model that it does not hold. NaN where it did not answer or has no such samples.

        Parameters
        ----------
        blocks
            Per client, the intervals whose samples count; None for the window.
        held
            Which clients were sent all of the models earlier in this round, same shape as ``clients``; None for none.
        corrected
            Whether models count as they would serve each client: corrected to the label mix of its window, if that
            is what clients do.
        """
        ...

    def accuracies(
        self, clients: Counts, models: Models, *, blocks: Sequence[Counts] | None = None, held: Mask | None = None
    ) -> Matrix:
        """Return the share of clients' training samples that models get right; otherwise as :meth:`losses`."""
        ...

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:
        """Return how many training samples each of some clients has of the intervals named for it; it sends the number.

        0 where a client did not answer or has none.
        """
        ...

    def scores(self, models: Models, row: Counts) -> Mapping[str, ClientScores]:
        """Measure each client's model on samples of its own; a measurement of ours, which costs clients nothing.

        By the names of :data:`~fielding.federation.evaluation.SCORES`; ``"window"`` is always there.

        ``models``: shape ``(n_models, n_numbers)``. ``row``: which of them serves each client, shape ``(n_clients,)``.
        """
        ...


@runtime_checkable
class SumClients(Protocol):
    """Clients of which nothing individual is heard but the cluster that each asks for (docs/privacy-client.md)."""

    @property
    def round_index(self) -> int:
        """The round in hand, from 0."""
        ...

    def noised_sum(self, asked: "Asked", candidates: tuple[Matrix, ...]) -> Counts | None:
        """Return a sum over all clients that can be reached, with noise on each of its numbers.

        None once the budget is spent. ``candidates``: the sets of centers that it is about, which clients are sent.
        """
        ...

    def choose(self, clients: Counts, centers: Matrix) -> Membership:
        """Return the cluster that each of some clients asks for, by the centers that it is sent.

        -1 of one that has no data or cannot be reached.
        """
        ...
