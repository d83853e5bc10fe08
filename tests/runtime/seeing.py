"""Samples of one feature seen by a model whose arithmetic is exact, and detectors that say what they are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fielding._typing import Mask
from fielding.client.drift import AnyChange, DriftTest
from fielding.client.drift.detectors import Comparison, DriftDetector, Kinds, VectorDetector
from fielding.client.representation.registry import representation_named
from fielding.client.representation.representation import Representation, Seen
from fielding.distance import metric_named
from fielding.runtime.observe import SampleObserver, Sight
from fielding.runtime.workers import Workers
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from tests.runtime.plans import softmax_trainer
from tests.simulation.run_cases import Sample, planted_windows

MODEL = np.array([-1.0, 1.0, 0.0, 0.0], dtype=np.float32)
"""Takes samples above 0 for b, others for a."""
Arrivals = Mapping[int, Sequence[tuple[int, ...]]]
"""Per client: for each interval the values that come, b if a value is above 0."""


def windows_of(arrivals: Arrivals, *, n_visible: int = 1) -> SlidingWindows:
    """Return windows of so many intervals; every round brings one."""
    samples = [
        Sample(client=client, interval=interval, value=float(value), label=int(value > 0))
        for client, blocks in arrivals.items()
        for interval, values in enumerate(blocks)
        for value in values
    ]
    n_intervals = max(len(blocks) for blocks in arrivals.values())
    plan = WindowPlan(gap=1, window=n_visible)
    return planted_windows(samples, n_clients=len(arrivals), plan=plan, n_intervals=n_intervals)


def by_vector(drift_test: DriftTest | None = None, metric: str = "l2") -> VectorDetector:
    """Return a detector of representations; any change by default."""
    return VectorDetector(drift_test=drift_test or AnyChange(), metric=metric_named(metric))


@dataclass(slots=True)
class Told:
    """Says that whoever is asked at the given turns has drifted; remembers what it was asked."""

    turns: Sequence[int] = ()
    needs_errors: bool = False
    is_timed: bool = False
    is_slow: bool = True
    asked: list[Comparison] = field(default_factory=list)

    def detect(self, comparison: Comparison) -> tuple[Mask, Kinds]:
        """Return everybody or nobody."""
        self.asked.append(comparison)
        n_clients = comparison.age.size
        return np.full(n_clients, len(self.asked) - 1 in self.turns), np.full(n_clients, 3, dtype=np.int8)


def observer_of(
    windows: SlidingWindows,
    representation: Representation | str = "embedding",
    *,
    detector: DriftDetector | None = None,
    is_open: bool = True,
) -> SampleObserver:
    """Return clients that see their samples with the model."""
    chosen = representation_named(representation) if isinstance(representation, str) else representation
    sight = Sight(windows, Workers(softmax_trainer()))
    observer = SampleObserver(windows, chosen, detector=detector or by_vector(), sight=sight)
    if is_open:
        observer.share(MODEL)
    return observer


def seen_from_scratch(windows: SlidingWindows, round_index: int) -> Seen:
    """Return all windows of a round, each client's put through the model alone."""
    trainer, everyone = softmax_trainer(), np.arange(windows.n_clients)
    rows, sizes = windows.training(round_index).of(everyone)
    x, y = windows.gather(rows)
    ends = np.cumsum(sizes)
    parts = [trainer.features(MODEL, x[end - size : end]) for size, end in zip(sizes, ends, strict=True) if size]
    gradients = [
        trainer.gradient(MODEL, x[end - size : end], y[end - size : end]) if size else np.zeros(MODEL.size)
        for size, end in zip(sizes, ends, strict=True)
    ]
    return Seen(
        labels=y.astype(np.int64),
        features=np.concatenate([np.empty((0, 1), dtype=np.float32), *(part[0] for part in parts)]),
        scores=np.concatenate([np.empty((0, 2), dtype=np.float32), *(part[1] for part in parts)]),
        sizes=sizes,
        gradients=lambda: np.stack(gradients).astype(np.float64),
        n_head=MODEL.size,
    )
