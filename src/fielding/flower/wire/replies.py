"""What a client answers, and what the server makes of an answer that is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Matrix, Models, Vector
from fielding.distance import Kind
from fielding.federation.clients import Reason

ALSO = ("corrected", "tuned")
"""What clients may do to a model that serves them, and be tested on beside it."""

LONGEST_TEXT = 200
"""Characters of a client's words that are kept; the rest could fill a disk."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """What a client says of its data.

    Parameters
    ----------
    number
        Reports of a client are numbered from 1; one is sent again until its number is confirmed.
    representation
        float32, shape ``(n_features,)``; empty if the client's window is: it goes silent.
    n_samples
        How many samples it sums up.
    kind
        The kind of drift that the client saw, of ``fielding.client.report.DRIFT_KINDS``; None if it does not say.
    tally
        In place of a representation that the client cannot make yet, the sums over its samples; float64, shape
        ``(n_sums,)``.

    Examples
    --------
    >>> silent = Report(number=3, representation=np.empty(0, dtype=np.float32), n_samples=0)
    >>> silent.is_silent, silent.row(2).tolist()
    (True, [0.0, 0.0])
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainReply:
    """A trained model.

    Parameters
    ----------
    model
        float32, shape ``(n_numbers,)``, all finite.
    n_samples
        How many samples the client could train on, at least 1.
    loss, square_loss
        Mean loss over the samples trained on, and mean of its square.
    start_loss
        Mean loss of the model that training started from over all samples, if the order asked.
    start
        Which of the models of the order it was trained from; None if there was but one.
    is_part
        Whether ``model`` holds only the numbers that the order wanted, and so is shorter.
    report
        What is new of the client's data; None: nothing.
    holds
        The key of the shared model that the client holds, if it has something to confirm.
    """

    model: Models
    n_samples: int
    loss: float
    square_loss: float
    start_loss: float | None = None
    start: int | None = None
    is_part: bool = False
    report: Report | None = None
    holds: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DescribeReply:
    """What is new of a client's data; also the answer to a train order of a client that has nothing to train on.

    Parameters
    ----------
    n_samples
        How many samples the client could train on now.
    report
        None: its data did not move since the last report that was confirmed.
    partition
        The part of the data that it holds, in Flower's simulation: there clients have no keys to be known by.
    holds
        As of :class:`TrainReply`.
    """

    n_samples: int
    report: Report | None = None
    partition: int | None = None
    holds: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a model does on test samples: how many it gets right, and its mean loss."""

    correct: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateReply:
    """How a model does on a client's test samples.

    Parameters
    ----------
    n_test
        How many there are; 0 if the client has none.
    correct, loss
        How many were classified rightly, and the mean loss, which need not be finite.
    also
        The same for models with which more was done, by their names in ``ALSO``.
    """

    n_test: int
    correct: int
    loss: float
    also: Mapping[str, Score] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeReply:
    """How models do on a client's samples.

    Parameters
    ----------
    sizes
        How many samples each question is about, shape ``(n_questions,)``.
    values
        Mean losses or shares of right answers, shape ``(n_questions, n_models)``; no columns if sizes alone were
        wanted. A loss may be infinite; of a question about no samples the values have no meaning.
    """

    sizes: Counts
    values: Matrix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refusal:
    """Why an answer counts for nothing.

    Parameters
    ----------
    reason
        What the engine is told.
    text
        What happened, for people: one line, perhaps in the words of a client.
    report
        A report that came along and is sound: a model of NaN does not make it wrong.
    """

    reason: Reason
    text: str
    report: Report | None = None


Reply: TypeAlias = TrainReply | DescribeReply | EvaluateReply | ProbeReply
"""Whatever a client may answer."""

Answer: TypeAlias = Reply | Refusal
"""What comes out of a message: a reply, or why it is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What replies have to look like.

    Parameters
    ----------
    n_numbers
        The length of a model.
    kind
        What representations are.
    n_features
        The length of a representation; None as long as nobody knows.
    """

    n_numbers: int
    kind: Kind
    n_features: int | None = None


def one_line(text: object) -> str:
    r"""Return words of a client as one printable line of bounded length.

    Examples
    --------
    >>> one_line("bad\nthing\x1b[2J")
    'bad thing?[2J'
    """
    words = " ".join(str(text)[: 4 * LONGEST_TEXT].split())[:LONGEST_TEXT]
    return "".join(letter if letter.isprintable() else "?" for letter in words)
