"""Random streams of reports for the oracle: few clients, coarse shares, so that ties and duplicates abound."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Matrix, Membership
from fielding.distance import Metric

Report = tuple[float, ...]


def random_stream(rng: np.random.Generator) -> list[dict[str, Report]]:
    """Return reports per event: joins, drifts, repeats, silences, returns, mass events, empty events."""
    n_clients, n_labels = int(rng.integers(1, 12)), int(rng.integers(1, 5))
    n_events = int(rng.integers(2, 8))
    concepts = rng.dirichlet(np.full(n_labels, 0.4), size=3)
    stream = []
    for event in range(n_events):
        chance = rng.choice([0.1, 0.4, 1.0]) if event else 0.8
        reports = {}
        for client in range(n_clients):
            if rng.random() < chance:
                reports[f"c{client:02d}"] = random_report(rng, concepts[(client + event // 3) % 3])
        stream.append(reports)
    return stream


def random_report(rng: np.random.Generator, concept: Matrix) -> Report:
    """Return shares of a handful of samples as float32 holds them; sometimes none."""
    n_samples = int(rng.choice([0, 1, 2, 4, 5, 8], p=[0.1, 0.1, 0.25, 0.25, 0.1, 0.2]))
    counts = rng.multinomial(n_samples, concept)
    return tuple(float(np.float32(count / max(1, n_samples))) for count in counts)


def propose(points: Matrix, ks: Sequence[int], rng: np.random.Generator) -> dict[int, Membership]:
    """Return a candidate partition per K: nearest of K points drawn at random; it may leave clusters empty."""
    found = {}
    for k in ks:
        chosen = points[rng.choice(points.shape[0], size=k, replace=False)]
        distances = np.abs(points[:, np.newaxis] - chosen[np.newaxis]).sum(axis=2)
        found[k] = np.argmin(distances, axis=1).astype(np.int32)
    return found


class ScriptedPartitioner:
    """Proposes the partitions that the transcription is given too."""

    def partitions(
        self,
        points: Matrix,
        ks: Sequence[int],
        *,
        metric: Metric,  # noqa: ARG002
        rng: np.random.Generator,
        start: Matrix | None,  # noqa: ARG002
    ) -> dict[int, Membership]:
        return propose(points, ks, rng)
