"""What passes between server and devices: orders are slices of a plan, replies are slices of updates and scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Models, Vector
from fielding.distance import Kind
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.rng import client_key
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule, sent_numbers
from fielding.training.layout import Layout

Verb: TypeAlias = Literal["train", "describe", "evaluate", "probe"]  # what a device is asked to do
Asked: TypeAlias = Literal["report", "name", "end"]  # what a device is asked to describe
Wanted: TypeAlias = Literal["losses", "accuracies", "sizes", "step", "silhouettes", "cluster"]
"""What a device is asked about its samples: mean losses or shares of right answers of models, or their number; of
centers what it adds to noised sums, or which cluster it asks for (docs/privacy-client.md)."""
OF_CENTERS = ("step", "silhouettes", "cluster")
Block: TypeAlias = tuple[int, ...] | None
"""Intervals whose samples count, rising, also those that have left the window; None for the window."""

NO_LAYOUT = Layout(names=(), shapes=(), n_parameters=0)  # layout of no model
NO_REPORT = 0  # the number that confirms nothing: reports are numbered from 1
CLOCK_S = 5.0  # seconds that the clocks of device and server may differ by before both say so
LONGEST_TEXT = 200  # characters of a client's words that are kept; the rest could fill a disk


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRule:
    """The rule that a device works by: as which client it draws, which model, how it trains and serves.

    Parameters
    ----------
    client
        Id of the client, as the server knows it: draws depend on it. A device with keys cannot find out by itself.
    local, serving
        How the device trains, and what it does to the model that serves it; models carry their label mix if it
        corrects them.
    model, hidden, trainer, device
        As in :class:`~fielding.training.factory.ModelRequest`; one's own training code takes no notice.
    """

    client: ClientId
    classes: Annotated[int, Meta(ge=1, lt=2**31)]
    local: LocalRule
    serving: Serving = field(default_factory=Serving)
    model: str = "mlp"
    hidden: Annotated[int, Meta(ge=1, lt=2**31)] = 64
    trainer: str = "numpy"
    device: str = "cpu"
    mix_rate: Annotated[float, Meta(ge=0, le=1)] = 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedView:
    """The frozen model that all devices see their samples with, as far as a device has not confirmed that it holds it.

    Parameters
    ----------
    key
        Which model is meant, and which reference: ``MODEL``, or ``MODEL.REFERENCE`` once there is one.
    model
        float32, shape ``(n_numbers,)``; None: the device holds it.
    reference
        The sums over the windows of all clients at the start, to which reports are relative; float64, shape
        ``(n_sums,)``; None: the device holds it, or there is none yet.
    """

    key: str
    model: Models | None = None
    layout: Layout | None = None
    work: WorkRule | None = None
    reference: Vector | None = None

    @property
    def model_key(self) -> str:
        """The part of the key that names the model."""
        return self.key.partition(".")[0]

    @property
    def is_bare(self) -> bool:
        """Whether it brings nothing, since the device holds all."""
        return self.model is None and self.reference is None

    @property
    def n_bytes(self) -> int:
        """Number of bytes of its arrays."""
        return sum(0 if one is None else one.nbytes for one in (self.model, self.reference))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedView:
    """What the experts of a device need beside the model of an order (docs/serving.md).

    Parameters
    ----------
    heard
        Recent log losses of the experts of all clients, NaN while nothing is known, shape ``(n_experts,)``.
    heads
        Where clusters share the body of their models, all else of each of them, the one for all clients last; float32,
        shape ``(n_models, n_tail)``. None: the model of the order is the one that serves the device.
    row
        Which of the heads serves the device.
    """

    heard: Vector
    heads: Models | None = None
    row: int = 0

    def models(self, model: Models) -> tuple[Models, Counts]:
        """Return the models that serve clients, and the row of this one; ``model``: one of any head."""
        if self.heads is None:
            return model[np.newaxis], np.zeros(1, dtype=np.int64)
        body = np.repeat(model[np.newaxis, : model.size - self.heads.shape[1]], len(self.heads), axis=0)
        return np.concatenate([body, self.heads], axis=1), np.array([self.row])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delivery:
    """A version of its cluster's model that a device is to serve from now on (docs/flower.md).

    Parameters
    ----------
    key
        What names all that serves by its content: a device that holds it is not sent it again.
    version, round_index, cluster
        Its name in the run folder, the round at whose end it was made, and of which cluster it is; -1: of all clients.
    metrics
        How it did when it was tested, if that is known.
    is_pinned
        Whether an operator chose it in place of the newest.
    model, layout, work, served
        The model, as in the orders; None: they are those of the order that it comes with.
    """

    key: str
    version: str
    round_index: int
    cluster: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    is_pinned: bool = False
    model: Models | None = None
    layout: Layout | None = None
    work: WorkRule | None = None
    served: ServedView | None = None

    @property
    def n_bytes(self) -> int:
        """Number of bytes of its arrays that travel with it."""
        heads = None if self.model is None or self.served is None else self.served.heads
        return sum(0 if one is None else one.nbytes for one in (self.model, heads))


def served_view(models: Models, row: int, heard: Vector | None, *, n_shared: int) -> ServedView | None:
    """Return what the experts of a client need that one of some models serves; None if it has none.

    ``n_shared``: how many numbers at the beginning of a model all clusters share.
    """
    if heard is None:
        return None
    has_heads = n_shared > 0 and len(models) > 1
    return ServedView(heard=heard, heads=models[:, n_shared:] if has_heads else None, row=row)


def digest_of(numbers: npt.NDArray[np.generic]) -> str:
    """Return a short name of an array, by its content."""
    return blake2b(np.ascontiguousarray(numbers).tobytes(), digest_size=8).hexdigest()


# ---- orders --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainOrder:
    """Do this job on your samples, and say what is new of your data.

    Parameters
    ----------
    round_index
        The round, from 0. A device that is asked twice in a round gives the same answer twice.
    plan
        The job: a plan of which this device is client 0, and all jobs are its one job.
    confirmed
        The newest report of this device that has arrived; it need not be sent again. ``NO_REPORT``: none has.
    observe
        What the device keeps, and when it reports (:class:`~fielding.flower.device.rule.DeviceRule`), as JSON holds it.
    shared
        The model that all devices see their samples with, as far as this one lacks it; None if there is none.
    served
        What its experts need; None if it has none.
    deliver
        The model that the device is to serve, if it lacks it.
    """

    verb: ClassVar[Verb] = "train"

    run_id: str
    round_index: int
    seed: int
    plan: TrainingPlan
    layout: Layout
    work: WorkRule
    confirmed: int = NO_REPORT
    observe: Mapping[str, Json] = field(default_factory=dict)
    shared: SharedView | None = None
    served: ServedView | None = None
    deliver: Delivery | None = None

    @property
    def share(self) -> float | None:
        """Share of the numbers of its model that the device sends; None for all."""
        return None if self.plan.upload_shares is None else float(self.plan.upload_shares[0])

    def sent_numbers(self) -> Mask:
        """Return which numbers of its model the device sends, shape ``(n_numbers,)``; server and device draw alike."""
        key = np.array([client_key(self.work.client)], dtype=np.uint64)
        share = 1.0 if self.share is None else self.share
        return sent_numbers(share, self.layout.size, seed=self.seed, round_index=self.round_index, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOrder:
    """Say what is new of your data; the parameters are those of :class:`TrainOrder`.

    ``asks``: for the report that is due; or for the name of the node alone, by a server that does not know yet what
    this one has reported; or to remove all that was kept for the run, since that is over.
    """

    verb: ClassVar[Verb] = "describe"

    run_id: str
    round_index: int
    seed: int
    confirmed: int = NO_REPORT
    observe: Mapping[str, Json] = field(default_factory=dict)
    shared: SharedView | None = None
    asks: Asked = "report"
    deliver: Delivery | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluateOrder:
    """Test this model on your test samples; the parameters are those of :class:`TrainOrder`."""

    verb: ClassVar[Verb] = "evaluate"

    run_id: str
    round_index: int
    seed: int
    model: Models
    layout: Layout
    work: WorkRule
    observe: Mapping[str, Json] = field(default_factory=dict)
    served: ServedView | None = None
    deliver: Delivery | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeOrder:
    """Say how models do on your samples, or how many you have; other parameters are those of :class:`TrainOrder`.

    Parameters
    ----------
    wanted, models
        What to say, and of which models, float32, shape ``(n_models, n_numbers)``; none if sizes are wanted.
    blocks
        The samples of each question; every question is about all models.
    corrected
        Whether models count as they would serve the client, corrected to its label mix.
    sets, id_epsilon
        Where it is about centers, these stand in place of models: how many are of each set; and by how much chance a
        cluster is asked for, None for none.
    """

    verb: ClassVar[Verb] = "probe"

    run_id: str
    round_index: int
    seed: int
    wanted: Wanted
    models: Models = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    layout: Layout = NO_LAYOUT
    work: WorkRule | None = None
    blocks: tuple[Block, ...] = (None,)
    corrected: bool = False
    sets: tuple[int, ...] = ()
    id_epsilon: float | None = None
    confirmed: int = NO_REPORT
    observe: Mapping[str, Json] = field(default_factory=dict)

    @property
    def n_answers(self) -> int:
        """Number of answers to each question: one per model, or none beside the number of samples."""
        n_models, n_numbers = self.models.shape
        others = {"sizes": 0, "step": int(n_models * (n_numbers + 1)), "silhouettes": len(self.sets), "cluster": 1}
        return others.get(self.wanted, int(n_models))

    def candidates(self) -> tuple[Matrix, ...]:
        """Return the sets of centers that it is about."""
        stops = np.cumsum(self.sets)[:-1].tolist()
        return tuple(one.astype(np.float64) for one in np.split(self.models, stops))


Order: TypeAlias = TrainOrder | DescribeOrder | EvaluateOrder | ProbeOrder  # whatever a device may be asked


def category_of(order: Order) -> str:
    """Return what the ledger calls an order."""
    if isinstance(order, TrainOrder):
        return "probe" if order.plan.is_probe else "model"
    return "report" if isinstance(order, DescribeOrder) else "probe"


# ---- replies -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """What a device says of its data.

    Parameters
    ----------
    number
        Reports of a device are numbered from 1; one is sent again until its number is confirmed.
    representation
        float32, shape ``(n_features,)``; empty if the window is: the client goes silent.
    kind
        The kind of drift that the device saw, of ``fielding.client.report.DRIFT_KINDS``; None if it does not say.
    tally
        In place of a representation that the device cannot make yet, the sums over its samples; float64, shape
        ``(n_sums,)``.
    """

    number: int
    representation: npt.NDArray[np.float32]
    n_samples: int
    kind: str | None = None
    tally: Vector | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the client has no data left."""
        return self.representation.size == 0 and self.tally is None

    def row(self, n_features: int) -> npt.NDArray[np.float32]:
        """Return the representation as the coordinator takes it: of a silent client zeros."""
        return np.zeros(n_features, dtype=np.float32) if self.is_silent else self.representation


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a device says of the models that are delivered to it; one whose app has no use for them says nothing.

    ``key``: of the newest that it has on disk, empty if it has none. ``trouble``: why the app refused it just now, one
    line; empty if it did not.
    """

    key: str
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainReply:
    """A job that was done.

    ``updates`` is a slice of one job: its model is float32, shape ``(1, n_numbers)``, all finite; with ``is_part`` it
    holds only the numbers that the order wanted. ``holds``: key of the shared model that the device confirms.
    """

    updates: Updates
    is_part: bool = False
    report: Report | None = None
    holds: str | None = None
    holding: Holding | None = None

    @property
    def n_samples(self) -> int:
        """How many samples the client could train on."""
        return int(self.updates.n_samples[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DescribeReply:
    """What is new of a client's data; also the answer to a train order of a client that has nothing to train on.

    ``report`` None: its data did not move since the last report that was confirmed. ``partition``: the part of the data
    that it holds, in Flower's simulation: there clients have no keys to be known by.
    """

    n_samples: int
    report: Report | None = None
    partition: int | None = None
    holds: str | None = None
    holding: Holding | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluateReply:
    """How a model does on a client's test samples: a slice of one client, empty if it has none."""

    scores: ClientScores
    holding: Holding | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeReply:
    """How models do on a client's samples.

    ``sizes`` of the questions; ``values``, shape ``(n_questions, n_models)``: mean losses or shares of right answers,
    no columns if sizes alone were wanted. A loss may be infinite; of a question about no samples the values have no
    meaning.
    """

    sizes: Counts
    values: Matrix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refusal:
    """Why an answer counts for nothing.

    The reason is for the engine, the text, one line, for people. A report that came along and is sound counts.
    """

    reason: Reason
    text: str
    report: Report | None = None


Reply: TypeAlias = TrainReply | DescribeReply | EvaluateReply | ProbeReply  # whatever a device may answer
Answer: TypeAlias = Reply | Refusal  # what comes out of a message: a reply, or why it is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What replies have to look like.

    Representations have a length of ``n_features``, None as long as it is not known; models one of ``n_numbers``.
    ``experts``: whose losses may come with a model, and whose weights with a test.
    """

    n_numbers: int
    kind: Kind
    n_features: int | None = None
    experts: tuple[str, ...] = ()


def one_line(text: object) -> str:
    r"""Return words of a client as one printable line of bounded length.

    Examples
    --------
    >>> one_line("bad\nthing\x1b[2J")
    'bad thing?[2J'
    """
    words = " ".join(str(text)[: 4 * LONGEST_TEXT].split())[:LONGEST_TEXT]
    return "".join(letter if letter.isprintable() else "?" for letter in words)
