"""What a drift test can do: on label counts (:class:`DriftTest`), or on samples as a model sees them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fielding._typing import Counts, Features, Mask, Vector
from fielding.client.report import row_chunks
from fielding.client.representation.representation import Seen
from fielding.errors import InputError, OptionError, echo

CHUNK = 4096
"""Clients that are tested in one go: with 100 labels a chunk in float64 takes 3 MB, whatever the number of clients."""


# ---- on label counts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Label counts of some clients, now and at their last report, one row per client.

    Counts of the last report, of the window now, and of two samples to compare: what arrived since the client last
    noticed something and is still visible (``fresh``), and what it saw before, the window of that moment and all that
    came since and left (``before``); all of shape ``(n_clients, n_labels)``. Rounds since the last report, samples that
    arrived now, and whether the window of that moment may have held samples from before a drift (``is_mixed``), of
    shape ``(n_clients,)``.
    """

    reported: Counts
    current: Counts
    fresh: Counts
    before: Counts
    age: Counts
    arrived: Counts
    is_mixed: Mask

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return int(self.age.size)

    def comparable(self) -> Mask:
        """Return who has samples now and had some at the last report; the others are no business of a drift test."""
        return np.asarray(self.reported.any(axis=1) & self.current.any(axis=1))

    def rows(self, which: slice | Counts) -> "Evidence":
        """Return the evidence of some clients."""
        return Evidence(
            reported=self.reported[which],
            current=self.current[which],
            fresh=self.fresh[which],
            before=self.before[which],
            age=self.age[which],
            arrived=self.arrived[which],
            is_mixed=self.is_mixed[which],
        )


@runtime_checkable
class DriftTest(Protocol):
    """Decides which clients moved since their last report.

    An implementation is a frozen dataclass whose fields are its options, every one with a default.
    """

    @property
    def is_timed(self) -> bool:
        """Whether the answer may turn to yes although no sample came or left; False saves most of the work."""
        ...

    def drifted(self, evidence: Evidence) -> Mask:
        """Return a yes or no per client, shape ``(n_clients,)``; no where it is not :meth:`~Evidence.comparable`."""
        ...


def checked_drift_test(drift_test: object) -> DriftTest:
    """Return the drift test, or raise if it is none: a name, for example."""
    if not isinstance(drift_test, DriftTest):
        raise OptionError(f"drift_test is {echo(drift_test)}; give an object such as Chi2() or AnyChange()")
    return drift_test


def apply_in_chunks(evidence: Evidence, has_drifted: Callable[[Evidence], Mask]) -> Mask:
    """Return the answers of a test that sees at most ``CHUNK`` clients at a time, all of them comparable."""
    drifted = np.zeros(evidence.n_clients, dtype=np.bool_)
    for part in row_chunks(evidence.n_clients, CHUNK):
        chunk = evidence.rows(part)
        comparable = np.flatnonzero(chunk.comparable())
        if comparable.size == chunk.n_clients:
            drifted[part] = has_drifted(chunk)
        elif comparable.size:
            drifted[part.start + comparable] = has_drifted(chunk.rows(comparable))
    return drifted


# ---- on samples --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Samples of several clients and what models make of them; those of a client stand together, oldest first.

    Parameters
    ----------
    sizes
        How many samples each client has, perhaps none, shape ``(n_clients,)``; they sum to ``n_samples``.
    labels
        Shape ``(n_samples,)``; -1 where it is not known.
    predicted
        What the frozen shared model takes each sample for, shape ``(n_samples,)``; -1 where it was not asked.
    features
        What goes into the last layer of that model, shape ``(n_samples, n_features)``; perhaps of no columns.
    errors
        1 where the model that the client was served erred before it saw the sample, else 0; or its losses. Shape
        ``(n_samples,)``; of no meaning where the label is -1.
    """

    sizes: Counts
    n_classes: int
    labels: Counts
    predicted: Counts
    features: Features
    errors: Vector

    def __post_init__(self) -> None:
        lengths = {len(self.labels), len(self.predicted), len(self.features), len(self.errors), int(self.sizes.sum())}
        if len(lengths) != 1:
            raise InputError(
                f"labels, predicted, features, errors and the sum of sizes are {sorted(lengths)} samples; "
                "give the same number of each"
            )
        for name, codes in (("labels", self.labels), ("predicted", self.predicted)):
            if codes.size and not -1 <= codes.min() <= codes.max() < self.n_classes:
                raise InputError(
                    f"{name} go from {codes.min()} to {codes.max()}; give -1 or a class below {self.n_classes}"
                )

    @property
    def owners(self) -> Counts:
        """The position of the client of each sample, shape ``(n_samples,)``."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def clients(self) -> Iterator[slice]:
        """Yield where the samples of each client stand, in order."""
        ends = np.cumsum(self.sizes)
        for start, end in zip(ends - self.sizes, ends, strict=True):
            yield slice(int(start), int(end))

    def rows(self, which: slice | Counts, *, sizes: Counts) -> "Batch":
        """Return some samples as a batch of its own, dealt to clients by ``sizes``."""
        return Batch(
            sizes=sizes,
            n_classes=self.n_classes,
            labels=self.labels[which],
            predicted=self.predicted[which],
            features=self.features[which],
            errors=self.errors[which],
        )


def batch_of(seen: Seen, *, errors: Vector | None = None) -> Batch:
    """Return what the shared model saw as a batch; the class of the highest score is what it takes a sample for.

    A tie goes to the lower class. ``errors`` are those of the served model, shape ``(n_samples,)``; by default the
    shared model's.
    """
    predicted = seen.scores.argmax(axis=1).astype(np.int64)
    return Batch(
        sizes=seen.sizes,
        n_classes=seen.n_classes,
        labels=seen.labels,
        predicted=predicted,
        features=seen.features,
        errors=(predicted != seen.labels).astype(np.float64) if errors is None else errors,
    )


@runtime_checkable
class SampleTest(Protocol):
    """Says how surprising fresh samples are if nothing changed since the last reported window.

    An implementation is a frozen dataclass whose fields are its options, every one with a default. It is a function of
    the samples alone: what it draws at random comes from a seed among its options.
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large a difference is without drift; 1 where nothing can be told.

        ``fresh`` arrived after the reported window ``reference``, of the same clients in the same order. A test that
        knows only yes and no says 0 and 1.
        """
        ...


def check_pair(reference: Batch, fresh: Batch) -> None:
    """Raise :class:`InputError` if the batches are of different clients, classes or features."""
    shapes = [(batch.sizes.size, batch.n_classes, batch.features.shape[1]) for batch in (reference, fresh)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"reference and fresh have (clients, classes, features) {shapes[0]} and {shapes[1]}; "
            "give both of the same clients, as the same model saw them"
        )


def pair_clients(reference: Batch, fresh: Batch) -> Iterator[tuple[int, slice, slice]]:
    """Yield the position of each client that has samples in both batches, and where they stand; checks the pair."""
    check_pair(reference, fresh)
    for client, (then, now) in enumerate(zip(reference.clients(), fresh.clients(), strict=True)):
        if then.stop > then.start and now.stop > now.start:
            yield client, then, now
