"""What the server asks of a client: train this model, describe your data, test this model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from fielding._typing import Json, Models
from fielding.training.layout import Layout

Verb: TypeAlias = Literal["train", "describe", "evaluate"]
"""What a client is asked to do."""

NO_REPORT = 0
"""The number that confirms nothing: reports are numbered from 1."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOrder:
    """Say what is new of your data; the parameters are those of :class:`TrainOrder`."""

    verb: ClassVar[Verb] = "describe"

    run_id: str
    round_index: int
    seed: int
    confirmed: int = NO_REPORT


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


Order: TypeAlias = TrainOrder | DescribeOrder | EvaluateOrder
"""Whatever a client may be asked."""
