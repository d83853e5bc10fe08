"""What the server asks of a client: train this model, describe your data, test this model, judge these models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Json, Models, Vector
from fielding.training.layout import Layout

LONGEST_KEY = 64
"""Characters of a key."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedView:
    """What all clients look at their samples with, as far as a client has not confirmed that it holds it.

    Parameters
    ----------
    key
        Which model is meant, and which reference: ``MODEL``, or ``MODEL.REFERENCE`` once there is one.
    model
        float32, shape ``(n_numbers,)``; None: the client holds it.
    layout, settings
        What its numbers mean, and how it is made, as in a train order; they come with the model.
    reference
        The sums over the windows of all clients at the start, to which reports are relative; float64, shape
        ``(n_sums,)``; None: the client holds it, or there is none yet.

    Examples
    --------
    >>> SharedView(key="ab.cd").model_key, SharedView(key="ab").model_key
    ('ab', 'ab')
    """

    key: str
    model: Models | None = None
    layout: Layout | None = None
    settings: Mapping[str, Json] = field(default_factory=dict)
    reference: Vector | None = None

    @property
    def model_key(self) -> str:
        """The part of the key that names the model."""
        return self.key.partition(".")[0]

    @property
    def is_bare(self) -> bool:
        """Whether it brings nothing, since the client holds all."""
        return self.model is None and self.reference is None

    @property
    def n_bytes(self) -> int:
        """What its numbers weigh."""
        return sum(0 if one is None else one.nbytes for one in (self.model, self.reference))


def digest_of(numbers: npt.NDArray[np.generic]) -> str:
    """Return a short name of an array, by its content.

    Examples
    --------
    >>> len(digest_of(np.zeros(3, dtype=np.float32)))
    16
    """
    return blake2b(np.ascontiguousarray(numbers).tobytes(), digest_size=8).hexdigest()


Verb: TypeAlias = Literal["train", "describe", "evaluate", "probe"]
"""What a client is asked to do."""
Wanted: TypeAlias = Literal["losses", "accuracies", "sizes"]
"""What a client is asked about its samples: mean losses or shares of right answers of models, or how many there are."""
Block: TypeAlias = tuple[int, ...] | None
"""Intervals whose samples count, rising, also those that have left the window; None for the window."""

NO_LAYOUT = Layout(names=(), shapes=(), n_parameters=0)
"""Of no model."""
NO_REPORT = 0
"""The number that confirms nothing: reports are numbered from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderedPull:
    """A pull toward another model during training; see :class:`~fielding.federation.clients.Pull`.

    Parameters
    ----------
    anchor
        The first numbers of the model to be pulled toward, float32; those behind them are not pulled.
    runs
        How much they are pulled: up to which number, and how strongly, from the first on.

    Examples
    --------
    >>> OrderedPull(anchor=np.ones(3, dtype=np.float32), runs=((1, 0.0), (3, 0.5))).strength(4).tolist()
    [0.0, 0.5, 0.5, 0.0]
    """

    anchor: Models
    runs: tuple[tuple[int, float], ...]

    def strength(self, n_numbers: int) -> Vector:
        """Return how strongly each number of a model is pulled, shape ``(n_numbers,)``."""
        strength, first = np.zeros(n_numbers), 0
        for stop, value in self.runs:
            strength[first:stop], first = value, stop
        return strength


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainOrder:
    """Train this model on your window, and say what is new of your data.

    Parameters
    ----------
    run_id
        Which run asks; a client keeps its state by run.
    round_index
        The round, from 0. Whoever is asked twice in a round gives the same answer twice.
    model
        What training starts from, float32, shape ``(n_numbers,)``.
    layout
        What its numbers mean.
    settings
        The rule of a local step, as JSON holds it: learning rate, momentum, batch size.
    n_steps
        Local steps, at least 1.
    seed
        Seed of the client's draws, from 0.
    confirmed
        The newest report of this client that has arrived; it need not be sent again. ``NO_REPORT``: none has.
    with_start_loss
        Whether the client also says how well the model served all its samples before it trained.
    others
        Further models: the client trains the one with the lowest loss on its samples; equally good ones: the first.
    rate_factors
        With ``others``, the factor on the learning rate of each model, ``model`` first; empty for that of the settings.
    block
        The samples to train on.
    pull
        A pull beside FedProx; None for none.
    share
        Share of the numbers of its model that the client sends, drawn by seed, round and client; the others count as
        unchanged. None for all.
    is_probe
        Whether the answer is only looked at. The client is not told.
    shared
        The model that all clients see their samples with, as far as this one lacks it; None if there is none.
    """

    verb: ClassVar[Verb] = "train"

    run_id: str
    round_index: int
    model: Models
    layout: Layout
    settings: Mapping[str, Json] = field(default_factory=dict)
    n_steps: int
    seed: int
    confirmed: int = NO_REPORT
    with_start_loss: bool = False
    others: tuple[Models, ...] = ()
    rate_factors: tuple[float, ...] = ()
    block: Block = None
    pull: OrderedPull | None = None
    share: float | None = None
    is_probe: bool = False
    shared: SharedView | None = None

    def models(self) -> dict[str, Models]:
        """Return all models that it speaks of, by the names that they travel under."""
        named = {"model": self.model} | {f"model-{at}": one for at, one in enumerate(self.others, 1)}
        return named if self.pull is None else named | {"anchor": self.pull.anchor}

    def wishes(self) -> dict[str, Json]:
        """Return what it asks for beyond the usual, as JSON holds it; nothing, of most orders."""
        wishes: dict[str, Json] = {}
        if self.rate_factors:
            wishes["rates"] = list(self.rate_factors)
        if self.block is not None:
            wishes["block"] = list(self.block)
        if self.pull is not None:
            wishes["pull"] = [[stop, value] for stop, value in self.pull.runs]
        if self.share is not None:
            wishes["share"] = self.share
        return wishes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOrder:
    """Say what is new of your data; the parameters are those of :class:`TrainOrder`."""

    verb: ClassVar[Verb] = "describe"

    run_id: str
    round_index: int
    seed: int
    confirmed: int = NO_REPORT
    shared: SharedView | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluateOrder:
    """Test this model on your test samples; the parameters are those of :class:`TrainOrder`."""

    verb: ClassVar[Verb] = "evaluate"

    run_id: str
    round_index: int
    model: Models
    layout: Layout
    settings: Mapping[str, Json] = field(default_factory=dict)
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeOrder:
    """Say how models do on your samples, or how many you have; other parameters are those of :class:`TrainOrder`.

    Parameters
    ----------
    wanted
        What to say.
    models
        What it is about; none if sizes are wanted.
    layout
        What the numbers of a model mean; of no use without models.
    blocks
        The samples of each question; every question is about all models.
    corrected
        Whether models count as they would serve the client, corrected to its label mix.
    aside
        Whether the samples of the window count that the client keeps aside, whatever the blocks say.
    """

    verb: ClassVar[Verb] = "probe"

    run_id: str
    round_index: int
    seed: int
    confirmed: int = NO_REPORT
    wanted: Wanted
    models: tuple[Models, ...] = ()
    layout: Layout = NO_LAYOUT
    settings: Mapping[str, Json] = field(default_factory=dict)
    blocks: tuple[Block, ...] = (None,)
    corrected: bool = False
    aside: bool = False

    @property
    def n_answers(self) -> int:
        """How many numbers each question is answered with: one per model, or none beside the number of samples."""
        return 0 if self.wanted == "sizes" else len(self.models)


Order: TypeAlias = TrainOrder | DescribeOrder | EvaluateOrder | ProbeOrder
"""Whatever a client may be asked."""


def category_of(order: Order) -> str:
    """Return what the ledger calls an order.

    Examples
    --------
    >>> category_of(DescribeOrder(run_id="run", round_index=0, seed=0))
    'report'
    """
    if isinstance(order, TrainOrder):
        return "probe" if order.is_probe else "model"
    return "report" if isinstance(order, DescribeOrder) else "probe"
